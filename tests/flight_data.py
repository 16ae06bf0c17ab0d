"""Invented months of flights that look like real ones: cancelled, diverted, hours late."""

from __future__ import annotations

import random

COLUMNS = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,"
    "flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour"
)
CARRIERS = ("UA", "B6", "DL", "AA", "HA")
ORIGINS = ("EWR", "JFK", "LGA")
DESTINATIONS = ("ATL", "BOS", "HNL", "IAH", "LAX", "MIA", "ORD", "SFO")
ABSENT = "NA"


def invented_month(month: str, *, flights: int = 400, seed: int = 1) -> str:
    """Return a month as CSV; equal arguments give equal text."""
    chance = random.Random(f"{month}/{seed}")
    lines = [_flight(chance, month) for _ in range(flights)]
    return "\n".join([COLUMNS, *lines, ""])


def _flight(chance: random.Random, month: str) -> str:
    year, number = (int(part) for part in month.split("-"))
    day, hour, minute = chance.randint(1, 28), chance.randint(5, 23), chance.choice([0, 15, 59])
    # Most flights are a little early, some are an hour late.
    departure = round(chance.expovariate(1 / 15)) - 8
    arrival = departure + chance.randint(-20, 25)
    fate = chance.random()
    delays = [str(departure), str(arrival)]
    if fate < 0.05:
        delays = [ABSENT, ABSENT]
    elif fate < 0.07:
        delays = [str(departure), ABSENT]
    fields = [
        *(year, number, day, hour * 100 + minute, hour * 100 + minute, delays[0]),
        *(hour * 100 + 200, hour * 100 + 200, delays[1]),
        # The last carrier is rare, so that some of its reports hold one flight or none.
        chance.choices(CARRIERS, weights=(40, 30, 20, 20, 1))[0],
        *(chance.randint(1, 9_999), f"N{chance.randint(10_000, 99_999)}"),
        *(chance.choice(ORIGINS), chance.choice(DESTINATIONS)),
        *(120, 900, hour, minute, f"{month}-{day:02}T{hour:02}:00:00Z"),
    ]
    return ",".join(map(str, fields))
