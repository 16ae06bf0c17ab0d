"""Write the claim of one load as bytes that can be sent.

It is the first thing of every read that is not local, so most of it is written in advance: the
terms once per process, the owner once per invocation, the names once per key, and then the token
and the time in between.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from sekali.answers import TOKEN_DIGITS, load_of
from sekali.keys import CACHE_NAME, REMEMBERED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sekali.answers import Terms
    from sekali.claims import Claims
    from sekali.keys import Keyspace
    from sekali.scripts import Command

    Arguments = tuple[bytes | str | int, ...]

# Where the parts of a claim's command stand that are each load's own.
_FIRST_KEY: Final = 3
_AFTER_TOKEN: Final = 10
_OWNER: Final = -3
_CACHE: Final = CACHE_NAME.encode()
_ACTIVE_BYTES: Final = len(b"active")
_BEHIND: Final = b"\r\n" + 5 * b"$%d\r\n%b\r\n" + b"$%d\r\n" % TOKEN_DIGITS


class LoadClaims:
    """Write the claims of loads, as bytes that can be sent: what stays the same is written once.

    `packed` is what the C extension makes of `command`, in an eighth of the time for both where
    the key was asked for before (tests/benchmarks, "library: choices").
    """

    def __init__(self, claims: Claims, terms: Terms, pattern: Arguments) -> None:
        """Take `pattern`, a claim under these terms of any key and owner, for what is the same."""
        self._claims, self._terms = claims, terms
        self._front, fixed = _around(pattern)
        owner = claims.owner.encode()
        self._middle = b"%b$%d\r\n%b\r\n$%d\r\nload-" % (
            *(fixed, len(owner), owner),
            len(b"load-") + TOKEN_DIGITS,
        )

    def command(self, key: str, token: str) -> Command:
        """Return the claim as a command, for every way but the straight one."""
        return self._claims.load(load_of(key, token, self._terms))

    def packed(self, key: str, token: str, wall: float) -> bytes:
        """Return the claim of `key` at this time of the wall clock, packed.

        Raises:
            KeyInvalid: the key cannot be used.
        """
        own, names = _written(self._claims.keyspace, key)
        mark, now = token.encode(), b"%d" % (wall * 1000)
        return b"%b%b%b%b%b%b%b\r\n$%d\r\n%b\r\n" % (
            *(self._front, own, mark, names, mark, self._middle, mark),
            *(len(now), now),
        )


@lru_cache(maxsize=16)
def _around(pattern: Arguments) -> tuple[bytes, bytes]:
    """Return what stands before the first key, and between the token and the owner."""
    front = b"*%d\r\n%b" % (len(pattern), _bulk(pattern[:_FIRST_KEY]))
    return front, b"\r\n" + _bulk(pattern[_AFTER_TOKEN:_OWNER])


# As long as the keyspace remembers them too.
@lru_cache(maxsize=REMEMBERED)
def _written(keyspace: Keyspace, key: str) -> tuple[bytes, bytes]:
    """Return what stands before and behind a load's token where its keys are named."""
    _, lease, value, record, active, born = keyspace.of(CACHE_NAME, key, key)
    front = b"%bjob:%b/load-" % (active[:-_ACTIVE_BYTES], _CACHE)
    return b"$%d\r\n%b" % (len(front) + TOKEN_DIGITS, front), _BEHIND % (
        *(len(lease), lease, len(value), value, len(record), record),
        *(len(active), active, len(born), born),
    )


def _bulk(args: Sequence[bytes | str | int]) -> bytes:
    """Return arguments as they are sent."""
    sent = [arg if isinstance(arg, bytes) else str(arg).encode() for arg in args]
    return b"".join(b"$%d\r\n%b\r\n" % (len(arg), arg) for arg in sent)
