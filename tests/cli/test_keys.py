"""Leases, steal, explain, invalidate and recover act on a running stack."""

from __future__ import annotations

import json
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from sekali import LeaseLost, Settings, cache, lease, warm
from tests.cli.test_jobs import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infra.local.stack import LocalStack
    from tests.cli.conftest import Sekali

pytestmark = pytest.mark.slow


@contextmanager
def container_of(stack: LocalStack) -> Iterator[None]:
    """Be one more container of the running stack, with its cache."""
    host, port = stack.cache_address
    settings = Settings(
        cache_url=f"valkey://{host}:{port}", durable_mode="redis", record_ttl_seconds=1_296_000
    )
    container = warm.Container(settings, emit=lambda _: None)
    try:
        with warm.inside(container):
            yield
    finally:
        container.close()


def test_leases_show_who_holds_a_key(sekali: Sekali, stack: LocalStack) -> None:
    with container_of(stack), lease("ledger/1"):
        done = sekali("leases", "--key", "ledger/1", "--json")

    assert (done.json["live"], done.json["overdue"]) == (1, 0)
    [held] = done.json["leases"]
    assert (held["state"], held["name"], held["key"]) == ("live", "@", "ledger/1")
    assert "token" not in held
    assert sekali("leases", "--key", "ledger/1", "--json").json["leases"] == []


def test_stolen_lease_is_lost_to_its_holder_and_free_for_another(
    sekali: Sekali, stack: LocalStack, caplog: pytest.LogCaptureFixture
) -> None:
    with container_of(stack), lease("ledger/2") as held:
        with caplog.at_level(logging.WARNING):
            done = sekali("steal", "ledger/2", "--reason", "stuck", "--yes", "--json")

        assert (done.status, done.json["stolen"]) == (0, True)
        assert done.json["fence"] == held.fence + 1
        with pytest.raises(LeaseLost):
            held.ensure(13)
        with lease("ledger/2") as newer:
            assert newer.fence > done.json["fence"]
    [audit] = [one for one in caplog.messages if "took a lease away" in one]
    assert "'by': 'local:" in audit
    assert "'reason': 'stuck'" in audit


def test_lease_of_nobody_cannot_be_stolen(sekali: Sekali) -> None:
    anybody = sekali("steal", "nothing", "--yes", "--json")
    named = sekali("steal", "nothing", "--job", "@", "--yes", "--json")

    assert anybody.status == 4
    assert (named.status, named.json["stolen"]) == (1, False)


def test_one_key_that_two_hold_needs_its_job(sekali: Sekali, stack: LocalStack) -> None:
    with container_of(stack), cache() as tiers, lease("ledger/3"):

        def load() -> str:
            done = sekali("steal", "ledger/3", "--yes", "--json")
            assert (done.status, done.error["kind"]) == (2, "job_needed")
            return "value"

        tiers.get_or_load("ledger/3", load)


def test_explain_tells_age_tags_and_what_makes_a_value_outdated(
    sekali: Sekali, stack: LocalStack
) -> None:
    with container_of(stack), cache() as tiers:
        tiers.get_or_load("prices/1", lambda: {"a": 1}, ttl_seconds=60, tags=["prices"])

    fresh = sekali("explain", "prices/1", "--json")
    sekali("invalidate", "--tag", "prices", "--yes")
    outdated = sekali("explain", "prices/1", "--json")

    assert fresh.status == outdated.status == 0
    assert fresh.json["shared"]["tags"] == ["prices"]
    assert 0 <= fresh.json["shared"]["age_seconds"] < 60
    assert fresh.json["shared"]["outdated_tags"] == []
    assert outdated.json["shared"]["outdated_tags"] == ["prices"]
    assert sekali("explain", "prices/2", "--json").status == 4


def test_explain_shows_the_tombstone_of_a_load_under_way(sekali: Sekali, stack: LocalStack) -> None:
    with container_of(stack), cache() as tiers:

        def load() -> str:
            assert sekali("invalidate", "--key", "prices/3", "--yes").status == 0
            found = sekali("explain", "prices/3", "--json").json
            assert found["invalidated"]
            assert found["holder"].startswith("local/")
            return "old"

        tiers.get_or_load("prices/3", load, ttl_seconds=60)

    assert sekali("explain", "prices/3", "--json").json["shared"] is None


def test_invalidated_key_of_a_job_is_computed_again(sekali: Sekali) -> None:
    question = json.dumps({"month": "2013-01", "carrier": "AA"})
    sekali("send", "delay-report", question, "--id", "again-1", "--wait", "60")
    key = ("2013-01/AA/all", "--job", "delay-report")
    # The table knows a result a moment before the cache does.
    before = until(lambda: sekali("explain", *key, "--json"), lambda found: found.status == 0)

    done = sekali("invalidate", "--key", *key, "--yes", "--json")

    assert before.json["shared"]["tags"] == ["flights:2013-01"]
    assert done.json == {"name": "delay-report", "keys": ["2013-01/AA/all"], "tags": []}
    assert sekali("explain", *key, "--json").status == 4


def test_recover_reports_a_lease_whose_holder_died(sekali: Sekali, stack: LocalStack) -> None:
    import redis

    host, port = stack.cache_address
    with container_of(stack), lease("ledger/4"), redis.Redis(host, port) as client:
        for key in client.scan_iter(match="*lease:@/ledger/4"):
            client.delete(key)

        done = sekali("recover", "--json")

    assert [one["key"] for one in done.json["overdue"] if one["name"] == "@"] == ["ledger/4"]
    assert done.json["pending_count"] == 0
