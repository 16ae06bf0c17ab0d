"""Let an operator look after the deployed stack: the `sekali` command, as its own process.

The cache is reached through the recovery function, because nobody outside its network can: what
this step shows is that the command needs the stack's name and an operator's rights, and no more.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from infra.rehearsal.deployment import STACK, Deployment, Shortfall
from infra.rehearsal.jobs import CARRIERS, JOB, MONTH

Json = Any  # Whatever the command answers.

COMMAND: Final = Path(sys.executable).with_name("sekali")
# A cold start on a busy machine may cost a visibility timeout.
_WITHIN_SECONDS: Final = 300
_UNKNOWN: Final = 4
# ministack's CloudFormation leaves a table's TimeToLiveSpecification out, which the doctor finds.
NOT_MADE: Final = ["time to live"]


def operate(deployment: Deployment) -> Iterator[str]:
    """Run the commands and compare what they say with what is there.

    Raises:
        Shortfall: One of them failed, or did not do what it said.
    """
    payload = json.dumps({"month": MONTH, "carrier": CARRIERS[0], "origin": "JFK"})
    wait = ("--id", "operator-1", "--wait", str(_WITHIN_SECONDS))
    sent = _run(deployment, "send", JOB, payload, *wait)
    row = deployment.rows()[f"{JOB}/operator-1"]
    _same("send --wait", sent["result"], json.loads(row["result"]["B"]))
    yield f"send: {JOB}/operator-1 is done, and its result the table's"
    found = _run(deployment, "status", "operator-1", "--job", JOB)
    _same("status", found["durable"]["fence"], int(row["f"]["N"]))
    _same("status", found["record"]["status"], "done")
    yield f"status: record, durable result and {len(found['history'])} lines of the log agree"
    key = (f"{MONTH}/{CARRIERS[0]}/JFK", "--job", JOB)
    _same("explain", _run(deployment, "explain", *key)["shared"]["tags"], [f"flights:{MONTH}"])
    _run(deployment, "invalidate", "--key", *key, "--yes")
    _run(deployment, "explain", *key, status=_UNKNOWN)
    yield "invalidate: a value that explain showed is gone"
    _same("leases", _run(deployment, "leases")["live"], 0)
    _same("recover", _run(deployment, "recover")["overdue"], [])
    letters = _run(deployment, "dlq", "stats")
    _same("dlq stats", letters["visible"], deployment.messages("DeadLetterQueueUrl"))
    reasons = sorted(group["reason"] for group in letters["groups"])
    yield f"dlq stats: {letters['visible']} letters, for {' and '.join(reasons)}"
    told = _run(deployment, "doctor", status=None)
    wrong = [one["check"] for one in told["findings"] if one["state"] == "wrong"]
    _same("doctor", wrong, NOT_MADE)
    yield f"doctor: {told['checks']} checks"
    yield from (f"  {one['state']}: {one['found']}" for one in told["findings"])


def _run(deployment: Deployment, *arguments: str, status: int | None = 0) -> Json:
    """Run one command to its end; answer its JSON."""
    done = subprocess.run(  # noqa: S603 - our own command
        [COMMAND, "--stack", STACK, *arguments, "--json"],
        env=deployment.cloud.variables,
        capture_output=True,
        text=True,
        timeout=2 * _WITHIN_SECONDS,
        check=False,
    )
    if status not in {None, done.returncode} or not done.stdout:
        said = done.stdout + done.stderr
        raise Shortfall(f"sekali {' '.join(arguments)} ended with {done.returncode}: {said}")
    return json.loads(done.stdout)


def _same(command: str, said: Json, there: Json) -> None:
    if said != there:
        raise Shortfall(f"sekali {command} says {said!r:.200}, but it is {there!r:.200}")
