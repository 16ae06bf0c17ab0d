"""Each comparison, write and field of the scripts is needed: without it something fails.

See docs/design/mutants.md for the list, and `mutants` for how it is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.properties.protocol.mutants import FILES, PAGE, is_caught, mutants_of, page, read_page

if TYPE_CHECKING:
    from redis import Redis


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_every_mutant_of_a_script_is_caught(valkey: Redis, file: str) -> None:
    catchers = read_page(PAGE.read_text(encoding="utf-8"))[file]
    broken = {mutant.name: mutant for mutant in mutants_of(file)}

    survivors = [
        name
        for name, mutant in broken.items()
        if name in catchers and not is_caught(valkey, mutant, catchers[name])
    ]

    print("\n".join(f"{file}: {name}: {catcher}" for name, catcher in catchers.items()))  # noqa: T201 shown with -rP
    assert list(broken) == list(catchers), "run `python -m tests.properties.protocol.mutants`"
    assert survivors == []


def test_the_page_of_mutants_is_what_the_program_writes() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert page(read_page(text)) == text
