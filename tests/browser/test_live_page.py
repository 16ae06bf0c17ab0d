"""The live page in Chromium: pictures of it, and what stands on it beside what the run was."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from infra.local import demo, flights
from infra.local.checker import check
from infra.local.cloudwatch.alarm_state import ALARM
from infra.local.cloudwatch.pace import Pace
from infra.local.gather import gather
from infra.local.oracle import Oracle
from infra.local.page.server import Page
from infra.local.progress import Progress
from infra.local.stack import LocalStack
from infra.local.storm import Storm
from infra.local.synthesis import ROOT, synthesize
from infra.local.workload import plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infra.local.workload import Workload

pytestmark = [pytest.mark.browser, pytest.mark.timeout(170)]

PICTURES = ROOT / "build" / "pictures"
FOLDER = Path(__file__).parent
# Node is a package of this environment too.
BIN = Path(sys.executable).parent
MESSAGES = 500
WITHIN_SECONDS = 60.0
DESK = {"width": 1440, "height": 1000}
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def months() -> dict[str, bytes]:
    return flights.read_months(demo.FLIGHTS, months=demo.MONTHS)


@pytest.fixture(scope="module")
def stack(months: dict[str, bytes]) -> Iterator[LocalStack]:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with LocalStack(synthesize(), poll=False, pace=Pace(minute_seconds=2)) as running:
        demo.upload(running, months)
        yield running


@pytest.fixture(scope="module")
def storm(stack: LocalStack, months: dict[str, bytes]) -> Storm:
    return Storm(stack, dict(flights.objects(months)))


@pytest.fixture(scope="module")
def page(stack: LocalStack, storm: Storm) -> Iterator[Page]:
    served = Page(stack, strikes=storm.strikes)
    served.start()
    yield served
    served.close()


def look(page: Page, name: str, **wanted: Any) -> Any:
    """Take a picture of the page, and answer what stands on it."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    assert chromium is not None, "run `make test-browser`"
    told = {"url": page.url, "picture": str(PICTURES / f"{name}.png"), **DESK, **wanted}
    done = subprocess.run(
        [str(BIN / "node"), str(FOLDER / "look.mjs"), chromium, json.dumps(told)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["errors"] == []
    assert seen["foreign"] == [], "a page of this machine asks nobody else"
    assert seen["overflow"] <= 0, "nothing is wider than the screen"
    assert (PICTURES / f"{name}.png").stat().st_size > 10_000
    return seen


def report_of(stack: LocalStack, workload: Workload, months: dict[str, bytes], run: Any) -> Any:
    report = check(workload, gather(stack, run), oracle=Oracle(months))
    assert report.sound, report.problems
    return report


def test_the_page_shows_what_the_run_was(
    stack: LocalStack, page: Page, months: dict[str, bytes]
) -> None:
    workload = plan(MESSAGES, seed=5, months=demo.MONTHS)
    console = Console(quiet=True)
    runs: list[Any] = []

    idle = look(page, "idle")
    with Progress(console, stack) as progress:
        driver = threading.Thread(
            target=lambda: runs.append(demo.drive(stack, workload, progress, None))
        )
        driver.start()
        busy = look(page, "load", until={"figure": "messages", "least": 50})
        driver.join()
    last = look(page, "after", until={"figure": "messages", "least": MESSAGES})
    deep = look(page, "deep", dashboard=_name(stack, "deep"), full=True)
    figures = last["figures"]
    states = stack.watch.alarms.states()
    report = report_of(stack, workload, months, runs[0])

    assert set(idle["figures"].values()) == {0}
    assert busy["figures"]["messages"] >= 50
    assert figures["computed"] == report.loads
    assert figures["dead_letters"] == report.dead_lettered
    assert figures["messages"] == sum(delivery.deleted for delivery in stack.deliveries)
    assert figures["answered"] + figures["computed"] == figures["completed"]
    assert figures["completed"] >= report.completed
    assert last["alarms"].keys() == states.keys()
    assert last["alarms"][f"{stack.template.stack_name}-poison-messages-dead-letters"] == ALARM
    assert last["charts"] == last["cards"] > 0
    assert deep["charts"] == deep["cards"] > last["cards"]
    assert all(label and "Last values" in label for label in last["labels"])
    assert last["stepped"]


def test_a_stampede_is_seen(stack: LocalStack, storm: Storm, page: Page) -> None:
    stack.start_polling()
    storm.slow_objects()
    burst = plan(MESSAGES, seed=6, months=demo.MONTHS)
    demo.send(stack, [message for message in burst.messages if message.succeeds], {})
    deadline = time.monotonic() + WITHIN_SECONDS
    name = f"{stack.template.stack_name}-contention-claims"
    while stack.watch.alarms.states()[name] != ALARM and time.monotonic() < deadline:
        time.sleep(0.1)

    seen = look(page, "stampede")
    phone = look(page, "phone", **PHONE)
    dark = look(page, "dark", dark=True)
    look(page, "phone-whole", full=True, dark=True, **PHONE)
    storm.quick_objects()

    assert seen["changes"] > 0
    assert phone["charts"] == dark["charts"] == seen["charts"]
    assert seen["ranked"], "contended keys are ranked"


def _name(stack: LocalStack, end: str) -> str:
    (found,) = (one.name for one in stack.template.monitoring.dashboards if one.name.endswith(end))
    return found
