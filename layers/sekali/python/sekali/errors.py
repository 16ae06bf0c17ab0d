"""Name everything that can go wrong, in one tree.

::

    SekaliError
     ├── SettingInvalid      an environment variable is missing or out of bounds
     ├── PartialBatchOff     the event source would delete failed messages
     ├── KeyInvalid          a key, a job name or an id cannot be used
     ├── PermanentError      raised by jobs: trying again cannot help
     │    ├── InDoubt              a body was cut off, and the job is never run twice
     │    ├── MessageInvalid       the message breaks the contract
     │    ├── ResultUnencodable    the job returned something that is not JSON
     │    └── ResultTooLarge       the job's result fits neither an item nor, without one, a bucket
     ├── ValueUnreadable     a stored value is foreign, old or damaged: a miss
     ├── ValueTooLarge       a value is too large to be cached
     ├── LeaseLost           the lease of this key is no longer ours
     ├── LeaseBusy           somebody else holds the lock for longer than we wait
     ├── JobFailed           the job whose result is waited for failed for good
     ├── ResultTimeout       no result was recorded while it was waited for
     ├── LoadTimeout         waited for another holder as long as allowed
     ├── SharedUnavailable   the shared cache did not answer
     └── StoreUnavailable    the durable store did not answer

A message says which name broke which rule with which value. It never holds a payload, a result or a
secret, and a long value is cut. Every class keeps its data as attributes, and as its arguments, so
that a copied or pickled error is whole.
"""

from __future__ import annotations

from typing import Literal

_SHOWN_CHARACTERS = 80

MessageFault = Literal[
    "not_json",
    "not_object",
    "empty",
    "wrong_version",
    "missing_field",
    "wrong_type",
    "unknown_job",
    "payload_rejected",
    "payload_missing",
]


def _shown(value: object) -> str:
    text = repr(value)
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    return f"{text[:_SHOWN_CHARACTERS]}… ({len(text)} characters)"


class SekaliError(Exception):
    """Stand above every error that this library raises on purpose."""


class SettingInvalid(SekaliError):
    """Refuse an environment variable.

    Raised by `Settings.from_env`, before anything is connected. Correct the function's environment;
    the infrastructure sets these variables, so a wrong one is a deployment fault.
    """

    def __init__(self, variable: str, rule: str, value: str | None) -> None:
        """Keep what is wrong; `value` is None where the variable is not set."""
        super().__init__(variable, rule, value)
        self.variable = variable
        self.rule = rule
        self.value = value

    def __str__(self) -> str:
        """Say `SEKALI_LEASE_SECONDS must be between 1 and 900, got '0'`."""
        found = "it is not set" if self.value is None else f"got {_shown(self.value)}"
        return f"{self.variable} {self.rule}, {found}"


class PartialBatchOff(SekaliError):
    """Refuse to work where a failed message would be deleted.

    Raised by the worker at its first batch. Without partial batch responses Lambda ignores the list
    of failures and deletes every message of the batch. Switch `ReportBatchItemFailures` on at the
    event source mapping and let the stack set SEKALI_PARTIAL_BATCH.
    """

    def __str__(self) -> str:
        """Tell the remedy."""
        return (
            "SEKALI_PARTIAL_BATCH must be true: without ReportBatchItemFailures on the event "
            "source mapping Lambda deletes the messages that failed"
        )


class KeyInvalid(SekaliError):
    """Refuse a key, a job name or an id.

    Raised where a key name is built. Correct the text; `what` tells which of them it is.
    """

    def __init__(self, what: str, rule: str, value: object) -> None:
        """Keep what was refused and why."""
        super().__init__(what, rule, value)
        self.what = what
        self.rule = rule
        self.value = value

    def __str__(self) -> str:
        """Say `job name must match …, got 'a b'`."""
        return f"{self.what} {self.rule}, got {_shown(self.value)}"


class PermanentError(SekaliError):
    """Tell the worker that trying again cannot help.

    Raised by a job (or a subclass of it by the library). The worker sends the message to the dead
    letter queue with this error's class and text, and never runs the body again for that id.
    """


class InDoubt(PermanentError):
    """Tell that a body of this job started and was cut off, so that its effects are unknown.

    Recorded for a job that was registered with `after_crash="in_doubt"`. Look at the foreign
    system, then redrive the dead letter (it runs again) or leave it.
    """

    def __init__(self, job_id: str) -> None:
        """Keep the id."""
        super().__init__(job_id)
        self.job_id = job_id

    def __str__(self) -> str:
        """Name the id and what is unknown."""
        return (
            f"a body of {_shown(self.job_id)} was cut off: whether its effects happened is unknown"
        )


class MessageInvalid(PermanentError):
    """Refuse a message that breaks the contract.

    Raised while a record is decoded or checked against its job. The record fails alone and becomes
    a dead letter; correct the producer and redrive it.
    """

    def __init__(self, reason: MessageFault, field: str, rule: str, value: object) -> None:
        """Keep the fault; `value` is a type name or a short field, never the payload itself."""
        super().__init__(reason, field, rule, value)
        self.reason = reason
        self.field = field
        self.rule = rule
        self.value = value

    def __str__(self) -> str:
        """Say `wrong_type: id must be text, got 'int'`."""
        return f"{self.reason}: {self.field} {self.rule}, got {_shown(self.value)}"


class ResultUnencodable(PermanentError):
    """Refuse a result that JSON cannot carry exactly.

    Raised after the body ran, before anything is stored. Return text, numbers, booleans, None,
    lists and dictionaries with text keys. `path` shows where in the result (`$.rows[3].day`).
    """

    def __init__(
        self, job: str, type_name: str, path: str = "$", rule: str = "is not JSON"
    ) -> None:
        """Keep the place and the type, never the result."""
        super().__init__(job, type_name, path, rule)
        self.job = job
        self.type_name = type_name
        self.path = path
        self.rule = rule

    def __str__(self) -> str:
        """Say `result of 'monthly-delays': datetime at $.rows[3].day is not JSON`."""
        what = f"result of {self.job!r}: " if self.job else ""
        return f"{what}{self.type_name} at {self.path} {self.rule}"


class ResultTooLarge(PermanentError):
    """Refuse a result that has no place in the durable store.

    Raised after the body ran, before anything is stored. Give the function a bucket for large
    results (SEKALI_RESULTS_BUCKET), or return less.
    """

    def __init__(self, job: str, size_bytes: int, limit_bytes: int) -> None:
        """Keep the size and the limit."""
        super().__init__(job, size_bytes, limit_bytes)
        self.job = job
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes

    def __str__(self) -> str:
        """Say `result of 'monthly-delays' must be at most 307200 bytes without …, got 400000`."""
        return (
            f"result of {self.job!r} must be at most {self.limit_bytes} bytes without "
            f"SEKALI_RESULTS_BUCKET, got {self.size_bytes}"
        )


class ValueUnreadable(SekaliError):
    """Turn a stored value that cannot be trusted into a miss.

    Raised by the codec, caught by the tiers and counted under its reason; no caller sees it.
    """

    def __init__(
        self, reason: Literal["version", "key", "checksum", "garbage", "fingerprint"]
    ) -> None:
        """Keep the reason."""
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        """Say which check failed."""
        return f"the stored value is unreadable: {self.reason}"


class ValueTooLarge(SekaliError):
    """Keep a value out of the shared cache because of its size.

    Raised by the packing, caught by the tiers and counted; the caller gets the value all the same.
    """

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        """Keep the size and the limit."""
        super().__init__(size_bytes, limit_bytes)
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes

    def __str__(self) -> str:
        """Name both."""
        return f"a cached value must be at most {self.limit_bytes} bytes, got {self.size_bytes}"


class LeaseLost(SekaliError):
    """Tell a holder that its lease went to somebody else, or ended.

    Raised by `lease.ensure()` and by writes that need the lease. Stop: whatever is written now
    would not count. The message comes back and meets the newer holder's result.
    """

    def __init__(self, key: str, owner: str | None = None) -> None:
        """Keep the key and, where it is known, the newer owner."""
        super().__init__(key, owner)
        self.key = key
        self.owner = owner

    def __str__(self) -> str:
        """Name the key and the newer owner."""
        holder = "nobody known" if self.owner is None else repr(self.owner)
        return f"the lease of {_shown(self.key)} is lost, its owner now is {holder}"


class LeaseBusy(SekaliError):
    """Tell that a lock is held by somebody else.

    Raised by `lease` once its wait is over. Try again later; the holder's lease ends by itself if
    it died.
    """

    def __init__(self, key: str, owner: str | None, waited_seconds: float) -> None:
        """Keep the key, its holder and the wait."""
        super().__init__(key, owner, waited_seconds)
        self.key = key
        self.owner = owner
        self.waited_seconds = waited_seconds

    def __str__(self) -> str:
        """Name the key, the holder and the wait."""
        holder = "somebody" if self.owner is None else repr(self.owner)
        return f"{_shown(self.key)} is held by {holder} after a wait of {self.waited_seconds:g} s"


class LoadTimeout(SekaliError):
    """End the wait for a value that another holder is computing.

    Raised by `get_or_load` at its bound, where the policy is neither to load nor to serve stale.
    Try again later, or allow one of the two.
    """

    def __init__(self, key: str, waited_seconds: float) -> None:
        """Keep the key and the time spent waiting."""
        super().__init__(key, waited_seconds)
        self.key = key
        self.waited_seconds = waited_seconds

    def __str__(self) -> str:
        """Name the key and the wait."""
        waited = f"{self.waited_seconds:.3f} s"
        return f"no value of {_shown(self.key)} after waiting {waited} for its holder"


class JobFailed(SekaliError):
    """Tell a sender that the job it waits for has failed for good.

    Raised by `Producer.wait`. The message is in the dead letter queue with the same reason; once it
    is redriven, wait again.
    """

    def __init__(
        self, name: str, job_id: str, reason: str, error_type: str | None, text: str | None
    ) -> None:
        """Keep which job, and what its record says of the failure."""
        super().__init__(name, job_id, reason, error_type, text)
        self.name = name
        self.job_id = job_id
        self.reason = reason
        self.error_type = error_type
        self.text = text

    def __str__(self) -> str:
        """Say `job 'report' with id 'a' failed (permanent): PermanentError: no such month`."""
        cause = ": ".join(part for part in (self.error_type, self.text) if part)
        told = f": {cause}" if cause else ""
        return f"job {self.name!r} with id {_shown(self.job_id)} failed ({self.reason}){told}"


class ResultTimeout(SekaliError):
    """Tell a sender that no result was recorded in the time it waited.

    Raised by `Producer.wait`. The job may still run: wait longer, or look into the dead letters.
    """

    def __init__(self, name: str, job_id: str, waited_seconds: float) -> None:
        """Keep which job, and the wait."""
        super().__init__(name, job_id, waited_seconds)
        self.name = name
        self.job_id = job_id
        self.waited_seconds = waited_seconds

    def __str__(self) -> str:
        """Name the job and the wait."""
        waited = f"{self.waited_seconds:.1f} s"
        return f"job {self.name!r} with id {_shown(self.job_id)} has no result after {waited}"


class SharedUnavailable(SekaliError):
    """Tell that the shared cache did not answer in time.

    Raised by the one door to it, on connection failures and time-outs. The tiers and the worker
    catch it and follow their degraded policy.
    """

    def __init__(self, operation: str, cause: str) -> None:
        """Keep what was asked and why it failed; `cause` holds no address and no credential."""
        super().__init__(operation, cause)
        self.operation = operation
        self.cause = cause

    def __str__(self) -> str:
        """Name the operation and the cause."""
        return f"the shared cache is unavailable: {self.operation} failed with {self.cause}"


class StoreUnavailable(SekaliError):
    """Tell that the durable store did not answer, or that its answer is unknown.

    Raised by the store after its own retries. Repeating the same call is safe; the worker does so
    within its time and then gives the message back.
    """

    def __init__(self, operation: str, cause: str) -> None:
        """Keep what was asked and why it failed."""
        super().__init__(operation, cause)
        self.operation = operation
        self.cause = cause

    def __str__(self) -> str:
        """Name the operation and the cause."""
        return f"the durable store is unavailable: {self.operation} failed with {self.cause}"
