"""What CloudWatch tells metrics apart by."""

from collections.abc import Mapping
from dataclasses import dataclass

Dimensions = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricName:
    """A namespace, a name and every dimension: what differs in one of them is another metric."""

    namespace: str
    name: str
    dimensions: Dimensions

    def __str__(self) -> str:
        dimensions = ", ".join(f"{key}={value}" for key, value in sorted(self.dimensions))
        return f"{self.namespace} {self.name} {{{dimensions}}}"


def metric(namespace: str, name: str, dimensions: Mapping[str, str]) -> MetricName:
    """Name a metric; its dimensions in any order."""
    return MetricName(namespace=namespace, name=name, dimensions=frozenset(dimensions.items()))
