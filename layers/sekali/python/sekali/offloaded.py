"""Stand for a payload that is too large for its message and stays in a bucket.

    producer   object `payloads/<job>/<hash>` ──> message with `payload_ref` instead of `payload`
    worker     claims by the hash ──> done, served or busy: nothing is read
                                  ──> acquired: read, checked, run

The reading itself is done by whoever made the payload (`payload_bucket`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from sekali.codec import payload_hash
from sekali.errors import MessageInvalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from sekali.contract import PayloadRef


class PayloadSource(Protocol):
    """Be where the payloads of messages are."""

    def behind(self, ref: PayloadRef) -> OffloadedPayload:
        """Return the payload that a message refers to, unread."""
        ...


class OffloadedPayload(Mapping[str, object]):
    """A payload that stays in its bucket until somebody looks into it, and is then read once.

    Looking may raise StoreUnavailable (try again) and MessageInvalid (it is gone, or not what its
    hash says). `load` is where to expect that.
    """

    def __init__(
        self,
        key: str,
        *,
        digest: str | None,
        read: Callable[[str], Mapping[str, object]],
    ) -> None:
        self.key = key
        self._digest = digest
        self._read = read
        self._loaded: Mapping[str, object] | None = None

    @property
    def digest(self) -> str:
        """Return the payload's hash; it is read for that only if its sender gave none."""
        if self._digest is None:
            self._digest = payload_hash(self.load())
        return self._digest

    @property
    def ref(self) -> dict[str, object]:
        """Return what stands in a message for this payload."""
        return (
            {"key": self.key} if self._digest is None else {"key": self.key, "hash": self._digest}
        )

    def load(self) -> Mapping[str, object]:
        """Read the payload, unless it was read.

        Raises:
            StoreUnavailable: it could not be read now.
            MessageInvalid: it is not there, no JSON object, or another one than was sent.
        """
        if self._loaded is None:
            loaded = self._read(self.key)
            if self._digest is not None and payload_hash(loaded) != self._digest:
                rule = "must name an object whose content has its hash"
                raise MessageInvalid("payload_rejected", "payload_ref", rule, self.key)
            self._loaded = loaded
        return self._loaded

    def __getitem__(self, name: str) -> object:
        return self.load()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.load())

    def __len__(self) -> int:
        return len(self.load())


def whole(payload: Mapping[str, object]) -> Mapping[str, object]:
    """Return the payload itself, read if need be; raises what `OffloadedPayload.load` does."""
    return payload.load() if isinstance(payload, OffloadedPayload) else payload


def hash_of(payload: Mapping[str, object]) -> str:
    """Return the hash of a payload, wherever it is."""
    return payload.digest if isinstance(payload, OffloadedPayload) else payload_hash(payload)
