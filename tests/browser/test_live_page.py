"""The live page in Chromium: pictures of it, and what stands on it beside what the run was."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from infra.local import demo, flights
from infra.local.checker import check
from infra.local.cloudwatch.alarm_state import ALARM
from infra.local.faults import Strike
from infra.local.gather import gather
from infra.local.oracle import Oracle
from infra.local.page.server import Page
from infra.local.progress import Progress
from infra.local.synthesis import ROOT
from infra.local.workload import plan
from tests.alarms import scenarios
from tests.alarms.stage import WITHIN_SECONDS, Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from infra.local.gather import Run
    from infra.local.stack import LocalStack

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

PICTURES = ROOT / "build" / "pictures"
FOLDER = Path(__file__).parent
# Node is a package of this environment too.
BIN = Path(sys.executable).parent
MESSAGES = 500
CONTENDED = 20
PUSH_SECONDS = 0.3
DESK = {"width": 1440, "height": 1000}
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    PICTURES.mkdir(parents=True, exist_ok=True)
    with Stage(poll=False) as running:
        yield running


@pytest.fixture(scope="module")
def strikes() -> list[Strike]:
    return []


@pytest.fixture(scope="module")
def page(stage: Stage, strikes: list[Strike]) -> Iterator[Page]:
    served = Page(stage.stack, strikes=lambda: strikes)
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


def test_the_page_shows_what_the_run_was(stage: Stage, page: Page) -> None:
    stack = stage.stack
    workload = plan(MESSAGES, seed=5, months=demo.MONTHS)
    runs: list[Run] = []

    idle = look(page, "idle")
    with Progress(Console(quiet=True), stack) as progress:
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
    months = flights.read_months(demo.FLIGHTS, months=demo.MONTHS)
    report = check(workload, gather(stack, runs[0]), oracle=Oracle(months))

    assert report.sound, report.problems
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


@contextlib.contextmanager
def again_and_again(push: Callable[[], None]) -> Iterator[None]:
    """Trouble the stack beside the block, from its beginning to its end."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(PUSH_SECONDS):
            push()

    with ThreadPoolExecutor(1) as pool:
        pushing = pool.submit(work)
        try:
            yield
        finally:
            over.set()
        pushing.result()


def test_a_stampede_is_seen(stage: Stage, page: Page, strikes: list[Strike]) -> None:
    """Storage is slow and everybody asks the same; then nothing is known any more."""
    if not stage.stack.invocations:
        # This test alone: the other one starts to poll.
        stage.stack.start_polling()
    stampede = f"{stage.stack.template.stack_name}-stampede"
    strikes.append(Strike(name="everybody asks the same", began_at=time.time()))
    scenarios.slow_storage(stage)

    waited = stage.stack.watch.store.total("LeasesContended")
    deadline = time.monotonic() + WITHIN_SECONDS
    while stage.stack.watch.store.total("LeasesContended") < waited + CONTENDED:
        assert time.monotonic() < deadline, "nobody had to wait for another"
        scenarios.crowd_one_key(stage)
        time.sleep(0.5)
    scenarios.quick_storage(stage)
    strikes[-1] = replace(strikes[-1], ended_at=time.time())
    strikes.append(Strike(name="the shared cache forgets", began_at=time.time()))
    with again_and_again(lambda: scenarios.flush_and_ask(stage)):
        seen = look(page, "stampede", ringing=stampede)
        phone = look(page, "phone", ringing=stampede, **PHONE)
        dark = look(page, "dark", ringing=stampede, dark=True)
        look(page, "phone-whole", ringing=stampede, full=True, dark=True, **PHONE)

    for found in (seen, phone, dark):
        assert found["alarms"][stampede] == found["alarms"][f"{stampede}-hit-ratio"] == ALARM
    assert seen["changes"] > 0
    assert phone["charts"] == dark["charts"] == seen["charts"]
    assert seen["ranked"], "contended keys are ranked"


def _name(stack: LocalStack, end: str) -> str:
    (found,) = (one.name for one in stack.template.monitoring.dashboards if one.name.endswith(end))
    return found
