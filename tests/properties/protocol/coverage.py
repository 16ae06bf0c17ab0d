"""Say which rows a set of histories has to meet, in which states, and which seeds do.

`python -m tests.properties.protocol.choose_seeds` finds seeds anew when the histories have changed.
"""

from __future__ import annotations

from typing import Final

HISTORY_STEPS: Final = 100

# fmt: off
SEEDS: Final = (
    537, 149, 251, 534, 83, 310, 611, 209, 244, 856, 303, 321, 351, 181, 428, 751, 143, 212,
    426, 478, 696, 708, 13, 337, 814, 42, 187, 252, 403, 698, 701, 46, 292, 399, 442, 454, 580,
    759, 800, 31, 35, 71, 119, 132, 137, 167, 218, 247, 282, 305, 336, 361, 432, 513, 615, 809,
    820, 857, 943, 1055,
)
# fmt: on

_OUTCOMES: Final = ("D", "S", "X", "T", "W", "U")
_BACK: Final = ("T", "W", "U")

# "lazy" with T and W is left out: a suspect's body starts after its mark, which counts it.
ROWS: Final = (
    *(f"claim 1 · {status}" for status in ("running", "retry", "done", "failed")),
    "claim 2",
    "claim 3",
    "claim 3 · rearmed too low",
    *(f"claim 4 · {pre}" for pre in ("counted", "lazy", "sure")),
    *(f"claim 4 · {pre} · lease gone" for pre in ("counted", "lazy", "sure")),
    "claim 5 · running",
    "claim 5 · ended",
    "claim 6",
    "claim 6 · refused an older one",
    "claim 7 · held",
    "claim 7 · cooling",
    "claim 8 · retry",
    "claim 8 · running",
    "claim 9 · fresh",
    "claim 9 · retry",
    "claim 9 · retry · rearmed",
    "claim 9 · failed · rearmed",
    *(f"claim 9 · running · takeover of {pre}" for pre in ("counted", "lazy", "sure")),
    "claim 9 · running · takeover of sure · rearmed",
    "renew 1 · done",
    "renew 1 · failed",
    "renew 2 · held",
    "renew 2 · cooling",
    *(f"renew 3 · {record} {how}" for record in ("key", "job") for how in ("newer", "tied")),
    "renew 4 · by the key",
    "renew 4 · by the job",
    "renew 5 · key mine",
    "renew 5 · key mine · invalidated",
    "renew 5 · key absent",
    "renew 5 · key older",
    *(f"renew 5 · marks {pre}" for pre in ("counted", "lazy", "sure")),
    *(f"renew 5 · job {job} · started" for job in ("absent", "older")),
    *(f"renew 5 · job {job} · not started" for job in ("absent", "older")),
    *(f"finish 1 · {outcome}" for outcome in _OUTCOMES),
    *(f"finish 2 · {outcome} · {met}" for outcome in _OUTCOMES for met in ("live", "late")),
    *(f"finish 3 · {outcome} · {met}" for outcome in _OUTCOMES for met in ("live", "late")),
    *(
        f"finish 4 · {outcome} · {record} {how}"
        for outcome in _OUTCOMES
        for record in ("key", "job")
        for how in ("newer", "tied")
    ),
    "finish 5 · D · live · filled",
    "finish 5 · D · live · not storable",
    "finish 5 · D · live · refused: invalidated",
    "finish 5 · D · late · no fill",
    "finish 5 · D · late · recorded · no fill",
    "finish 5 · S · live",
    "finish 5 · S · late",
    "finish 5 · S · late · recorded",
    "finish 5 · S · served",
    "finish 6 · live",
    "finish 6 · live · recorded",
    "finish 6 · late",
    "finish 6 · late · recorded",
    *(
        f"finish 7 · {outcome} · {met} · {pre}"
        for outcome in _BACK
        for met in ("live", "late")
        for pre in ("counted", "sure", "job absent")
    ),
    "finish 7 · U · live · lazy",
    "finish 7 · U · late · lazy",
    "finish 7 · key absent, lease mine",
    *(f"finish 8 · {outcome}" for outcome in _BACK),
    "revoke · running",
    "revoke · mine, ended",
    "revoke · not mine",
    "invalidate · key known · with a value",
    "invalidate · key known · without a value",
    "invalidate · key unknown · with a value",
    "invalidate · key unknown · without a value",
)
