"""Carry one record through a batch: what was claimed, how it ends, what becomes of its message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from sekali.answers import Acquired
from sekali.light_dataclass import dataclass
from sekali.message import attribute_text
from sekali.telemetry.trace_context import TRACEPARENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sekali.answers import ClaimAnswer, Lease, Outcome
    from sekali.jobs import JobSpec
    from sekali.keys import Slot
    from sekali.message import Message

Fate = Literal["delete", "defer", "dead_letter", "return"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of one message, and why. `seconds` is the delay of a deferral."""

    fate: Fate
    reason: str
    seconds: float = 0.0
    error_type: str | None = None
    error: str | None = None
    attempts: int | None = None
    fence: int = 0


@dataclass(frozen=True, slots=True)
class TableClaim:
    """The id is claimed in the durable table, because the shared cache is away.

    It excludes other table claims of the id and nothing else; there is no lease and no heartbeat.
    """

    token: str
    fence: int


@dataclass(slots=True, kw_only=True)
class Ending:
    """How one claim ends, before the shared cache was told.

    `token` and `fence` name the claim (an empty token for a settle that nobody claimed). `computed`
    tells that the result is the body's own; `recorded`, that the table holds exactly this outcome.
    `then` is the verdict that a give-back already has.
    """

    outcome: Outcome
    token: str
    fence: int
    result: bytes = b""
    recorded: bool = False
    computed: bool = False
    then: Verdict | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Item:
    """One record on its way through the batch. Compared by identity.

    `leader` is the item whose outcome this one follows: the first of the same id, or the sibling
    that holds the lease of its key. `source` says where the answer came from. `epochs` are the
    marks of its tags as they were when it was claimed, None where one is not known. `rearm`,
    `redelivered` and `first_sent` speak for the repeats of the id in this batch too: the fence of a
    redriven dead letter, whether any was delivered before, and the unix time of the oldest.

    `trace` is where it comes from, `failure` the class of the error that its body raised, `span`
    what a tracing library draws it with. Of the seconds,
    those of claim, store and finish are of the pipelines that it shared with others; its body's own
    are the run, and within it the loads and the waits for other loaders.
    """

    raw: Mapping[str, Any]  # Any: one record of a Lambda event
    message_id: str
    message: Message | None = None
    spec: JobSpec | None = None
    name: str = ""
    id: str = ""
    key: str = ""
    payload_hash: str = ""
    slot: Slot | None = None
    tags: tuple[str, ...] = ()
    epochs: Mapping[str, str] | None = None
    answer: ClaimAnswer | None = None
    table_claim: TableClaim | None = None
    leader: Item | None = None
    rearm: int = 0
    redelivered: bool = False
    first_sent: float = 0.0
    ending: Ending | None = None
    verdict: Verdict | None = None
    source: str = ""
    attempt: int = 0
    trace: str | None = None
    failure: str = ""
    span: Any = None  # Any: of whichever library draws (see `telemetry.spans`)
    claim_seconds: float = 0.0
    run_seconds: float = 0.0
    load_seconds: float = 0.0
    wait_seconds: float = 0.0
    store_seconds: float = 0.0
    finish_seconds: float = 0.0

    @property
    def lease(self) -> Lease | None:
        """Return the lease of an acquired claim, else None."""
        answer = self.answer
        return answer.lease if type(answer) is Acquired else None

    @property
    def scoped_key(self) -> str:
        """Return the key with its job's name: what the tiers and the log know it by."""
        return f"{self.name}/{self.key}"

    @property
    def traceparent(self) -> str | None:
        """Return the trace that stands beside the message in W3C's form, if any."""
        if self.message is None:
            return None
        return attribute_text(self.message.attributes, TRACEPARENT)

    def absorb(self, repeat: Item) -> None:
        """Speak for a repeat of the same id, which will not be claimed."""
        self.rearm = max(self.rearm, repeat.rearm)
        self.redelivered = self.redelivered or repeat.redelivered
        self.first_sent = min(self.first_sent, repeat.first_sent)

    @property
    def never_twice(self) -> bool:
        """Tell whether a body that was cut off must not be run again for this job."""
        return self.spec is not None and self.spec.after_crash == "in_doubt"

    def end(
        self,
        outcome: Outcome,
        *,
        result: bytes = b"",
        recorded: bool = False,
        computed: bool = False,
        then: Verdict | None = None,
        fence: int = 0,
    ) -> None:
        """Let the claim end with `outcome`; without any claim, as a settle under `fence`."""
        held = self.lease or self.table_claim
        self.ending = Ending(
            outcome=outcome,
            token=held.token if held else "",
            fence=held.fence if held else fence,
            result=result,
            recorded=recorded,
            computed=computed,
            then=then,
        )

    def settle(self, result: bytes, *, token: str, fence: int, source: str) -> None:
        """Let the id be settled with a result that this item's own body did not compute."""
        self.ending = Ending(outcome="S", token=token, fence=fence, result=result)
        self.source = source
