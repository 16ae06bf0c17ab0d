"""Decide from the history of a run whether every promise was kept.

| finding | what it means |
|---|---|
| lost | a job that has to succeed has no done row, or a bad one no dead letter |
| doubled | the table accepted a second outcome of an id; an account does not count each id once |
| changed | the final row is not the first accepted outcome, or no body returned that result |
| stale | a reader saw a value older than an invalidation that was acknowledged before it began |
| fence | a lease was given with a fence below an earlier one of its key, or beside a holder |
| attempts | a body was told more attempts than bodies had started |
| late | a load waited longer than its bound, or an invocation outlived its timeout |
| misled | a dead letter of a job that succeeds, or with another reason than its own |

A tie of fences is the one exception that the protocol makes, after the cache lost its memory: the
token decides then. An invalidation may be forgotten by a promotion that loses it (`docs/`), so it
is not held against a read after one.
"""

from __future__ import annotations

import base64
import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.chaos.faults import LOSSES
from tests.chaos.history import outcomes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.chaos.faults import Strike
    from tests.chaos.history import History
    from tests.chaos.rig import Rig
    from tests.chaos.workload import Planned

_SEEN_LATE_SECONDS: Final = 0.3
LONGEST_LOAD_SECONDS: Final = 6.0
"""Twice the wait of a load and of the one inside, the loads themselves, and a slow machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalidation:
    """A source got a new version, and its key's invalidation was acknowledged."""

    name: str
    version: int
    at: float


@dataclass(slots=True, kw_only=True)
class Verdict:
    """What was found: problems by their kind, and numbers for the report."""

    problems: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def sound(self) -> bool:
        """Tell whether nothing was found."""
        return not self.problems


def check(
    rig: Rig,
    planned: Sequence[Planned],
    *,
    invalidations: Sequence[Invalidation] = (),
    strikes: Sequence[Strike] = (),
    drained: bool = True,
) -> Verdict:
    """Read everything that a stack at rest shows."""
    verdict = Verdict()
    starts, letters = rig.said("start"), rig.dead_letters()
    rows = {row["pk"]["S"]: row for row in rig.rows()}
    if not drained:
        verdict.problems["lost"].append(f"{rig.waiting()} messages are still in the queue")
    _check_outcomes(verdict, rig, planned, rows, starts)
    _check_letters(verdict, planned, letters)
    _check_ledger(verdict, rig, planned)
    _check_fences(verdict, rig, strikes)
    _check_attempts(verdict, starts)
    _check_reads(verdict, rig, invalidations, strikes)
    verdict.figures |= {
        "messages": len(planned),
        "ids": len({(one.name, one.id) for one in planned}),
        "bodies": len(starts),
        "rows": len(rows),
        "dead_letters": len(letters),
        "invocations": len(rig.invocations),
        "environments": rig.fleet.environments_started,
        "superseded": rig.history.replies["finish superseded"],
        "lost_leases": rig.history.replies["renew lost"],
    }
    return verdict


def _check_outcomes(
    verdict: Verdict,
    rig: Rig,
    planned: Sequence[Planned],
    rows: Mapping[str, Any],  # Any: DynamoDB's typed JSON
    starts: Sequence[Mapping[str, Any]],
) -> None:
    accepted: dict[str, list[Any]] = defaultdict(list)
    for _, item in outcomes(rig.history, rig.deployment.results):
        accepted[item["pk"]["S"]].append(item)
    for name, items in accepted.items():
        if len(items) > 1:
            verdict.problems["doubled"].append(f"{len(items)} outcomes of {name} were accepted")
    tokens = {start["token"] for start in starts}
    for name, one in {f"{one.name}/{one.id}": one for one in planned}.items():
        row = rows.get(name)
        wanted = "done" if one.succeeds else "failed"
        if row is None or row["st"]["S"] != wanted:
            found = "absent" if row is None else row["st"]["S"]
            verdict.problems["lost"].append(f"{name} is {found}, not {wanted}")
        elif one.succeeds:
            _check_result(verdict, name, row, accepted[name], tokens)


def _check_result(
    verdict: Verdict, name: str, row: Any, accepted: Sequence[Any], tokens: set[str]
) -> None:
    """Compare the row with the write that was seen; Any: DynamoDB's typed JSON."""
    result = bytes(row["result"]["B"])
    if not accepted:
        verdict.problems["changed"].append(f"nobody was seen to write {name}")
        return
    if base64.b64decode(accepted[0]["result"]["B"]) != result:
        verdict.problems["changed"].append(f"{name} has another result than was first accepted")
    by = json.loads(result).get("by")
    if by is not None and by not in tokens:
        verdict.problems["changed"].append(f"the result of {name} is of no body that started")


def _check_letters(
    verdict: Verdict, planned: Iterable[Planned], letters: Sequence[Mapping[str, Any]]
) -> None:
    bad = {(one.name, one.id) for one in planned if not one.succeeds}
    missing = set(bad)
    for letter in letters:
        reason = letter.get("MessageAttributes", {}).get("sekali.reason", {}).get("StringValue")
        body = json.loads(letter["Body"])
        who = (body["name"], body["id"])
        missing.discard(who)
        if who not in bad or reason != "permanent":
            verdict.problems["misled"].append(f"dead letter of {who[0]}/{who[1]}: {reason}")
    for name, job_id in sorted(missing):
        verdict.problems["lost"].append(f"no dead letter of {name}/{job_id}")


def _check_ledger(verdict: Verdict, rig: Rig, planned: Sequence[Planned]) -> None:
    """Every id is in its account once, no addition was lost, and fences of a row only grew."""
    ids: dict[str, set[str]] = defaultdict(set)
    for one in planned:
        if one.name == "ledger":
            ids[one.payload["account"]].add(one.id)
    for row in rig.rows(rig.deployment.ledger):
        account = row["account"]["S"]
        applied = set(row.get("applied", {"SS": []})["SS"])
        count = int(row.get("n", {"N": "0"})["N"])
        if applied != ids[account] or count != len(applied):
            verdict.problems["doubled"].append(
                f"{account}: {len(ids[account])} ids, {len(applied)} applied, counted {count}"
            )


def _check_fences(verdict: Verdict, rig: Rig, strikes: Sequence[Strike]) -> None:
    newest: dict[bytes, tuple[int, bytes]] = {}
    for grant in rig.history.grants:
        fence, token = newest.get(grant.key, (0, b""))
        if grant.fence < fence:
            key = grant.key.decode(errors="replace")
            verdict.problems["fence"].append(f"{key}: {grant.fence} after {fence}")
        if grant.fence > fence or token != grant.token:
            newest[grant.key] = (max(fence, grant.fence), grant.token)
    verdict.figures["grants"] = len(rig.history.grants)
    losses = [strike.at for strike in strikes if strike.fault.kind in LOSSES]
    lease_seconds = rig.deployment.lease_seconds
    for text in two_holders(rig.history, lease_seconds=lease_seconds, losses=losses):
        verdict.problems["fence"].append(text)


def two_holders(
    history: History, *, lease_seconds: float, losses: Sequence[float] = ()
) -> list[str]:
    """Answer the leases that were given while another one of the key still stood.

    A lease stands from its grant or last renewal on, less what the wires took to see it, until it
    ends. After a loss the cache knows of no holder.
    """
    found: list[str] = []
    standing: dict[bytes, tuple[bytes, float]] = {}
    for one in history.steps:
        token, until = standing.get(one.key, (b"", 0.0))
        if one.word == "acquired":
            lost = any(at - 0.5 < one.at < at + lease_seconds + 5.0 for at in losses)
            if token not in {b"", one.token} and one.at < until and not lost:
                key = one.key.decode(errors="replace")
                found.append(f"{key}: two holders for {until - one.at:.2f} s")
            standing[one.key] = (one.token, one.at + lease_seconds - _SEEN_LATE_SECONDS)
        elif one.token == token and one.word == "renewed":
            standing[one.key] = (token, one.at + lease_seconds - _SEEN_LATE_SECONDS)
        elif one.token == token and one.step == "finish":
            standing.pop(one.key, None)
    return found


def _check_attempts(verdict: Verdict, starts: Iterable[Mapping[str, Any]]) -> None:
    """Hold what a body is told against the bodies that started before it."""
    before: Counter[tuple[str, str]] = Counter()
    for start in starts:
        who = (start["job"], start["id"])
        # One more for a container that died between its mark and the body (PROTOCOL §4).
        if start["attempt"] - 1 > before[who] + 1:
            verdict.problems["attempts"].append(
                f"{who[0]}/{who[1]} is told attempt {start['attempt']} after {before[who]} bodies"
            )
        before[who] += 1
    # A flaky job counts its failures in the record, and begins again when the cache forgets it;
    # waiting for a lock is a failure of the ledger's.
    for name in sorted({job for job, _ in before}):
        most = max(count for (job, _), count in before.items() if job == name)
        verdict.figures[f"most_bodies_of_one_{name}"] = most


def _check_reads(
    verdict: Verdict,
    rig: Rig,
    invalidations: Sequence[Invalidation],
    strikes: Sequence[Strike],
) -> None:
    began = {one.outcome.request_id: one.outcome.started_at for one in rig.invocations}
    promotions = [strike.at for strike in strikes if strike.fault.kind == "promote"]
    longest = 0.0
    for read in rig.said("read"):
        longest = max(longest, read["waited"])
        if read["waited"] > LONGEST_LOAD_SECONDS:
            verdict.problems["late"].append(f"a load took {read['waited']:.1f} s")
        known = [
            one
            for one in invalidations
            if one.name == read["outer"] and one.at < began.get(read["request_id"], 0.0)
        ]
        newest = max((one.version for one in known), default=0)
        if read["version"] < newest and not any(at > known[-1].at - 10 for at in promotions):
            verdict.problems["stale"].append(
                f"{read['outer']} version {read['version']} was read after {newest}"
            )
    verdict.figures["longest_load_seconds"] = round(longest, 2)
    timeout = rig.deployment.timeout_seconds
    for one in rig.invocations:
        if one.outcome.seconds > timeout + 1.0:
            verdict.problems["late"].append(f"an invocation took {one.outcome.seconds:.1f} s")
