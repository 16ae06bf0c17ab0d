"""Put a lease into the hands of whoever works under it: `job.lease`, or what `lease` yields.

::

    job.lease.ensure(10)                # ten more seconds, or LeaseLost before anything is written
    table.put_item(Item=row | job.lease.stamp(), **job.lease.condition())

    t=0   A acquires: fence 7, ends at 12; a heartbeat renews it every 4 s
    t=5   A is stopped for 20 s
    t=17  B acquires: fence 8
    t=25  A wakes: check() is False, ensure() raises, on_lost was called; and if A writes all the
          same, condition() lets the table refuse it, because the row carries fence 8

What is *not* guaranteed: that the lease is still held when the line after `check()` runs. Only the
resource itself can refuse a stale holder, and only if it compares the fence.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from sekali.answers import Lost
from sekali.errors import LeaseLost, SettingInvalid, SharedUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from sekali.answers import Lease
    from sekali.invocation import Invocation
    from sekali.shared import Shared

_log = logging.getLogger(__name__)

FENCE_ATTRIBUTE: Final = "sekali_fence"
TOKEN_ATTRIBUTE: Final = "sekali_token"
ROUND_TRIP_SECONDS: Final = 1.0
"""Asked for on top, because a lease counts from before its renewal was sent."""


def load_lease() -> HeldLease | None:
    """Return the lease under which the loader that runs in this context computes its value.

    None outside a loader, in a loader of several keys, and where a load has no lease because the
    shared cache is away or a wait reached its bound.
    """
    return LOADING.get()


class HeldLease:
    """The right to work on one key, as its holder sees it. Safe to use from several threads."""

    def __init__(
        self, lease: Lease, invocation: Invocation, shared: Shared, *, renewable: bool = True
    ) -> None:
        """Wrap a claimed lease together with the time line that it is judged by.

        One that is not renewable stands for a claim in the durable table: it lasts as long as the
        function can, and its fence protects a row of the user's all the same.
        """
        self._renewable = renewable
        self._lease = lease
        self._invocation = invocation
        self._shared = shared

    @property
    def key(self) -> str:
        """Return the key that is held."""
        return self._lease.key

    @property
    def fence(self) -> int:
        """Return the number that is greater than that of every earlier holder of the key."""
        return self._lease.fence

    @property
    def token(self) -> str:
        """Return the random name of this one claim."""
        return self._lease.token

    def check(self) -> bool:
        """Tell whether the lease is held, by our own clock and by what the server last said."""
        return self._invocation.holds(self._lease)

    def remaining(self) -> float:
        """Return the seconds until the lease ends unless it is renewed; 0.0 if it is lost."""
        if self._lease.lost:
            return 0.0
        return max(self._lease.expires_at - self._invocation.now(), 0.0)

    def ensure(self, seconds: float) -> None:
        """Hold the lease for at least `seconds` from now, renewing it where it is shorter.

        Call it right before an effect that must not happen twice.

        Raises:
            LeaseLost: it went to somebody else, or cannot be held that long before the function
                ends, or the shared cache did not answer. Stop.
            SettingInvalid: `seconds` is not positive.
        """
        if not seconds > 0:
            raise SettingInvalid("seconds", "must be above 0", str(seconds))
        if self._renewable and not self._lease.lost and self.remaining() < seconds:
            self._renew(seconds)
        if self.remaining() < seconds:
            raise LeaseLost(self.key)

    def _renew(self, seconds: float) -> None:
        lease, claims = self._lease, self._invocation.claims
        wanted = max(lease.ask.terms.lease_seconds, seconds + ROUND_TRIP_SECONDS)
        bounded = self._invocation.bounded_lease_seconds(wanted)
        sent_at = self._invocation.now()
        command = claims.renew(lease, lease_seconds=bounded, started=lease.started)
        try:
            (reply,) = self._shared.flush([command], operation="renew")
        except SharedUnavailable as error:
            _log.warning("could not renew the lease of %s: %s", self.key, error)
            return
        if isinstance(reply, Exception):
            _log.warning("renewing the lease of %s was refused: %s", self.key, reply)
            return
        answer = claims.read_renew(lease, reply, sent_at)
        if isinstance(answer, Lost):
            self._invocation.heartbeat.lose(lease)
            raise LeaseLost(self.key, answer.owner or None)

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, from the heartbeat's thread, when the lease is found lost.

        If it is lost already, the call happens here and now.
        """
        self._invocation.heartbeat.on_lost(self._lease, callback)

    def stamp(self) -> dict[str, Any]:
        """Return the attributes that a row must carry for `condition()` to protect it."""
        return {FENCE_ATTRIBUTE: self.fence, TOKEN_ATTRIBUTE: self.token}

    def condition(self, *, typed: bool = False) -> dict[str, Any]:  # Any: boto3's own arguments
        """Return the arguments that make a DynamoDB write fail once a newer holder wrote the row.

        It holds where the row is new, or carries an older fence, or our own claim's. Write
        `stamp()` with it: a row without the stamp is protected from nobody.

        Args:
            typed: for the low-level client, whose values name their types.
        """
        fence: Any = {"N": str(self.fence)} if typed else self.fence  # Any: as DynamoDB takes it
        token: Any = {"S": self.token} if typed else self.token  # Any: as above
        return {
            "ConditionExpression": (
                "attribute_not_exists(#sekali_f) OR #sekali_f < :sekali_f"
                " OR (#sekali_f = :sekali_f AND #sekali_t = :sekali_t)"
            ),
            "ExpressionAttributeNames": {
                "#sekali_f": FENCE_ATTRIBUTE,
                "#sekali_t": TOKEN_ATTRIBUTE,
            },
            "ExpressionAttributeValues": {":sekali_f": fence, ":sekali_t": token},
        }


LOADING: ContextVar[HeldLease | None] = ContextVar("sekali_load_lease", default=None)
