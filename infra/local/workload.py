"""Plan what the demo sends: a seeded mix of jobs as a busy day brings them.

A few reports are asked for by everybody, most by few. Some messages arrive twice at once, some come
back later, a handful is malformed in every way the message contract knows, and a few jobs cannot
succeed. Of each message the plan knows what has to become of it, so that somebody who saw only the
outside of the system can check it.

The messages are written here by hand, from the documented contract, as a producer in another
language would write them.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import accumulate, product
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from infra.local.flights import ABSENT_MONTH, DAMAGED_MONTH

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

JOB: Final = "delay-report"
CARRIERS: Final = (
    "UA",
    "B6",
    "EV",
    "DL",
    "AA",
    "MQ",
    "US",
    "9E",
    "WN",
    "VX",
    "FL",
    "AS",
    "F9",
    "HA",
)
ORIGINS: Final = (None, "EWR", "JFK", "LGA")

_HOT_REPORTS: Final = 5
_HOT_SHARE: Final = 0.35
# How fast the long tail falls off: the r-th report is asked for as often as 1 / r^0.8.
_TAIL_EXPONENT: Final = 0.8
# Plain bodies without any id, and all plain bodies.
_DERIVED_ID_SHARE: Final = 0.02
_PLAIN_SHARE: Final = 0.04
_DUPLICATE_SHARE: Final = 0.10
_AGAIN_SHARE: Final = 0.05
# A duplicate arrives soon after its original: in the same batch, or in one beside it.
_DUPLICATE_WITHIN: Final = 30
# A run shorter than this holds fewer bad messages, so that the good ones stay the rule.
_MESSAGES_PER_BAD: Final = 12
# What a dead letter says of a job that raised for good.
_FAILED: Final = frozenset({"permanent"})

Kind = Literal[
    "request",  # the first of its id
    "duplicate",  # the same message soon afterwards
    "again",  # the same id once it is settled
    "malformed",  # not a message of the contract
    "misfit",  # a message whose payload is not the job's
    "mismatch",  # a known id with another payload
    "absent",  # a job that fails for good
    "damaged",  # a job that fails at every attempt
]


class Question(NamedTuple):
    """What a report is asked about."""

    month: str
    carrier: str
    origin: str | None

    @property
    def key(self) -> str:
        """Answer the key under which the job computes it."""
        return f"{self.month}/{self.carrier}/{self.origin or 'all'}"

    @property
    def payload(self) -> dict[str, str]:
        """Answer it as a message's payload."""
        return {name: value for name, value in self._asdict().items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One message. It has to end as a report, or as a dead letter of one of `reasons`.

    `wave` 1 is sent when wave 0 is settled. `job_id` is None where the message has none to be read.
    """

    kind: Kind
    body: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    wave: int = 0
    job_id: str | None = None
    question: Question | None = None
    reasons: frozenset[str] = frozenset()

    @property
    def succeeds(self) -> bool:
        """Whether a report has to come of it."""
        return not self.reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """All messages in the order in which they are sent, wave by wave."""

    messages: Sequence[Planned]

    def wave(self, number: int) -> list[Planned]:
        """Answer the messages of one wave."""
        return [message for message in self.messages if message.wave == number]

    @property
    def asked(self) -> dict[str, Question]:
        """Answer what each id that has to succeed asks for."""
        return {
            message.job_id: message.question
            for message in self.messages
            if message.succeeds and message.job_id and message.question
        }

    @property
    def kinds(self) -> Counter[Kind]:
        """Count the messages of each kind."""
        return Counter(message.kind for message in self.messages)


def plan(messages: int, *, seed: int, months: Sequence[str]) -> Workload:
    """Plan so many messages about these months; equal arguments give an equal plan.

    Raises:
        ValueError: There is no message or no month to plan with.
    """
    if messages < 1 or not months:
        raise ValueError(f"a plan needs messages and months, got {messages} and {len(months)}")
    chance = random.Random(seed)
    prefix = f"demo-{seed}"
    requests = [
        _request(chance, question, job_id=f"{prefix}-{number:06}")
        for number, question in enumerate(_questions(chance, messages, months))
    ]
    bad = _bad_messages(prefix, victims=requests)[: messages // _MESSAGES_PER_BAD]
    good = messages - len(bad)
    duplicates, again = int(good * _DUPLICATE_SHARE), int(good * _AGAIN_SHARE)
    del requests[good - duplicates - again :]

    first = [*requests, *(message for message in bad if message.wave == 0)]
    chance.shuffle(first)
    originals = [place for place, message in enumerate(first) if message.succeeds]
    placed = list(enumerate(first))
    for place in chance.choices(originals, k=duplicates):
        soon = place + chance.randint(1, _DUPLICATE_WITHIN)
        placed.append((soon, replace(first[place], kind="duplicate")))
    placed.sort(key=lambda entry: entry[0])
    second = [
        replace(message, kind="again", wave=1) for message in chance.choices(requests, k=again)
    ]
    second += [message for message in bad if message.wave == 1]
    chance.shuffle(second)
    return Workload(messages=(*(message for _, message in placed), *second))


def derived_id(payload: Mapping[str, str]) -> str:
    """Answer the id of a plain body: SHA-256 of its job, no key, and its payload."""
    text = json.dumps([JOB, None, payload], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def identity(body: str) -> str:
    """Answer what a message and its delayed copies have in common: id and payload, or the body."""
    try:
        envelope = json.loads(body)
    except ValueError:
        return body
    if not isinstance(envelope, dict) or not {"sekali", "id", "payload"} <= envelope.keys():
        return body
    return f"{envelope['id']} {json.dumps(envelope['payload'], sort_keys=True)}"


def _questions(chance: random.Random, number: int, months: Sequence[str]) -> list[Question]:
    questions = [Question(*parts) for parts in product(months, CARRIERS, ORIGINS)]
    chance.shuffle(questions)
    hot, tail = questions[:_HOT_REPORTS], questions[_HOT_REPORTS:]
    weights = list(accumulate(1 / rank**_TAIL_EXPONENT for rank in range(1, len(tail) + 1)))
    return [
        chance.choice(hot)
        if chance.random() < _HOT_SHARE
        else chance.choices(tail, cum_weights=weights)[0]
        for _ in range(number)
    ]


def _request(chance: random.Random, question: Question, *, job_id: str) -> Planned:
    """Write a request in one of the forms that the contract accepts; most are envelopes."""
    form, body = chance.random(), json.dumps(question.payload)
    if form < _DERIVED_ID_SHARE:
        job_id = derived_id(question.payload)
        return Planned(kind="request", body=body, job_id=job_id, question=question)
    if form < _PLAIN_SHARE:
        attributes = {"sekali.id": job_id, "sekali.job": JOB}
        return Planned(
            kind="request", body=body, attributes=attributes, job_id=job_id, question=question
        )
    return Planned(
        kind="request",
        body=_envelope(job_id, question.payload),
        job_id=job_id,
        question=question,
    )


def _envelope(job_id: object, payload: object, **fields: object) -> str:
    return json.dumps({"sekali": 1, "id": job_id, "name": JOB, "payload": payload} | fields)


def _bad_messages(prefix: str, *, victims: Sequence[Planned]) -> list[Planned]:
    """Write every kind of bad message, the most different ones first."""
    absent, damaged = (
        [Question(month, carrier, None) for carrier in CARRIERS]
        for month in (ABSENT_MONTH, DAMAGED_MONTH)
    )
    fails = [_failing("absent", f"{prefix}-absent-{n}", absent[n], _FAILED) for n in range(3)]
    damages = [
        _failing("damaged", f"{prefix}-damaged-{n}", damaged[n], {"quarantined"}) for n in range(2)
    ]
    # The same failing job twice: its second message finds it failed.
    first = [_malformed(prefix)[0], fails[0], damages[0], *_mismatches(victims)[:1], fails[0]]
    rest = [*_misfits(prefix), *_malformed(prefix)[1:], *fails[1:], *damages[1:]]
    return [*first, *rest, *_mismatches(victims)[1:]]


def _failing(kind: Kind, job_id: str, question: Question, reasons: Collection[str]) -> Planned:
    return Planned(
        kind=kind,
        body=_envelope(job_id, question.payload),
        job_id=job_id,
        question=question,
        reasons=frozenset(reasons),
    )


def _mismatches(victims: Sequence[Planned]) -> list[Planned]:
    """Take ids that were used, with a payload that was not theirs.

    One keeps the key of the first use, the other moves to another key, in another slot, whose
    records know nothing of the id. Neither may run.
    """
    known = [message for message in victims if message.attributes or "sekali" in message.body][:2]
    others = [{"detail": "all routes"}, {"carrier": "ZZ"}]
    return [
        Planned(
            kind="mismatch",
            body=_envelope(message.job_id, message.question.payload | other),
            wave=1,
            job_id=message.job_id,
            reasons=frozenset({"payload_mismatch"}),
        )
        for message, other in zip(known, others, strict=False)
        if message.question is not None
    ]


def _misfits(prefix: str) -> list[Planned]:
    payloads = [
        {"month": "2013-13", "carrier": "UA"},
        {"month": "2013-01", "carrier": 7},
        {"month": "2013-01"},
        {"month": "2013-01", "carrier": "UA", "origin": ["JFK"]},
    ]
    return [
        Planned(
            kind="misfit",
            body=_envelope(f"{prefix}-misfit-{number}", payload),
            job_id=f"{prefix}-misfit-{number}",
            reasons=frozenset({"payload_rejected"}),
        )
        for number, payload in enumerate(payloads)
    ]


def _malformed(prefix: str) -> list[Planned]:
    job_id, payload = f"{prefix}-malformed", {"month": "2013-01", "carrier": "UA"}
    no_id = {"sekali": 1, "name": JOB, "payload": payload}
    no_payload = {"sekali": 1, "name": JOB, "id": job_id}
    bodies = {
        "month=2013-01&carrier=UA": "not_json",
        json.dumps([payload]): "not_object",
        " ": "empty",
        "{}": "empty",
        _envelope(job_id, payload)[:-2]: "not_json",
        _envelope(f"{job_id}-version", payload, sekali=2): "wrong_version",
        _envelope(f"{job_id}-name", payload, name="delay-raport"): "unknown_job",
        json.dumps(no_id): "missing_field",
        json.dumps(no_payload): "missing_field",
        _envelope(7, payload): "wrong_type",
        _envelope(f"{job_id}-payload", "2013-01/UA"): "wrong_type",
    }
    return [
        Planned(kind="malformed", body=body, reasons=frozenset({reason}))
        for body, reason in bodies.items()
    ]
