"""Write a second worker: its module in `handlers/`, its test, and the lines that deploy it.

    new_worker("parcels", root=Path("."))
        handlers/parcels.py              a worker with one job, to be changed
        tests/handlers/test_parcels.py   what it does, with the fixtures of docs/pytest.md
        cdk.json                         not touched: `lines` says what to put there

Nothing that exists is written over. Nothing of the library has to change.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib.resources import files
from keyword import iskeyword
from string import Template
from typing import TYPE_CHECKING, Final

from sekali.errors import SettingInvalid

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
_PACKAGES: Final = {
    "handlers": '"""The Lambda functions: one module per function."""\n',
    "tests": '"""The tests."""\n',
    "tests/handlers": '"""What each function does."""\n',
}


class FileExists(FileExistsError):
    """A file of the new worker is there already; nothing was written. Choose another name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"{path} exists; nothing was written")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWorker:
    """What was written, and what is left to do.

    `lines` go into cdk.json and, for what the jobs call, into infra/stack.py.
    """

    files: Sequence[Path]
    lines: str


def new_worker(name: str, *, root: Path) -> NewWorker:
    """Write the module and the test of a worker below `root`.

    Raises:
        SettingInvalid: the name cannot be a module's and a queue's.
        FileExists: one of the files is there.
    """
    if not _NAME.fullmatch(name) or iskeyword(name):
        rule = "must be a module's name: lower case letters, digits and _, at most 32"
        raise SettingInvalid("NAME", rule, name)
    job = name.replace("_", "-")
    words = {"name": name, "job": job, "service": job, "title": name.replace("_", " ").title()}
    wanted = {
        root / "handlers" / f"{name}.py": "handler.txt",
        root / "tests" / "handlers" / f"test_{name}.py": "test.txt",
    }
    for path in wanted:
        if path.exists():
            raise FileExists(path)
    _make_packages(root)
    for path, template in wanted.items():
        text = files(__name__).joinpath(template).read_text(encoding="utf-8")
        path.write_text(Template(text).substitute(words), encoding="utf-8")
    return NewWorker(files=list(wanted), lines=_lines(name, root))


def _make_packages(root: Path) -> None:
    for folder, text in _PACKAGES.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        package = root / folder / "__init__.py"
        if not package.exists():
            package.write_text(text, encoding="utf-8")


def _lines(name: str, root: Path) -> str:
    workers = f"{_workers(root)},{name}"
    construct = "".join(part.title() for part in name.split("_"))
    return f"""\
Deploy it by naming it in cdk.json, under "context":

    "workers": "{workers}",

It gets a queue, dead letters, a function and a role. {construct}QueueUrl is an output of the stack,
and so are {construct}DeadLetterQueueUrl and {construct}FunctionName. What its jobs call beside
the kit is granted at the end of `_worker` in infra/stack.py, for example:

    if name == "{name}":
        role.allow("ReadObjects", "s3:GetObject", bucket.arn_for_objects("{name}/*"))
"""


def _workers(root: Path) -> str:
    """Read which workers there are: those that cdk.json names, or the example."""
    try:
        context = json.loads((root / "cdk.json").read_text(encoding="utf-8"))["context"]
    except (OSError, ValueError, KeyError):
        return "reports"
    return str(context.get("workers", "reports"))
