"""Do each job once and compute each answer once, in SQS-triggered Lambda workers.

The names below are the public ones. They are imported when first used, so that a producer pays
neither for Powertools nor for the cache client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sekali.async_producer import AsyncProducer
    from sekali.cached_functions import cached
    from sekali.caching import cache
    from sekali.calls import Result
    from sekali.errors import (
        JobFailed,
        KeyInvalid,
        LeaseBusy,
        LeaseLost,
        LoadTimeout,
        MessageInvalid,
        PermanentError,
        ResultTimeout,
        ResultUnencodable,
        SekaliError,
        SettingInvalid,
        SharedUnavailable,
        StoreUnavailable,
    )
    from sekali.idempotency import IdempotencyLayer
    from sekali.jobs import Job
    from sekali.leases import load_lease
    from sekali.lifetimes import Loaded
    from sekali.locking import lease
    from sekali.packing import MsgpackCodec, Packing
    from sekali.producer import Producer
    from sekali.pushes import listening
    from sekali.recovery import Recovery
    from sekali.sending import Request
    from sekali.settings import Settings
    from sekali.worker import Worker
    from sekali.wrappings import Unwrap

__version__ = "0.1.0"

__all__ = [
    "AsyncProducer",
    "IdempotencyLayer",
    "Job",
    "JobFailed",
    "KeyInvalid",
    "LeaseBusy",
    "LeaseLost",
    "LoadTimeout",
    "Loaded",
    "MessageInvalid",
    "MsgpackCodec",
    "Packing",
    "PermanentError",
    "Producer",
    "Recovery",
    "Request",
    "Result",
    "ResultTimeout",
    "ResultUnencodable",
    "SekaliError",
    "SettingInvalid",
    "Settings",
    "SharedUnavailable",
    "StoreUnavailable",
    "Unwrap",
    "Worker",
    "__version__",
    "cache",
    "cached",
    "lease",
    "listening",
    "load_lease",
]

_HOMES = {
    "AsyncProducer": "sekali.async_producer",
    "IdempotencyLayer": "sekali.idempotency",
    "Job": "sekali.jobs",
    "Loaded": "sekali.lifetimes",
    "MsgpackCodec": "sekali.packing",
    "Packing": "sekali.packing",
    "Producer": "sekali.producer",
    "Recovery": "sekali.recovery",
    "Request": "sekali.sending",
    "Result": "sekali.calls",
    "Settings": "sekali.settings",
    "Unwrap": "sekali.wrappings",
    "Worker": "sekali.worker",
    "cache": "sekali.caching",
    "cached": "sekali.cached_functions",
    "lease": "sekali.locking",
    "load_lease": "sekali.leases",
    "listening": "sekali.pushes",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'sekali' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "sekali.errors")), name)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(__all__)
