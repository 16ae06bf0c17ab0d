"""Take one batch through the protocol: claim, ask, run, record, finish, settle (PROTOCOL §4).

A quick batch waits for the shared cache twice, whatever its size up to 500 records:

    flush 1   [tail of the invalidation log, every claim]                    `claiming`
    run       the bodies; heartbeats renew the leases beside them
    table     one conditional write per outcome, in parallel                 `concluding`
    flush 2   [every finish, leaders before followers]                       `concluding`
    settle    copies and dead letters are sent, then the rest is returned    `worker`

Flush 2 also happens after 0.25 s of work, at a record boundary or beside a record that runs on (see
`ended`), so that a batch cut off by its timeout loses the record it was in and nothing before it.

What is *not* guaranteed: that a body runs once. A holder that was killed is run again; of two that
ran, the first recorded outcome counts.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from sekali.answers import Acquired, Done, Lost
from sekali.claiming import Claiming
from sekali.concluding import Concluding
from sekali.degraded import Degraded
from sekali.ended import Ended
from sekali.errors import KeyInvalid, MessageInvalid, SharedUnavailable, StoreUnavailable
from sekali.invocation import LAST_FLUSH_SECONDS
from sekali.items import Item, Verdict
from sekali.message import decode
from sekali.offloaded import OffloadedPayload, hash_of, whole
from sekali.settling import defer, delete, encode_error, give_back, mismatch_verdict
from sekali.telemetry import events
from sekali.telemetry.spans import RECORD
from sekali.waves import fifo_waves, standard_waves

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sekali.drawing import Drawing
    from sekali.invocation import Invocation
    from sekali.jobs import JobSpec
    from sekali.warm import Container
    from sekali.wrappings import Unwrap

_log = logging.getLogger(__name__)

BORN_SLACK_SECONDS = 5.0
"""A bucket born this close before a message was sent may have lost its record (step 3)."""
PAYLOAD_PAUSE_SECONDS = 5.0
"""How long a message waits whose payload could not be read from its bucket."""


class Batch:
    """One invocation's records. Made for one call of `process`, never reused."""

    def __init__(
        self,
        container: Container,
        specs: Mapping[str, JobSpec],
        invocation: Invocation,
        *,
        run: Callable[[Sequence[Item], Callable[[Item], None]], None],
        perform: Callable[[Item], None],
        unwrap: Unwrap,
        drawing: Drawing,
    ) -> None:
        """Keep what the steps need.

        Args:
            container: the warm parts: tiers, store, settings, measured run times.
            specs: the registered jobs by name.
            invocation: deadline, owner and heartbeat of this call.
            run: calls its second argument for each item, in order (Powertools' batch utility).
            perform: takes one runnable item through the idempotency layer to its ending.
            unwrap: the wrappings that are taken off around bodies.
            drawing: what times the steps, and draws them where the batch is traced.
        """
        self._container = container
        self._specs = specs
        self._invocation = invocation
        self._run_items = run
        self._perform = perform
        self._unwrap = unwrap
        self._drawing = drawing
        self._degraded = Degraded(container, invocation)
        self._claiming = Claiming(container, invocation, self._degraded)
        self._concluding = Concluding(container, invocation, self._claiming, drawing)
        self._items: list[Item] = []
        self._named_twice = False
        self._texts: dict[str, object] = {}
        self._ended = Ended(
            lambda ended: self._concluding.conclude(ended, self._items),
            invocation=invocation,
            after_seconds=container.settings.flush_after_seconds,
            pulse=container.flusher if container.settings.heartbeat else None,
        )
        self._bodies = 0

    def process(self, records: Sequence[Mapping[str, Any]]) -> list[Item]:
        """Take `records` to their verdicts and return the items, one per record, in order."""
        first: dict[tuple[str, str, str], Item] = {}
        self._named_twice = len({raw["messageId"] for raw in records}) < len(records)
        self._items = [self._decode(raw, first) for raw in records]
        self._drawing.begin(self._items)
        waves = fifo_waves if self._container.settings.fifo else standard_waves
        try:
            for wave in waves(self._items):
                with self._drawing.step("claim", wave):
                    self._claiming.claim(wave)
                if _has_lease(wave):
                    self._invocation.heartbeat.start()
                self._ask_table(wave)
                self._run(wave)
                self._ended.send()
        except KeyboardInterrupt:
            self._ended.send()  # what has ended is not done again by whoever gets these messages
            raise
        finally:
            self._ended.close()
        for item in self._items:
            if item.verdict is None and item.leader is not None and item.leader.id == item.id:
                item.source, item.verdict = "repeat", item.leader.verdict
            item.verdict = item.verdict or give_back("unsettled")
        return self._items

    # Step 1.

    def _decode(self, raw: Mapping[str, Any], first: dict[tuple[str, str, str], Item]) -> Item:
        item = Item(raw=raw, message_id=str(raw["messageId"]))
        if self._named_twice and not self._is_the_same(item):
            # No queue does this. What is sent for one of them must not let the other one go.
            item.verdict = give_back("message_id_repeated")
            return item
        try:
            self._identify(item)
        except (MessageInvalid, KeyInvalid) as error:
            reason = error.reason if isinstance(error, MessageInvalid) else "payload_rejected"
            item.verdict = Verdict(
                fate="dead_letter",
                reason=reason,
                error_type=type(error).__name__,
                error=str(error),
            )
        except StoreUnavailable:
            # The key is made of a payload that cannot be read now.
            item.verdict = defer("payload_unavailable", PAYLOAD_PAUSE_SECONDS)
        except Exception:  # noqa: BLE001
            # The edge of one record: a fault of ours in reading it must not return its neighbours.
            _log.exception("message %s cannot be read and returns", item.message_id)
            item.verdict = give_back("unreadable")
        if item.verdict is not None:
            return item
        earlier = first.setdefault((item.name, item.id, item.payload_hash), item)
        if earlier is not item:
            _follow(item, earlier)
        return item

    def _is_the_same(self, item: Item) -> bool:
        """Tell whether every record of this message so far had the same body."""
        text = item.raw.get("body")
        return self._texts.setdefault(item.message_id, text) == text

    def _identify(self, item: Item) -> None:
        message = decode(
            item.raw,
            default_job=next(iter(self._specs)) if len(self._specs) == 1 else None,
            jobs=self._specs,
            received_at=self._container.clock.wall(),
            unwrap=self._unwrap,
            payloads=self._container.payloads,
        )
        if message is None:
            item.verdict = delete("notice")
            return
        item.message, item.name, item.id = message, message.name, message.id
        item.spec = self._specs[message.name]
        payload = message.payload
        if item.spec.key is not None and (message.key is None or item.spec.tags):
            payload = whole(payload)
        item.key = message.key or item.spec.key_of(message.id, payload)
        item.tags = item.spec.tags_of(payload)
        item.payload_hash = hash_of(message.payload)
        item.rearm, item.first_sent = message.rearm, message.first_sent
        item.redelivered = message.receive_count > 1 or message.is_copy
        item.slot = self._container.keyspace.of(item.name, item.id, item.key)
        for tag in item.tags:
            self._container.keyspace.epoch(tag)

    # Step 3.

    def _ask_table(self, wave: Sequence[Item]) -> None:
        durable = self._container.durable
        if durable is None:
            return
        deadline = self._invocation.monotonic_deadline()
        doomed = [item for item in wave if item.verdict and item.verdict.fate == "dead_letter"]
        if doomed:
            with self._drawing.step("ask", doomed):
                durable.look(doomed, deadline=deadline)
        doubtful = [item for item in wave if self._has_reason_to_ask(item)]
        if not doubtful:
            return
        durably = self._container.settings.durable_mode == "durable"
        asked = [item for item in doubtful if item.never_twice or not durably]
        claimed = [item for item in doubtful if item not in asked]
        with self._drawing.step("ask", doubtful):
            if asked:
                durable.ask(asked, deadline=deadline)
            if claimed:
                remaining = self._invocation.remaining_seconds()
                durable.claim(claimed, remaining_seconds=remaining, deadline=deadline)

    def _has_reason_to_ask(self, item: Item) -> bool:
        answer = item.answer
        if not isinstance(answer, Acquired):
            return False
        if self._container.settings.durable_mode == "durable" or item.never_twice:
            return True
        lost = answer.fresh and answer.born_ms / 1000 > item.first_sent - BORN_SLACK_SECONDS
        # The last: its id is bound to another payload, by whoever came first since a loss.
        return answer.takeover or item.redelivered or lost or item.ending is not None

    # Step 4.

    def _run(self, wave: Sequence[Item]) -> None:
        self._ended.add(*(item for item in wave if item.ending is not None))
        runnable = [item for item in wave if _is_runnable(item)]
        if not runnable:
            return
        suspects = [item for item in runnable if _is_suspect(item)]
        healthy = [item for item in runnable if item not in suspects] if suspects else runnable
        if healthy:
            self._run_items(healthy, self._run_one)
        # One by one, each after the others' outcomes are safe: a record that kills its container
        # would else take their finished work along until their attempts were used up as well.
        for item in suspects:
            self._ended.send()
            self._run_items([item], self._run_one)

    def _run_one(self, item: Item) -> None:
        self._ended.send_if_due()
        lease = item.lease
        if lease is None and item.table_claim is None:
            self._perform(item)
            return
        if not (self._has_payload(item) and self._may_start(item) and self._noted_in_table(item)):
            return
        began = self._invocation.now()
        self._ended.body_starts()
        if lease is not None:
            lease.started = True
        record = RECORD.set(item)
        try:
            self._perform(item)
        finally:
            RECORD.reset(record)
            item.run_seconds = self._invocation.now() - began
            self._container.durations.add(item.name, item.run_seconds)
            self._bodies += 1
            if item.ending is None:
                _log.error("job %s left no outcome and is tried again", item.name)
                item.end("T", result=encode_error("no_outcome"))
            self._ended.body_ends(item)

    def _has_payload(self, item: Item) -> bool:
        """Read a payload that is in the bucket, before anything counts as a start."""
        payload = item.message.payload if item.message else None
        if not isinstance(payload, OffloadedPayload):
            return True
        try:
            payload.load()
        except StoreUnavailable:
            item.end("U", then=defer("payload_unavailable", PAYLOAD_PAUSE_SECONDS))
        except MessageInvalid as error:
            item.end("X", result=encode_error(error.reason, error))
        if item.ending is not None:
            self._ended.add(item)
        return item.ending is None

    def _may_start(self, item: Item) -> bool:
        """Start a body only with time to end it, under a lease that is ours by our own clock.

        The first body of an invocation needs no time that was measured: if it is too long for this
        invocation, it is for every other one, and a job that never starts is never found out.
        """
        answer = item.answer
        needed, now = LAST_FLUSH_SECONDS, self._invocation.now()
        if self._bodies:
            needed += self._container.durations.expected(item.name)
        if self._invocation.deadline - now < needed:
            item.end("U", then=defer("out_of_time", 0.0))
            self._ended.add(item)
            return False
        if not isinstance(answer, Acquired):
            return True  # a table claim lasts as long as the function can
        lease = answer.lease
        if not answer.suspect and not lease.lost and now < lease.expires_at:
            return True
        return self._mark_started(item, answer)

    def _noted_in_table(self, item: Item) -> bool:
        """Leave a running row before a body that must not start twice; False if that failed."""
        durable = self._container.durable
        if not item.never_twice or item.table_claim is not None:
            return True
        if durable is None:
            item.end("X", result=encode_error("no_table"))
        else:
            durable.claim(
                [item],
                remaining_seconds=self._invocation.remaining_seconds(),
                deadline=self._invocation.monotonic_deadline(),
            )
        if item.ending is not None:
            self._ended.add(item)
        return item.ending is None and item.verdict is None

    def _mark_started(self, item: Item, answer: Acquired) -> bool:
        """Tell the record that its body starts now; False if the lease is gone."""
        claims, lease = self._invocation.claims, answer.lease
        seconds = self._invocation.bounded_lease_seconds(lease.ask.terms.lease_seconds)
        sent_at = self._invocation.now()
        try:
            (reply,) = self._container.shared.flush(
                [claims.renew(lease, lease_seconds=seconds, started=True)], operation="renew"
            )
        except SharedUnavailable as error:
            self._invocation.heartbeat.unwatch(lease)
            self._degraded.take([item], error)
            return item.table_claim is not None
        if isinstance(reply, Exception):
            _log.error("the start of %s could not be marked: %s", item.scoped_key, reply)
            item.end("U", then=give_back("shared_unavailable"))
            self._ended.add(item)
            return False
        if isinstance(claims.read_renew(lease, reply, sent_at), Lost):
            self._invocation.heartbeat.unwatch(lease)
            self._container.emit(events.LeaseLost(name=item.name, key=item.key))
            item.verdict = defer("lease_lost", 0.0)
            return False
        return True


def _is_runnable(item: Item) -> bool:
    """Tell whether the item goes through the idempotency layer: acquired, done or served."""
    if item.lease is not None or item.table_claim is not None:
        return item.ending is None and item.verdict is None
    return isinstance(item.answer, Done) or (item.ending is not None and item.verdict is None)


def _follow(item: Item, earlier: Item) -> None:
    """Let the repeat of an id in one batch follow the first: it is never claimed.

    The same id with another payload is claimed beside it: the record knows which of them was first,
    this batch does not.
    """
    if earlier.key == item.key:
        item.leader = earlier
        earlier.absorb(item)
    else:
        item.verdict = mismatch_verdict()


def _has_lease(wave: Sequence[Item]) -> bool:
    """Tell whether anything was acquired; one call per record, which a generator would double."""
    for item in wave:  # noqa: SIM110
        if isinstance(item.answer, Acquired):
            return True
    return False


def _is_suspect(item: Item) -> bool:
    return isinstance(item.answer, Acquired) and item.answer.suspect
