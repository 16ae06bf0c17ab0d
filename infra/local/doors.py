"""The doors through which one execution environment reaches the cache and AWS."""

from dataclasses import dataclass, field

from infra.local.aws_calls import AwsCalls
from infra.local.faults import Weather
from infra.local.relay import Address, Relay
from infra.local.round_trips import RoundTrips


@dataclass(frozen=True, slots=True, kw_only=True)
class Climate:
    """The weather of all doors that lead to the same server."""

    cache: Weather = field(default_factory=Weather)
    aws: Weather = field(default_factory=Weather)


class Doors:
    """One environment's own ports to both servers, and what passed through them."""

    def __init__(
        self,
        relay: Relay,
        *,
        cache: Address,
        aws: Address,
        calls: AwsCalls,
        climate: Climate | None = None,
    ) -> None:
        given = climate or Climate()
        self.round_trips = RoundTrips()
        self._cache = relay.open(cache, self.round_trips.observe, weather=given.cache)
        self._aws = relay.open(aws, calls.observe, weather=given.aws)

    @property
    def cache(self) -> Address:
        """Where the environment finds the cache."""
        return self._cache.address

    @property
    def aws_endpoint(self) -> str:
        """Where the environment finds SQS, DynamoDB and S3."""
        host, port = self._aws.address
        return f"http://{host}:{port}"

    def close(self) -> None:
        """Close both."""
        self._cache.close()
        self._aws.close()
