"""docs/message.md and its schema tell what the code reads."""

from __future__ import annotations

import json
import re
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from sekali import contract
from sekali.message import decode
from sekali.outgoing import DEAD_LETTER_ATTRIBUTES
from sekali.payload_bucket import Payloads

if TYPE_CHECKING:
    from collections.abc import Mapping

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "message.md").read_text(encoding="utf-8")
FORMS = {
    "version": str(contract.VERSION),
    "id": f"text of 1 to {contract.MAX_ID_CHARS} characters",
    "object": "object",
    "ref": "object with `key` and perhaps `hash`",
    "name": f"1 to {contract.MAX_NAME_CHARS} of letters, digits and `_.-`",
    "text": "text",
    "seconds": "Unix seconds",
    "count": "count",
}
HEADER = "| field | form | required | meaning |"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


class Objects:
    """A bucket in which every object is the payload of the page."""

    def get_object(self, **_: object) -> Mapping[str, Any]:  # Any: as boto3
        content = b'{"month": "2013-01", "carrier": "UA"}'
        return {"ContentLength": len(content), "Body": BytesIO(content)}

    def put_object(self, **_: object) -> object:
        raise NotImplementedError


def expected_row(field: contract.Field) -> str:
    needed = "yes" if field.required else "no"
    if isinstance(field.required, str):
        needed += f", or `{field.required}`"
    if field.writer == "library":
        needed += ", the library's"
    return f"| `{field.name}` | {FORMS[field.kind]} | {needed} | {field.meaning} |"


def test_the_schema_beside_the_page_is_that_of_the_code() -> None:
    """After a change of the contract, `make schema` writes it again."""
    written = (DOCS / "message.schema.json").read_text(encoding="utf-8")

    assert written == contract.schema_text()


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(contract.schema())


def test_the_table_of_fields_is_that_of_the_code() -> None:
    lines = PAGE.splitlines()
    start = lines.index(HEADER) + 2
    rows = lines[start : start + len(contract.FIELDS) + 1]

    assert rows == [*map(expected_row, contract.FIELDS), ""]


@pytest.mark.parametrize("text", blocks("json"))
def test_the_bodies_of_the_page_are_accepted(text: str) -> None:
    bucket = Payloads("bucket", Objects)

    message = decode({"body": text}, default_job="delay-report", payloads=bucket)

    assert message.payload == {"month": "2013-01", "carrier": "UA"}
    assert Draft202012Validator(contract.schema()).is_valid(json.loads(text))


def test_the_attributes_of_a_dead_letter_are_all_listed() -> None:
    assert {name for name in DEAD_LETTER_ATTRIBUTES if f"`{name}`" not in PAGE} == set()


def test_the_snippet_about_wrappings_runs() -> None:
    [snippet] = [block for block in blocks("python") if "Unwrap" in block]

    exec(compile(snippet, "docs/message.md", "exec"), {})  # noqa: S102 - our own page
