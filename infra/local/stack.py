"""The synthesized stack, running on this machine: `with LocalStack(folder) as stack`.

    template ──> Valkey, ministack ──> queues, tables, buckets ──> fleets ──> pollers

Everything belongs to one process: when the block ends, or the process dies in any way, no other
process of it is left; when the block ends, no file. Several stacks run side by side, because every
port is a free one and every file is in a folder of its own.
"""

import contextlib
import functools
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from infra.local import assembly, aws, discovery, runtime_folder, valkey
from infra.local.aws import Aws
from infra.local.aws_calls import AwsCalls
from infra.local.cloudwatch.alarms import Change
from infra.local.cloudwatch.pace import Pace
from infra.local.doors import Climate, Doors
from infra.local.environment import Environment, LogLine
from infra.local.event_functions import EventFunctions
from infra.local.event_source import Delivery, EventSource, Source
from infra.local.fleet import Fleet, Invocation
from infra.local.intrinsics import TemplateUnsupported
from infra.local.kept import ENOUGH, Kept
from infra.local.logs import Logs
from infra.local.processes import Nursery
from infra.local.relay import Address, Relay
from infra.local.template import EventSourceMapping, Function, Queue, Template
from infra.local.watch import Watch
from infra.local.workspace import workspace

_POLL_SECONDS: Final = 0.1
_WAITING: Final = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


class StackStuck(TimeoutError):
    """A queue was not empty in time, or its poller broke; `waiting` messages were left."""

    def __init__(self, *, queue: str, waiting: int, waited_seconds: float) -> None:
        self.queue = queue
        self.waiting = waiting
        self.waited_seconds = waited_seconds
        super().__init__(
            f"{waiting} messages are still in {queue} after {waited_seconds:.0f} seconds"
        )


class LocalStack:
    """One running stack.

    Args:
        cdk_out: The cloud assembly, synthesized with `-c target=host`.
        poll: Start the pollers at once; else at `start_polling`.
        pace: Watch the stack as CloudWatch does, at this pace, and run the functions that events
            call; None does neither.
        kept: How many lines, calls, invocations and deliveries are kept, of each the newest.
    """

    def __init__(
        self, cdk_out: Path, *, poll: bool = True, pace: Pace | None = None, kept: int = ENOUGH
    ) -> None:
        self.template: Template = assembly.read(cdk_out)
        self._watch = (
            None if pace is None else Watch(self.template, pace=pace, on_change=self._alarm_changed)
        )
        self._events: EventFunctions | None = None
        self.logs = Logs(kept=kept)
        self.calls = AwsCalls(kept=kept)
        self.climate = Climate()
        self.fleets: dict[str, Fleet] = {}
        self._poll_at_start = poll
        self._sources: list[EventSource] = []
        self._invocations: Kept[Invocation] = Kept("invocations", limit=kept)
        self._deliveries: Kept[Delivery] = Kept("deliveries", limit=kept)
        self._exit = contextlib.ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._exit.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._exit.close()

    @property
    def watch(self) -> Watch:
        """Answer the stack's CloudWatch.

        Raises:
            RuntimeError: The stack is not watched.
        """
        if self._watch is None:
            raise RuntimeError("the stack was started without a pace")
        return self._watch

    @property
    def events(self) -> EventFunctions:
        """Answer the functions that events call.

        Raises:
            RuntimeError: The stack is not watched.
        """
        if self._events is None:
            raise RuntimeError("the stack was started without a pace")
        return self._events

    def redeploy(self) -> None:
        """Replace every execution environment, as a deployment of new code does."""
        self.events.deployed()
        for fleet in (*self.fleets.values(), *self.events.fleets.values()):
            fleet.retire()

    @property
    def invocations(self) -> list[Invocation]:
        """Every invocation that has ended so far.

        Raises:
            HistoryCut: There were more than are kept.
        """
        return self._invocations.all()

    @property
    def deliveries(self) -> list[Delivery]:
        """What became of every message of every batch that has ended so far.

        Raises:
            HistoryCut: There were more than are kept.
        """
        return self._deliveries.all()

    def keep(self, kept: int) -> None:
        """Keep so many lines, calls, invocations and deliveries from now on."""
        for history in (self.logs, self.calls, self._invocations, self._deliveries):
            history.limit(kept)

    def start_polling(self) -> None:
        """Start the event source mappings' pollers."""
        for source in self._sources:
            source.start()

    def source_queue(self, function: str | None = None) -> Queue:
        """Answer the queue that feeds `function` (a logical id), or the stack's only fed one."""
        queues = {
            mapping.queue
            for mapping in self.template.mappings
            if function is None or mapping.function == function
        }
        (queue,) = queues
        return self.template.queues[queue]

    def dead_letter_queue(self, queue: Queue) -> Queue:
        """Answer where `queue` redrives to."""
        (found,) = (q for q in self.template.queues.values() if q.arn == queue.dead_letters)
        return found

    def waiting(self, queue: Queue) -> int:
        """Count the messages of a queue: visible, in flight and delayed."""
        answer = self.aws.sqs.get_queue_attributes(
            QueueUrl=self.aws.queue_url(queue), AttributeNames=list(_WAITING)
        )
        return sum(int(answer["Attributes"][name]) for name in _WAITING)

    def wait_until_drained(
        self,
        queue: Queue,
        *,
        within_seconds: float,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Wait until a queue holds nothing, in flight and delayed messages included.

        Raises:
            StackStuck: It is not empty in that time.
        """
        started = time.monotonic()
        while (waiting := self.waiting(queue)) > 0:
            if progress is not None:
                progress(waiting)
            for source in self._sources:
                if source.crashed is not None:
                    raise source.crashed
            waited = time.monotonic() - started
            if waited > within_seconds:
                raise StackStuck(queue=queue.name, waiting=waiting, waited_seconds=waited)
            time.sleep(_POLL_SECONDS)

    def _start(self) -> None:
        enter = self._exit.enter_context
        folder = self.folder = enter(workspace())
        nursery = Nursery()
        self._exit.callback(nursery.close)
        relay = Relay()
        self._exit.callback(relay.close)
        self.cache_address: Address = self._start_cache(nursery, folder)
        aws_address = aws.start(nursery, folder=folder)
        self.aws = Aws(aws_address)
        self._exit.callback(self.aws.close)
        self.aws.create(self.template)
        runtime = runtime_folder.build(folder / "runtime")
        log_file = enter(contextlib.closing(discovery.LogFile(folder / discovery.LOGS)))

        def take(line: LogLine) -> None:
            self.logs.take(line)
            log_file.take(line)

        def start_environment(function: Function, number: int) -> Environment:
            return Environment(
                function,
                number=number,
                nursery=nursery,
                doors=Doors(
                    relay,
                    cache=self.cache_address,
                    aws=aws_address,
                    calls=self.calls,
                    climate=self.climate,
                ),
                runtime=runtime,
                folder=folder / f"{function.name}-{number}",
                on_line=take,
            )

        for mapping in self.template.mappings:
            self._feed(mapping, start_environment)
        discovery.announce(
            folder, self.template, endpoint=self.aws.endpoint, cache=self.cache_address
        )
        if self._watch is not None:
            self._start_watch(self._watch, start_environment)
        if self._poll_at_start:
            self.start_polling()

    def _start_cache(self, nursery: Nursery, folder: Path) -> Address:
        """Start a node like the template's first cache, where it has one."""
        if not self.template.caches:
            return valkey.start(nursery, folder=folder)
        cache = self.template.caches[0]
        return valkey.start(
            nursery, folder=folder, node_type=cache.node_type, eviction=cache.eviction
        )

    def _start_watch(
        self, watch: Watch, start_environment: Callable[[Function, int], Environment]
    ) -> None:
        self._events = EventFunctions(
            self.template,
            aws=self.aws,
            fleets=self.fleets,
            start_environment=start_environment,
            on_invocation=watch.lambda_meter.invoked,
            on_match=watch.rule_matched,
            minute_seconds=watch.pace.minute_seconds,
        )
        watch.attach(
            logs=self.logs,
            calls=self.calls,
            aws=self.aws,
            cache_address=self.cache_address,
            fleets=self.fleets,
            clock=self._events.bus.tick,
        )
        self._exit.callback(self._events.join)
        self._exit.callback(self._events.stop)
        self._exit.callback(watch.stop)
        self._events.start()
        watch.start()

    def _feed(
        self,
        mapping: EventSourceMapping,
        start_environment: Callable[[Function, int], Environment],
    ) -> None:
        """Give a mapping its function's environments and its pollers."""
        if mapping.function in self.fleets:
            raise TemplateUnsupported(f"{mapping.function}: two event sources")
        fleet = Fleet(
            functools.partial(start_environment, self.template.functions[mapping.function]),
            limit=mapping.max_concurrency,
            on_invocation=functools.partial(
                self._invoked, self.template.functions[mapping.function]
            ),
        )
        queue = self.template.queues[mapping.queue]
        source = EventSource(
            mapping,
            source=Source(url=self.aws.queue_url(queue), arn=queue.arn),
            sqs=self.aws.sqs,
            invoke=fleet.invoke,
            on_delivery=functools.partial(self._delivered, mapping),
        )
        self.fleets[mapping.function] = fleet
        self._sources.append(source)
        # Last in, first out: nothing new is begun, what runs is killed, the pollers end.
        self._exit.callback(source.join)
        self._exit.callback(fleet.close)
        self._exit.callback(source.stop)

    def _invoked(self, function: Function, invocation: Invocation) -> None:
        self._invocations.add(invocation)
        if self._watch is not None:
            self._watch.lambda_meter.invoked(function, invocation)

    def _delivered(self, mapping: EventSourceMapping, delivery: Delivery) -> None:
        self._deliveries.add(delivery)
        if self._watch is not None:
            self._watch.lambda_meter.delivered(mapping.logical_id, delivery)

    def _alarm_changed(self, change: Change) -> None:
        if self._events is not None:
            self._events.alarm_changed(change)
