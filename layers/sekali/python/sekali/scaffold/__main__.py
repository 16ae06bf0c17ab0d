"""`python -m sekali.scaffold NAME`: `sekali new-worker NAME` where that is not installed."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sekali.errors import SettingInvalid
from sekali.scaffold import FileExists, new_worker


def main() -> int:
    """Write a worker into this folder; 2 where the name or a file stands in the way."""
    parser = argparse.ArgumentParser(prog="python -m sekali.scaffold", description=__doc__)
    parser.add_argument("name", help="of the module in handlers/")
    name = parser.parse_args().name
    try:
        written = new_worker(name, root=Path.cwd())
    except (SettingInvalid, FileExists) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for path in written.files:
        sys.stdout.write(f"wrote {path.relative_to(Path.cwd())}\n")
    sys.stdout.write(f"\n{written.lines}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
