"""The durable store keeps its contract against a server over HTTP, as it does in process."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import pytest

from sekali.clock import SystemClock
from sekali.errors import StoreUnavailable
from sekali.store import Store
from sekali.store_rows import Accepted
from tests.contracts.store import StoreContract
from tests.contracts.store_backends import OnAws
from tests.contracts.store_histories import History
from tests.contracts.store_words import ID, NAME, ended

if TYPE_CHECKING:
    from infra.local.relay import Address


@pytest.fixture(scope="module")
def server(aws_address: Address) -> OnAws:
    host, port = aws_address
    return OnAws(f"http://{host}:{port}")


class TestStoreOverHttp(StoreContract):
    @pytest.fixture
    def backend(self, server: OnAws) -> OnAws:
        return server.renew()


@pytest.mark.slow
def test_a_history_over_http_agrees_with_the_model(server: OnAws) -> None:
    history = History(5, server.renew())

    history.run(200)

    assert history.met.total() == 200


def test_the_stores_own_clients_speak_to_the_server(
    server: OnAws, aws_address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = server.renew()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://{}:{}".format(*aws_address))
    store = Store(backend.table_name, clock=SystemClock(), bucket=backend.bucket_name)

    answer = ended(store, result=b"x" * 400_000)

    [row] = store.get_many([(NAME, ID)], deadline=time.monotonic() + 30.0).values()
    assert isinstance(answer, Accepted)
    assert (row.stored, row.result) == (answer.stored, b"x" * 400_000)


def test_a_server_that_hangs_is_left_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    # It accepts and never answers: what a cut connection looks like.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        store = Store("results", clock=SystemClock())
        started = time.monotonic()

        with pytest.raises(StoreUnavailable, match="no answer by the deadline"):
            store.get_many([(NAME, ID)], deadline=started + 0.5)

        assert time.monotonic() - started < 30.0
