"""Either of the two, and beside it what each module that it imports takes of memory, in bytes."""

import json
import os
import sys
import tracemalloc
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from typing import Any

tracemalloc.start()
taken: dict[str, int] = {}
inside: list[int] = []


def weigh(loader: Any) -> None:  # Any: a class of importlib
    """Let a loader tell what its modules take, without what they import themselves."""
    execute = loader.exec_module

    def exec_module(self: object, module: Any) -> None:  # Any: a module
        before, _ = tracemalloc.get_traced_memory()
        inside.append(0)
        try:
            execute(self, module)
        finally:
            whole = tracemalloc.get_traced_memory()[0] - before
            taken[module.__name__] = whole - inside.pop()
            if inside:
                inside[-1] += whole

    loader.exec_module = exec_module


def tell(moment: str) -> None:
    """Write what was taken since the last time."""
    modules = len(sys.modules)
    print(json.dumps({"cold": moment, "modules": modules, "taken": taken}), flush=True)
    taken.clear()


for kind in (SourceFileLoader, ExtensionFileLoader):
    weigh(kind)
# One thread alone, so that what it takes is the module's.
os.environ["AWS_LAMBDA_INITIALIZATION_TYPE"] = "weighed"
inner = import_module(os.environ["TOLD"]).handler
tell("init")


def handler(event: object, context: object) -> object:
    """Take an event as the function does."""
    try:
        return inner(event, context)
    finally:
        tell("first")
