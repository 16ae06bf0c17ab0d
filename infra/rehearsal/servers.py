"""The servers of a rehearsal: Valkey behind TLS, and ministack, stock, on loopback."""

import asyncio
import contextlib
import datetime as dt
import ipaddress
import os
import ssl
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.local import aws, runtime_folder, valkey
from infra.local.processes import Child, Nursery
from infra.local.relay import Address
from infra.local.valkey import ServerNotReady, free_port

ACCOUNT: Final = "000000000000"
REGION: Final = "us-east-1"
_READY_WITHIN_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.1
_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A certificate for loopback, and a bundle that trusts it."""

    file: Path
    key: Path

    def trust(self) -> dict[str, str]:
        """Make Python, Node and the CDK believe it."""
        names = ("AWS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")
        return {name: str(self.file) for name in names}

    @classmethod
    def make(cls, folder: Path) -> "Certificate":
        """Sign one that is valid for a day."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID

        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
        now = dt.datetime.now(dt.UTC)
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        made = cls(file=folder / "loopback.pem", key=folder / "loopback.key")
        made.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        made.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return made


class TlsDoor:
    """Takes TLS off in front of a server that does not speak it."""

    def __init__(self, upstream: Address, certificate: Certificate) -> None:
        self._upstream = upstream
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate.file, certificate.key)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.connections = 0

    def open(self) -> Address:
        """Listen on a free port of loopback."""
        listening = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context), self._loop
        )
        host, port = listening.result(10).sockets[0].getsockname()[:2]
        return host, port

    def close(self) -> None:
        """End every connection and the thread behind them."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        open_ones = asyncio.all_tasks() - {asyncio.current_task()}
        for task in open_ones:
            task.cancel()
        await asyncio.gather(*open_ones, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        behind, to_behind = await asyncio.open_connection(*self._upstream)
        with contextlib.suppress(asyncio.CancelledError):  # The rehearsal is over.
            await asyncio.gather(_pump(reader, to_behind), _pump(behind, writer))


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()
    except OSError:
        pass  # The other side is gone, which is how a connection ends.
    finally:
        sink.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """A running ministack, and how it is reached."""

    endpoint: str
    cache: TlsDoor
    log: Path
    variables: dict[str, str]

    def described(self) -> str:
        """Say what runs."""
        (installed,) = aws.PYTHON.parents[1].glob("lib/*/site-packages/ministack-*.dist-info")
        version = installed.name.removeprefix("ministack-").removesuffix(".dist-info")
        return f"ministack {version}, stock, at {self.endpoint}; Valkey behind TLS"


def start(nursery: Nursery, *, folder: Path, enforce: bool) -> Cloud:
    """Start the servers; with `enforce`, every call needs a permission and travels over TLS.

    Raises:
        ServerNotReady: One of them never answered.
    """
    if not aws.PYTHON.exists():
        raise ServerNotReady("ministack", f"{aws.PYTHON} does not exist: run `make setup`")
    certificate = Certificate.make(folder)
    door = TlsDoor(valkey.start(nursery, folder=folder), certificate)
    try:
        return _ministack(nursery, folder, door, certificate, enforce=enforce)
    except BaseException:
        door.close()
        raise


def _ministack(
    nursery: Nursery, folder: Path, door: TlsDoor, certificate: Certificate, *, enforce: bool
) -> Cloud:
    cache = door.open()
    log = folder / "ministack.log"
    runtime = runtime_folder.build(folder / "runtime")
    for _ in range(_ATTEMPTS):
        port = free_port()
        with log.open("ab") as output:
            child = nursery.start(
                [str(aws.PYTHON), "-m", "ministack"],
                variables=_variables(folder, port, cache, runtime, certificate, enforce=enforce),
                folder=folder,
                output=output,
            )
        endpoint = f"{'https' if enforce else 'http'}://127.0.0.1:{port}"
        if _ready(child, endpoint, certificate):
            return Cloud(
                endpoint=endpoint,
                cache=door,
                log=log,
                variables=_client_variables(folder, endpoint, certificate),
            )
        # Somebody else took the port between our look and its start: try another.
        child.kill()
    raise ServerNotReady("ministack", log.read_text(errors="replace"))


def _variables(
    folder: Path,
    port: int,
    cache: Address,
    runtime: Path,
    certificate: Certificate,
    *,
    enforce: bool,
) -> dict[str, str]:
    host, cache_port = cache
    variables = {
        **certificate.trust(),
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "MINISTACK_HOST": "127.0.0.1",
        "IOT_MTLS_ENABLED": "0",  # It would listen on a fixed port.
        "LOG_LEVEL": "INFO",
        "MINISTACK_REGION": REGION,
        "PATH": os.environ["PATH"],
        "TMPDIR": str(folder),
        "HOME": str(folder),
        # What a replication group's endpoint is, where there is no Docker.
        "REDIS_HOST": host,
        "REDIS_PORT": str(cache_port),
        # Its Lambda runs on its own Python, which has no boto3; Lambda has.
        "PYTHONPATH": str(runtime),
    }
    if enforce:
        variables |= {
            "AUTH": "true",
            "USE_SSL": "1",
            "MINISTACK_SSL_CERT": str(certificate.file),
            "MINISTACK_SSL_KEY": str(certificate.key),
        }
    return variables


def _client_variables(folder: Path, endpoint: str, certificate: Certificate) -> dict[str, str]:
    return {
        **certificate.trust(),
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "HOME": str(folder),
    }


def _ready(child: Child, endpoint: str, certificate: Certificate) -> bool:
    context = ssl.create_default_context(cafile=str(certificate.file))
    deadline = time.monotonic() + _READY_WITHIN_SECONDS
    while time.monotonic() < deadline and child.alive:
        try:
            with urllib.request.urlopen(  # noqa: S310 our own server on loopback
                f"{endpoint}/_ministack/health", timeout=1.0, context=context
            ):
                return True
        except urllib.error.HTTPError:
            return True
        except OSError:
            time.sleep(_POLL_SECONDS)
    return False
