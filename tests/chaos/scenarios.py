"""Directed scenarios: each answers what went wrong, and nothing where every promise was kept.

They are functions, because each runs twice: as the library is, and with a mutant that it is there
to catch (`test_mutants`).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING

from tests.chaos.checker import two_holders
from tests.chaos.deployment import Deployment
from tests.chaos.history import outcomes
from tests.chaos.stage import Complaints, Prompter, Starts, message, slot_dump
from tests.chaos.wires import Deed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.chaos.rig import Rig, Tenant
    from tests.chaos.stage import Stage

TAKEN_OVER_SECONDS = 60.0
_SMALL = Deployment(max_concurrency=2, timeout_seconds=60, visibility_seconds=120)


def stale_holder_of_an_id(stage: Stage) -> list[str]:
    """A holder is stopped for longer than its lease, and wakes to find that another has finished.

    Nothing that it does changes lease, value or record; it answers with the winner's result, and
    metric and log say so.
    """
    complaints = Complaints()
    with stage.rig(_SMALL) as rig:
        starts = Starts(rig, freeze_first=True)
        text = message("effect", "one", seconds=0.5)
        rig.poll()
        rig.send([text])
        starts.wait(1)
        stopped_at = time.time()
        rig.send([text])
        complaints.unless(
            starts.wait(2, within_seconds=TAKEN_OVER_SECONDS), "nobody took the job over"
        )
        rig.wait_until(lambda: _finished(rig) == 1, within_seconds=TAKEN_OVER_SECONDS)
        winner, before = rig.rows(), slot_dump(rig)
        starts.thaw()
        rig.drained(within_seconds=80)
        loser = starts.lines[0]

        complaints.differ(winner, rig.rows(), "the row changed")
        complaints.differ(before, slot_dump(rig), "the cache changed")
        complaints.differ(1, len(outcomes(rig.history, rig.deployment.results)), "outcomes")
        asked = [one.step for one in rig.history.of_token(loser["token"]) if one.at > stopped_at]
        complaints.unless("renew" not in asked, "an old lease was renewed after the thaw")
        settled = _settled(rig, loser["request_id"])
        complaints.differ(["table"], [one["source"] for one in settled], "the loser's answer")
        complaints.differ(["delete"], [one["outcome"] for one in settled], "the loser's message")
        complaints.unless(rig.logs.total("LeasesLost") >= 1, "no metric tells of the lost lease")
        complaints.unless(_logged(rig, "is lost"), "no log line tells of the lost lease")
    return complaints.texts


def stale_holder_of_a_key(stage: Stage) -> list[str]:
    """A stopped holder wakes after another id has computed its key: the newer value stays."""
    complaints = Complaints()
    with stage.rig(_SMALL) as rig:
        starts = Starts(rig, freeze_first=True)
        rig.poll()
        rig.send([message("lasting", "old", key="k", seconds=0.5)])
        starts.wait(1)
        rig.send([message("lasting", "new", key="k", seconds=0.5)])
        complaints.unless(
            starts.wait(2, within_seconds=TAKEN_OVER_SECONDS), "nobody took the key over"
        )
        rig.wait_until(lambda: _finished(rig) == 1, within_seconds=TAKEN_OVER_SECONDS)
        before = _of_the_key(rig)
        starts.thaw()
        rig.drained(within_seconds=80)

        complaints.unless(_is_done(rig, "lasting/old"), "the stopped job was lost")
        complaints.differ(before, _of_the_key(rig), "lease, value or key record changed")
    return complaints.texts


def long_holder(stage: Stage, *, seconds: float = 6.0) -> list[str]:
    """A job waits behind a holder that takes many leases: it arrives, and sees no dead letters.

    Two receives are all that its messages have, so whoever waits by being received is lost.
    """
    complaints = Complaints()
    deployment = Deployment(
        max_concurrency=2,
        timeout_seconds=int(seconds) + 6,
        visibility_seconds=2,
        max_receives=2,
        # A busy machine may keep a thread from running for seconds.
        lease_seconds=8,
    )
    with stage.rig(deployment) as rig:
        starts = Starts(rig)
        rig.poll()
        rig.send([message("lasting", "holder", key="k", seconds=seconds)])
        starts.wait(1)
        rig.send([message("lasting", f"waiter-{n}", key="k") for n in range(3)])
        rig.send([message("lasting", "holder", key="k", seconds=seconds)])
        complaints.unless(rig.drained(within_seconds=3 * seconds + 40), "a job never arrived")

        complaints.differ(1, len(starts.lines), "bodies of one key")
        complaints.differ([], rig.dead_letters(), "dead letters")
        for job in ("holder", "waiter-0", "waiter-1", "waiter-2"):
            complaints.unless(_is_done(rig, f"lasting/{job}"), f"{job} is not done")
        complaints.texts += two_holders(rig.history, lease_seconds=deployment.lease_seconds)
    return complaints.texts


def twenty_second_holder(stage: Stage) -> list[str]:
    """Hold the key for 20 s: two leases and a half, and ten times the visibility."""
    return long_holder(stage, seconds=20.0)


def refused_copies(stage: Stage) -> list[str]:
    """The queue takes no copies for a while: what had to be deferred is still there afterwards."""
    complaints = Complaints()
    refusal = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\n{}"
    refuse = Prompter("send", lambda _: Deed(how="refuse", answer=refusal), times=12)
    deployment = Deployment(max_concurrency=2, timeout_seconds=8, visibility_seconds=2)
    with stage.rig(deployment, refuse) as rig:
        starts = Starts(rig)
        rig.poll()
        rig.send([message("effect", "busy", seconds=2.5)])
        starts.wait(1)
        rig.send([message("lasting", "holder", key="k", seconds=2.5)])
        starts.wait(2)
        rig.send([message("lasting", "waiter", key="k")])
        rig.drained(within_seconds=80)

        complaints.unless(refuse.met, "no copy was sent")
        complaints.unless(_is_done(rig, "lasting/waiter"), "the deferred job is lost")
    return complaints.texts


def fatal_record(stage: Stage) -> list[str]:
    """A record kills its container each time: it is found alone, its neighbours finish."""
    complaints = Complaints()
    deployment = Deployment(max_concurrency=1, timeout_seconds=8, visibility_seconds=2)
    with stage.rig(deployment) as rig:
        neighbours = [message("fragile", f"{n}", seconds=0.01) for n in range(8)]
        rig.send([*neighbours[:4], message("fatal", "bomb"), *neighbours[4:]])
        rig.poll()
        rig.drained(within_seconds=80)

        reasons = [_reason(letter) for letter in rig.dead_letters()]
        complaints.differ([("fatal", "quarantined")], reasons, "dead letters")
        for number in range(8):
            complaints.unless(_is_done(rig, f"fragile/{number}"), f"neighbour {number} is not done")
        bombs = [one for one in rig.said("start") if one["job"] == "fatal"]
        complaints.unless(3 <= len(bombs) <= 4, f"{len(bombs)} bodies for three attempts")
        started: Counter[str] = Counter()
        for one in rig.said("start"):
            told = f"{one['id']} is told attempt {one['attempt']} after {started[one['id']]} bodies"
            complaints.unless(one["attempt"] <= started[one["id"]] + 1, told)
            started[one["id"]] += 1
    return complaints.texts


def timeout_in_record_seven(stage: Stage) -> list[str]:
    """The function is killed at its timeout in record 7: records 1 to 6 are done, once.

    The sixth ended a moment before the seventh began, so only another thread can send it.
    """
    deployment = Deployment(max_concurrency=1, timeout_seconds=6, visibility_seconds=7)
    return _timeout_after_six(stage, deployment, seconds=(0.3, 0.01, 0.01, 0.01, 0.3, 0.01))


def timeout_without_a_thread(stage: Stage) -> list[str]:
    """The same where no thread may run: what took longer than a quarter of a second is safe."""
    deployment = Deployment(
        max_concurrency=1,
        timeout_seconds=4,
        visibility_seconds=5,
        settings={"SEKALI_HEARTBEAT": "false"},
    )
    return _timeout_after_six(stage, deployment, seconds=(0.26,) * 6)


def _timeout_after_six(
    stage: Stage, deployment: Deployment, *, seconds: Sequence[float]
) -> list[str]:
    complaints = Complaints()
    with stage.rig(deployment) as rig:
        batch = [message("effect", f"{n}", seconds=one) for n, one in enumerate(seconds, 1)]
        batch += [message("hang", "7"), *(message("effect", f"{n}") for n in range(8, 11))]
        rig.send(batch)
        rig.poll()
        complaints.unless(rig.drained(within_seconds=80), "something is still waiting")

        bodies = [one["id"] for one in rig.said("start")]
        once = [bodies.count(f"{n}") for n in range(1, 7)]
        complaints.unless(_logged(rig, "timed out"), "no invocation timed out")
        complaints.differ([1] * 6, once, "bodies of records 1 to 6")
        for number in range(1, 11):
            name = "hang" if number == 7 else "effect"
            complaints.unless(_is_done(rig, f"{name}/{number}"), f"record {number} is not done")
    return complaints.texts


def out_of_time(stage: Stage) -> list[str]:
    """A batch holds more work than its invocation has time: the rest goes back, unspent."""
    complaints = Complaints()
    deployment = Deployment(max_concurrency=1, timeout_seconds=5, visibility_seconds=6)
    with stage.rig(deployment) as rig:
        rig.send([message("effect", f"{n}", seconds=1.4) for n in range(6)])
        rig.poll()
        complaints.unless(rig.drained(within_seconds=80), "something is still waiting")

        kinds = {one.outcome.kind for one in rig.invocations}
        complaints.differ({"answered"}, kinds, "how invocations ended")
        attempts = [one["attempt"] for one in rig.said("start")]
        complaints.differ([1] * 6, attempts, "attempts")
    return complaints.texts


def crossing_loads(stage: Stage) -> list[str]:
    """A loads B inside its load while B loads A inside its own: both end at their bound."""
    complaints = Complaints()
    wait_seconds = 1.0
    deployment = Deployment(max_concurrency=2, timeout_seconds=20, batch_size=1)
    with stage.rig(deployment) as rig:
        for name in ("a", "b"):
            (rig.sources / name).write_text("1")
        rig.poll()
        # Each loader waits for the other's lease before it asks for the other's key.
        options = {"wait_seconds": wait_seconds, "meet": True, "ttl_seconds": 30.0}
        rig.send(
            [
                message("nested", "ab", outer="a", inner="b", **options),
                message("nested", "ba", outer="b", inner="a", **options),
            ]
        )
        complaints.unless(rig.drained(within_seconds=80), "something is still waiting")

        reads = rig.said("inner")
        complaints.differ({"ab", "ba"}, {one["id"] for one in reads}, "jobs that answered")
        longest = max((one["waited"] for one in reads), default=0.0)
        complaints.unless(longest < 10 * wait_seconds, f"a load took {longest:.1f} s")
        complaints.unless(rig.logs.total("LoadTimeouts") >= 1, "no bound was counted")
    return complaints.texts


def forgetful_cache(stage: Stage) -> list[str]:
    """The cache forgets everything: fences still grow, and what is done is not done again."""
    complaints = Complaints()
    with stage.rig(Deployment(max_concurrency=1)) as rig:
        rig.poll()
        bodies = [message("effect", "done"), message("computed", "first", key="k")]
        rig.send(bodies)
        rig.drained(within_seconds=80)
        rig.recycle()
        rig.nodes.flush()
        rig.send([*bodies, message("computed", "second", key="k")])
        rig.drained(within_seconds=80)

        starts = rig.said("start")
        ids = [one["id"] for one in starts]
        complaints.differ(["done", "first", "second"], sorted(ids), "bodies")
        fences = [one.fence for one in rig.history.grants if one.key.endswith(b":computed/k")]
        complaints.unless(fences == sorted(set(fences)), f"fences fell: {fences}")
    return complaints.texts


def refusing_table(stage: Stage) -> list[str]:
    """The table refuses writes for a while: nothing is deleted that it does not hold."""
    complaints = Complaints()
    refusal = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\n{}"
    refuse = Prompter("table", lambda _: Deed(how="refuse", answer=refusal), times=40)
    deployment = Deployment(max_concurrency=1, timeout_seconds=4, visibility_seconds=2)
    with stage.rig(deployment, refuse) as rig:
        rig.send([message("effect", f"{n}") for n in range(3)])
        rig.poll()
        rig.drained(within_seconds=80)

        complaints.unless(refuse.met, "no write was refused")
        for number in range(3):
            complaints.unless(_is_done(rig, f"effect/{number}"), f"{number} has no row")
    return complaints.texts


def death_at_the_table(stage: Stage) -> list[str]:
    """The container dies as it sends the outcome to the table: the job is done all the same."""
    complaints = Complaints()

    def die(tenant: Tenant) -> Deed:
        tenant.kill()
        return Deed(how="drop")

    deployment = Deployment(max_concurrency=1, timeout_seconds=4, visibility_seconds=2)
    with stage.rig(deployment, Prompter("table", die)) as rig:
        rig.send([message("effect", "one")])
        rig.poll()
        rig.drained(within_seconds=80)

        complaints.unless(_is_done(rig, "effect/one"), "the job has no row")
        kinds = {one.outcome.kind for one in rig.invocations}
        complaints.unless("died" in kinds, "nobody died")
    return complaints.texts


def invalidated_load(stage: Stage) -> list[str]:
    """A source changes while it is loaded: what was read before is not stored."""
    from tests.chaos.run import Sources

    complaints = Complaints()
    with stage.rig(Deployment(max_concurrency=1, timeout_seconds=12)) as rig:
        sources = Sources(rig)
        rig.poll()
        options = {"outer": "x", "inner": "y", "ttl_seconds": 60.0}
        rig.send([message("nested", "early", seconds=1.5, **options)])
        rig.wait_until(lambda: bool(rig.said("outer")), within_seconds=60)
        sources.change("x")
        rig.drained(within_seconds=80)
        rig.send([message("nested", "late", **options)])
        rig.drained(within_seconds=80)

        read = {one["id"]: one["version"] for one in rig.said("read")}
        complaints.differ({"early": 1, "late": 2}, read, "versions")
    return complaints.texts


def stale_writer(stage: Stage) -> list[str]:
    """A holder is stopped between its read and its write of a row that another then writes."""
    complaints = Complaints()
    thaws: list[Callable[[], None]] = []

    def freeze(tenant: Tenant) -> Deed:
        # Once the server has answered: the row is stamped, the read comes next.
        return Deed(then=lambda: thaws.append(tenant.freeze()))

    with stage.rig(_SMALL, Prompter("ledger", freeze)) as rig:
        starts = Starts(rig)
        rig.poll()
        rig.send([message("ledger", "old", account="a", seconds=1.0)])
        starts.wait(1)
        complaints.unless(rig.wait_until(lambda: bool(thaws), within_seconds=60), "no stamp")
        rig.send([message("ledger", "new", account="a", seconds=1.0)])
        # The other one has read the row, and writes it after the first one has.
        rig.wait_until(lambda: len(_stamps(rig)) == 2, within_seconds=TAKEN_OVER_SECONDS)
        time.sleep(0.3)
        thaws[0]()
        rig.drained(within_seconds=80)

        (row,) = rig.rows(rig.deployment.ledger)
        complaints.differ("2", row["n"]["N"], "what was counted")
        complaints.differ({"new", "old"}, set(row["applied"]["SS"]), "who was counted")
    return complaints.texts


def _finished(rig: Rig) -> int:
    return sum(one.step == "finish" for one in rig.history.steps)


def _stamps(rig: Rig) -> list[tuple[float, object]]:
    return rig.history.calls.accepted_writes(rig.deployment.ledger)


def _is_done(rig: Rig, name: str) -> bool:
    return any(row["pk"]["S"] == name and row["st"]["S"] == "done" for row in rig.rows())


def _of_the_key(rig: Rig) -> dict[bytes, object]:
    """Read lease, value and key record of the one key there is."""
    words = (b":lease:", b":value:", b":key:")
    found = slot_dump(rig)
    return {key: value for key, value in found.items() if any(word in key for word in words)}


def _settled(rig: Rig, request_id: str) -> list[dict[str, str]]:
    return [
        dict(record.fields)
        for record in rig.logs.records()
        if record.request_id == request_id and record.fields.get("message") == "record settled"
    ]


def _logged(rig: Rig, text: str) -> bool:
    return any(text in record.text for record in rig.logs.records())


def _reason(letter: dict[str, object]) -> tuple[str, str]:
    attributes = letter.get("MessageAttributes", {})
    reason = attributes.get("sekali.reason", {}) if isinstance(attributes, dict) else {}
    return json.loads(str(letter["Body"]))["name"], reason.get("StringValue", "none")
