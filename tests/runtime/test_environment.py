"""An execution environment: the genuine client, its surroundings, its freezes and its deaths."""

from __future__ import annotations

import dataclasses
import json
import shutil
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from infra.local.environment import InitFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from infra.local.environment import Environment
    from infra.local.logs import Logs
    from infra.local.template import Function

    Start = Callable[[Function], Environment]

pytestmark = pytest.mark.slow


def invoke(environment: Environment, do: str, **event: object) -> Any:  # The handler's answer.
    outcome = environment.invoke(json.dumps({"do": do, **event}).encode())
    assert outcome.kind == "answered", outcome
    return json.loads(outcome.payload)


@pytest.fixture
def environment(start_environment: Start, toy_function: Function) -> Environment:
    started = start_environment(toy_function)
    started.init()
    return started


def test_the_handler_gets_the_event_and_a_context_as_in_lambda(environment: Environment) -> None:
    outcome = environment.invoke(b'{"do": "look", "text": "\\u00e9"}')

    seen = json.loads(outcome.payload)
    assert seen["event"] == {"do": "look", "text": "é"}
    assert seen["request_id"] == outcome.request_id
    assert seen["arn"] == "arn:aws:lambda:us-east-1:000000000000:function:Worker"
    assert seen["memory"] == "256"
    assert seen["toylib"] == 7
    assert seen["trace"].startswith("Root=1-")
    assert ";Sampled=1" in seen["trace"]


def test_an_environment_is_reused(environment: Environment) -> None:
    first = invoke(environment, "look")
    second = invoke(environment, "look")

    assert (first["invocations"], second["invocations"]) == (1, 2)
    assert first["trace"] != second["trace"]


def test_remaining_time_counts_down_from_the_timeout(environment: Environment) -> None:
    seen = invoke(environment, "sleep", seconds=0.2)

    assert 0 < seen["after_ms"] <= seen["before_ms"] - 190 < 10_000


def test_no_thread_of_a_function_runs_between_invocations(environment: Environment) -> None:
    invoke(environment, "beating")

    # The signal takes a moment to stop a thread that runs on another processor.
    between = time.time() + 0.05
    time.sleep(0.3)
    awake = time.time()

    beats = invoke(environment, "beating")["beats"]
    assert beats[0] < between
    assert beats[-1] > awake
    assert [beat for beat in beats if between < beat < awake] == []


def test_an_error_is_reported_and_leaves_the_environment_warm(environment: Environment) -> None:
    outcome = environment.invoke(b'{"do": "fail"}')

    error = json.loads(outcome.payload)
    assert outcome.kind == "failed"
    assert (error["errorType"], error["errorMessage"]) == ("RuntimeError", "as asked")
    assert environment.alive
    assert invoke(environment, "look")["invocations"] == 2


def test_an_answer_above_six_megabytes_is_an_error(environment: Environment) -> None:
    outcome = environment.invoke(json.dumps({"do": "fill", "bytes": 7_000_000}).encode())

    assert outcome.kind == "failed"
    assert b"ResponseSizeTooLarge" in outcome.payload


def test_an_event_of_six_megabytes_arrives_whole(environment: Environment) -> None:
    text = "y" * 5_900_000

    assert invoke(environment, "echo", text=text)["text"] == text


def test_a_process_over_its_timeout_is_killed(
    start_environment: Start, toy_function: Function, logs: Logs
) -> None:
    environment = start_environment(dataclasses.replace(toy_function, timeout_seconds=1.0))
    environment.init()

    outcome = environment.invoke(b'{"do": "sleep", "seconds": 30}')

    assert outcome.kind == "timed_out"
    assert 1.0 <= outcome.seconds < 20.0
    assert not environment.alive
    texts = [record.text for record in logs.records()]
    assert texts == ["sleeping", f"{outcome.request_id} Task timed out after 1.00 seconds"]


def test_a_process_that_ends_itself_is_seen_at_once(environment: Environment) -> None:
    outcome = environment.invoke(b'{"do": "die"}')

    assert outcome.kind == "died"
    assert outcome.seconds < 20.0
    assert not environment.alive


def test_killing_an_environment_in_mid_job_ends_its_invocation(environment: Environment) -> None:
    timer = threading.Timer(0.1, environment.kill)
    timer.start()

    outcome = environment.invoke(b'{"do": "sleep", "seconds": 30}')

    assert outcome.kind == "died"
    assert outcome.seconds < 20.0


def test_log_lines_belong_to_their_invocation(environment: Environment, logs: Logs) -> None:
    first = environment.invoke(b'{"do": "say", "lines": ["one", "{\\"level\\": \\"INFO\\"}"]}')
    second = environment.invoke(b'{"do": "say", "lines": ["two"]}')

    records = [(record.request_id, record.text) for record in logs.records()]
    assert records == [
        (first.request_id, "one"),
        (first.request_id, '{"level": "INFO"}'),
        (second.request_id, "two"),
    ]


def test_a_logged_traceback_is_one_record(environment: Environment, logs: Logs) -> None:
    """The next line was joined to the end of a traceback, and lost as a structured line."""
    invoke(environment, "log")

    traceback, after = (record.text for record in logs.records())
    assert "it failed" in traceback
    assert traceback.endswith("ValueError: as asked")
    assert after == "after"


def test_a_function_sees_only_its_asset_its_layers_and_the_runtime(
    environment: Environment, toy_function: Function, runtime: Path
) -> None:
    seen = invoke(environment, "surroundings")

    ours = [str(toy_function.code), str(toy_function.layers[0] / "python"), str(runtime)]
    foreign = [path for path in seen["path"] if not any(path.startswith(own) for own in ours)]
    assert [path for path in seen["path"] if path in ours] == ours
    assert [path for path in foreign if "site-packages" in path and "asset" not in path] == []
    assert seen["folder"] == str(toy_function.code)


@pytest.mark.parametrize("package", ["pytest", "redis", "infra", "sekali", "pip"])
def test_a_package_of_the_developer_cannot_be_imported(
    environment: Environment, package: str
) -> None:
    outcome = environment.invoke(json.dumps({"do": "load", "module": package}).encode())

    assert json.loads(outcome.payload)["errorType"] == "ModuleNotFoundError"


def test_the_runtime_brings_boto3(environment: Environment, runtime: Path) -> None:
    assert invoke(environment, "load", module="boto3")["file"].startswith(str(runtime))


def test_variables_are_those_of_lambda_and_the_template_only(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEVELOPERS_OWN", "1")

    variables = invoke(environment, "surroundings")["variables"]

    host, port = environment.doors.cache
    assert variables["CACHE_URL"] == f"valkey://{host}:{port}"
    assert variables["QUEUE_URL"] == f"{environment.doors.aws_endpoint}/000000000000/Work"
    assert variables["AWS_ENDPOINT_URL"] == environment.doors.aws_endpoint
    assert variables["AWS_LAMBDA_FUNCTION_NAME"] == "Worker"
    assert variables["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "256"
    assert variables["AWS_LAMBDA_INITIALIZATION_TYPE"] == "on-demand"
    assert variables["AWS_EXECUTION_ENV"] == "AWS_Lambda_python3.13"
    assert "DEVELOPERS_OWN" not in variables


def test_a_package_that_is_missing_in_a_layer_fails_init(
    start_environment: Start, toy_function: Function
) -> None:
    shutil.rmtree(toy_function.layers[0] / "python" / "toylib")

    with pytest.raises(InitFailed) as caught:
        start_environment(toy_function).init()

    error = json.loads(caught.value.payload)
    assert error["errorType"] == "Runtime.ImportModuleError"
    assert "No module named 'toylib'" in error["errorMessage"]


def test_assets_are_left_as_they_were_synthesized(
    environment: Environment, toy_function: Function
) -> None:
    invoke(environment, "look")

    assert list(toy_function.code.rglob("__pycache__")) == []
    assert list(toy_function.layers[0].rglob("__pycache__")) == []
