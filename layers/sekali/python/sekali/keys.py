"""Build every key name of the shared cache, in this one place.

All state of one key lives in one hash slot, so that one script can read and write it::

    {sekali:17}:job:reports/2013-01      K1  the record of one job id
    {sekali:17}:lease:reports/2013-01    K2  who computes the key now
    {sekali:17}:value:reports/2013-01    K3  the key's shared value
    {sekali:17}:key:reports/2013-01      K4  the key's last fence, owner and tombstone
    {sekali:17}:active                   K5  leases of the bucket, by their end
    {sekali:17}:born                     K6  since when the bucket's memory reaches back
    sekali:id:reports/<id>                   which payload an id is for, where it has its own key
    sekali:epoch:<tag>                       a tag's current mark
    sekali:log                               the invalidation log
    sekali:runs                              how long each job usually runs

The number is the bucket: the CRC-32 of the key's scoped text, modulo the number of buckets.
Changing the namespace or the number of buckets starts with an empty cache.

Ids and keys belong to their job: their scoped text is `<name>/<text>`. A name cannot hold a slash,
so two names never share a key. The text may hold anything that UTF-8 can carry, braces and NUL
included: the first braces of a key name are ours, and a server looks at those only. A text above
512 bytes keeps its first 512 and gets a SHA-256 of the whole; it is then longer than any text that
is kept as it is, so the two never meet.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from sekali.errors import KeyInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator

CACHE_NAME: Final = "~"
"""The reserved job name under which keys of the plain cache live; no job can be called this."""
LOCK_NAME: Final = "@"
"""The reserved job name under which leases without a job live."""

REMEMBERED: Final = 600
"""Names of keys that are kept as they were written, for those who come again."""

RESERVED_NAMES: Final = frozenset({CACHE_NAME, LOCK_NAME})
_NAMESPACE = re.compile(r"[a-z0-9-]{1,32}")
_JOB_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LONGEST_TEXT_BYTES: Final = 512
_MOST_BUCKETS: Final = 16_384


class Slot(NamedTuple):
    """Hold the six key names of one call, K1 to K6 in order; all are in one hash slot."""

    record: bytes
    lease: bytes
    value: bytes
    key: bytes
    active: bytes
    born: bytes


class Keyspace:
    """Name the keys of one namespace."""

    __slots__ = ("_buckets", "_namespace", "log", "runs")

    def __init__(self, namespace: str, buckets: int) -> None:
        """Check both; `buckets` bounds how far one namespace can be spread over shards.

        Raises:
            KeyInvalid: The namespace or the number of buckets breaks its rule.
        """
        if not _NAMESPACE.fullmatch(namespace):
            raise KeyInvalid("namespace", "must match [a-z0-9-]{1,32}", namespace)
        if not 1 <= buckets <= _MOST_BUCKETS:
            raise KeyInvalid("buckets", f"must be between 1 and {_MOST_BUCKETS}", buckets)
        self._namespace = namespace.encode()
        self._buckets = buckets
        self.log: Final = b"%b:log" % self._namespace
        self.runs: Final = b"%b:runs" % self._namespace

    def of(self, name: str, id: str, key: str) -> Slot:  # noqa: A002 the protocol's own word
        """Return the key names of job `id` of job `name` that computes `key`.

        Raises:
            KeyInvalid: The name, the id or the key cannot be used.
        """
        if id == key:
            return _slot(self._namespace, self._buckets, name, key, key)
        if name == CACHE_NAME:  # a load's id is its own: only the key's part comes again
            slot = _slot(self._namespace, self._buckets, name, key, key)
            front, job, _ = slot.record.partition(b":job:")
            return Slot(front + job + _scoped(name, "id", id), *slot[1:])
        return _slot(self._namespace, self._buckets, name, id, key)

    def binding(self, name: str, id: str) -> bytes:  # noqa: A002  the protocol's own word
        """Return the key that binds a job id to its payload, in a slot of its own.

        Raises:
            KeyInvalid: the name or the id cannot be used.
        """
        return b"%b:id:%b" % (self._namespace, _scoped(name, "id", id))

    def wherever(self, name: str, id: str) -> Iterator[Slot]:  # noqa: A002  as above
        """Return the key names of an id in each bucket, for a caller who does not know its key.

        The record (K1) is the id's own wherever it is found; lease, value and key record are those
        of a key that is called as the id.

        Raises:
            KeyInvalid: the name or the id cannot be used.
        """
        scoped = _scoped(name, "id", id)
        for bucket in range(self._buckets):
            yield _slot_of(b"{%b:%d}:" % (self._namespace, bucket), scoped, scoped)

    def actives(self) -> Iterator[bytes]:
        """Return the list of leases of each bucket."""
        for bucket in range(self._buckets):
            yield b"{%b:%d}:active" % (self._namespace, bucket)

    def beside(self, record: bytes) -> tuple[bytes, bytes]:
        """Return the lease and the list of leases that belong to a key's record (K4)."""
        slot, _, scoped = record.partition(b"}:key:")
        return b"%b}:lease:%b" % (slot, scoped), b"%b}:active" % slot

    def parts(self, record: bytes) -> tuple[str, str]:
        """Return the job name and the key of a key's record (K4), as far as it holds them."""
        name, _, key = record.partition(b"}:key:")[2].partition(b"/")
        return name.decode(), key.decode("utf-8", "replace")

    def epoch(self, tag: str) -> bytes:
        """Return the key of a tag's mark.

        Raises:
            KeyInvalid: The tag is empty or not text that UTF-8 can carry.
        """
        return b"%b:epoch:%b" % (self._namespace, _text("tag", tag))


def check_job_name(name: str) -> None:
    """Refuse what cannot name a job.

    Raises:
        KeyInvalid: The name is reserved or breaks the rule.
    """
    if not _JOB_NAME.fullmatch(name):
        raise KeyInvalid("job name", "must match [A-Za-z0-9_.-]{1,64}", name)


# A record's keys are named when it is checked, claimed and finished: a wave's are remembered.
@lru_cache(maxsize=REMEMBERED)
def _slot(namespace: bytes, buckets: int, name: str, job_id: str, key: str) -> Slot:
    scoped_key = _scoped(name, "key", key)
    scoped_id = scoped_key if job_id == key else _scoped(name, "id", job_id)
    bucket = crc32(scoped_key) % buckets
    return _slot_of(b"{%b:%d}:" % (namespace, bucket), scoped_id, scoped_key)


def _slot_of(slot: bytes, scoped_id: bytes, scoped_key: bytes) -> Slot:
    return Slot(
        slot + b"job:" + scoped_id,
        slot + b"lease:" + scoped_key,
        slot + b"value:" + scoped_key,
        slot + b"key:" + scoped_key,
        slot + b"active",
        slot + b"born",
    )


def _scoped(name: str, what: str, text: str) -> bytes:
    return _prefix(name) + _text(what, text)


@lru_cache(maxsize=256)
def _prefix(name: str) -> bytes:
    if name not in RESERVED_NAMES:
        check_job_name(name)
    return b"%b/" % name.encode()


def _text(what: str, text: str) -> bytes:
    if not isinstance(text, str) or not text:  # type: ignore[redundant-expr]  # whoever has no mypy
        raise KeyInvalid(what, "must be text that is not empty", text)
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise KeyInvalid(what, "must be text that UTF-8 can carry", text) from None
    if len(encoded) <= _LONGEST_TEXT_BYTES:
        return encoded
    digest = hashlib.sha256(encoded).hexdigest().encode()
    return b"%b:%b" % (encoded[:_LONGEST_TEXT_BYTES], digest)
