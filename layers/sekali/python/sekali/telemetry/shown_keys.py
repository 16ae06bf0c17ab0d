"""Show a key in logs and traces: itself, or where keys tell of people, its hash."""

from __future__ import annotations

import hashlib
from typing import Literal

Keys = Literal["key", "hash"]

_DIGITS = 16


def shown(key: str, keys: Keys) -> str:
    """Return `key`, or its hash: the same for the same key, so that lines can still be grouped."""
    if keys == "key" or not key:
        return key
    digest = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()
    return f"sha256:{digest[:_DIGITS]}"
