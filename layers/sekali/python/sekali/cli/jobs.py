"""The commands about jobs: send, status, result, cancel."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sekali.cli import cancelling, history, standing
from sekali.cli.faults import Exit, Fault
from sekali.cli.here import with_here, yes_option
from sekali.cli.naming import job_name
from sekali.producer import Producer
from sekali.sending import Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sekali.cli.here import Here
    from sekali.cli.place import Json, Place

job_option = click.option("--job", "name", metavar="NAME", help="Which job; its ids are its own.")
_REQUEST: Final = ("id", "key", "delay_seconds", "group", "trace")


@click.command()
@click.argument("name", metavar="JOB")
@click.argument("payload", required=False)
@click.option("--id", "job_id", help="Who asks; without it equal payloads are one job.")
@click.option("--key", help="What is computed, where the job's own rule does not say.")
@click.option("--delay", type=int, default=0, metavar="SECONDS", help="Nobody sees it until then.")
@click.option("--group", help="Message group of a FIFO queue, tenant of a fair one.")
@click.option("--wait", type=float, metavar="SECONDS", help="Wait for the result, and print it.")
@click.option("--lines", is_flag=True, help="Send many: each line is one request in JSON.")
@with_here
def send(here: Here, *, name: str, payload: str | None, lines: bool, **options: Any) -> Exit:
    """Send a job and print its id.

    PAYLOAD is a JSON object, @FILE, or - for the standard input. With --lines each of its lines is
    an object with `payload`, and perhaps `name`, `id`, `key`, `delay_seconds` and `group`.
    """  # Any: of the options above
    text = _text(payload)
    if lines:
        return _send_lines(here, list(_requests(name, text)))
    asked = _object(text, "the payload")
    producer = _producer(here.place)
    job_id = producer.send(
        name,
        asked,
        id=options["job_id"],
        key=options["key"],
        delay_seconds=options["delay"],
        group=options["group"],
    )
    told: Json = {"job": name, "id": job_id}
    if options["wait"] is None:
        here.show(told, [job_id])
        return Exit.DONE
    if not here.as_json:
        here.note(job_id)
    found = producer.wait(job_id, name=name, timeout_seconds=options["wait"])
    here.show(told | {"result": found}, [_pretty(found)])
    return Exit.DONE


@click.command()
@click.argument("job_id", metavar="ID")
@job_option
@click.option(
    "--since", type=float, default=24.0, metavar="HOURS", help="How far the log is read back."
)
@with_here
def status(here: Here, *, job_id: str, name: str | None, since: float) -> Exit:
    """Show all that is known of ID: record, lease, durable result, history."""
    place = here.place
    name = job_name(place, name)
    found = standing.standing(place, name, job_id)
    found["history"] = history.history(place, name=name, job_id=job_id, hours=since)
    here.show(found, standing.lines(found))
    known = found["status"] != "unknown" or found["history"]
    return Exit.DONE if known else Exit.UNKNOWN


@click.command()
@click.argument("job_id", metavar="ID")
@job_option
@click.option("--wait", type=float, default=0.0, metavar="SECONDS", help="Wait for it so long.")
@with_here
def result(here: Here, *, job_id: str, name: str | None, wait: float) -> Exit:
    """Print the result of ID, as the table has it."""
    place = here.place
    name = job_name(place, name)
    found = _producer(place).wait(job_id, name=name, timeout_seconds=wait)
    here.show({"job": name, "id": job_id, "result": found}, [_pretty(found)])
    return Exit.DONE


@click.command()
@click.argument("job_id", metavar="ID")
@job_option
@click.option("--key", help="Its key, where the job has keys of its own and none has claimed it.")
@click.option("--payload", help="Its payload, where nothing is known of it yet.")
@click.option("--reason", default="", help="What its dead letter will say.")
@yes_option
@with_here
def cancel(
    here: Here, *, job_id: str, name: str | None, payload: str | None, yes: bool, **options: Any
) -> Exit:
    """Record that ID failed: a body that runs does not count, one that waits never starts.

    A job that is done stays done. The message becomes a dead letter, which a redrive runs after
    all.
    """  # Any: of the options above
    place = here.place
    name = job_name(place, name)
    given = None if payload is None else _object(_text(payload), "the payload")
    here.confirm(f"Cancel {name}/{job_id} of {place.name}", yes=yes)
    told = cancelling.cancel(
        place,
        name=name,
        job_id=job_id,
        key=options["key"],
        payload=given,
        text=options["reason"],
    )
    here.show(told, [f"{name}/{job_id} was {told['before']} and is cancelled"])
    return Exit.DONE


COMMANDS: Final = (send, status, result, cancel)


def _producer(place: Place) -> Producer:
    settings = place.settings
    return Producer(
        place.queue_url,
        bucket=settings.results_bucket,
        table_name=settings.table_name,
        client_factory=place.clients,
    )


def _send_lines(here: Here, requests: Sequence[Request]) -> Exit:
    sent = _producer(here.place).send_many(requests)
    told = {
        "ids": list(sent.ids),
        "unsent": [
            {"id": one.request.id, "job": one.request.name, "code": one.code, "error": one.error}
            for one in sent.unsent
        ],
    }
    missed = (f"not sent: {one.code} {one.error}" for one in sent.unsent)
    here.show(told, [*sent.ids, *missed])
    return Exit.NO if sent.unsent else Exit.DONE


def _requests(name: str, text: str) -> Iterator[Request]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            told = _object(line, f"line {number}")
            options = {field: told[field] for field in _REQUEST if field in told}
            payload = told.get("payload")
            if not isinstance(payload, dict):
                raise Fault(Exit.USAGE, f"line {number} must have an object as its `payload`")
            yield Request(name=told.get("name", name), payload=payload, **options)


def _text(given: str | None) -> str:
    if given is None or given == "-":
        if given is None and sys.stdin.isatty():
            raise click.UsageError("give the payload: a JSON object, @FILE, or - to type it")
        return sys.stdin.read()
    if given.startswith("@"):
        try:
            return Path(given[1:]).read_text(encoding="utf-8")
        except OSError as error:
            raise Fault(Exit.USAGE, f"{given[1:]} cannot be read: {error.strerror}") from error
    return given


def _object(text: str, what: str) -> Json:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Fault(Exit.USAGE, f"{what} must be JSON: {error}") from error
    if not isinstance(found, dict):
        raise Fault(Exit.USAGE, f"{what} must be a JSON object, got {type(found).__name__}")
    return found


def _pretty(found: object) -> str:
    return json.dumps(found, ensure_ascii=False, indent=2)
