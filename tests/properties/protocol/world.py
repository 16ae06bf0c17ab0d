"""Run the real scripts on a real Valkey beside the model, and compare them at every step.

One step is one MULTI: the server's clock, the step's commands with a dump of every key behind each
of them, EXEC. The server's clock stands still inside a transaction, so the model is told the time
that the scripts saw, and answers, states and TTLs are compared exactly. Commands of one step happen
within one millisecond: that is how ties are made.
"""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sekali.answers import Ask, End, Lease, Outcome
from sekali.claims import Claims
from sekali.keys import Keyspace
from sekali.scripts import (
    CLAIM,
    EPOCH,
    FINISH,
    INVALIDATE,
    LOG_APPEND,
    LOG_END,
    NOTE_RUNS,
    RENEW,
    REVOKE,
    Command,
    Script,
)
from sekali.testing import FrozenClock
from tests.properties.protocol.claim_table import claim
from tests.properties.protocol.dump import CLOCK, difference, dump_script, read_dump
from tests.properties.protocol.finish_table import finish, invalidate
from tests.properties.protocol.memory import Memory, State
from tests.properties.protocol.renew_table import renew
from tests.properties.protocol.revoke_table import REVOKE_TTL_MS, revoke
from tests.properties.protocol.steps import (
    A_TICK_SECONDS,
    BUCKETS,
    IDS,
    NAME,
    TERMS,
    VALUE_TTL_SECONDS,
    Deviation,
    Op,
    Seen,
    Snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sekali.answers import ClaimAnswer, FinishAnswer, Lost, Renewed
    from sekali.keys import Slot

SCRIPTS = (
    CLAIM, RENEW, FINISH, INVALIDATE, REVOKE, LOG_APPEND, LOG_END, EPOCH, NOTE_RUNS,
)  # fmt: skip

# The callers' clock is far off, so that whatever depends on it shows.
WRONG_CLOCK = FrozenClock(wall=1_000.0)


@dataclass(slots=True)
class World:
    """Hold a server, the model beside it, and the names of every key that may exist.

    Without `compares` the model is not asked: the invariants are then alone with the scripts.
    """

    client: Any  # Any: redis-py's own methods are only partly typed
    mutants: Mapping[str, Script] = field(default_factory=dict)
    compares: bool = True
    keyspace: Keyspace = field(init=False)
    memory: Memory = field(init=False)
    state: State = field(init=False, default_factory=dict)
    steps: int = field(init=False, default=0)
    _tokens: int = field(init=False, default=0)
    _now_ms: int = field(init=False, default=0)
    _names: list[bytes] = field(init=False)
    _tools: tuple[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.keyspace = Keyspace("t", BUCKETS)
        self.memory = Memory(self.keyspace)
        self._names = list(
            dict.fromkeys(
                name
                for key, ids in IDS.items()
                for id_ in ids
                for name in names_of(self.keyspace.of(NAME, id_, key))
            )
        )
        for script in SCRIPTS:
            self.client.script_load(self.mutants.get(script.sha, script).source)
        self._tools = (
            self.client.script_load(CLOCK),
            self.client.script_load(dump_script(self._names)),
        )
        self.reset()

    def reset(self) -> None:
        """Start from an empty server, on the server and in the model."""
        self.client.flushall()
        self.memory.state, self.state = {}, {}

    # --- what happens ---

    def step(self, *ops: Op) -> list[Seen]:
        """Let the ops happen within one instant of the server, and compare each with the model."""
        replies = iter(self._execute(ops))
        now = self._now_ms = next(replies)
        seen = []
        for op in ops:
            answers = [next(replies) for _ in op.commands]
            after = read_dump(next(replies), self._names)
            broken = next((reply for reply in answers if isinstance(reply, Exception)), None)
            if broken is not None:
                raise Deviation(f"{op.label}: {broken}")
            answer = self._read(op, answers)
            if self.compares:
                self._compare(op, answer, after, now)
            seen.append(Seen(op, answer, self.state, after, now))
            self.state = after
            self.steps += 1
        return seen

    def do(self, op: Op) -> Any:  # Any: as many types as ops
        """Let one op happen and return its answer."""
        return self.step(op)[0].answer

    def send(self, command: Command) -> Any:  # Any: a reply of the client
        """Send a command that the model does not know, and return its reply."""
        return self.client.execute_command(*self.as_sent(command))

    # --- the protocol's own commands ---

    def ask(self, id_: str, **changes: Any) -> Ask:  # Any: fields of Ask
        """Ask for `id_`'s key, with a token of its own."""
        self._tokens += 1
        key = id_.partition("-")[0]
        plain = Ask(
            name=NAME,
            id=id_,
            key=key,
            payload_hash=f"hash of {id_}",
            token=f"token-{self._tokens}",
            terms=TERMS,
        )
        return replace(plain, **changes)

    def claim_op(self, ask: Ask, owner: str = "ann") -> Op:
        claims = Claims(self.keyspace, owner, clock=WRONG_CLOCK)
        return Op(
            f"{owner} claims {ask}",
            (claims.claim(ask),),
            lambda memory, now: claim(memory, ask, owner, now),
            lambda replies: claims.read_claim(ask, replies[0], 0.0),
            about=ask,
        )

    def claim(self, ask: Ask, owner: str = "ann") -> ClaimAnswer:
        answer: ClaimAnswer = self.do(self.claim_op(ask, owner))
        return answer

    def renew_op(
        self,
        lease: Lease,
        owner: str = "ann",
        *,
        started: bool = False,
        lease_seconds: float = TERMS.lease_seconds,
    ) -> Op:
        claims = Claims(self.keyspace, owner, clock=WRONG_CLOCK)
        return Op(
            f"{owner} renews {lease} started={started}",
            (claims.renew(lease, lease_seconds=lease_seconds, started=started),),
            lambda memory, now: renew(
                memory, lease, owner, lease_seconds=lease_seconds, started=started, now=now
            ),
            lambda replies: claims.read_renew(lease, replies[0], 0.0),
            about=lease,
        )

    def renew(
        self,
        lease: Lease,
        owner: str = "ann",
        *,
        started: bool = False,
        lease_seconds: float = TERMS.lease_seconds,
    ) -> Renewed | Lost:
        op = self.renew_op(lease, owner, started=started, lease_seconds=lease_seconds)
        answer: Renewed | Lost = self.do(op)
        return answer

    def lease_of(self, ask: Ask, fence: int) -> Lease:
        """Return what a settle without an own claim stands on: a token and a fence."""
        return Lease(ask=ask, fence=fence, expires_at=0.0)

    def end(self, lease: Lease, outcome: Outcome, **changes: Any) -> End:  # Any: fields of End
        """End the lease's claim; its result names the id and the payload it was made from."""
        plain = End(
            ask=lease.ask,
            token=lease.token,
            fence=lease.fence,
            outcome=outcome,
            recorded=False,
            result=f"{lease.ask.id} of {lease.ask.payload_hash} by {lease.token}".encode(),
            header=b"%016d|" % lease.fence,
            value_ttl_seconds=VALUE_TTL_SECONDS,
        )
        return replace(plain, **changes)

    def finish_op(self, end: End) -> Op:
        claims = Claims(self.keyspace, "ann", clock=WRONG_CLOCK)
        return Op(
            f"finish {end}",
            (claims.finish(end),),
            lambda memory, now: finish(memory, end, now),
            lambda replies: claims.read_finish(end, replies[0]),
            about=end,
        )

    def finish(
        self,
        lease: Lease,
        outcome: Outcome,
        **changes: Any,  # Any: fields of End
    ) -> FinishAnswer:
        answer: FinishAnswer = self.do(self.finish_op(self.end(lease, outcome, **changes)))
        return answer

    def invalidate_op(self, key: str) -> Op:
        claims = Claims(self.keyspace, "ann", clock=WRONG_CLOCK)
        return Op(
            f"invalidate {key}",
            (claims.invalidate(NAME, key),),
            lambda memory, now: invalidate(memory, NAME, key, now),
            lambda replies: claims.read_invalidate(replies[0]),
            about=key,
        )

    def invalidate(self, key: str) -> bool:
        answer: bool = self.do(self.invalidate_op(key))
        return answer

    def revoke_op(self, lease: Lease) -> Op:
        slot = self.slot(lease.ask.id)
        argv = (lease.token, lease.fence, REVOKE_TTL_MS)
        return Op(
            f"revoke {lease}",
            (Command.run(REVOKE, (slot.lease, slot.key, slot.active), argv),),
            lambda memory, now: revoke(memory, lease, now),
            lambda replies: replies[0],
            revokes=lease,
        )

    def revoke(self, lease: Lease) -> int:
        answer: int = self.do(self.revoke_op(lease))
        return answer

    # --- what happens to the server's memory ---

    def slot(self, id_: str) -> Slot:
        return self.keyspace.of(NAME, id_, id_.partition("-")[0])

    def lose_op(self, *keys: bytes) -> Op:
        """Let keys expire or be evicted: the scripts cannot tell one from the other."""

        def forget(memory: Memory, _: int) -> None:
            for key in keys:
                memory.drop(key)

        return Op(
            f"lose {keys}",
            (Command(("DEL", *keys)),),
            forget,
            lost=frozenset(key.decode() for key in keys),
        )

    def lose(self, *keys: bytes) -> None:
        self.do(self.lose_op(*keys))

    def lose_all_op(self) -> Op:
        return self.lose_op(*self._names)

    def put_op(self, key: bytes, **fields: str) -> Op:
        """Write fields of a record by hand, keeping its TTL: a state that no history reaches."""

        def put(memory: Memory, now: int) -> None:
            stored = memory.state.get(key.decode())
            ends_ms = now + 777_000 if stored is None else stored.ends_ms
            memory.put(key, fields, ends_ms)

        pairs = [part for pair in fields.items() for part in pair]
        commands = [Command(("HSET", key, *pairs))]
        if key.decode() not in self.state:
            commands.append(Command(("PEXPIRE", key, 777_000)))
        return Op(f"put {key!r} {fields}", tuple(commands), put)

    def put(self, key: bytes, **fields: str) -> None:
        self.do(self.put_op(key, **fields))

    def set_text(self, key: bytes, text: str) -> None:
        """Store a text by hand."""

        def put(memory: Memory, now: int) -> None:
            memory.set(key, text, now + 777_000)

        command = Command(("SET", key, text, "PX", 777_000))
        self.do(Op(f"set {key!r}", (command,), put))

    def snapshot(self) -> Snapshot:
        """Keep what a replica has now."""
        names = list(self.state)
        pipeline = self.client.pipeline(transaction=True)
        for name in names:
            pipeline.dump(name)
        return Snapshot(
            copy.deepcopy(self.state), dict(zip(names, pipeline.execute(), strict=True))
        )

    def restore_op(self, snapshot: Snapshot, only: Sequence[str] | None = None) -> Op:
        """Fail over to that replica: everything after it is lost. `only` restores some keys."""
        names = [name.decode() for name in self._names]
        chosen = [name for name in names if only is None or name in only]
        commands = [Command(("DEL", *chosen))]
        commands += [
            Command(("RESTORE", name, stored.ends_ms, snapshot.dumps[name], "ABSTTL"))
            for name, stored in snapshot.state.items()
            if name in chosen
        ]

        def go_back(memory: Memory, _: int) -> None:
            kept = copy.deepcopy(snapshot.state)
            for name in chosen:
                memory.state.pop(name, None)
                if name in kept:
                    memory.state[name] = kept[name]

        return Op(
            "fail over to an older replica",
            tuple(commands),
            go_back,
            lost=frozenset(chosen),
            rewound=True,
        )

    def wait_a_tick(self) -> None:
        """Let the server's clock, which is this machine's, move on by a millisecond."""
        while time.time() * 1000 < self._now_ms + 1:
            time.sleep(A_TICK_SECONDS)

    # --- how it is done ---

    def _compare(self, op: Op, answer: object, after: State, now_ms: int) -> None:
        expected = op.predict(self.memory, now_ms)
        if expected != answer:
            raise Deviation(f"{op.label}: expected {expected}, got {answer}")
        if self.memory.state != after:
            raise Deviation(f"{op.label}: {difference(self.memory.state, after)}")

    def _execute(self, ops: Sequence[Op]) -> list[Any]:  # Any: replies of the client
        clock, dump = self._tools
        pipeline = self.client.pipeline(transaction=True)
        pipeline.execute_command("EVALSHA", clock, 1, b"clock")
        for op in ops:
            for command in op.commands:
                pipeline.execute_command(*self.as_sent(command))
            pipeline.execute_command("EVALSHA", dump, 0)
        replies: list[Any] = pipeline.execute(raise_on_error=False)  # Any: as above
        return replies

    def as_sent(self, command: Command) -> tuple[bytes | str | int, ...]:
        """Return the command's arguments, with the mutant in place of its script."""
        if command.script is None or command.script.sha not in self.mutants:
            return command.args
        return ("EVALSHA", self.mutants[command.script.sha].sha, *command.args[2:])

    def _read(self, op: Op, replies: list[Any]) -> object:  # Any: replies of the client
        try:
            return op.read(replies)
        except (TypeError, ValueError) as error:
            raise Deviation(f"{op.label}: {error}") from error


def names_of(slot: Slot) -> tuple[bytes, ...]:
    return (slot.record, slot.lease, slot.value, slot.key, slot.active, slot.born)
