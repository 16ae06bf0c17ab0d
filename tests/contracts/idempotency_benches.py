"""The ways to take one request through idempotency: the layer alone, and the worker."""

from __future__ import annotations

import os
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyValidationError,
)

from sekali import IdempotencyLayer, Settings, Worker, codec, warm
from sekali.telemetry import events
from sekali.telemetry.hooks import Hooks
from tests.worker_kit import Context, event, job

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest
    from redis import Redis

    from sekali import Job
    from sekali.telemetry.events import Event, Hook
    from tests.worker_kit import Kit

DEADLINE_SECONDS = 30.0

_names = count(1)

PATIENT: dict[str, Any] = {  # Any: arguments of Settings
    # A busy machine may stop a server for longer than production should wait.
    "cache_connect_timeout_seconds": 10,
    "cache_timeout_seconds": 10,
}

Function = TypeVar("Function", bound="Callable[..., object]")


@dataclass(frozen=True)
class Answer:
    """What became of one delivery; `error` names the class of a failure."""

    kind: Literal["result", "in_progress", "mismatch", "failed"]
    result: object = None
    error: str = ""


class Delivering(Protocol):
    """Deliver requests to one idempotent function."""

    def deliver(self, request_id: str, body: Callable[[], object], payload: object = 1) -> Answer:
        """Deliver one request; `body` stands for the function's own work."""
        ...


class Bench(Delivering, Protocol):
    """Deliver them to any number of containers of ours."""

    valkey: Redis

    def deliver_beside_others(self, request_id: str, body: Callable[[], object]) -> Answer:
        """Deliver one request while other threads do the same."""
        ...

    def change_container(self) -> None:
        """Let later deliveries meet a container that knows nothing."""
        ...

    def inner(self, function: Callable[..., object]) -> Callable[..., object]:
        """Return `function(request)` made idempotent by a lone layer that shares the container."""
        ...


def end_leases(valkey: Redis) -> None:
    """End every lease and every cooling on the server, as its TTL would."""
    for key in valkey.scan_iter(match="*:lease:*"):
        valkey.delete(key)


def once(
    layer: IdempotencyLayer,
    **options: Any,  # Any: arguments of idempotent_function
) -> Callable[[Function], Function]:
    """Make a function of `order` idempotent, keeping its type, which Powertools does not."""
    decorator: Callable[[Function], Function] = idempotent_function(
        data_keyword_argument="order", persistence_store=layer, **options
    )
    return decorator


class FunctionBench:
    """A function made idempotent in plain Powertools code; a subclass gives `call`."""

    call: Callable[..., object]

    def deliver(self, request_id: str, body: Callable[[], object], payload: object = 1) -> Answer:
        request = {"id": request_id, "payload": payload}
        try:
            return Answer("result", self.call(request=request, body=body))
        except IdempotencyAlreadyInProgressError:
            return Answer("in_progress")
        except IdempotencyValidationError:
            return Answer("mismatch")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the body may raise anything
            return Answer("failed", error=type(error.__cause__ or error).__name__)

    @staticmethod
    def run(*, request: dict[str, object], body: Callable[[], object]) -> object:
        """Be the function that is made idempotent."""
        assert request["id"]
        return body()


class LayerBench(FunctionBench):
    """The layer alone, in plain Powertools code."""

    def __init__(
        self,
        valkey: Redis,
        url: str,
        *,
        layer: type[IdempotencyLayer] = IdempotencyLayer,
        lease_seconds: float = 12.0,
        connect: Callable[[], Any] | None = None,  # Any: as `warm.Container`
        **config: Any,  # Any: arguments of IdempotencyConfig
    ) -> None:
        self.valkey = valkey
        self.events: list[Event] = []
        self._settings = Settings(
            cache_url=url, durable_mode="redis", lease_seconds=lease_seconds, **PATIENT
        )
        self._layer, self._connect = layer, connect
        self._config: dict[str, Any] = {  # Any: arguments of IdempotencyConfig
            "event_key_jmespath": "id",
            "payload_validation_jmespath": "payload",
            **config,
        }
        self.change_container()

    def change_container(self) -> None:
        container = warm.Container(self._settings, emit=self.events.append, connect=self._connect)
        self.container = container
        self.layer = self._layer("contract", container=lambda: container)
        self.call = idempotent_function(
            self.run,
            data_keyword_argument="request",
            config=IdempotencyConfig(**self._config),
            persistence_store=self.layer,
        )

    def deliver_beside_others(self, request_id: str, body: Callable[[], object]) -> Answer:
        return self.deliver(request_id, body)

    def inner(self, function: Callable[..., object]) -> Callable[..., object]:
        layer = IdempotencyLayer(f"inner-{next(_names)}", container=lambda: self.container)
        wrapped: Callable[..., object] = idempotent_function(
            function, data_keyword_argument="request", persistence_store=layer
        )
        return wrapped


class WorkerBench:
    """The worker: one message of one batch per delivery.

    A container handles one invocation at a time. Here one process stands for many of them, so the
    warm container is that of the delivery's own context.
    """

    def __init__(self, valkey: Redis, kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
        self.valkey = valkey
        self._kit = kit
        self._container: ContextVar[list[warm.Container]] = ContextVar("container")
        self._body: ContextVar[Callable[[], object]] = ContextVar("body")
        self._told: ContextVar[list[Event]] = ContextVar("told")
        # Events of a delivery are told by its own thread; those of a heartbeat belong to none.
        self._worker = Worker("tests", hooks=[lambda one: self._told.get([]).append(one)])
        self._worker.job("contract")(self._run)
        monkeypatch.setattr(warm, "container", self._warm_container)
        self.change_container()

    def change_container(self) -> None:
        self._latest: list[warm.Container] = []

    def deliver(self, request_id: str, body: Callable[[], object], payload: object = 1) -> Answer:
        # A body that goes on after `change_container` stays in the container that it began in.
        return copy_context().run(self._deliver, self._latest, request_id, body, payload)

    def deliver_beside_others(self, request_id: str, body: Callable[[], object]) -> Answer:
        return copy_context().run(self._deliver, [], request_id, body, 1)

    def inner(self, function: Callable[..., object]) -> Callable[..., object]:
        wrapped: Callable[..., object] = idempotent_function(
            function,
            data_keyword_argument="request",
            persistence_store=IdempotencyLayer(f"inner-{next(_names)}"),
        )
        return wrapped

    def _deliver(
        self,
        container: list[warm.Container],
        request_id: str,
        body: Callable[[], object],
        payload: object,
    ) -> Answer:
        told: list[Event] = []
        self._container.set(container)
        self._body.set(body)
        self._told.set(told)
        message = job(request_id, {"payload": payload}, name="contract")

        response = self._worker.handler(event(message), Context())

        assert response == {"batchItemFailures": []}
        (settled,) = (one for one in told if isinstance(one, events.RecordSettled))
        if settled.outcome == "delete":
            return Answer("result", self._result(request_id))
        if settled.reason in {"busy", "cooling"}:
            return Answer("in_progress")
        if settled.reason == "payload_mismatch":
            return Answer("mismatch")
        return Answer("failed", error=settled.reason)

    def _run(self, job: Job) -> object:
        assert job.id
        return self._body.get()()

    def _result(self, request_id: str) -> object:
        (record,) = self.valkey.scan_iter(match=f"*:job:contract/{request_id}")
        result = self.valkey.hget(record, "result")
        assert isinstance(result, bytes)
        return codec.decode(result)

    def _warm_container(
        self, observe: Callable[[Settings], Sequence[Hook]] | None = None
    ) -> warm.Container:
        mine = self._container.get()
        if not mine:
            settings = Settings.from_env(os.environ)
            hooks = observe(settings) if observe else []
            mine.append(warm.Container(settings, emit=Hooks(*hooks)))
        return mine[0]
