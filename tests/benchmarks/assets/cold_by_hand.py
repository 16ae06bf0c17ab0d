"""The same, by hand."""

import os

from tests.benchmarks.hand_made import HandMade

# The scheme is redis-py's.
url = os.environ["SEKALI_CACHE_URL"].replace("valkey://", "redis://")
handler = HandMade(url, lambda payload: {"n": payload["n"]}).handler
