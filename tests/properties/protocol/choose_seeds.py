"""Choose the seeds of test_histories: `python -m tests.properties.protocol.choose_seeds 1500`.

Tries seeds one after the other and keeps those which bring a row nearer to being met `WANTED`
times, the richest first: they catch most mutants at once.
"""

from __future__ import annotations

import sys
from collections import Counter
from random import Random

from redis import Redis

from tests.conftest import started_valkey
from tests.properties.protocol.coverage import HISTORY_STEPS, ROWS
from tests.properties.protocol.histories import History
from tests.properties.protocol.world import World

WANTED = 3


def main(tries: int) -> None:
    """Print the seeds, and the rows that no seed met often enough."""
    with started_valkey() as server, Redis(port=server.port, protocol=3) as client:
        hits = {}
        for seed in range(tries):
            world = World(client)
            History(world, Random(seed)).run(HISTORY_STEPS)
            hits[seed] = Counter({row: world.memory.hits[row] for row in ROWS})
    missing = dict.fromkeys(ROWS, WANTED)
    chosen = []
    while True:
        gains = {
            seed: sum(min(count, missing[row]) for row, count in met.items())
            for seed, met in hits.items()
            if seed not in chosen
        }
        best = max(gains, key=lambda seed: gains[seed])
        if gains[best] == 0:
            break
        chosen.append(best)
        for row, count in hits[best].items():
            missing[row] = max(missing[row] - count, 0)
    sys.stdout.write(f"{tuple(chosen)}\n")
    sys.stdout.write(f"{ {row: count for row, count in missing.items() if count} }\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
