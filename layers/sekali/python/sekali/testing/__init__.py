"""Help tests of programs that use this library. It ships, and imports nothing but the library.

`FrozenClock` stands in for time, `Proxy` for the network, `FakeLoader` for the database behind a
cache, `MemoryStore` for the durable table. docs/testing.md shows them at work.
"""

from __future__ import annotations

from sekali.testing.clock import FrozenClock
from sekali.testing.loader import FakeLoader
from sekali.testing.proxy import Proxy
from sekali.testing.store import MemoryStore

__all__ = ["FakeLoader", "FrozenClock", "MemoryStore", "Proxy"]
