"""Check the signed password against a signature computed here, from the rules of SigV4."""

from __future__ import annotations

import hashlib
import hmac
from itertools import count
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from botocore.credentials import Credentials
from botocore.exceptions import NoCredentialsError

from sekali.iam import REUSED_SECONDS, IamCredentials, Signer
from sekali.refusals import Disconnected
from sekali.testing import FrozenClock

SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
EMPTY_HASH = hashlib.sha256(b"").hexdigest()


def provider(clock: FrozenClock, *, serverless: bool = False, token: str = "") -> IamCredentials:
    signer = Signer(Credentials("AKIDEXAMPLE", SECRET, token or None), "eu-west-1")
    return IamCredentials(
        user="sekali-worker",
        cache_name="reports-cache",
        serverless=serverless,
        clock=clock,
        signer=lambda: signer,
    )


def query_of(password: str) -> dict[str, str]:
    found = urlsplit(f"https://{password}")
    assert (found.netloc, found.path) == ("reports-cache", "/")
    return {name: values[0] for name, values in parse_qs(found.query).items()}


def signature_of(query: dict[str, str]) -> str:
    """Compute the signature as the AWS General Reference describes it."""
    signed = {name: value for name, value in query.items() if name != "X-Amz-Signature"}
    canonical_query = "&".join(
        f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}"
        for name, value in sorted(signed.items())
    )
    request = f"GET\n/\n{canonical_query}\nhost:reports-cache\n\nhost\n{EMPTY_HASH}"
    date, scope = query["X-Amz-Date"], query["X-Amz-Credential"].partition("/")[2]
    hashed = hashlib.sha256(request.encode()).hexdigest()
    to_sign = f"AWS4-HMAC-SHA256\n{date}\n{scope}\n{hashed}"
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()


@pytest.mark.parametrize("serverless", [False, True])
def test_password_is_a_signed_request_to_connect(*, serverless: bool) -> None:
    user, password = provider(FrozenClock(), serverless=serverless).get_credentials()

    query = query_of(password)
    assert user == query["User"] == "sekali-worker"
    assert query["Action"] == "connect"
    assert query["X-Amz-Expires"] == "900"
    assert query["X-Amz-Credential"].endswith("/eu-west-1/elasticache/aws4_request")
    assert ("ServerlessCache" if serverless else None) == query.get("ResourceType")
    assert signature_of(query) == query["X-Amz-Signature"]


def test_token_of_a_role_is_signed_too() -> None:
    _, password = provider(FrozenClock(), token="a/session+token=").get_credentials()

    query = query_of(password)
    assert query["X-Amz-Security-Token"] == "a/session+token="
    assert signature_of(query) == query["X-Amz-Signature"]


def test_password_is_reused_for_ten_minutes_by_both_clocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passwords = count()
    monkeypatch.setattr(IamCredentials, "_sign", lambda _: f"password-{next(passwords)}")
    clock = FrozenClock()
    credentials = provider(clock)

    first = credentials.get_credentials()
    clock.advance(wall=REUSED_SECONDS, monotonic=REUSED_SECONDS)
    second = credentials.get_credentials()
    clock.advance(wall=600, monotonic=0.0)
    after_a_freeze = credentials.get_credentials()

    assert first == second
    assert after_a_freeze != first


@pytest.mark.parametrize("error", [RuntimeError("no role"), NoCredentialsError(), OSError("no")])
def test_role_that_cannot_sign_is_a_lost_connection(error: Exception) -> None:
    def no_role() -> Signer:
        raise error

    credentials = IamCredentials(
        user="ann", cache_name="cache", serverless=False, clock=FrozenClock(), signer=no_role
    )

    with pytest.raises(Disconnected) as lost:
        credentials.get_credentials()

    assert lost.value.cause == type(error).__name__
