"""Which numbers of a queue, its function and the mapping between them may stand together.

Each wrong combination loses messages or work in silence once it is deployed, and most are accepted
by synth and by deploy. Here they cannot be constructed.
"""

import math
from dataclasses import dataclass
from typing import Final

# AWS' own advice for an event source mapping (Lambda guide, "Using Lambda with Amazon SQS").
VISIBILITY_PER_TIMEOUT: Final = 6
LEAST_RECEIVES: Final = 5
MOST_RECEIVES: Final = 1000
DEAD_LETTER_RETENTION_SECONDS: Final = 1_209_600
# Each provisioned poller invokes up to this many at once (Lambda guide, "Provisioned mode").
INVOCATIONS_PER_POLLER: Final = 10
MOST_LEAST_POLLERS: Final = 200
MOST_POLLERS: Final = 2000
# The worker never gives a message back for less (PROTOCOL §4).
SHORTEST_DELAY_SECONDS: Final = 1


class QueueRuleBroken(ValueError):
    """Numbers of a queue and its worker do not fit together; raised at synth.

    Use the number that the message names. `rule`, `value` and `use` hold its parts.
    """

    def __init__(self, *, rule: str, value: int, use: int) -> None:
        self.rule = rule
        self.value = value
        self.use = use
        super().__init__(f"{rule}: got {value!r}, use {use!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueNumbers:
    """The numbers of one worker's queue; checked together, the rest derived from them.

    Raises:
        QueueRuleBroken: A number, or a combination, is refused.
    """

    timeout_seconds: int
    batch_size: int
    batching_window_seconds: int
    # 0 where pollers are provisioned.
    max_concurrency: int
    reserved_concurrency: int | None
    retention_seconds: int
    record_ttl_seconds: int
    lease_seconds: int
    max_attempts: int
    fifo: bool = False
    min_pollers: int = 0
    max_pollers: int = 0
    max_receive_count: int | None = None

    def __post_init__(self) -> None:
        self._check_function()
        self._check_batch()
        self._check_concurrency()
        self._check_lifetime()
        self._check_receives()

    @property
    def visibility_seconds(self) -> int:
        """How long a received message is hidden: no shorter than its work may take, six times."""
        return VISIBILITY_PER_TIMEOUT * self.timeout_seconds + self.batching_window_seconds

    @property
    def provisioned(self) -> bool:
        """Whether pollers are provisioned, at a price, to scale three times as fast."""
        return bool(self.min_pollers or self.max_pollers)

    @property
    def most_invocations(self) -> int:
        """How many batches the queue may have under way at once."""
        if self.provisioned:
            return self.max_pollers * INVOCATIONS_PER_POLLER
        return self.max_concurrency

    @property
    def least_receives(self) -> int:
        """Receives that a healthy job may need.

        The worker dead-letters by its own count of attempts; the queue's count is only the
        backstop, so it lies above the attempts by what neighbours' crashes and throttles cost.
        On FIFO each deferral is a receive too: longest holder / shortest delay of them.
        """
        deferrals = 0
        if self.fifo:
            longest_holder_seconds = self.timeout_seconds + self.lease_seconds
            deferrals = math.ceil(longest_holder_seconds / SHORTEST_DELAY_SECONDS)
        return LEAST_RECEIVES + self.max_attempts + deferrals

    @property
    def receives(self) -> int:
        """The queue's maxReceiveCount."""
        return self.least_receives if self.max_receive_count is None else self.max_receive_count

    def _check_function(self) -> None:
        _check_range("timeout_seconds", self.timeout_seconds, lowest=1, highest=900)
        _check_range("lease_seconds", self.lease_seconds, lowest=1, highest=900)
        _check_range("max_attempts", self.max_attempts, lowest=1, highest=100)

    def _check_batch(self) -> None:
        highest = 10 if self.fifo else 10_000
        _check_range("batch_size", self.batch_size, lowest=1, highest=highest)
        highest = 0 if self.fifo else 300
        _check_range(
            "batching_window_seconds", self.batching_window_seconds, lowest=0, highest=highest
        )
        if self.batch_size > 10 and self.batching_window_seconds < 1:  # noqa: PLR2004 - SQS' own
            raise QueueRuleBroken(
                rule="batching_window_seconds must be at least 1 where batch_size is above 10",
                value=self.batching_window_seconds,
                use=1,
            )

    def _check_concurrency(self) -> None:
        if self.provisioned:
            self._check_pollers()
        else:
            _check_range("max_concurrency", self.max_concurrency, lowest=2, highest=1000)
        if self.reserved_concurrency is None:
            return
        if self.reserved_concurrency < self.most_invocations:
            cap = "ten times max_pollers" if self.provisioned else "max_concurrency"
            raise QueueRuleBroken(
                rule=f"reserved_concurrency must be at least {cap}, or pollers are"
                " throttled and each throttle spends a receive",
                value=self.reserved_concurrency,
                use=self.most_invocations,
            )

    def _check_pollers(self) -> None:
        if self.max_concurrency:
            raise QueueRuleBroken(
                rule="max_concurrency must be 0 where max_pollers is set: provisioned pollers"
                " are a cap of their own, and Lambda refuses both",
                value=self.max_concurrency,
                use=0,
            )
        _check_range("min_pollers", self.min_pollers, lowest=2, highest=MOST_LEAST_POLLERS)
        lowest = max(2, self.min_pollers)
        _check_range("max_pollers", self.max_pollers, lowest=lowest, highest=MOST_POLLERS)

    def _check_lifetime(self) -> None:
        # A dead letter keeps the age of its message: a dead-letter queue that keeps messages no
        # longer than the source would delete it on arrival.
        _check_range(
            "retention_seconds",
            self.retention_seconds,
            lowest=60,
            highest=DEAD_LETTER_RETENTION_SECONDS - 1,
        )
        if self.retention_seconds <= self.visibility_seconds:
            raise QueueRuleBroken(
                rule="retention_seconds must be above the visibility timeout, or a message"
                " expires before it can be tried again",
                value=self.retention_seconds,
                use=max(345_600, self.visibility_seconds + 1),
            )
        if self.record_ttl_seconds < self.retention_seconds:
            raise QueueRuleBroken(
                rule="record_ttl_seconds must be at least retention_seconds, or a late delivery"
                " starts a job again whose record is gone",
                value=self.record_ttl_seconds,
                use=self.retention_seconds,
            )

    def _check_receives(self) -> None:
        _check_range(
            "max_receive_count", self.receives, lowest=self.least_receives, highest=MOST_RECEIVES
        )


def _check_range(name: str, value: int, *, lowest: int, highest: int) -> None:
    if not lowest <= value <= highest:
        raise QueueRuleBroken(
            rule=f"{name} must be between {lowest} and {highest}",
            value=value,
            use=min(max(value, lowest), highest),
        )
