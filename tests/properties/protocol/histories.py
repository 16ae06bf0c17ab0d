"""Drive the protocol through random histories, reproducible from their seed.

The holders behave as the worker does: a body starts under a lease that is valid by the holder's own
clock, or after a successful mark; a suspect is always marked; an outcome says whether the body ran.
Everything around them misbehaves: replies get lost and commands come again, however late; leases
end; keys are evicted one by one, flushed, or replaced by those of an older replica; and a new claim
is made in the very millisecond in which the memory of the one before was lost.

The only thing that a seed does not fix is the server's clock. No choice depends on it, and two
claims share a millisecond only where that is meant.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sekali.answers import Acquired, Failed, Outcome, Quarantined, Renewed, Served
from tests.properties.protocol.invariants import Invariants
from tests.properties.protocol.memory import fence_of
from tests.properties.protocol.steps import HOLDERS, IDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from sekali.answers import Ask, End, Lease
    from tests.properties.protocol.steps import Op, Seen, Snapshot
    from tests.properties.protocol.world import World

# Most of what happens happens to one id of one key: the rare rows need many claims of one record.
KEY_WEIGHTS = (6, 2, 1)
ID_WEIGHTS = (6, 2, 1)
BODY_ENDS: tuple[Outcome, ...] = ("D", "D", "X", "T", "T", "W", "W", "S")
UNSTARTED_ENDS: tuple[Outcome, ...] = ("U", "U", "S")


@dataclass(slots=True)
class Holding:
    """One holder's view of its claim."""

    owner: str
    lease: Lease
    suspect: bool
    valid: bool = True
    body: bool = False
    ended: bool = False


@dataclass(slots=True)
class Recorded:
    """What the durable table holds for an id: the first recorded outcome, for ever."""

    outcome: Outcome
    result: bytes


@dataclass(slots=True)
class History:
    """Make one history's moves; each starts from an empty server."""

    world: World
    rng: Random
    invariants: Invariants = field(init=False)
    _asks: list[tuple[Ask, str, bool]] = field(init=False, default_factory=list)
    _holdings: list[Holding] = field(init=False, default_factory=list)
    _ends: list[End] = field(init=False, default_factory=list)
    _renewals: list[tuple[Holding, bool]] = field(init=False, default_factory=list)
    _table: dict[str, Recorded] = field(init=False, default_factory=dict)
    _served: dict[str, int] = field(init=False, default_factory=dict)
    _dead_letters: dict[str, int] = field(init=False, default_factory=dict)
    _body_ends: list[Outcome] = field(init=False, default_factory=list)
    _snapshots: list[Snapshot] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.invariants = Invariants(self.world.keyspace)

    def run(self, steps: int) -> None:
        """Make that many moves."""
        self._forget_everything()
        moves = self._moves()
        # Each history has a character of its own: some things happen often in it, some never.
        weights = [weight * self.rng.choice((0, 0.5, 1, 2)) for weight, _ in moves[1:]]
        weights.insert(0, moves[0][0])
        self._body_ends = [self.rng.choice(BODY_ENDS) for _ in range(3)]
        for _ in range(steps):
            [(_, move)] = self.rng.choices(moves, weights)
            move()
            self.invariants.check_attempts(self.world.state)

    def _moves(self) -> list[tuple[float, Callable[[], None]]]:
        return [
            (26, self._claim),
            (16, self._redeliver),
            (8, self._claim_again),
            (10, self._renew),
            (4, self._renew_again),
            (22, self._finish),
            (7, self._finish_again),
            (2, self._settle_served),
            (2, self._settle_follower),
            (5, self._settle_degraded),
            (4, self._invalidate),
            (1.5, self._revoke),
            (16, self._let_lease_end),
            (7, self._evict),
            (0.4, self._forget_everything),
            (2, self._keep_snapshot),
            (1.5, self._fail_over),
            (2.5, self._tie),
        ]

    # --- holders ---

    def _claim(self) -> None:
        ask, owner = self._new_ask(self._any_id()), self.rng.choice(HOLDERS)
        self._ask(ask, owner, heard=self._chance(0.85))

    def _redeliver(self) -> None:
        """Bring back the message of an attempt that failed or died, after its lease or cooling."""
        holding = self._any_holding()
        if holding is not None:
            if self._chance(0.4) and not holding.ended:
                self._send_renewal(holding, started=True)
            self._stall(holding.lease.key)
            self._ask(self._new_ask(holding.lease.ask.id), self.rng.choice(HOLDERS), heard=True)
            if self._chance(0.15):
                self._end_by_record([holding])

    def _claim_again(self) -> None:
        """Send a claim once more: because its reply was lost, or long after it was read."""
        if not self._asks:
            return
        recent = self._asks[-4:] if self._chance(0.6) else self._asks
        index = self._asks.index(self.rng.choice(recent))
        ask, owner, heard = self._asks[index]
        self._asks[index] = (ask, owner, True)
        self.world.wait_a_tick()
        self._see(self.world.claim_op(ask, owner), adopt=None if heard else owner)

    def _renew(self) -> None:
        holding = self._any_holding()
        if holding is None:
            return
        may_start = not holding.ended
        self._send_renewal(holding, started=holding.body or (may_start and self._chance(0.5)))

    def _renew_again(self) -> None:
        if self._renewals:
            holding, started = self.rng.choice(self._renewals)
            op = self.world.renew_op(holding.lease, holding.owner, started=started)
            answer = self._see(op).answer
            if isinstance(answer, Renewed) and started and not holding.body:
                self.invariants.marked_in_vain(holding.lease.ask)

    def _send_renewal(self, holding: Holding, *, started: bool) -> None:
        seconds = self.rng.choice((60.0, 45.0))
        op = self.world.renew_op(
            holding.lease, holding.owner, started=started, lease_seconds=seconds
        )
        answer = self._see(op).answer
        self._renewals.append((holding, started))
        if isinstance(answer, Renewed) and not holding.ended:
            holding.valid = True
            if started:
                self._start(holding)

    def _finish(self) -> None:
        holding = self._any_holding(unended=True)
        if holding is not None:
            self._end(holding)

    def _end(self, holding: Holding) -> None:
        if not holding.body and self._chance(0.7):
            if holding.suspect or not holding.valid:
                self._send_renewal(holding, started=True)
            else:
                self._start(holding)
        outcome = self.rng.choice(self._body_ends if holding.body else UNSTARTED_ENDS)
        end = self.world.end(
            holding.lease,
            outcome,
            header=self.rng.choice((b"%016d|" % holding.lease.fence,) * 5 + (b"",)),
            value_ttl_seconds=self.rng.choice((500.0,) * 5 + (0.0,)),
        )
        holding.ended = self._chance(0.85)  # else its reply is lost and it tries again
        self._send_end(self._as_recorded(end))

    def _finish_again(self) -> None:
        if self._ends:
            recent = self._ends[-4:] if self._chance(0.5) else self._ends
            self._see(self.world.finish_op(self.rng.choice(recent)))

    def _settle_served(self) -> None:
        """Settle an id with the value that its key has."""
        if self._served:
            key, fence = self.rng.choice(list(self._served.items()))
            ask = self.world.ask(self.rng.choice(IDS[key]))
            end = self.world.end(self.world.lease_of(ask, fence), "S", token="")
            self._send_end(self._as_recorded(end))

    def _settle_follower(self) -> None:
        """Settle an id with the answer that a sibling's body gave, under the sibling's claim."""
        leaders = [end for end in self._ends if end.outcome == "D" and end.token]
        if leaders:
            leader = self.rng.choice(leaders)
            siblings = [id_ for id_ in IDS[leader.ask.key] if id_ != leader.ask.id]
            ask = self.world.ask(self.rng.choice(siblings), token=leader.token)
            end = self.world.end(self.world.lease_of(ask, leader.fence), "S", result=leader.result)
            self._send_end(self._as_recorded(end))

    def _settle_degraded(self) -> None:
        """Settle an id that is held here, as a holder that worked without the cache."""
        holding = self._any_holding(unended=True)
        if holding is not None:
            outcome: Outcome = self.rng.choice(("S", "X"))
            served = self.world.lease_of(holding.lease.ask, holding.lease.fence)
            end = self.world.end(served, outcome, token="", result=b"degraded")
            self._send_end(self._record(end))

    def _start(self, holding: Holding) -> None:
        if not holding.body:
            holding.body = True
            self.invariants.body_started(holding.lease.ask)

    def _as_recorded(self, end: End) -> End:
        """Write the outcome to the table first, in half of the cases; its first one is final."""
        if end.outcome not in ("D", "S", "X") or self._chance(0.5):
            return end
        return self._record(end)

    def _record(self, end: End) -> End:
        held = self._table.setdefault(end.ask.id, Recorded(end.outcome, end.result))
        if held.outcome == "X":
            return replace(end, outcome="X", recorded=True, result=held.result)
        outcome: Outcome = end.outcome if held.result == end.result else "S"
        if end.outcome == "X":
            outcome = "S"
        return replace(end, outcome=outcome, recorded=True, result=held.result)

    # --- the rest of the world ---

    def _invalidate(self) -> None:
        self._see(self.world.invalidate_op(self._any_key()))

    def _revoke(self) -> None:
        """Let an operator take a lease away, of a holder that still holds it or does not."""
        holding = self._any_holding()
        if holding is not None:
            self._see(self.world.revoke_op(holding.lease))

    def _let_lease_end(self) -> None:
        self._stall(self._any_key())

    def _stall(self, key: str) -> None:
        """Stall every holder of a key past its lease; each knows by its own clock."""
        for holding in self._holdings:
            if holding.lease.key == key:
                holding.valid = False
        self._lose(self.world.slot(IDS[key][0]).lease)

    def _evict(self) -> None:
        slot = self.world.slot(self._any_id())
        self._lose(
            self.rng.choices(
                (slot.record, slot.lease, slot.value, slot.key, slot.active, slot.born),
                (4, 1, 1, 3, 1, 1),
            )[0]
        )

    def _forget_everything(self) -> None:
        self._see(self.world.lose_all_op())

    def _keep_snapshot(self) -> None:
        self._snapshots.append(self.world.snapshot())

    def _fail_over(self) -> None:
        if self._snapshots:
            self._see(self.world.restore_op(self.rng.choice(self._snapshots)))

    def _tie(self) -> None:
        """Claim a key, lose some of it, and claim it again within the same millisecond."""
        id_ = self._any_id()
        other = id_ if self._chance(0.5) else self.rng.choice(IDS[id_.partition("-")[0]])
        first, second = self.world.ask(id_), self.world.ask(other)
        slot = self.world.slot(id_)
        lost = self.rng.choice(
            (
                self.world.lose_all_op(),
                self.world.lose_all_op(),
                self.world.restore_op(self.world.snapshot()),
                self.world.lose_op(slot.lease),
                self.world.lose_op(slot.lease, slot.key),
            )
        )
        self.world.wait_a_tick()
        seen = self.world.step(
            self.world.claim_op(first, "ann"), lost, self.world.claim_op(second, "ben")
        )
        tied = []
        for one, owner in zip(seen, ("ann", "", "ben"), strict=True):
            self.invariants.check(one)
            tied += self._adopt(one.answer, owner)
        self._asks += [(first, "ann", True), (second, "ben", True)]
        for holding in tied:
            if not holding.suspect and self._chance(0.7):
                self._start(holding)
        if self._chance(0.6):
            self._end_by_record(tied)

    def _end_by_record(self, holdings: list[Holding]) -> None:
        """End claims where only the job's record is left to tell them from newer ones."""
        for holding in holdings:
            self._stall(holding.lease.key)
            self._lose(self.world.slot(holding.lease.ask.id).key)
            self._end(holding)

    # --- small things ---

    def _new_ask(self, id_: str) -> Ask:
        ask = self.world.ask(id_, want_stale=self._chance(0.3))
        key = ask.key
        if self._chance(0.08):
            ask = replace(ask, payload_hash="another hash")
        if key in self._served and self._chance(0.3):
            ask = replace(ask, refuse=self._served[key] - self.rng.choice((0, 0, 0, 1)))
        if ask.id in self._dead_letters and self._chance(0.4):
            ask = replace(ask, rearm=self._dead_letters[ask.id] - self.rng.choice((0, 0, 1)))
        return ask

    def _ask(self, ask: Ask, owner: str, *, heard: bool) -> None:
        self._asks.append((ask, owner, heard))
        self.world.wait_a_tick()
        answer = self._see(self.world.claim_op(ask, owner), adopt=owner if heard else None).answer
        if isinstance(answer, Served):
            self._served[ask.key] = fence_of(answer.value.decode())
        if isinstance(answer, Failed | Quarantined):
            self._dead_letters[ask.id] = answer.fence

    def _send_end(self, end: End) -> None:
        self._ends.append(end)
        self._see(self.world.finish_op(end))

    def _see(self, op: Op, *, adopt: str | None = None) -> Seen:
        [seen] = self.world.step(op)
        self.invariants.check(seen)
        if adopt is not None:
            self._adopt(seen.answer, adopt)
        return seen

    def _adopt(self, answer: object, owner: str) -> list[Holding]:
        new = []
        if isinstance(answer, Acquired):
            new = [Holding(owner, answer.lease, answer.suspect)]
        self._holdings += new
        return new

    def _lose(self, key: bytes) -> None:
        self._see(self.world.lose_op(key))

    def _any_holding(self, *, unended: bool = False) -> Holding | None:
        holdings = [one for one in self._holdings if not (unended and one.ended)]
        if not holdings:
            return None
        return self.rng.choice(holdings[-3:] if self._chance(0.6) else holdings)

    def _any_key(self) -> str:
        return self.rng.choices(list(IDS), KEY_WEIGHTS)[0]

    def _any_id(self) -> str:
        return self.rng.choices(IDS[self._any_key()], ID_WEIGHTS)[0]

    def _chance(self, probability: float) -> bool:
        return self.rng.random() < probability
