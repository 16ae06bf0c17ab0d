"""The real function in its real layers: nothing of ours covers up what a layer lacks."""

from __future__ import annotations

import dataclasses
import json
import shutil
from typing import TYPE_CHECKING

import pytest

from infra.local import assembly
from infra.local.environment import InitFailed
from infra.local.synthesis import synthesize

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from infra.local.environment import Environment
    from infra.local.template import Function

    Start = Callable[[Function], Environment]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def reports_function() -> Function:
    functions = assembly.read(synthesize()).functions.values()
    (worker,) = [one for one in functions if one.handler == "handlers.reports.handler"]
    return worker


def without(function: Function, package: str, *, folder: Path) -> Function:
    """Copy the function's layers without one package."""
    layers = []
    for number, layer in enumerate(function.layers):
        copy = folder / f"layer-{number}"
        shutil.copytree(layer, copy, ignore=shutil.ignore_patterns(package))
        layers.append(copy)
    return dataclasses.replace(function, layers=tuple(layers))


def test_the_function_starts_with_its_own_layers_only(
    start_environment: Start, reports_function: Function
) -> None:
    environment = start_environment(reports_function)

    environment.init()

    assert environment.alive


@pytest.mark.parametrize(
    ("package", "module"),
    [
        pytest.param("aws_lambda_powertools", "aws_lambda_powertools", id="of the vendor layer"),
        pytest.param("sekali", "sekali", id="of our layer"),
    ],
)
def test_a_package_that_a_layer_lacks_is_an_import_that_fails(
    start_environment: Start, reports_function: Function, package: str, module: str, tmp_path: Path
) -> None:
    incomplete = without(reports_function, package, folder=tmp_path)

    with pytest.raises(InitFailed) as caught:
        start_environment(incomplete).init()

    error = json.loads(caught.value.payload)
    assert error["errorType"] == "Runtime.ImportModuleError"
    assert f"No module named '{module}'" in error["errorMessage"]


def test_a_package_that_is_imported_late_is_missed_at_its_first_use(
    start_environment: Start, reports_function: Function, tmp_path: Path
) -> None:
    """What speaks to the cache is imported when it is first needed: INIT cannot tell."""
    environment = start_environment(without(reports_function, "*redis", folder=tmp_path))
    environment.init()
    record = {
        "messageId": "one",
        "receiptHandle": "handle",
        "body": '{"month": "2013-01", "carrier": "UA"}',
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1"},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:queue",
    }

    outcome = environment.invoke(json.dumps({"Records": [record]}).encode())

    assert outcome.kind == "failed"
    assert b"No module named 'redis'" in outcome.payload
