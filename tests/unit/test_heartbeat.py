"""When a beat is due, and which leases it renews, counts as lost or leaves alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from sekali.answers import Ask, Lease, Terms
from sekali.claims import Claims
from sekali.errors import SharedUnavailable
from sekali.heartbeat import Heartbeat
from sekali.keys import Keyspace
from sekali.telemetry import events
from sekali.testing import FrozenClock
from tests.worker_world.world import HandPulse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sekali.scripts import Command
    from sekali.telemetry.events import Event


class Shared:
    """Answer every renewal, or none."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.down = False

    def flush(self, commands: Sequence[Command], *, operation: str) -> list[Any]:
        """Any: a reply of the server."""
        if self.down:
            raise SharedUnavailable(operation, "ConnectionError")
        self.sent.append(len(commands))
        return [[b"renewed", 0, 12_000, 0] for _ in commands]


class Bench:
    """A heartbeat whose clock, thread and server a test moves by hand."""

    def __init__(self, *, deadline: float = 900.0) -> None:
        self.clock, self.pulse, self.shared = FrozenClock(), HandPulse(), Shared()
        self.events: list[Event] = []
        self.began = self.clock.monotonic()
        self.heart = Heartbeat(
            shared=self.shared,  # type: ignore[arg-type]  # as much of it as a heartbeat uses
            claims=Claims(Keyspace("test", 1), "owner", clock=self.clock),
            now=self.clock.monotonic,
            pulse=self.pulse,
            emit=self.events.append,
            uniform=lambda _, most: most,
        )
        self.heart.deadline = self.began + deadline

    def lease(self, name: str, seconds: float = 12.0, *, started: bool = True) -> Lease:
        terms = Terms(
            lease_seconds=seconds,
            record_ttl_seconds=60.0,
            max_attempts=3,
            cooling_base_seconds=1.0,
            cooling_cap_seconds=1.0,
            born_ttl_seconds=60.0,
        )
        ask = Ask(name="job", id=name, key=name, payload_hash="", token=name, terms=terms)
        ends = self.clock.monotonic() + seconds
        made = Lease(ask=ask, fence=1, expires_at=ends, started=started)
        self.heart.watch(made)
        return made

    def lost(self) -> list[str]:
        return [one.key for one in self.events if isinstance(one, events.LeaseLost)]


def test_first_beat_is_due_by_what_is_left_of_the_lease_not_by_its_length() -> None:
    """Symptom: a cold start spent 2 s of a lease of 3 s, and the beat after another was late."""
    bench = Bench()
    bench.lease("a", 3.0)
    bench.clock.sleep(2.0)

    bench.heart.start()

    assert bench.pulse.asked == pytest.approx([1.0 / 3])


def test_beat_after_a_renewal_is_due_at_a_third_of_the_lease() -> None:
    bench = Bench()
    bench.lease("a")
    bench.heart.start()
    bench.clock.sleep(4.0)

    assert bench.pulse.beat() == pytest.approx([4.0])
    assert bench.shared.sent == [1]


def test_shorter_lease_that_comes_later_is_renewed_in_time() -> None:
    """Symptom: a lock of 2 s inside a job of 12 s was lost before the job's next beat."""
    bench = Bench()
    bench.lease("job")
    bench.heart.start()
    bench.clock.sleep(0.5)

    bench.lease("lock", 2.0)
    bench.lease("another", 12.0)

    assert bench.pulse.asked == pytest.approx([4.0, 2.0 / 3])


def test_nothing_is_due_where_nothing_is_held() -> None:
    bench = Bench()
    bench.heart.start()

    bench.lease("a", 3.0)

    assert bench.pulse.asked == pytest.approx([math.inf, 1.0])


def test_lease_that_ran_out_under_its_holder_is_lost_without_a_word() -> None:
    bench = Bench()
    lease = bench.lease("a")
    bench.clock.sleep(12.0)

    bench.heart.beat()

    assert lease.lost
    assert bench.lost() == ["a"]
    assert bench.shared.sent == []


def test_lease_that_ran_out_before_its_body_started_is_left_to_the_start() -> None:
    """Symptom: the start had the server renew it, and nobody renewed it again: it was marked lost.

    Its holder was told so too, though it held it.
    """
    bench = Bench()
    waiting = bench.lease("waiting", started=False)
    bench.clock.sleep(12.0)
    bench.heart.beat()
    assert not waiting.lost
    assert bench.shared.sent == []

    waiting.started, waiting.expires_at = True, bench.clock.monotonic() + 12.0
    bench.heart.beat()

    assert bench.shared.sent == [1]
    assert bench.lost() == []


def test_beat_that_failed_is_repeated_within_the_lease() -> None:
    bench = Bench()
    bench.lease("a")
    bench.heart.start()
    bench.shared.down = True
    bench.clock.sleep(4.0)

    (again,) = bench.pulse.beat()
    bench.clock.sleep(again)
    bench.shared.down = False

    assert bench.pulse.beat() == pytest.approx([4.0])
    assert again == pytest.approx(8.0 / 30)
    assert bench.lost() == []


def test_no_beat_is_due_after_the_function_s_end() -> None:
    bench = Bench(deadline=1.0)
    bench.lease("a")
    bench.heart.start()
    bench.clock.sleep(3.0)

    assert bench.pulse.beat() == [math.inf]
    assert bench.shared.sent == []
