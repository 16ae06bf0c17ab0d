"""Fork and restore a container: a clone shares no socket, no token and no memory."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest
from snapshot_restore_py import get_after_restore, get_before_snapshot

from sekali import lease, warm
from sekali.opening import Opening
from sekali.scripts import Command
from tests.worker_kit import Context, Kit, event, job, returned, started_kit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from redis import Redis

    from sekali import Job

DEADLINE_SECONDS = 20
MY_ID = Command(("CLIENT", "ID"))


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str) -> Iterator[Kit]:
    assert valkey.dbsize() == 0
    with started_kit(monkeypatch, valkey_url) as started:
        warm.reset()
        yield started


def in_child(answer: Callable[[], str]) -> str:
    """Return what `answer` says in a forked process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(DEADLINE_SECONDS)  # a child that hangs says nothing
        try:
            said = answer()
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return said


def token() -> str:
    with lease("ledger") as held:
        return held.token


@pytest.mark.usefixtures("kit")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_forked_process_has_a_container_of_its_own() -> None:
    mine = warm.container()
    first = token()

    said = in_child(lambda: f"{warm.container() is mine} {token() == first}")

    assert said == "False False"
    assert warm.container() is mine
    assert first != token()


@pytest.mark.usefixtures("kit")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_fork_while_another_thread_asks_for_the_container_does_not_hang() -> None:
    warm.container()
    held = threading.Event()
    leave = threading.Event()

    def hold() -> None:
        with warm._lock:  # noqa: SLF001  the moment that the test is about
            held.set()
            leave.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60)

    said = in_child(lambda: f"{type(warm.container()).__name__}")

    leave.set()
    thread.join()
    assert said == "Container"


@pytest.mark.usefixtures("kit")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
@pytest.mark.parametrize("through", ["link", "redis-py"])
def test_forked_process_never_speaks_on_its_parents_connection(
    monkeypatch: pytest.MonkeyPatch, through: str
) -> None:
    """The body of a job may fork helpers that have its container still, in a variable."""
    if through == "redis-py":
        monkeypatch.setattr("sekali.connections.find_spec", lambda _: None)
    shared = warm.container().shared
    (mine,) = shared.flush([MY_ID])

    (childs,) = in_child(lambda: str(shared.flush([MY_ID])[0])).split()

    assert childs.isdecimal()
    assert int(childs) != mine
    assert shared.flush([MY_ID]) == [mine]


@pytest.mark.usefixtures("kit")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_fork_while_another_thread_is_at_the_door_does_not_hang() -> None:
    shared = warm.container().shared
    held, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with shared._lock, shared.breaker._lock:  # noqa: SLF001  the moment that the test is about
            held.set()
            leave.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60)

    said = in_child(lambda: f"{len(shared.flush([MY_ID]))} {shared.breaker.allows()}")

    leave.set()
    thread.join()
    assert said == "1 True"


@pytest.mark.usefixtures("kit")
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_connection_begun_before_a_fork_is_taken_by_the_parent_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand")
    warm.prepare()
    opening = warm._state["opening"]  # noqa: SLF001  it has to be there before the fork
    assert isinstance(opening, Opening)
    opening._thread.join(DEADLINE_SECONDS)  # noqa: SLF001  as above
    shared = warm.container().shared

    (childs,) = in_child(lambda: str(shared.flush([MY_ID])[0])).split()

    assert childs.isdecimal()
    assert int(childs) != shared.flush([MY_ID])[0]


def test_snapshot_and_restore_forget_everything(kit: Kit) -> None:
    worker = kit.worker()
    runs: list[str] = []

    @worker.job("once")
    def once(job: Job) -> str:
        runs.append(job.id)
        return job.id

    worker.handler(event(job("a", {"n": 1})), Context())
    before = warm.container()

    for hook, arguments, keywords in (*get_before_snapshot(), *get_after_restore()):
        hook(*arguments, **keywords)
    response = worker.handler(event(job("a", {"n": 1}), job("b", {"n": 1})), Context())

    assert warm.container() is not before
    assert returned(response) == []
    assert runs == ["a", "b"]
