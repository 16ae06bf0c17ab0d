"""Decide from outside whether every job was done once, and rightly.

The figures do not believe the library: they stand on what the table, the queues and the wire show,
on a line that each started body writes, and on reports that the oracle computes for itself. Only
`takeovers` and `hit_ratio` are handed on as the functions report them.

    sent                  messages of the plan
    distinct_ids, _keys   of the messages that have to succeed
    completed             of these ids, those whose row is done
    loads                 started bodies of their keys
    loads_explained       each load as the first of its key, after a killed one, after the TTL,
                          after an injected fault, or unexplained
    duplicates_suppressed messages beyond the first of a completed id
    served_from_cache     completed ids whose own body never started
    dead_lettered         messages in the dead letter queue
    lost                  ids without a done row, and bad messages without a dead letter each
    double_effects        started bodies of an id that had ended or was recorded, unexplained loads,
                          second outcomes that the table accepted
    wrong_results         rows that are not the oracle's report, dead letters of good messages or
                          with a wrong reason, bad messages that succeeded
    takeovers             from the metrics; takeovers_seen are keys of which a killed body was
                          followed by another one
    round_trips_per_batch flushes on the wire that waited for a reply, where a body started (cold),
                          and in the other batches (warm)
    hit_ratio             hits of each tier per value asked for, from the metrics
    latency_ms            from the first send of an id to its accepted row
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from infra.local.workload import JOB, identity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from infra.local.evidence import DeadLetter, Evidence, Execution, Item, Measures, Write
    from infra.local.oracle import Oracle
    from infra.local.workload import Planned, Question, Workload

# A value may live shorter than its TTL by the jitter, a tenth.
_TTL_SECONDS: Final = 3_600 * 0.9
_MAX_ATTEMPTS: Final = 3
_SHOWN_PROBLEMS: Final = 20
# A body that was running when a fault ended may have begun before it was seen.
_FAULT_SLACK_SECONDS: Final = 10.0
_SHOWN_KEYS: Final = 5


@dataclass(slots=True, kw_only=True)
class Report:
    """The figures of a run; see the module for how each is measured."""

    sent: int
    distinct_ids: int
    distinct_keys: int
    completed: int = 0
    loads: int = 0
    loads_explained: dict[str, int] = field(default_factory=dict)
    duplicates_suppressed: int = 0
    served_from_cache: int = 0
    dead_lettered: int = 0
    dead_lettered_by_reason: dict[str, int] = field(default_factory=dict)
    left_in_queue: int = 0
    lost: int = 0
    double_effects: int = 0
    wrong_results: int = 0
    takeovers: int = 0
    takeovers_seen: int = 0
    round_trips_per_batch: dict[str, float | None] = field(default_factory=dict)
    hit_ratio: dict[str, float] = field(default_factory=dict)
    latency_ms: dict[str, float | None] = field(default_factory=dict)
    contended_keys: list[dict[str, Any]] = field(default_factory=list)  # Any: JSON
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether nothing is lost, doubled, wrong, or still waiting."""
        return not (self.lost or self.double_effects or self.wrong_results or self.left_in_queue)

    def to_json(self) -> dict[str, Any]:  # Any: JSON
        """Answer the report as it is written to a file."""
        return asdict(self) | {"sound": self.sound}

    def find(self, figure: str, problem: str) -> None:
        """Count one more of a figure, and remember what it was while there is room."""
        setattr(self, figure, getattr(self, figure) + 1)
        if len(self.problems) < _SHOWN_PROBLEMS:
            self.problems.append(f"{figure}: {problem}")


def check(workload: Workload, evidence: Evidence, *, oracle: Oracle) -> Report:
    """Compare what was seen with what has to be."""
    asked = workload.asked
    report = Report(
        sent=len(workload.messages),
        distinct_ids=len(asked),
        distinct_keys=len({question.key for question in asked.values()}),
        left_in_queue=evidence.left_in_queue,
    )
    rows = {item["pk"]["S"]: item for item in evidence.rows}
    done = _check_results(report, asked, rows, evidence, oracle)
    _check_dead_letters(report, workload, evidence.dead_letters, rows)
    _check_executions(report, workload, evidence)
    _check_writes(report, evidence)

    started = {execution.job_id for execution in evidence.executions}
    asking = [message for message in workload.messages if message.succeeds]
    report.completed = len(done)
    report.served_from_cache = len(done - started)
    report.duplicates_suppressed = sum(message.job_id in done for message in asking) - len(done)
    report.contended_keys = _contended(asking, evidence.executions)
    _hand_on(report, evidence)
    return report


def _check_results(
    report: Report,
    asked: Mapping[str, Question],
    rows: Mapping[str, Item],
    evidence: Evidence,
    oracle: Oracle,
) -> set[str]:
    """Compare each id's result; answer the ids that are done."""
    done = set()
    for job_id, question in asked.items():
        item = rows.get(f"{JOB}/{job_id}", {})
        status = item.get("st", {}).get("S", "absent")
        if status != "done":
            report.find("lost", f"{job_id} ({question.key}) is {status}")
            continue
        done.add(job_id)
        result = _result(item, evidence)
        if result != oracle.report(*question):
            report.find("wrong_results", f"{job_id} ({question.key}) has another result")
    return done


def _result(item: Item, evidence: Evidence) -> object:
    if "pointer" in item and evidence.fetch is not None:
        return json.loads(evidence.fetch(item["pointer"]["S"]))
    return json.loads(bytes(item["result"]["B"])) if "result" in item else None


def _check_dead_letters(
    report: Report,
    workload: Workload,
    dead_letters: Sequence[DeadLetter],
    rows: Mapping[str, Item],
) -> None:
    """Match dead letters with the bad messages, each of which needs one of its own."""
    planned: dict[str, Planned] = {}
    missing: Counter[str] = Counter()
    for message in workload.messages:
        if not message.succeeds:
            planned[identity(message.body)] = message
            missing[identity(message.body)] += 1
    reasons: Counter[str] = Counter()
    for letter in dead_letters:
        reason = letter.attributes.get("sekali.reason", "none")
        reasons[reason] += 1
        who = identity(letter.body)
        missing[who] -= 1
        if who not in planned:
            report.find("wrong_results", f"a dead letter ({reason}) of a good message: {who:.80}")
        elif reason not in planned[who].reasons:
            expected = " or ".join(planned[who].reasons)
            report.find("wrong_results", f"dead letter says {reason}, not {expected}: {who:.80}")
    for who, number in missing.items():
        for _ in range(number):
            report.find("lost", f"no dead letter of {who:.80}")
    for message in planned.values():
        row = rows.get(f"{JOB}/{message.job_id}", {})
        if message.kind != "mismatch" and row.get("st", {}).get("S") == "done":
            report.find("wrong_results", f"{message.job_id} succeeded, but must not")
    report.dead_lettered = len(dead_letters)
    report.dead_lettered_by_reason = dict(sorted(reasons.items()))


def _check_executions(report: Report, workload: Workload, evidence: Evidence) -> None:
    """Explain each started body, and count those that have no right to be."""
    loaded = {question.key for question in workload.asked.values()}
    retried = {message.job_id for message in workload.messages if message.kind == "damaged"}
    recorded = _recorded(evidence.writes)
    explained = Counter(
        {"first": 0, "after_kill": 0, "after_ttl": 0, "after_fault": 0, "unexplained": 0}
    )
    ended: Counter[str] = Counter()
    for key, executions in _by_key(evidence.executions).items():
        completed_at: float | None = None
        for number, execution in enumerate(executions):
            why = "after_kill" if number else "first"
            if completed_at is not None:
                kept = execution.at - completed_at < _TTL_SECONDS
                why = "unexplained" if kept else "after_ttl"
                if kept and _struck(evidence, completed_at, execution.at):
                    why = "after_fault"
            job_id, allowed = execution.job_id, _MAX_ATTEMPTS if execution.job_id in retried else 1
            if ended[job_id] >= allowed and why != "after_fault":
                report.find("double_effects", f"the body of {job_id} ran again")
            elif job_id not in retried and execution.at > recorded.get(job_id, math.inf):
                report.find("double_effects", f"the body of {job_id} ran after it was recorded")
            elif key in loaded and why == "unexplained":
                report.find("double_effects", f"{key} was computed again, for {job_id}")
            if key in loaded:
                explained[why] += 1
            if not execution.interrupted:
                completed_at = execution.at
                ended[job_id] += 1
    report.loads = explained.total()
    report.loads_explained = dict(explained)
    report.takeovers_seen = sum(
        any(execution.interrupted for execution in executions[:-1])
        for executions in _by_key(evidence.executions).values()
    )


def _struck(evidence: Evidence, completed_at: float, started_at: float) -> bool:
    """Whether a fault fell between a completed computation and the next one, or met either."""
    return any(
        began <= started_at and ended >= completed_at - _FAULT_SLACK_SECONDS
        for began, ended in evidence.faults
    )


def _check_writes(report: Report, evidence: Evidence) -> None:
    for item_key, number in Counter(write.item_key for write in evidence.writes).items():
        for _ in range(number - 1):
            report.find("double_effects", f"the table accepted {item_key} again")


def _recorded(writes: Iterable[Write]) -> dict[str, float]:
    """Answer when each id was first recorded, where that was seen."""
    recorded: dict[str, float] = {}
    for write in writes:
        if write.at is not None:
            recorded.setdefault(write.item_key.removeprefix(f"{JOB}/"), write.at)
    return recorded


def _by_key(executions: Iterable[Execution]) -> Mapping[str, list[Execution]]:
    groups: defaultdict[str, list[Execution]] = defaultdict(list)
    for execution in sorted(executions, key=lambda execution: execution.at):
        groups[execution.key].append(execution)
    return groups


def _contended(
    asking: Sequence[Planned], executions: Sequence[Execution]
) -> list[dict[str, Any]]:  # Any: JSON
    messages = Counter(message.question.key for message in asking if message.question)
    loads = Counter(execution.key for execution in executions)
    return [
        {"key": key, "messages": number, "loads": loads[key]}
        for key, number in messages.most_common(_SHOWN_KEYS)
    ]


def _hand_on(report: Report, evidence: Evidence) -> None:
    measures = evidence.measures
    report.seconds = round(measures.seconds, 2)
    report.takeovers = measures.takeovers
    report.round_trips_per_batch = _round_trips(measures)
    values = measures.local_hits + measures.shared_hits + measures.misses
    report.hit_ratio = {
        "local": round(measures.local_hits / values, 4) if values else 0.0,
        "shared": round(measures.shared_hits / values, 4) if values else 0.0,
    }
    recorded = _recorded(evidence.writes)
    latencies = sorted(
        (recorded[job_id] - sent_at) * 1_000
        for job_id, sent_at in measures.sent_at.items()
        if job_id in recorded
    )
    report.latency_ms = {f"p{percent}": _percentile(latencies, percent) for percent in (50, 95, 99)}


def _round_trips(measures: Measures) -> dict[str, float | None]:
    cold, warm = measures.cold_round_trips, measures.warm_round_trips
    return {
        "median": median(cold) if cold else None,
        "max": max(cold, default=None),
        "batches": len(cold),
        "warm_median": median(warm) if warm else None,
        "warm_max": max(warm, default=None),
        "warm_batches": len(warm),
    }


def _percentile(ordered: Sequence[float], percent: int) -> float | None:
    """Answer the nearest-rank percentile."""
    if not ordered:
        return None
    return round(ordered[math.ceil(len(ordered) * percent / 100) - 1], 1)
