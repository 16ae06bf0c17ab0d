"""Keep what a warm container keeps between invocations: the only mutable module state.

    INIT        no container yet; where an event waits, a connection is begun (see `opening`)
    first call  settings are parsed once; doors to cache, table and queue are made, not yet opened
    later       the same container is handed out, with its local tier, its place in the invalidation
                log, its memory of finished ids and its measured run times

`reset()` forgets all of it. Tests call it, and so does Lambda around a snapshot, because a restored
clone must share nothing with its siblings: no socket, no place in the log, no entry whose age it
cannot know. In a forked process (managed instances run several per environment) the parent's
container is dropped without a word, since its sockets and locks are the parent's; who has it still,
as the body of a job that forks, speaks to the cache on connections of its own.
"""

from __future__ import annotations

import math
import os
import threading
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from sekali import codec, shared
from sekali.answers import Terms
from sekali.aws_clients import aws_client
from sekali.breaker import BUDGET_SECONDS
from sekali.claims import Claims
from sekali.clock import SystemClock, age_seconds, jitter, now
from sekali.coherence import Coherence
from sekali.done_ids import DoneIds
from sekali.durable import Durable
from sekali.durations import Durations
from sekali.flights import Flights, Gate
from sekali.heartbeat import Heartbeat
from sekali.invocation import Invocation, Timeline
from sekali.keys import Keyspace
from sekali.leaks import Leaks
from sekali.local import Local
from sekali.loops import BackgroundLoop
from sekali.opening import Opening, begin
from sekali.outbox import Outbox
from sekali.payload_bucket import Payloads
from sekali.pulse import Pulse
from sekali.settings import Settings
from sekali.store import Store
from sekali.telemetry import events
from sekali.telemetry.hooks import Hooks
from sekali.telemetry.tracing import chosen_spans
from sekali.tiered import Tiered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sekali.aws_clients import Service
    from sekali.calls import Result
    from sekali.clock import Clock, Moment
    from sekali.items import Item
    from sekali.jobs import JobSpec
    from sekali.scripts import Command
    from sekali.telemetry.events import Hook
    from sekali.telemetry.spans import Spans

CACHE_SHARE: Final = 0.2
"""Part of an invocation that it may lose to a shared cache that does not answer."""
RUNS_NOTED_SECONDS: Final = 60.0
UNSHARED_LOADS: Final = 4
"""Loaders that may run at once in this process while the shared cache is away."""
DONE_ENTRIES: Final = 20_000
DONE_BYTES: Final = 4 * 1024 * 1024
"""Of the ids known to be done, with their payload hash; `done_ids` tells what each takes."""


class Container:
    """The warm parts of one execution environment. Safe to build; connects at first use."""

    def __init__(
        self,
        settings: Settings,
        *,
        emit: Hook,
        spans: Spans | None = None,
        clock: Clock | None = None,
        connect: Callable[[], Any] | None = None,  # Any: redis.Redis or RedisCluster
        client_factory: Callable[[Service], Any] = aws_client,  # Any: see `aws_client`
    ) -> None:
        """Make the parts of `settings`.

        `spans` draws what happens, None where nothing is traced.
        `client_factory` makes clients for another than the function's own role; `clock` and
        `connect` replace the real ones in tests.
        """
        self.settings = settings
        self._client_factory = client_factory
        self.emit = emit
        self.spans = spans
        self.clock = clock or SystemClock()
        self.uniform: Callable[[float, float], float] = jitter
        self.keyspace = Keyspace(settings.namespace, settings.buckets)
        self.shared = shared.Shared(
            connect or shared.connect(settings), clock=self.clock, on_event=emit
        )
        self.local = self._new_local(settings.local_max_entries, settings.local_max_bytes)
        self.done = DoneIds(
            max_entries=DONE_ENTRIES,
            max_bytes=DONE_BYTES,
            ttl_seconds=settings.record_ttl_seconds,
            clock=self.clock,
        )
        self._default_terms = self._new_default_terms()
        self._terms: dict[str, tuple[JobSpec, Terms]] = {}
        self.durations = Durations()
        self.flights: Flights[Result[Any]] = Flights()  # Any: whatever is cached
        self.gate = Gate(UNSHARED_LOADS)
        self.coherence = Coherence(self.keyspace, self.local)
        self.cache: Tiered | None = None
        self.loop = BackgroundLoop()
        self.pulse = Pulse()
        # A thread of its own: a flush may wait for the table for longer than a lease lasts.
        self.flusher = Pulse("sekali-flush")
        self.outbox = Outbox(cache(lambda: client_factory("sqs")))
        self.payloads = self._new_payloads()
        self.store = self._new_store()
        self.durable = self._new_durable()
        self.leaks = Leaks(self.keyspace, self.shared)
        self._runs_noted_at = -math.inf
        self._rested: Moment | None = None
        self._is_new = True

    def _new_local(self, entries: int, size_bytes: int) -> Local:
        return Local(
            max_entries=entries, max_bytes=size_bytes, clock=self.clock, on_event=self.emit
        )

    def _new_payloads(self) -> Payloads | None:
        bucket = self.settings.results_bucket
        make = self._client_factory
        return None if bucket is None else Payloads(bucket, cache(lambda: make("s3")))

    def _new_store(self) -> Store | None:
        settings = self.settings
        if settings.durable_mode == "redis" or settings.table_name is None:
            return None
        return Store(
            settings.table_name,
            clock=self.clock,
            bucket=settings.results_bucket,
            client_factory=self._client_factory,
            on_event=self.emit,
        )

    def _new_durable(self) -> Durable | None:
        if self.store is None:
            return None
        ttl_seconds = self.settings.record_ttl_seconds
        return Durable(self.store, ttl_seconds=ttl_seconds, wall=self.clock.wall)

    def close(self) -> None:
        """Let go of sockets and threads. What is closed is not used again."""
        self.pulse.close()
        self.flusher.close()
        self.shared.close()
        self.loop.close()
        if self.store is not None:
            self.store.reset()

    def default_terms(self) -> Terms:
        """Return the terms of a job that names none of its own."""
        return self._default_terms

    def terms_of(self, spec: JobSpec) -> Terms:
        """Return the terms of a job's claims, worked out once for each job."""
        known = self._terms.get(spec.name)
        if known is None or known[0] is not spec:
            known = self._terms[spec.name] = (spec, spec.terms(self._default_terms))
        return known[1]

    def _new_default_terms(self) -> Terms:
        settings = self.settings
        return Terms(
            lease_seconds=settings.lease_seconds,
            record_ttl_seconds=settings.record_ttl_seconds,
            max_attempts=settings.max_attempts,
            cooling_base_seconds=settings.cooling_base_seconds,
            cooling_cap_seconds=settings.cooling_cap_seconds,
            born_ttl_seconds=settings.record_ttl_seconds,
        )

    def invocation(self, *, owner: str, remaining_seconds: float) -> Invocation:
        """Begin one invocation; its heartbeat is made but does not beat yet."""
        self.shared.breaker.begin(min(BUDGET_SECONDS, CACHE_SHARE * max(remaining_seconds, 0.0)))
        timeline = Timeline(self.clock)
        claims = Claims(self.keyspace, owner, clock=self.clock)
        heartbeat = Heartbeat(
            shared=self.shared,
            claims=claims,
            now=timeline.now,
            pulse=self.pulse,
            emit=self.emit,
            enabled=self.settings.heartbeat,
        )
        return Invocation(
            timeline=timeline,
            remaining_seconds=remaining_seconds,
            claims=claims,
            heartbeat=heartbeat,
        )

    def is_heard(self) -> bool:
        """Tell whether anybody listens to events; those of each record are not made for nobody."""
        return not isinstance(self.emit, Hooks) or bool(self.emit)

    def wake(self) -> None:
        """Tell that an invocation of the function begins: the first one, or one after a rest."""
        if self._is_new:
            self._is_new = False
            self.emit(events.Started())
        elif self._rested is not None:
            self.emit(events.Thawed(gap_seconds=age_seconds(self._rested, self.clock)))
        self._rested = None

    def rest(self) -> None:
        """Note the end of an invocation, after which the container may be frozen."""
        self._rested = now(self.clock)

    def tiered(self, invocation: Invocation, *, outside: bool = False) -> Tiered:
        """Return the two tiers as `invocation` sees them: from now on the container's cache."""
        self.cache = Tiered(
            local=self.local,
            shared=self.shared,
            flights=self.flights,
            gate=self.gate,
            coherence=self.coherence,
            invocation=invocation,
            terms=self.default_terms(),
            clock=self.clock,
            emit=self.emit,
            spans=self.spans,
            outside=outside,
        )
        return self.cache

    # What a finished batch leaves behind in this container.

    def keep(
        self,
        item: Item,
        body: bytes,
        fence: int,
        ttl_seconds: float,
        *,
        epochs: Mapping[str, str],
        drops: int,
        since: Moment | None = None,
    ) -> None:
        """Keep the value of a job's key in the local tier, its fence in front.

        Not if the local tier dropped anything since `drops`, the number of its drops before the
        flush that brought the value, or if one of its tags has another mark than in `epochs`.
        """
        if ttl_seconds > 0 and item.spec is not None and item.spec.key is not None:
            self.local.put(
                item.scoped_key,
                b"%0*d%b" % (codec.FENCE_DIGITS, fence, body),
                ttl_seconds=ttl_seconds,
                fence=fence,
                epochs=epochs,
                since=since,
                only_if=lambda: self.local.drops == drops and self.coherence.current(epochs),
            )

    def run_commands(self) -> list[Command]:
        """Return the command that tells how long jobs run, once a minute and when there is news."""
        runs, now = self.durations.known(), self.clock.monotonic()
        if not runs or now - self._runs_noted_at < RUNS_NOTED_SECONDS:
            return []
        self._runs_noted_at = now
        return [self.leaks.note_runs(runs)]

    def remember_done(self, items: Iterable[Item]) -> None:
        """Remember that ids are done, which is final for as long as their records live."""
        self.done.note([(f"{item.name}/{item.id}", item.payload_hash) for item in items])


def owner_name(request_id: str) -> str:
    """Return who holds a lease, as an operator finds it: function, request, log stream."""
    function = os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "local")
    stream = os.environ.get("AWS_LAMBDA_LOG_STREAM_NAME", str(os.getpid()))
    return f"{function}/{request_id}/{stream}"


_lock = threading.Lock()
_state: dict[str, Container | Opening | int | None] = {
    "container": None,
    "pid": None,
    "opening": None,
}


def container(observe: Callable[[Settings], Sequence[Hook]] | None = None) -> Container:
    """Return this process's container, building it from the environment at the first call.

    Args:
        observe: makes the hooks of a container that has none yet. Whoever comes first may be a lock
            taken at import, which knows of no service; the worker's hooks still come to hear.

    Raises:
        SettingInvalid: the environment cannot work.
    """
    with _lock:
        found = _state["container"]
        if not isinstance(found, Container) or _state["pid"] != os.getpid():
            settings = Settings.from_env(os.environ)
            opening = _state["opening"]
            connect = opening.connect(settings) if isinstance(opening, Opening) else None
            spans = chosen_spans(settings)
            found = Container(settings, emit=Hooks(), spans=spans, connect=connect)
            _state["container"], _state["pid"] = found, os.getpid()
        if observe is not None and isinstance(found.emit, Hooks) and not found.emit:
            found.emit.add(*observe(found.settings))
        return found


def prepare() -> None:
    """Begin to connect, where Lambda starts this environment for an event that waits already."""
    with _lock:
        if _state["container"] is None and _state["opening"] is None:
            _state["opening"] = begin()


@contextmanager
def inside(one: Container) -> Iterator[None]:
    """Let `one` be this process's container for the block.

    For tests, which run several execution environments in one process.
    """
    with _lock:
        before = dict(_state)
        _state["container"], _state["pid"] = one, os.getpid()
    try:
        yield
    finally:
        with _lock:
            _state.update(before)


def reset() -> None:
    """Forget the container; the next call builds a new one."""
    with _lock:
        found = _state["container"]
        if isinstance(found, Container) and _state["pid"] == os.getpid():
            found.close()
        opening = _state["opening"]
        if isinstance(opening, Opening) and _state["pid"] in {None, os.getpid()}:
            opening.close()
        _state.update(container=None, pid=None, opening=None)


def _forget_parent() -> None:
    """Start afresh in a forked process; the lock may be held by a thread that is not there."""
    global _lock  # noqa: PLW0603  a lock cannot be taken over, only replaced
    _lock = threading.Lock()
    found, opening = _state["container"], _state["opening"]
    _state.update(container=None, pid=None, opening=None)
    # Whoever has them still, as a body that forks its helpers, must not speak on these sockets.
    if isinstance(opening, Opening):
        opening.forget_parent()
    if isinstance(found, Container):
        found.shared.forget_parent()


def _follow_snapshots() -> None:
    """Forget everything before a snapshot is taken and after one is restored."""
    try:
        from snapshot_restore_py import register_after_restore, register_before_snapshot
    except ImportError:
        return  # only Lambda's runtime has it
    register_before_snapshot(reset)
    register_after_restore(reset)


os.register_at_fork(after_in_child=_forget_parent)
_follow_snapshots()
