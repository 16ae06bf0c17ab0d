"""The stack of a chaos run: real environments, each with wires of its own, and servers that fail.

    queue ──poller (Inbox)──> fleet ──> environment ──wires──> cache nodes, ministack

Everything belongs to one process, as in `infra.local`, whose parts these are.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self, cast

from infra.local import assembly, aws, runtime_folder
from infra.local.aws import Aws
from infra.local.doors import Doors
from infra.local.environment import Environment
from infra.local.event_source import Delivery, EventSource, Source
from infra.local.fleet import Fleet, Invocation
from infra.local.logs import Logs
from infra.local.processes import Nursery
from infra.local.round_trips import RoundTrips
from infra.local.workspace import workspace
from tests.chaos import deployment as deployments
from tests.chaos.history import AwsTap, CacheTap, History
from tests.chaos.inbox import Inbox
from tests.chaos.nodes import Nodes
from tests.chaos.wires import FORWARD, Deed, Line, Upstream, Wires

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    from infra.local.relay import Address
    from infra.local.template import Function, Queue
    from tests.chaos.deployment import Deployment
    from tests.chaos.wires import Script

_POLL_SECONDS: Final = 0.2
_WAITING: Final = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


class Quiet:
    """A script in which nothing happens."""

    def meet(self, windows: tuple[str, ...], line: Line) -> Deed:
        """Hand on."""
        del windows, line
        return FORWARD


@dataclass(eq=False, slots=True)
class Tenant:
    """An execution environment as faults see it."""

    number: int
    environment: Environment | None = None
    lines: set[Line] = field(default_factory=set)

    @property
    def request_id(self) -> str:
        """Answer the invocation that is on; empty where there is none."""
        return "" if self.environment is None else self.environment.request_id

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        if self.environment is not None:
            self.environment.kill()

    def stop(self, seconds: float) -> None:
        """Stop it for a while; it goes on only if the same invocation is still its own."""
        timer = threading.Timer(seconds, self.freeze())
        timer.daemon = True
        timer.start()

    def freeze(self) -> Callable[[], None]:
        """Stop it; answer how to let it go on, if the same invocation is still its own."""
        environment, request_id = self.environment, self.request_id
        pid = None if environment is None else environment.doors.round_trips.client_pid
        if pid is None or not request_id:
            return lambda: None
        _signal(pid, signal.SIGSTOP)

        def thaw() -> None:
            if self.request_id == request_id:
                _signal(pid, signal.SIGCONT)

        return thaw


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


class WiredDoors(Doors):
    """Doors that lead through wires instead of the relay."""

    def __init__(self, rig: Rig, tenant: Tenant) -> None:
        self.round_trips = RoundTrips()
        open_wire = rig.wires.open
        self._cache_address, self._close_cache = open_wire(
            rig.cache, tap=lambda: CacheTap(rig.history), script=rig.script, owner=tenant
        )
        self._aws_address, self._close_aws = open_wire(
            rig.aws_upstream, tap=lambda: AwsTap(rig.history), script=rig.script, owner=tenant
        )

    @property
    def cache(self) -> tuple[str, int]:
        return self._cache_address

    @property
    def aws_endpoint(self) -> str:
        host, port = self._aws_address
        return f"http://{host}:{port}"

    def close(self) -> None:
        self._close_cache()
        self._close_aws()


class Rig:
    """One running stack of chaos jobs."""

    def __init__(
        self,
        deployment: Deployment,
        *,
        script: Script | None = None,
        aws_address: Address | None = None,
    ) -> None:
        self.deployment = deployment
        self._given_aws = aws_address
        self.script: Script = script or Quiet()
        self.history = History()
        self.logs = Logs()
        self.wires = Wires()
        self.tenants: list[Tenant] = []
        self.invocations: list[Invocation] = []
        self.deliveries: list[Delivery] = []
        self._lock = threading.Lock()
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

    def _start(self) -> None:
        folder = self._exit.enter_context(workspace())
        self.sources = folder / "sources"
        self.sources.mkdir()
        written = deployments.write(folder / "cdk.out", self.deployment, sources=self.sources)
        template = assembly.read(written)
        self._exit.callback(self.wires.close)
        nursery = Nursery()
        self._exit.callback(nursery.close)
        self.nodes = Nodes(nursery, folder)
        self.cache = Upstream(self.nodes.primary.address)
        self.aws_upstream = Upstream(self._given_aws or aws.start(nursery, folder=folder))
        self.aws = Aws(self.aws_upstream.address)
        self.aws.create(template)
        self.queue, self.dead = template.queues["Jobs"], template.queues["Dead"]
        runtime = runtime_folder.build(folder / "runtime")

        def start_environment(function: Function, number: int) -> Environment:
            tenant = Tenant(number)
            environment = Environment(
                function,
                number=number,
                nursery=nursery,
                doors=WiredDoors(self, tenant),
                runtime=runtime,
                folder=folder / f"environment-{number}",
                on_line=self.logs.take,
            )
            tenant.environment = environment
            with self._lock:
                self.tenants.append(tenant)
            return environment

        (mapping,) = template.mappings
        function = template.functions[mapping.function]
        self.fleet = Fleet(
            lambda number: start_environment(function, number),
            limit=mapping.max_concurrency,
            on_invocation=self._note(self.invocations),
        )
        self.inbox = Inbox(self.aws.sqs)
        self._source = EventSource(
            mapping,
            source=Source(url=self.aws.queue_url(self.queue), arn=self.queue.arn),
            sqs=cast("Any", self.inbox),  # Any: it stands in for the client
            invoke=self.fleet.invoke,
            on_delivery=self._note(self.deliveries),
        )
        self._exit.callback(self._source.join)
        self._exit.callback(self.fleet.close)
        self._exit.callback(self._source.stop)

    def poll(self) -> None:
        """Start the pollers."""
        self._source.start()

    def tenant_of(self, environment: Environment) -> Tenant:
        """Answer what faults know an environment as."""
        with self._lock:
            return next(one for one in self.tenants if one.environment is environment)

    def living(self) -> list[Tenant]:
        """Answer the tenants whose process has not ended."""
        with self._lock:
            return [one for one in self.tenants if one.environment and one.environment.alive]

    def recycle(self) -> None:
        """Kill every environment that is frozen between invocations."""
        for tenant in self.living():
            if not tenant.request_id:
                tenant.kill()

    def send(self, bodies: Sequence[str]) -> None:
        """Send messages, ten at a time."""
        url = self.aws.queue_url(self.queue)
        for start in range(0, len(bodies), 10):
            entries: list[Any] = [  # Any: the stubs want a type for what is a plain dict
                {"Id": str(index), "MessageBody": body}
                for index, body in enumerate(bodies[start : start + 10])
            ]
            self.aws.sqs.send_message_batch(QueueUrl=url, Entries=entries)

    def waiting(self, queue: Queue | None = None) -> int:
        """Count the messages of a queue: visible, in flight and delayed."""
        answer = self.aws.sqs.get_queue_attributes(
            QueueUrl=self.aws.queue_url(queue or self.queue), AttributeNames=list(_WAITING)
        )
        return sum(int(answer["Attributes"][name]) for name in _WAITING)

    def wait_until(self, what: Callable[[], bool], *, within_seconds: float) -> bool:
        """Wait until something is so; answer whether it came to that."""
        deadline = time.monotonic() + within_seconds
        while not what():
            if self._source.crashed is not None:
                raise self._source.crashed
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def drained(self, *, within_seconds: float) -> bool:
        """Wait until the queue holds nothing, in flight and delayed messages included."""
        return self.wait_until(lambda: self.waiting() == 0, within_seconds=within_seconds)

    def dead_letters(self) -> list[dict[str, Any]]:  # Any: as the client answers
        """Take every message out of the dead letter queue."""
        return list(self._receive_all(self.dead))

    def rows(self, table: str | None = None) -> list[dict[str, Any]]:
        """Read a table; Any: DynamoDB's typed JSON."""
        pages = self.aws.dynamodb.get_paginator("scan").paginate(
            TableName=table or self.deployment.results, ConsistentRead=True
        )
        return [dict(item) for page in pages for item in page["Items"]]

    def said(self, what: str) -> list[dict[str, Any]]:  # Any: a job's own line
        """Answer the lines of one kind that bodies wrote, with their request and environment."""
        return [
            {**record.fields, "request_id": record.request_id, "environment": record.environment}
            for record in self.logs.records()
            if record.fields.get("chaos") == what
        ]

    def _receive_all(self, queue: Queue) -> Iterable[dict[str, Any]]:  # Any: as above
        while True:
            answer = self.aws.sqs.receive_message(
                QueueUrl=self.aws.queue_url(queue),
                MaxNumberOfMessages=10,
                VisibilityTimeout=600,
                MessageAttributeNames=["All"],
            )
            if not answer.get("Messages"):
                return
            yield from (dict(message) for message in answer["Messages"])

    def _note(self, into: list[Any]) -> Callable[[Any], None]:  # Any: two kinds of notes
        def note(one: Any) -> None:
            with self._lock:
                into.append(one)

        return note
