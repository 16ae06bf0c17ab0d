"""Each comparison, write and field of the scripts is needed: without it something fails.

See docs/design/mutants.md for the list, and `mutants` for how it is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.properties.protocol.mutants import FILES, PAGE, is_caught, mutants_of, page, read_page

if TYPE_CHECKING:
    from redis import Redis


# What PROTOCOL §6 asks for by name, and which of the mutants does it.
NAMED = {
    "claim row 1": ("claim", "job[2] ~= payload_hash → false"),
    "claim row 2": ("claim", "status == 'done' → false"),
    "claim row 3": ("claim", "status == 'failed' → false"),
    "claim row 3, rearm": ("claim", "job_fence > rearm → true"),
    "claim rows 4 and 5": ("claim", "key[2] == token → false"),
    "claim row 5": ("claim", "key[3] == 'running' → true"),
    "claim row 6": ("claim", "(tonumber(value:sub(1, 16)) or 0) > refuse → false"),
    "claim row 7": ("claim", "lease → false (3)"),
    "claim row 8": ("claim", "attempts >= tonumber(ARGV[7]) → false"),
    "K1.f in the fence": ("claim", "job_fence + 1 → nothing"),
    "K4.f in the fence": ("claim", "tonumber(key[1] or 0) + 1 → nothing"),
    "the clock in the fence": ("claim", "now * 1000 → nothing"),
    "take-back": ("claim", "attempts = attempts - 1 → nothing"),
    "su": ("claim", "suspect = true → nothing"),
    "inv = 0 on claim": ("claim", "'inv', '0' → nothing"),
    "renew row 1": ("renew", "job[1] == 'done' → false"),
    "renew row 1, failed": ("renew", "job[1] == 'failed' → false"),
    "renew row 2": ("renew", "lease ~= token → false"),
    "renew row 3, K4": ("renew", "superseded(key[1], key[2], fence, token) → false"),
    "renew row 3, K1": ("renew", "superseded(job[2], job[3], fence, token) → false"),
    "rows 3 and 4, equality": ("words", "other == fence → false"),
    "renew row 4": ("renew", "key[3] == 'ended' → false"),
    "renew row 4, K1": ("renew", "job[1] == 'retry' → false"),
    "inv = 1 for an unknown record": ("renew", "'inv', '1' → 'inv', '0'"),
    "inv kept": (
        "renew",
        (
            "redis.call('PEXPIRE', KEYS[4], ARGV[6]) → "
            "redis.call('HSET', KEYS[4], 'inv', '0') redis.call('PEXPIRE', KEYS[4], ARGV[6])"
        ),
    ),
    "counting only once": ("renew", "'pre', 'sure' → nothing"),
    "finish row 1": ("finish", "job[2] ~= payload_hash → false"),
    "finish row 2": ("finish", "status == 'done' → false"),
    "finish row 2, its release": ("finish", "release() → nothing (2)"),
    "finish row 3": ("finish", "status == 'failed' → false"),
    "finish row 4, K4": ("finish", "superseded(key[1], key[2], fence, token) → false"),
    "finish row 4, K1": ("finish", "superseded(job[3], job[4], fence, token) → false"),
    "finish row 7's K1.tk = t": ("finish", "job[4] ~= token → false"),
    "mine by token only": ("finish", "tonumber(key[1]) == fence → true"),
    "mine by fence only": ("finish", "key[2] == token → true"),
    "live, mine": ("finish", "mine → true"),
    "live, running": ("finish", "key[3] == 'running' → true"),
    "live, K2": ("finish", "lease == token → true"),
    "S fills": ("finish", "outcome == 'D' → true (2)"),
    "fill despite inv": ("finish", "key[4] == '0' → true"),
    "at − 1 on U": ("finish", "attempts = attempts - 1 → nothing"),
    "at − 1 on U only": ("finish", "outcome == 'U' → true"),
    "at − 1 only if counted": ("finish", "job[6] == 'counted' → true"),
    "recorded": ("finish", "ARGV[5] == '1' → false"),
    "invalidate's DEL": ("invalidate", "redis.call('DEL', KEYS[1]) → nothing"),
    "invalidate's mark": ("invalidate", "redis.call('HSET', KEYS[2], 'inv', '1') → nothing"),
}


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_every_mutant_of_a_script_is_caught(valkey: Redis, file: str) -> None:
    catchers = read_page(PAGE.read_text(encoding="utf-8"))[file]
    broken = {mutant.name: mutant for mutant in mutants_of(file)}

    survivors = [
        name
        for name, mutant in broken.items()
        if name in catchers and not is_caught(valkey, mutant, catchers[name])
    ]

    print("\n".join(f"{file}: {name}: {catcher}" for name, catcher in catchers.items()))  # noqa: T201 shown with -rP
    assert list(broken) == list(catchers), "run `python -m tests.properties.protocol.mutants`"
    assert survivors == []


def test_the_page_of_mutants_is_what_the_program_writes() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert page(read_page(text)) == text


@pytest.mark.parametrize("item", NAMED)
def test_what_the_protocol_names_is_among_the_mutants(item: str) -> None:
    file, name = NAMED[item]

    assert name in read_page(PAGE.read_text(encoding="utf-8"))[file]
