"""Say with which exit status a command ends, and why.

| status | meaning |
|---|---|
| 0 | it is done, or the answer is yes |
| 1 | the answer is no: the job failed, the doctor found something, nothing was there to take |
| 2 | the command line is wrong |
| 3 | no stack: none is running here, none has that name, or no credentials |
| 4 | nothing is known of this id or key |
| 5 | not confirmed: it asks for `--yes` where nobody can be asked |
| 6 | not yet: the time to wait is over |
| 7 | a service refused or did not answer: SQS, DynamoDB, the cache |
| 130 | interrupted |
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import click


class Exit(IntEnum):
    """Name the exit statuses; their meanings stand above."""

    DONE = 0
    NO = 1
    USAGE = 2
    NO_STACK = 3
    UNKNOWN = 4
    UNCONFIRMED = 5
    NOT_YET = 6
    REFUSED = 7
    INTERRUPTED = 130


class Fault(click.ClickException):
    """End a command with a text for people and a status for programs; `kind` is for `--json`."""

    def __init__(self, exit_code: Exit, text: str, *, kind: str = "") -> None:
        """Keep all three; a remedy belongs into the text."""
        super().__init__(text)
        self.status = exit_code
        self.kind = kind or exit_code.name.lower()


# Errors of the library by name, because an invoked function answers with names.
EXITS: Final = {
    "JobFailed": Exit.NO,
    "KeyInvalid": Exit.USAGE,
    "MessageInvalid": Exit.USAGE,
    "SettingInvalid": Exit.USAGE,
    "ResultTimeout": Exit.NOT_YET,
    "SharedUnavailable": Exit.REFUSED,
    "StoreUnavailable": Exit.REFUSED,
}


def translated(error: Exception) -> Fault | None:
    """Return the fault that an error of the library or of AWS is, None for a defect of ours."""
    name = type(error).__name__
    if name in EXITS and type(error).__module__ == "sekali.errors":
        return Fault(EXITS[name], str(error), kind=name)
    if not type(error).__module__.startswith(("botocore", "boto3")):
        return None
    if name in {
        "NoCredentialsError",
        "NoRegionError",
        "ProfileNotFound",
        "PartialCredentialsError",
    }:
        return Fault(Exit.NO_STACK, f"{error}; see --profile and --region", kind=name)
    response = getattr(error, "response", None) or {}
    code = response.get("Error", {}).get("Code", name)
    return Fault(Exit.REFUSED, f"AWS: {error}", kind=str(code))
