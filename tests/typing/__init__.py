"""What type checkers make of the public names: `make lint` runs mypy, a test runs pyright."""
