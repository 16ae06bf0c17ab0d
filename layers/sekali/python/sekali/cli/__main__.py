"""Run the command line as `python -m sekali.cli`."""

import sys

from sekali.cli import main

sys.exit(main())
