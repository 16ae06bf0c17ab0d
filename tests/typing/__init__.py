"""What type checkers make of the public names: `make lint` runs mypy, `make test-package` runs pyright."""
