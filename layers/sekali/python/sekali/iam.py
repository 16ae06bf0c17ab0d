"""Log in to ElastiCache with the function's own role instead of a password.

A password here is a request that was signed and never sent: `GET https://<cache>/?Action=connect&
User=<user>` for the service `elasticache`, good for 15 minutes, plus `ResourceType=ServerlessCache`
where the cache is a serverless one (ElastiCache User Guide, "Authenticating with IAM"). The cache's
name is lower case, the user's id is its name. A connection that is open stays good for 12 hours,
so a password is needed per connection; one is reused for ten minutes, by both clocks, because a
container that thaws would else offer one that is over.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from sekali.clock import age_seconds, now
from sekali.light_dataclass import dataclass
from sekali.refusals import Disconnected

if TYPE_CHECKING:
    from collections.abc import Callable

    from botocore.credentials import Credentials

    from sekali.clock import Clock, Moment

VALID_SECONDS: Final = 900
REUSED_SECONDS: Final = 600.0
SERVICE: Final = "elasticache"


@dataclass(frozen=True, slots=True)
class Signer:
    """Who signs: the credentials of the role, and the region of the cache."""

    credentials: Credentials
    region: str


def role_signer() -> Signer:
    """Return the function's role and region, as boto3 finds them.

    Raises:
        RuntimeError: there are no credentials, or no region is set.
    """
    from botocore.session import get_session

    session = get_session()
    credentials, region = session.get_credentials(), session.get_config_variable("region")
    if credentials is None or not region:
        raise RuntimeError(
            "IAM authentication needs credentials and AWS_REGION, and one is missing"
        )
    return Signer(credentials, region)


class IamCredentials:
    """Sign a password when a connection asks for one. Safe for threads.

    It is what redis-py calls a credential provider, without its class, which would import redis-py.
    """

    def __init__(
        self,
        *,
        user: str,
        cache_name: str,
        serverless: bool,
        clock: Clock,
        signer: Callable[[], Signer] = role_signer,
    ) -> None:
        """Keep the names; nothing is signed before the first connection."""
        self._user = user
        self._url = _url(user, cache_name, serverless=serverless)
        self._clock = clock
        self._signer = signer
        self._lock = Lock()
        self._signed: tuple[Moment, str] | None = None

    def get_credentials(self) -> tuple[str, str]:
        """Return the user and a password that is good for five minutes at least.

        Raises:
            Disconnected: nothing can be signed. Whoever flushes then finds the cache away, as with
                a login that is refused, and not an error of one of botocore's classes.
        """
        with self._lock:
            if self._signed is None or self._is_old(self._signed[0]):
                try:
                    self._signed = now(self._clock), self._sign()
                except Exception as error:
                    text = f"no password could be signed: {error}"
                    raise Disconnected(text, cause=type(error).__name__) from error
            return self._user, self._signed[1]

    def _is_old(self, since: Moment) -> bool:
        return age_seconds(since, self._clock) > REUSED_SECONDS

    def _sign(self) -> str:
        from botocore.auth import SigV4QueryAuth
        from botocore.awsrequest import AWSRequest

        signer = self._signer()
        request = AWSRequest("GET", self._url)
        frozen = signer.credentials.get_frozen_credentials()
        SigV4QueryAuth(frozen, SERVICE, signer.region, expires=VALID_SECONDS).add_auth(request)
        return str(request.url).removeprefix("https://")


def _url(user: str, cache_name: str, *, serverless: bool) -> str:
    query = {"Action": "connect", "User": user}
    if serverless:
        query["ResourceType"] = "ServerlessCache"
    return f"https://{cache_name}/?{urlencode(query)}"
