"""What every way of taking a request through idempotency owes, alone or in a batch."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.contracts.idempotency_benches import (
    DEADLINE_SECONDS,
    Answer,
    Bench,
    Delivering,
    end_leases,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

RESULTS = [
    None,
    False,
    0,
    0.0,
    "",
    [],
    {},
    [None, [0, ""]],
    {"rows": [{"delay": -3, "worst": None}], "text": "é \ud800"},
    2**60,
]


class Held:
    """A body that waits in the middle, so that something can happen to its lease meanwhile."""

    def __init__(self, bench: Delivering, request_id: str, ending: Callable[[], object]) -> None:
        self._started, self._go_on = threading.Event(), threading.Event()
        self._ending = ending
        self._pool = ThreadPoolExecutor(1)
        self._answer = self._pool.submit(bench.deliver, request_id, self._body)
        assert self._started.wait(DEADLINE_SECONDS), self._answer

    def _body(self) -> object:
        self._started.set()
        assert self._go_on.wait(DEADLINE_SECONDS)
        return self._ending()

    def finish(self) -> Answer:
        """Let the body return or raise, and tell what its caller got."""
        self._go_on.set()
        return self._answer.result(DEADLINE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._go_on.set()
        self._pool.shutdown()


def _same(result: object) -> object:
    return result


def fail() -> object:
    raise OSError("no route")


def leave() -> object:
    raise SystemExit(3)


def never() -> object:
    raise AssertionError("this body must not run")


class IdempotencyContract:
    """Inherit it and give a `bench`."""

    def test_body_runs_once_and_every_delivery_gets_its_result(self, bench: Bench) -> None:
        first = [bench.deliver(f"id-{n}", partial(_same, RESULTS[n])) for n in range(len(RESULTS))]
        here = [bench.deliver(f"id-{n}", never) for n in range(len(RESULTS))]
        bench.change_container()
        elsewhere = [bench.deliver(f"id-{n}", never) for n in range(len(RESULTS))]

        assert first == here == elsewhere == [Answer("result", result) for result in RESULTS]
        # `0 == False` and `[] == []`: the types are compared too.
        assert [type(one.result) for one in elsewhere] == [type(result) for result in RESULTS]

    @pytest.mark.parametrize("ending", [fail, leave], ids=["raises", "exits"])
    def test_body_that_failed_runs_again(self, bench: Bench, ending: Callable[[], object]) -> None:
        first = bench.deliver("a", ending)
        end_leases(bench.valkey)
        second = bench.deliver("a", lambda: "fine")
        third = bench.deliver("a", never)

        assert first.kind == "failed"
        assert [second, third] == [Answer("result", "fine")] * 2

    def test_of_two_threads_on_one_id_one_runs_the_body(self, bench: Bench) -> None:
        runs: list[str] = []
        start = threading.Barrier(2)

        def body() -> object:
            runs.append("run")
            return "result"

        def deliver() -> Answer:
            start.wait(DEADLINE_SECONDS)
            return bench.deliver_beside_others("a", body)

        with ThreadPoolExecutor(2) as pool:
            answers = [future.result() for future in [pool.submit(deliver) for _ in range(2)]]

        assert runs == ["run"]
        assert Answer("result", "result") in answers
        assert set(answers) <= {Answer("result", "result"), Answer("in_progress")}

    def test_while_a_body_runs_other_deliveries_are_told_so(self, bench: Bench) -> None:
        with Held(bench, "a", lambda: "result") as held:
            here = bench.deliver("a", never)
            bench.change_container()
            elsewhere = bench.deliver("a", never)

            assert [here, elsewhere] == [Answer("in_progress")] * 2
            assert held.finish() == Answer("result", "result")

    def test_holder_whose_successor_finished_changes_nothing(self, bench: Bench) -> None:
        with Held(bench, "a", lambda: "stale") as held:
            end_leases(bench.valkey)
            bench.change_container()
            successor = bench.deliver("a", lambda: "newer")

            late = held.finish()

        assert successor == Answer("result", "newer")
        # It may be told to try again, or be given the recorded result, but never have its own way.
        assert late in {Answer("failed", error="LeaseLost"), Answer("result", "newer")}
        assert bench.deliver("a", never) == Answer("result", "newer")

    def test_holder_that_fails_late_does_not_free_its_successor(self, bench: Bench) -> None:
        with Held(bench, "a", fail) as held:
            end_leases(bench.valkey)
            bench.change_container()
            with Held(bench, "a", lambda: "newer") as successor:
                late = held.finish()
                third = bench.deliver("a", never)

                assert late.kind == "failed"
                assert third == Answer("in_progress")
                assert successor.finish() == Answer("result", "newer")

    def test_two_holders_at_once_leave_one_result(self, bench: Bench) -> None:
        with Held(bench, "a", lambda: "stale") as held:
            end_leases(bench.valkey)
            bench.change_container()
            with Held(bench, "a", lambda: "newer") as successor:
                answers = [held.finish(), successor.finish()]

        given = {answer.result for answer in answers if answer.kind == "result"}
        assert given == {bench.deliver("a", never).result}

    def test_result_counts_though_the_lease_ended_if_nobody_took_over(self, bench: Bench) -> None:
        with Held(bench, "a", lambda: "result") as held:
            end_leases(bench.valkey)
            late = held.finish()

        assert late == bench.deliver("a", never) == Answer("result", "result")

    def test_same_request_is_accepted_after_completion(self, bench: Bench) -> None:
        payload = {"amount": 3, "to": ["x", None]}
        bench.deliver("a", lambda: "result", payload)

        here = bench.deliver("a", never, dict(reversed(payload.items())))
        bench.change_container()
        elsewhere = bench.deliver("a", never, payload)

        assert [here, elsewhere] == [Answer("result", "result")] * 2

    def test_other_payload_under_an_id_is_refused_in_every_state(self, bench: Bench) -> None:
        bench.deliver("failed", fail, 1)
        end_leases(bench.valkey)
        bench.deliver("done", lambda: "result", 1)

        with Held(bench, "running", lambda: "result") as held:
            names = ("failed", "running", "done")
            refused = {name: bench.deliver(name, never, 2) for name in names}

            assert refused == dict.fromkeys(names, Answer("mismatch"))
            assert held.finish() == Answer("result", "result")
        bench.change_container()
        assert bench.deliver("done", never, 2) == Answer("mismatch")

    def test_body_may_call_another_idempotent_function(self, bench: Bench) -> None:
        calls: list[object] = []

        def charge(*, request: object) -> object:
            calls.append(request)
            return {"charged": request}

        inner = bench.inner(charge)

        first = bench.deliver("a", lambda: ["outer", inner(request=7)])
        bench.change_container()
        second = bench.deliver("b", lambda: ["another", inner(request=7)])

        assert first == Answer("result", ["outer", {"charged": 7}])
        assert second == Answer("result", ["another", {"charged": 7}])
        assert calls == [7]

    def test_body_may_hand_work_to_threads_with_its_context(self, bench: Bench) -> None:
        inner = bench.inner(lambda *, request: request * 10)

        def body() -> object:
            with ThreadPoolExecutor(4) as pool:
                tens = [
                    pool.submit(copy_context().run, inner, request=number) for number in range(8)
                ]
                return [ten.result() for ten in tens]

        first = bench.deliver("a", body)

        assert first == Answer("result", [0, 10, 20, 30, 40, 50, 60, 70])
        assert bench.deliver("a", never) == first

    def test_deliveries_from_a_pool_get_their_own_results(self, bench: Bench) -> None:
        def deliver(number: int) -> Answer:
            return copy_context().run(bench.deliver_beside_others, f"id-{number}", lambda: number)

        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(deliver, range(12)))

        assert answers == [Answer("result", number) for number in range(12)]

    def test_result_that_json_cannot_carry_is_stored_nowhere(self, bench: Bench) -> None:
        first = bench.deliver("a", lambda: {"when": {1, 2}})
        second = bench.deliver("b", lambda: float("nan"))

        assert {first.kind, second.kind} == {"failed"}
        records = list(bench.valkey.scan_iter(match="*:job:*"))
        assert [bench.valkey.hget(record, "result") for record in records] == [None, None]
        assert list(bench.valkey.scan_iter(match="*:lease:*")) == []

    def test_nothing_is_left_without_an_end(self, bench: Bench) -> None:
        bench.deliver("a", lambda: "result")
        bench.deliver("b", fail)
        with Held(bench, "c", lambda: "result"):
            lives = {key: bench.valkey.pttl(key) for key in bench.valkey.scan_iter()}

        # -1 is a key without an end; -2 one that ended meanwhile.
        assert [key for key, life in lives.items() if life == -1] == []
