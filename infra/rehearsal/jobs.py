"""Give the deployed stack work, and look at what it made of it."""

import json
import time
from collections.abc import Iterator
from typing import Any, Final

from infra.rehearsal.deployment import Deployment, Shortfall

Json = Any  # A result, an item.

JOB: Final = "delay-report"
MONTH: Final = "2013-01"
CARRIERS: Final = ("UA", "B6", "DL")
JOBS: Final = 24
COPIES: Final = 6
FLIGHTS: Final = 3
_PER_CALL: Final = 10
# Nothing takes this long unless it is lost: a batch that was cut off comes back after 360 s.
_WITHIN_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.25
_LONG_AGO: Final = 1_700_000_000


def work(deployment: Deployment) -> Iterator[str]:
    """Send jobs, some of them twice and some that cannot be done; tell what came of them.

    Raises:
        Shortfall: A job has no result or a wrong one, or a bad message is no dead letter.
    """
    _put_flights(deployment, FLIGHTS)
    good = [_message(f"job-{number}", carrier=_carrier(number)) for number in range(JOBS)]
    bad = ["not JSON", _message("no-month", month="2013-02")]
    _send(deployment, [*good, *good[:COPIES], *bad])
    wanted = {f"{JOB}/job-{number}": _carrier(number) for number in range(JOBS)}
    rows = _wait_for(deployment, set(wanted), letters=len(bad))
    wrong = [name for name, carrier in wanted.items() if not _is_right(rows[name], carrier)]
    if wrong:
        raise Shortfall(f"wrong results: {wrong}")
    sent = JOBS + COPIES + len(bad)
    yield (
        f"{sent} messages for {JOBS} ids: {len(wanted)} rows in the table, each done once and"
        f" right; {len(bad)} dead letters; both queues as they should be"
    )
    for number in range(len(CARRIERS)):
        row = rows[f"{JOB}/job-{number}"]
        yield f"  {JOB}/job-{number}: {row['st']['S']}, {_shown(row)}"
    yield f"  {deployment.cloud.cache.connections} TLS connections to the cache"


def change_a_file(deployment: Deployment) -> str:
    """Replace the flights; answer how the next report came to be another.

    The report's TTL is an hour: only the event of the changed object can end it before.

    Raises:
        Shortfall: Reports are still those of the old file.
    """
    _put_flights(deployment, 2 * FLIGHTS)
    deadline = time.monotonic() + _WITHIN_SECONDS
    asked = 0
    while True:
        asked += 1
        name = f"{JOB}/after-{asked}"
        _send(deployment, [_message(f"after-{asked}")])
        row = _wait_for(deployment, {name}, letters=None)[name]
        if _result(row)["flights"] == 2 * FLIGHTS:
            return (
                f"S3 told EventBridge told invalidate: report {asked} is of the new file,"
                f" {_shown(row)}"
            )
        if time.monotonic() > deadline:
            raise Shortfall(f"every report since is of the old file, as {name}")
        time.sleep(_POLL_SECONDS)


def find_what_waits(deployment: Deployment) -> str:
    """Leave a pending row in the table; answer what the watchman says of it.

    Raises:
        Shortfall: It does not find it, or not only it.
    """
    table = deployment.outputs["TableName"]
    item: Json = {
        "pk": {"S": f"{JOB}/stuck"},
        "st": {"S": "pending"},
        "pending": {"N": "7"},
        "f": {"N": str(_LONG_AGO * 1_000_000)},
    }
    deployment.dynamodb.put_item(TableName=table, Item=item)
    report = deployment.invoke(deployment.function("recover")["FunctionName"], {})
    deployment.dynamodb.delete_item(TableName=table, Key={"pk": item["pk"]})
    found = [one["id"] for one in report["pending"]]
    if found != ["stuck"] or report["pending_unread"] or report["overdue"]:
        raise Shortfall(f"recover says {report}")
    return f"recover lists the one pending job of {len(deployment.rows())} rows, no leaked lease"


def _send(deployment: Deployment, bodies: list[str]) -> None:
    for at in range(0, len(bodies), _PER_CALL):
        part = bodies[at : at + _PER_CALL]
        answer = deployment.sqs.send_message_batch(
            QueueUrl=deployment.outputs["QueueUrl"],
            Entries=[{"Id": str(number), "MessageBody": one} for number, one in enumerate(part)],
        )
        if answer.get("Failed"):
            raise Shortfall(f"not sent: {answer['Failed']}")


def _wait_for(deployment: Deployment, wanted: set[str], *, letters: int | None) -> dict[str, Json]:
    """Wait until these rows are done, the queue is empty and the dead letters are as many."""
    deadline = time.monotonic() + _WITHIN_SECONDS
    while True:
        rows = deployment.rows()
        done = {name for name in wanted & rows.keys() if rows[name]["st"]["S"] == "done"}
        waiting, dead = (deployment.messages(name) for name in ("QueueUrl", "DeadLetterQueueUrl"))
        if done == wanted and waiting == 0 and letters in {None, dead}:
            return rows
        if time.monotonic() > deadline:
            log = deployment.cloud.log.read_text(errors="replace")
            raise Shortfall(
                f"{len(done)} of {len(wanted)} jobs are done, {waiting} messages wait, {dead} dead"
                f" letters came; the server says:\n{log[-6000:]}"
            )
        time.sleep(_POLL_SECONDS)


def _put_flights(deployment: Deployment, flights: int) -> None:
    """Write a month of so many flights for each carrier, each a minute later than the last."""
    lines = ["carrier,origin,dest,hour,dep_delay,arr_delay"]
    lines += [
        f"{carrier},JFK,LAX,9,{late},{late}" for carrier in CARRIERS for late in range(flights)
    ]
    deployment.s3.put_object(
        Bucket=deployment.outputs["BucketName"],
        Key=f"flights/{MONTH}.csv",
        Body="\n".join([*lines, ""]).encode(),
    )


def _carrier(number: int) -> str:
    return CARRIERS[number % len(CARRIERS)]


def _result(row: Json) -> Json:
    return json.loads(row["result"]["B"])


def _is_right(row: Json, carrier: str) -> bool:
    result = _result(row)
    return (result["carrier"], result["flights"], result["arrival_delay"]["mean"]) == (
        carrier,
        FLIGHTS,
        1.0,
    )


def _shown(row: Json) -> str:
    result = _result(row)
    late = result["arrival_delay"]["mean"]
    return f"{result['carrier']} {MONTH}: {result['flights']} flights, {late:.1f} minutes late"


def _message(job_id: str, *, month: str = MONTH, carrier: str = CARRIERS[0]) -> str:
    """Write the message by hand, as a producer in another language does (docs/message.md)."""
    return json.dumps(
        {
            "sekali": 1,
            "id": job_id,
            "name": JOB,
            "payload": {"month": month, "carrier": carrier},
        }
    )
