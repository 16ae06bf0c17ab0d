"""What no template may hold, and where templates may differ."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.infra.synthesized import ROOT, statements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.infra.synthesized import Synthesized

pytestmark = pytest.mark.slow


def test_no_account_region_or_path_of_a_machine_is_in_the_template(every: Synthesized) -> None:
    assert not re.search(r"\b[0-9]{12}\b", every.text)
    assert not re.search(r"\b(eu|us|ap|sa|ca|me|af)-[a-z]+-[0-9]\b", every.text)
    assert str(ROOT) not in every.text


def test_the_host_differs_in_architecture_python_and_signing_only(
    dev: Synthesized, host: Synthesized
) -> None:
    here = dict(leaves(host.resources))
    there = dict(leaves(dev.resources))

    different = {path for path in here.keys() | there.keys() if here.get(path) != there.get(path)}

    allowed = re.compile(
        r"Architectures|Runtime|CompatibleRuntimes"  # What it runs on,
        r"|(Library|Vendor)\w*/Properties/Content/S3Key"  # the wheels and the bytecode for that,
        r"|CacheUser|SEKALI_CACHE_(IAM_USER|NAME|SERVERLESS)|UserGroupIds"  # and the signature.
        r"|RoleDefaultPolicy"
    )
    assert [path for path in sorted(different) if not allowed.search(path)] == []
    assert {one["Sid"] for one in statements(dev)} - {one["Sid"] for one in statements(host)} == {
        "ConnectToCache"
    }


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:  # Any JSON.
    """Each value that holds no other, with the way to it."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}/{name}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{path}/{number}")
    else:
        yield path, json.dumps(value)
