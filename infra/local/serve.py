"""Run the stack on this machine until Ctrl-C, for your own jobs: `make local`.

    python -m infra.local.serve [--jobs FILE]

Every worker that cdk.json names runs here, with its queue. What the functions print is shown, line
by line. With `--jobs` the messages of a file are sent, one JSON object on each line; `worker` in it
chooses the queue where there are several, the rest is the message (docs/message.md). Then the
program ends when the queues are empty, and prints what the table has.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from infra.local.kept import LEFT_ALONE
from infra.local.stack import LocalStack
from infra.local.synthesis import synthesize

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from infra.local.environment import Environment
    from infra.local.logs import LogRecord
    from infra.local.template import Queue

CONTEXT: Final = {"target": "host", "timeout_seconds": "10", "max_concurrency": "4"}
_EMPTY_WITHIN_SECONDS: Final = 600.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the stack and answer the exit status."""
    options = _parser().parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)  # A shell that starts it in the background ignores the first.
    _say("Synthesizing the stack for this machine (once per change)")
    try:
        with LocalStack(synthesize(CONTEXT), kept=LEFT_ALONE) as stack:
            stack.logs.listen(_show)
            if options.jobs is not None:
                return _work_off(stack, options.jobs)
            _tell(stack)
            while True:
                signal.pause()
    except KeyboardInterrupt:
        _say("Stopped; nothing is left behind.")
        return 0


def queues(stack: LocalStack) -> Mapping[str, Queue]:
    """Answer the queue of each worker, by its module's name."""
    template = stack.template
    return {
        template.functions[one.function].handler.split(".")[1]: template.queues[one.queue]
        for one in template.mappings
    }


def _work_off(stack: LocalStack, jobs: Path) -> int:
    by_worker = queues(stack)
    for line in jobs.read_text(encoding="utf-8").splitlines():
        message: dict[str, Any] = json.loads(line)  # Any: the sender's own JSON
        queue = by_worker[message.pop("worker", next(iter(by_worker)))]
        url = stack.aws.queue_url(queue)
        stack.aws.sqs.send_message(QueueUrl=url, MessageBody=json.dumps(message))
    for queue in by_worker.values():
        stack.wait_until_drained(queue, within_seconds=_EMPTY_WITHIN_SECONDS)
    for row in _rows(stack):
        _say(row)
    return 0


def _rows(stack: LocalStack) -> Sequence[str]:
    (table,) = stack.template.tables
    items = stack.aws.dynamodb.scan(TableName=table.name, ConsistentRead=True)["Items"]
    return sorted(
        f"{item['pk']['S']}: {item['st']['S']} "
        + bytes(item.get("result", item.get("error", {})).get("B", b"")).decode()
        for item in items
    )


def _tell(stack: LocalStack) -> None:
    _say(f"Running at {stack.aws.endpoint}")
    for worker, queue in queues(stack).items():
        _say(f"  {worker}: {stack.aws.queue_url(queue)}")
    _say("Ctrl-C ends it")


def _show(record: LogRecord, environment: Environment) -> None:
    _say(f"[{environment.function.handler.split('.')[1]} {environment.number}] {record.text}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="serve", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--jobs", type=Path, metavar="FILE", help="send these messages, one a line, and end"
    )
    return parser


def _end(_number: int, _frame: object) -> None:
    """End as Ctrl-C does, so that everything is tidied up."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
