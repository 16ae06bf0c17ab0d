"""Build the folder of what the Lambda runtime itself brings: its client and boto3.

The distributions are those of our own environment, linked one by one with all that they require.
Nothing else of that environment can then be imported by a function, so a package that is missing
in a layer fails here as it would fail there.
"""

import importlib.metadata
import re
from pathlib import Path
from typing import Final

_ROOTS: Final = ("awslambdaric", "boto3")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


def build(folder: Path) -> Path:
    """Fill `folder` with links to the runtime's packages and return it."""
    folder.mkdir()
    for distribution in _closure(_ROOTS):
        for entry in _top_level(distribution):
            target = Path(str(distribution.locate_file(entry)))
            link = folder / entry
            if target.exists() and not link.is_symlink():
                link.symlink_to(target.resolve())
    return folder


def _closure(roots: tuple[str, ...]) -> list[importlib.metadata.Distribution]:
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in found:
            continue
        found[key] = importlib.metadata.distribution(name)
        waiting += _requirements(found[key])
    return list(found.values())


def _requirements(distribution: importlib.metadata.Distribution) -> list[str]:
    """Name what a distribution needs here: no extras, nothing that is not installed."""
    names = []
    for requirement in distribution.requires or ():
        match = _NAME.match(requirement)
        if match is None or "extra ==" in requirement:
            continue
        # A marker for another Python or platform: such a requirement is not installed.
        if any(importlib.metadata.distributions(name=match.group())):
            names.append(match.group())
    return names


def _top_level(distribution: importlib.metadata.Distribution) -> set[str]:
    """Name the files and folders that a distribution puts directly into site-packages."""
    files = distribution.files or ()
    return {file.parts[0] for file in files if file.parts[0] not in {"..", "__pycache__"}}
