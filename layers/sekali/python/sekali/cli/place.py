"""Describe the stack that a command acts on, wherever it runs.

Two readers make the same description: `running` from the file that a stack on this machine writes,
`deployed` from what AWS says of a stack. What follows does not ask which of them it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

from sekali.cli.faults import Exit, Fault
from sekali.errors import SettingInvalid
from sekali.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]
"""Any: JSON."""
Service = Literal[
    "sqs",
    "dynamodb",
    "s3",
    "lambda",
    "logs",
    "cloudformation",
    "cloudwatch",
    "elasticache",
    "sts",
    "iam",
]


class Clients(Protocol):
    """Make clients of AWS with the caller's profile, region and endpoint."""

    def __call__(self, service: Service) -> Any:  # Any: boto3 makes its classes at run time
        """Return the client of a service, the same one each time."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionFacts:
    """What a function is deployed with. `log_group` is empty where logs are a file."""

    name: str
    timeout_seconds: float
    memory_mib: int
    variables: Mapping[str, str]
    log_group: str = ""
    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingFacts:
    """How the queue feeds the worker."""

    queue_arn: str
    batch_size: int
    window_seconds: float
    partial_batches: bool
    max_concurrency: int
    enabled: bool = True


@dataclass(frozen=True, kw_only=True)
class Place:
    """One stack. `log_file` is where functions of this machine print, else None."""

    name: str
    local: bool
    clients: Clients
    worker: FunctionFacts
    mapping: MappingFacts | None
    recover: FunctionFacts | None
    log_file: str | None = None
    cache_url: str | None = None
    others: tuple[FunctionFacts, ...] = field(default=())

    @cached_property
    def settings(self) -> Settings:
        """Return the worker's settings.

        Raises:
            Fault: the worker could not start with them; `sekali doctor` says more.
        """
        try:
            return Settings.from_env(self.variables)
        except SettingInvalid as error:
            text = f"the worker {self.worker.name} is deployed with a wrong setting: {error}"
            raise Fault(Exit.NO_STACK, text, kind="SettingInvalid") from error

    @cached_property
    def variables(self) -> dict[str, str]:
        """Return the worker's variables, with the cache where the caller reaches it."""
        own = {
            name: value
            for name, value in self.worker.variables.items()
            if name.startswith("SEKALI_")
        }
        return own | ({"SEKALI_CACHE_URL": self.cache_url} if self.cache_url else {})

    @property
    def reaches_cache(self) -> bool:
        """Tell whether the cache is reachable from here, and not only from the functions."""
        return self.local or self.cache_url is not None

    def needed(self, variable: str) -> str:
        """Return a variable of the worker's.

        Raises:
            Fault: it is not set.
        """
        value = self.variables.get(variable)
        if not value:
            text = f"the worker {self.worker.name} has no {variable}, which this needs"
            raise Fault(Exit.NO_STACK, text, kind="SettingInvalid")
        return value

    @property
    def queue_url(self) -> str:
        """Return the worker's queue."""
        return self.needed("SEKALI_QUEUE_URL")

    @property
    def dead_letter_queue_url(self) -> str:
        """Return where its dead letters are."""
        return self.needed("SEKALI_DEAD_LETTER_QUEUE_URL")
