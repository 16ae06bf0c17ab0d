"""Make clients of AWS as the aws command does: profile, region, endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sekali.cli.place import Service

CONNECT_SECONDS: Final = 3
READ_SECONDS: Final = 25
"""A long poll lasts up to twenty."""


class Session:
    """Hold the caller's choices; boto3 is imported at the first client."""

    def __init__(
        self,
        *,
        profile: str | None,
        region: str | None,
        endpoint_url: str | None,
        credentials: tuple[str, str] | None = None,
    ) -> None:
        """Keep what was chosen; None leaves it to the AWS configuration."""
        self.profile = profile
        self.region = region
        self.endpoint_url = endpoint_url
        self._credentials = credentials
        self._session: Any = None  # Any: boto3 is imported late
        self._clients: dict[Service, Any] = {}  # Any: boto3 makes its classes at run time

    def __call__(self, service: Service) -> Any:  # Any: as above
        """Return the client of a service, the same one each time."""
        if service not in self._clients:
            self._clients[service] = self._make(service)
        return self._clients[service]

    def _make(self, service: Service) -> Any:  # Any: as above
        import boto3
        from botocore.config import Config

        if self._session is None:
            key, secret = self._credentials or (None, None)
            self._session = boto3.Session(
                profile_name=self.profile,
                region_name=self.region,
                aws_access_key_id=key,
                aws_secret_access_key=secret,
            )
        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": 4},
        )
        return self._session.client(service, endpoint_url=self.endpoint_url, config=config)
