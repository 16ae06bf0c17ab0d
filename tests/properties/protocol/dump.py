"""Look at everything a server holds, and at its clock, in one command each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.properties.protocol.memory import State, Stored
from tests.properties.protocol.steps import Deviation

if TYPE_CHECKING:
    from collections.abc import Sequence

CLOCK = """
redis.call('SET', KEYS[1], '', 'PX', 1000000)
local now = redis.call('PEXPIRETIME', KEYS[1]) - 1000000
redis.call('DEL', KEYS[1])
return now
"""
_DUMP = """
local found = {}
for at, key in ipairs({ NAMES }) do
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'none' then
    local value
    if kind == 'hash' then
      value = redis.call('HGETALL', key)
    elseif kind == 'zset' then
      value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    else
      value = redis.call('GET', key)
    end
    found[#found + 1] = { at, value, redis.call('PEXPIRETIME', key) }
  end
end
return cjson.encode({ redis.call('DBSIZE'), found })
"""


def dump_script(names: Sequence[bytes]) -> str:
    """Return the script that dumps these keys, and says how many there are in all."""
    return _DUMP.replace("NAMES", ", ".join(f"'{name.decode()}'" for name in names))


def read_dump(reply: Any, names: Sequence[bytes]) -> State:  # Any: a reply of the client
    """Read the dump of exactly these keys.

    Raises:
        Deviation: There are others, or the dump failed.
    """
    if isinstance(reply, Exception):
        raise Deviation(f"the dump failed: {reply}")
    size, found = json.loads(reply)
    if size != len(found):
        raise Deviation(f"{size - len(found)} keys that nobody named")
    state = {}
    for at, value, ends_ms in found:
        read = value
        if isinstance(value, list):
            read = dict(zip(value[::2], value[1::2], strict=True))
        state[names[at - 1].decode()] = Stored(read, ends_ms)
    return state


def difference(expected: State, found: State) -> str:
    """Say how two states differ."""
    names = sorted(set(expected) | set(found))
    return "; ".join(
        f"{name} should be {expected.get(name)}, is {found.get(name)}"
        for name in names
        if expected.get(name) != found.get(name)
    )
