"""Make the clients of AWS's services, once each and with an end to their patience.

Nothing is imported before the first client is asked for: boto3 and what it brings would be a fifth
of a cold start (tests/benchmarks, "cold start": what the stack made by hand imports).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

Service = Literal["dynamodb", "s3", "sqs"]
"""What a client can be asked for."""

SIDE_BY_SIDE: Final = 8
"""A batch's calls go out side by side; more threads gain nothing, signing them is CPU work."""


def aws_client(service: Service) -> Any:  # Any: boto3 makes its classes at run time
    """Build a client that gives up early: 1 s to connect, 2 s to answer, three tries."""
    import boto3
    from botocore.config import Config

    config = Config(
        connect_timeout=1,
        read_timeout=2,
        retries={"mode": "standard", "total_max_attempts": 3},
        max_pool_connections=2 * SIDE_BY_SIDE,
    )
    return boto3.client(service, config=config)


class AwsClients:
    """One client of each service, made when it is first needed. Safe for threads."""

    __slots__ = ("_clients", "_lock", "_make")

    def __init__(
        self,
        make: Callable[[Service], Any] = aws_client,  # Any: see `aws_client`
    ) -> None:
        """Make nothing yet; `make` is called once for each service."""
        self._make = make
        self.forget()

    def forget(self) -> None:
        """Let the next calls make new ones: a fork or a restored snapshot shares its sockets."""
        self._lock = threading.Lock()
        self._clients: dict[Service, Any] = {}  # Any: see `aws_client`

    def put(self, service: Service, client: Any) -> None:  # Any: see `aws_client`
        """Use this client, which was made elsewhere."""
        self._clients[service] = client

    def of(self, service: Service) -> Any:  # Any: see `aws_client`
        """Return the client of a service."""
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self._make(service)
            return self._clients[service]
