"""What type checkers make of the public names: mypy in `make lint`, pyright beside it."""
