"""The doors through which one execution environment reaches the cache and AWS."""

from infra.local.aws_calls import AwsCalls
from infra.local.relay import Address, Relay
from infra.local.round_trips import RoundTrips


class Doors:
    """One environment's own ports to both servers, and what passed through them."""

    def __init__(self, relay: Relay, *, cache: Address, aws: Address, calls: AwsCalls) -> None:
        self.round_trips = RoundTrips()
        self._cache = relay.open(cache, self.round_trips.observe)
        self._aws = relay.open(aws, calls.observe)

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
