"""What was not chosen is not imported, and what cannot be chosen is refused with its remedy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "layers" / "sekali" / "python"

BATCH = """
import json, sys
from sekali import Worker, warm
from sekali.telemetry.events import InvocationEnded

worker = Worker("choice")
worker.job("report")(lambda _: 1)
container = warm.container(worker._observers)
container.emit(InvocationEnded())
"""
LEAST = {
    "SEKALI_CACHE_URL": "redis://127.0.0.1:1",
    "SEKALI_DURABLE_MODE": "redis",
    "PYTHONPATH": f"{LIBRARY}:{ROOT}",
    "PATH": os.environ["PATH"],
}
TELEMETRY = ("opentelemetry", "aws_xray_sdk", "prometheus_client", "sekali.telemetry.powertools")


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**LEAST, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def imported(code: str, **environment: str) -> set[str]:
    """Run code in a process of its own and return which of the telemetry packages it imported."""
    answer = run(f"{code}\nimport sys, json; print(json.dumps(list(sys.modules)))", **environment)
    assert answer.returncode == 0, answer.stderr
    modules = json.loads(answer.stdout.splitlines()[-1])
    return {one for one in TELEMETRY for module in modules if (module + ".").startswith(one + ".")}


@pytest.mark.parametrize(
    ("tracing", "metrics", "on_lambda", "expected"),
    [
        ("off", "off", True, set()),
        ("off", "cloudwatch", True, {"sekali.telemetry.powertools"}),
        ("xray", "off", True, {"aws_xray_sdk"}),
        ("xray", "off", False, set()),
        ("opentelemetry", "off", True, {"opentelemetry"}),
        ("off", "opentelemetry", True, {"opentelemetry"}),
    ],
)
def test_nothing_is_imported_that_was_not_chosen(
    tracing: str, metrics: str, *, on_lambda: bool, expected: set[str]
) -> None:
    environment = {"LAMBDA_TASK_ROOT": "/var/task"} if on_lambda else {}

    found = imported(
        BATCH,
        SEKALI_TRACING=tracing,
        SEKALI_METRICS=metrics,
        OTEL_TRACES_EXPORTER="none",
        OTEL_METRICS_EXPORTER="none",
        **environment,
    )

    assert found == expected


@pytest.mark.parametrize(
    ("tracing", "expected"), [("xray", set()), ("opentelemetry", {"opentelemetry"})]
)
def test_producer_imports_only_what_was_chosen(tracing: str, expected: set[str]) -> None:
    code = "from sekali import Producer; Producer('https://sqs.eu-west-1.amazonaws.com/1/jobs')"

    assert imported(code, SEKALI_TRACING=tracing) == expected


def test_exporter_of_the_environment_gets_the_spans() -> None:
    """A setting is enough: the provider is made from OpenTelemetry's own variables."""
    code = f"""{BATCH}
from opentelemetry import trace
with trace.get_tracer("job").start_as_current_span("from the job"):
    pass
container.emit(InvocationEnded(remaining_seconds=60.0))
"""
    answer = run(
        code,
        SEKALI_TRACING="opentelemetry",
        SEKALI_METRICS="off",
        SEKALI_SERVICE="reports",
        OTEL_TRACES_EXPORTER="console",
    )

    assert answer.returncode == 0, answer.stderr
    assert '"name": "from the job"' in answer.stdout
    assert '"service.name": "reports"' in answer.stdout


def test_provider_of_the_program_is_used_as_it_is() -> None:
    code = f"""
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
mine = TracerProvider()
trace.set_tracer_provider(mine)
{BATCH}
assert trace.get_tracer_provider() is mine
"""
    answer = run(code, SEKALI_TRACING="opentelemetry", SEKALI_METRICS="off")

    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize(
    ("variable", "setting"),
    [("OTEL_TRACES_EXPORTER", "SEKALI_TRACING"), ("OTEL_METRICS_EXPORTER", "SEKALI_METRICS")],
)
def test_exporter_that_is_not_installed_is_refused(variable: str, setting: str) -> None:
    others = {"SEKALI_TRACING": "off", "SEKALI_METRICS": "off"}

    answer = run(BATCH, **{**others, setting: "opentelemetry", variable: "zipkin"})

    assert f"{variable} must name an exporter that is installed, or none" in answer.stderr


def test_opentelemetry_that_is_not_installed_is_refused_with_its_remedy() -> None:
    code = f"import sys; sys.modules['opentelemetry'] = None\n{BATCH}"

    answer = run(code, SEKALI_TRACING="opentelemetry")

    assert "only where sekali[opentelemetry] is installed" in answer.stderr
