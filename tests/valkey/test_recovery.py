"""Find leaked leases and stuck jobs, and revoke only what outlived its bounds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from sekali import LeaseLost, Recovery, lease, warm
from sekali.telemetry import events
from tests.conftest import free_port
from tests.worker_kit import Context, Kit, event, job, started_kit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from redis import Redis

    from sekali import Job


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch, valkey: Redis, valkey_url: str) -> Iterator[Kit]:
    assert valkey.dbsize() == 0
    with started_kit(monkeypatch, valkey_url) as started:
        warm.reset()
        yield started


def look(kit: Kit) -> dict[str, Any]:
    return Recovery("tests", hooks=[kit.events.append]).handler({}, None)


def keys_of(valkey: Redis, kind: str) -> list[bytes]:
    return sorted(valkey.scan_iter(match=f"*{kind}:*"))


def age(valkey: Redis, seconds: float) -> None:
    """Let every holder have begun so long ago."""
    for record in keys_of(valkey, "}:key"):
        valkey.hset(record, "started", str(int((time.time() - seconds) * 1000)))


def test_lease_that_nobody_ended_is_reported_with_its_owner(kit: Kit, valkey: Redis) -> None:
    with lease("ledger"):
        for key in keys_of(valkey, "lease"):
            valkey.delete(key)

        report = look(kit)

    (overdue,) = report["overdue"]
    assert (overdue["name"], overdue["key"], overdue["remaining_seconds"]) == ("@", "ledger", 0.0)
    assert overdue["owner"].startswith("local/")
    assert "token" not in overdue
    told = [one for one in kit.events if isinstance(one, events.LeaseLeaked)]
    assert [one.state for one in told] == ["overdue"]


def test_released_leases_are_not_reported(kit: Kit) -> None:
    with lease("ledger"):
        pass

    report = look(kit)

    assert [report[name] for name in ("live", "overdue", "long", "endless")] == [0, [], [], []]


def test_looking_changes_nothing(kit: Kit, valkey: Redis) -> None:
    with lease("ledger"):
        before = {key: valkey.dump(key) for key in valkey.scan_iter()}

        look(kit)

        assert before == {key: valkey.dump(key) for key in valkey.scan_iter()}


def test_holder_that_outlasts_its_usual_run_is_reported_as_long(kit: Kit, valkey: Redis) -> None:
    worker = kit.worker()
    reports: list[dict[str, Any]] = []

    @worker.job("quick")
    def quick(job: Job) -> None:
        if job.payload["slow"]:
            age(valkey, 100)
            reports.append(look(kit))

    worker.handler(event(job("a", {"slow": False})), Context())
    worker.handler(event(job("b", {"slow": True})), Context())

    (report,) = reports
    (long,) = report["long"]
    assert (long["name"], long["key"]) == ("quick", "b")
    assert report["endless"] == []


@pytest.mark.parametrize("revokes", ["false", "true"])
def test_endless_lease_is_revoked_only_where_policy_allows(
    kit: Kit, valkey: Redis, monkeypatch: pytest.MonkeyPatch, revokes: str
) -> None:
    monkeypatch.setenv("SEKALI_REVOKE_ENDLESS", revokes)
    warm.reset()
    with lease("ledger") as held:
        age(valkey, 2_000)

        report = look(kit)

        assert len(report["endless"]) == 1
        if revokes == "false":
            assert report["revoked"] == []
            held.ensure(13)
            return
        (entry,) = report["revoked"]
        assert entry["revoked_by_fence"] == held.fence + 1
        with pytest.raises(LeaseLost):
            held.ensure(13)
        with lease("ledger") as newer:
            assert newer.fence > entry["revoked_by_fence"]


def test_lease_within_its_bounds_is_never_revoked(
    kit: Kit, valkey: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEKALI_REVOKE_ENDLESS", "true")
    warm.reset()
    with lease("ledger") as held:
        age(valkey, 880)

        report = look(kit)

        assert report["revoked"] == []
        held.ensure(13)


@pytest.mark.usefixtures("kit")
def test_revocation_leaves_a_newer_holder_alone(valkey: Redis) -> None:
    container = warm.container()
    with lease("ledger"):
        (seen,) = container.leaks.look(now=time.time(), lease_seconds=12)
        for key in keys_of(valkey, "lease"):
            valkey.delete(key)
        with lease("ledger") as newer:
            assert container.leaks.revoke(seen) == 0
            newer.ensure(13)


def test_job_that_is_pending_for_long_is_reported(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, valkey_url: str
) -> None:
    monkeypatch.setenv("SEKALI_CACHE_URL", f"redis://127.0.0.1:{free_port()}")
    worker = kit.worker()

    @worker.job("wait", degraded="defer")
    def wait(job: Job) -> None:
        raise AssertionError(job.id)

    worker.handler(event(job("p", {"n": 1})), Context())
    monkeypatch.setenv("SEKALI_CACHE_URL", valkey_url)
    warm.reset()

    soon = look(kit)
    late = Recovery("tests", pending_seconds=-1, hooks=[kit.events.append]).handler({}, None)

    assert soon["pending"] == []
    assert [(one["name"], one["id"]) for one in late["pending"]] == [("wait", "p")]
    assert late["pending_count"] == 1


def test_jobs_that_wait_are_reported_while_the_cache_is_away(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The function raised at the cache, before it read the jobs that wait for that cache."""
    monkeypatch.setenv("SEKALI_CACHE_URL", f"redis://127.0.0.1:{free_port()}")
    worker = kit.worker()

    @worker.job("wait", degraded="defer")
    def wait(job: Job) -> None:
        raise AssertionError(job.id)

    worker.handler(event(job("p", {"n": 1})), Context())
    warm.reset()

    found = Recovery("tests", pending_seconds=-1, hooks=[kit.events.append]).handler({}, None)

    assert [(one["name"], one["id"]) for one in found["pending"]] == [("wait", "p")]
    assert (found["leases_unread"], found["pending_unread"]) == (True, False)
    assert [found[name] for name in ("overdue", "long", "endless", "revoked")] == [[], [], [], []]
    assert any("leases could not be read" in message for message in caplog.messages)
    (told,) = [one for one in kit.events if isinstance(one, events.Recovered)]
    assert (told.overdue, told.pending) == (None, 1)


def test_lease_that_cannot_be_revoked_now_stays_in_the_report(
    kit: Kit, valkey: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEKALI_REVOKE_ENDLESS", "true")
    warm.reset()
    with lease("ledger") as held:
        age(valkey, 2_000)
        valkey.config_set("maxmemory", 1)
        try:
            report = look(kit)
        finally:
            valkey.config_set("maxmemory", 0)

        assert [one["key"] for one in report["endless"]] == ["ledger"]
        assert (report["revoked"], report["leases_unread"]) == ([], False)
        held.ensure(13)


def test_every_key_of_recovery_has_a_ttl(kit: Kit, valkey: Redis) -> None:
    worker = kit.worker()

    @worker.job("quick")
    def quick(job: Job) -> str:
        return job.id

    worker.handler(event(job("a", {"n": 1})), Context())

    assert valkey.hgetall("sekali:runs").keys() == {b"quick"}
    assert {True} == {valkey.pttl(key) > 0 for key in valkey.scan_iter()}
