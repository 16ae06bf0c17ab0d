"""The delay report, against reports computed by hand and by another program."""

import json
from itertools import product

import pytest

from handlers.delays import delay_report, parse_flights
from infra.local.oracle import Oracle
from tests.flight_data import CARRIERS, ORIGINS, invented_month

HEADER = "carrier,origin,dest,hour,dep_delay,arr_delay\n"


def test_report_of_a_few_flights_is_the_one_made_by_hand() -> None:
    flights = parse_flights(
        HEADER
        + "UA,EWR,IAH,5,2,11\n"
        + "UA,EWR,IAH,5,-4,-1\n"
        + "UA,LGA,IAH,17,10,NA\n"
        + "UA,EWR,IAH,17,NA,NA\n"
        + "B6,JFK,BOS,6,90,90\n"
    )

    report = delay_report(flights, carrier="UA")

    assert report == {
        "carrier": "UA",
        "origin": None,
        "flights": 4,
        "cancelled": 1,
        "departure_delay": {"mean": 2.67, "median": 2.0, "percentile_90": 8.4},
        "arrival_delay": {"mean": 5.0, "median": 5.0, "percentile_90": 9.8},
        "worst_routes": [],
        "by_hour": {"5": -1.0, "17": 10.0},
    }


def test_origin_narrows_the_report() -> None:
    flights = parse_flights(HEADER + "UA,EWR,IAH,5,2,11\nUA,LGA,IAH,5,4,1\n")

    report = delay_report(flights, carrier="UA", origin="LGA")

    assert (report["origin"], report["flights"]) == ("LGA", 1)
    assert report["departure_delay"] == {"mean": 4.0, "median": 4.0, "percentile_90": 4.0}


def test_carrier_that_did_not_fly_has_a_report_of_no_flights() -> None:
    report = delay_report(parse_flights(HEADER), carrier="ZZ")

    assert report["flights"] == 0
    assert report["departure_delay"] == {"mean": None, "median": None, "percentile_90": None}
    assert (report["worst_routes"], report["by_hour"]) == ([], {})


def test_worst_routes_are_five_frequent_ones_and_ties_go_by_name() -> None:
    lines = [
        f"UA,EWR,{destination},5,0,{delay}\n" * 5
        for destination, delay in [("A", 1), ("C", 9), ("B", 9), ("D", 3), ("E", 4), ("F", 2)]
    ]
    rare = "UA,EWR,G,5,0,99\n" * 4

    report = delay_report(parse_flights(HEADER + "".join(lines) + rare), carrier="UA")

    routes = [(entry["route"], entry["mean_arrival_delay"]) for entry in report["worst_routes"]]
    assert routes == [("EWR-B", 9), ("EWR-C", 9), ("EWR-E", 4), ("EWR-D", 3), ("EWR-F", 2)]


@pytest.mark.parametrize("seed", range(5))
def test_every_report_of_a_month_is_what_another_program_computes(seed: int) -> None:
    text = invented_month("2013-05", seed=seed)
    oracle = Oracle({"2013-05": text.encode()})
    month = parse_flights(text)

    for carrier, origin in product([*CARRIERS, "ZZ"], [*ORIGINS, "XXX", None]):
        report = delay_report(month, carrier=carrier, origin=origin)

        assert report == oracle.report("2013-05", carrier, origin)


def test_month_and_report_survive_json() -> None:
    """Both are cached as JSON, where a tuple comes back as a list and an integer key as text."""
    month = parse_flights(invented_month("2013-05"))
    report = delay_report(month, carrier="UA")

    assert json.loads(json.dumps(month)) == month
    assert json.loads(json.dumps(report)) == report


def test_column_order_does_not_matter() -> None:
    flights = parse_flights("arr_delay,hour,x,dest,origin,dep_delay,carrier\n1,5,?,IAH,EWR,2,UA\n")

    assert delay_report(flights, carrier="UA")["by_hour"] == {"5": 2.0}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "header"),
        ("carrier,origin\nUA,EWR\n", "header.*'dest'"),
        (HEADER + "UA,EWR,IAH,5,2,11\nUA,EWR,IAH,5,two,11\n", "line 3 .*'two'"),
        (HEADER + "UA,EWR,IAH\n", "line 2 is no flight"),
        (HEADER + "UA,EWR,IAH,NA,2,11\n", "line 2 is no flight"),
    ],
)
def test_damaged_file_names_the_place(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_flights(text)
