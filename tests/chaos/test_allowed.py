"""Nothing is sent that ElastiCache Serverless refuses, and each call stays in one slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos import allowed, resp
from tests.chaos.deployment import Deployment
from tests.chaos.history import History
from tests.chaos.run import Sources
from tests.chaos.stage import message

if TYPE_CHECKING:
    from tests.chaos.stage import Stage

# `key` is the argument of a helper that is only called with a declared one.
DECLARED = {"KEYS", "key"}


@pytest.mark.parametrize("name", sorted(allowed.scripts()))
def test_script_calls_allowed_commands_on_declared_keys(name: str) -> None:
    calls = allowed.calls(allowed.scripts()[name])

    assert {command for command, _ in calls} <= allowed.IN_SCRIPTS
    assert {key for _, key in calls} <= DECLARED


def test_command_outside_the_list_and_keys_of_two_slots_are_noticed() -> None:
    history = History()
    history.take_command((b"KEYS", b"*"))
    history.take_command((b"EVALSHA", b"0" * 40, b"2", b"{a}:x", b"{b}:x"))

    found = allowed.refused(history)

    assert any(text == "KEYS" for text in found)
    assert any("several slots" in text for text in found)
    assert any("unknown script" in text for text in found)


def test_slots_are_those_of_the_cluster_specification() -> None:
    assert resp.slot_of(b"123456789") == 12739
    assert resp.slot_of(b"{user1000}.following") == resp.slot_of(b"{user1000}.followers")
    assert resp.slot_of(b"foo{}{bar}") != resp.slot_of(b"{bar}")


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_run_of_every_job_sends_only_what_serverless_takes(stage: Stage) -> None:
    with stage.rig(Deployment(max_concurrency=1)) as rig:
        sources = Sources(rig)
        rig.poll()
        rig.send(
            [
                message("effect", "slow", seconds=1.5),
                message("computed", "one", key="k"),
                message("computed", "two", key="k"),
                message("ledger", "one", account="a"),
                message("flaky", "one", succeeds_at=2),
                message("broken", "one"),
                message("nested", "one", outer="x", inner="y"),
            ]
        )
        drained = rig.drained(within_seconds=60)
        sources.change("x")

        assert drained
        assert allowed.refused(rig.history) == []
        assert {"EVALSHA claim", "EVALSHA renew", "EVALSHA finish"} <= set(rig.history.commands)
