"""The flights of 2013 as the objects that the example job reads, one month each.

`make data` leaves them in one CSV: the flights that left New York City, from the US Department of
Transportation. Two more objects are made up for the jobs that have to fail.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

MONTHS: Final = tuple(f"2013-{month:02}" for month in range(1, 13))
# A month that nobody uploads, and one whose file is damaged.
ABSENT_MONTH: Final = "1999-01"
DAMAGED_MONTH: Final = "2012-12"
DAMAGED_CSV: Final = b"carrier,origin,dest,hour,dep_delay,arr_delay\nUA,EWR,IAH,5,two,11\n"


def object_key(month: str) -> str:
    """Answer where the bucket holds a month."""
    return f"flights/{month}.csv"


def read_months(path: Path, *, months: Collection[str] = MONTHS) -> dict[str, bytes]:
    """Answer each wanted month's CSV, its header line included.

    Raises:
        ValueError: The file is not what `make data` leaves, or a wanted month is not in it.
    """
    lines: dict[bytes, list[bytes]] = {
        f"{int(year)},{int(number)}".encode(): []
        for year, _, number in (month.partition("-") for month in months)
    }
    with path.open("rb") as file:
        header = file.readline()
        if not header.startswith(b"year,month,"):
            raise ValueError(f"{path} must begin with year,month,…, got {header[:40]!r}")
        for line in file:
            year, number, _ = line.split(b",", 2)
            if (kept := lines.get(year + b"," + number)) is not None:
                kept.append(line)
    absent = [month for month, kept in zip(months, lines.values(), strict=True) if not kept]
    if absent:
        raise ValueError(f"{path} has no flights of {', '.join(absent)}")
    return {
        month: header + b"".join(kept) for month, kept in zip(months, lines.values(), strict=True)
    }


def objects(months: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield the key and the content of each object to upload, the damaged one included."""
    for month, text in months.items():
        yield object_key(month), text
    yield object_key(DAMAGED_MONTH), DAMAGED_CSV
