"""Give Powertools' idempotency utility a persistence layer that stands on leases and fences.

Alone, in any Powertools project, one claim at a time::

    layer = IdempotencyLayer()

    @idempotent_function(data_keyword_argument="order", persistence_store=layer)
    def charge(order): ...

    t=0   A: put      → claim: lease of 12 s, fence 7; a heartbeat renews it while the body runs
    t=1   B: put      → Busy: IdempotencyAlreadyInProgressError
    t=2   A is frozen; t=15 its lease ends; t=16 C: put → claim: fence 8
    t=20  C: update   → finish: done, its result is final
    t=60  A thaws: update → the record is done with C's result: nothing is written over

Under the worker the claims of a whole batch were answered before, in one pipeline; the layer then
only hands each record its answer, and keeps the outcome for the batch's own flush.

Claim and completion are joined by a context variable, never by key: a token kept by key would let a
stale holder finish as the newer one. One layer serves one function, because Powertools keeps the
function's name on the layer, where a second function would overwrite it under threads.

What is *not* guaranteed here: a durable record. Alone, the layer is the worker's mode `redis`.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
    IdempotencyValidationError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.base import BasePersistenceLayer
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord

from sekali import codec
from sekali.answers import (
    Acquired,
    Ask,
    Busy,
    Done,
    End,
    Failed,
    Finished,
    Mismatch,
    Served,
    new_token,
)
from sekali.errors import LeaseLost, SettingInvalid, SharedUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aws_lambda_powertools.utilities.idempotency.config import IdempotencyConfig

    from sekali.answers import Lease, Terms
    from sekali.coordination import Coordination
    from sekali.heartbeat import Heartbeat

COMPLETED = "COMPLETED"
INPROGRESS = "INPROGRESS"
LONG_SECONDS = 3600.0


class Prepared(Protocol):
    """A record whose claim was answered before: what the worker hands to the layer."""

    def known(self) -> bool:
        """Tell whether the outcome is known, so that the body must not run."""
        ...

    def succeed(self, result: object) -> None:
        """Keep the result that the body returned."""
        ...

    def fail(self, error: Exception) -> None:
        """Keep the error that the body raised."""
        ...


PREPARED: ContextVar[Prepared | None] = ContextVar("sekali_prepared", default=None)
"""The worker's record that is running in this context."""


class Completed(DataRecord):
    """A finished record that carries its result as a value: `0` and `None` stay what they are."""

    def __init__(self, key: str, result: object = None, payload_hash: str = "") -> None:
        """Keep the decoded result beside what Powertools reads."""
        super().__init__(idempotency_key=key, status=COMPLETED, payload_hash=payload_hash)
        self.result = result

    # Any: Powertools says dict, but hands through whatever JSON held.
    def response_json_as_dict(self) -> Any:
        """Return the result."""
        return self.result


@dataclass(frozen=True, slots=True)
class _Open:
    """A claim of this context that was not ended yet."""

    key: str
    lease: Lease
    heartbeat: Heartbeat


_OPEN: ContextVar[tuple[_Open, ...]] = ContextVar("sekali_open_claims", default=())


class IdempotencyLayer(BasePersistenceLayer):
    """Store idempotency records as claims: leased, fenced, final once done."""

    def __init__(
        self, name: str = "idempotent", *, coordination: Callable[[], Coordination] | None = None
    ) -> None:
        """Make a layer; nothing is connected and no setting read before its first record.

        Args:
            name: the job name under which ids are kept; two functions need two names or prefixes.
            coordination: where claims go; by default the warm container of `Settings.from_env`.
        """
        super().__init__()  # type: ignore[no-untyped-call]  # Powertools left it untyped
        self.name = name
        self._coordination = coordination or _from_environment
        self._config: IdempotencyConfig | None = None

    def configure(
        self,
        config: IdempotencyConfig,
        function_name: str | None = None,
        key_prefix: str | None = None,
    ) -> None:
        """Bind the layer to one function and one configuration.

        Raises:
            SettingInvalid: it already belongs to another function or configuration. Powertools
                would keep the first one's key expression and answer with another request's result.
        """
        if self._config is None:
            super().configure(config, function_name, key_prefix)
            if config.response_hook is None:
                # type: the hook's protocol says dict, and hands through whatever JSON held
                config.response_hook = _unchanged  # type: ignore[assignment]
            self._config, self._bound = config, (function_name, key_prefix)
        elif config is not self._config or (function_name, key_prefix) != self._bound:
            raise SettingInvalid(
                "persistence_store",
                "must serve one function with one configuration: make a layer for each",
                f"{function_name} beside {self._bound[0]}",
            )

    # The public verbs, which Powertools calls with the data argument.

    def save_inprogress(
        self,
        data: Any,  # Any: the user's argument
        remaining_time_in_millis: int | None = None,  # noqa: ARG002  a lease has its own end
    ) -> None:
        """Claim the record of `data`, or raise what Powertools answers a known one with."""
        prepared = PREPARED.get()
        if prepared is None:
            key = self._get_hashed_idempotency_key(data)
            if key is not None:
                self._put_record(
                    DataRecord(
                        idempotency_key=key,
                        status=INPROGRESS,
                        payload_hash=self._get_hashed_payload(data),
                    )
                )
        elif prepared.known():
            raise IdempotencyItemAlreadyExistsError(old_data_record=Completed(""))

    def save_success(self, data: Any, result: Any) -> None:  # Any: the user's argument and result
        """Finish the claim of this context with `result`."""
        prepared = PREPARED.get()
        if prepared is not None:
            prepared.succeed(result)
            return
        key = self._get_hashed_idempotency_key(data)
        if key is not None:
            self._finish(key, result)

    def delete_record(self, data: Any, exception: Exception) -> None:  # Any: the user's argument
        """Give the claim of this context back, so that the next delivery runs the body again."""
        prepared = PREPARED.get()
        if prepared is not None:
            prepared.fail(exception)
            return
        key = self._get_hashed_idempotency_key(data)
        if key is not None:
            self._delete_record(DataRecord(idempotency_key=key))

    def get_record(self, data: Any) -> DataRecord:  # Any: the user's argument
        """Return the finished record of `data`.

        Raises:
            IdempotencyItemNotFoundError: it is not finished.
        """
        key = self._get_hashed_idempotency_key(data)
        return self._get_record(key or "")

    # The four verbs of the contract between Powertools and its stores, one claim at a time.

    def _put_record(self, data_record: DataRecord) -> None:
        parts = self._coordination()
        key = data_record.idempotency_key
        ask = _ask(self.name, key, data_record.payload_hash, parts.terms)
        sent_at = parts.now()
        answer = parts.claims.read_claim(ask, _one(parts, parts.claims.claim(ask)), sent_at)
        match answer:
            case Acquired(lease=lease):
                self._open(key, lease, parts)
            case Done(result=result) | Served(value=result):
                raise IdempotencyItemAlreadyExistsError(
                    old_data_record=Completed(key, codec.decode(result), data_record.payload_hash)
                )
            case Mismatch():
                raise IdempotencyValidationError(
                    "Payload does not match stored record for this event key"
                )
            case Busy(remaining_seconds=seconds):
                raise IdempotencyItemAlreadyExistsError(old_data_record=_in_progress(key, seconds))
            case Failed() | _:
                raise IdempotencyItemAlreadyExistsError(
                    old_data_record=_in_progress(key, LONG_SECONDS)
                )

    def _open(self, key: str, lease: Lease, parts: Coordination) -> None:
        heartbeat = parts.beating()
        lease.started = True
        heartbeat.watch(lease)
        heartbeat.start()
        alive = tuple(one for one in _OPEN.get() if parts.now() < one.lease.expires_at)
        _OPEN.set((*alive, _Open(key, lease, heartbeat)))

    def _update_record(self, data_record: DataRecord) -> None:
        self._finish(data_record.idempotency_key, data_record.response_json_as_dict())

    def _finish(self, key: str, result: object) -> None:
        with _closing(key) as opened:
            lease = opened.lease
            end = End(
                ask=lease.ask,
                token=lease.token,
                fence=lease.fence,
                outcome="D",
                recorded=False,
                result=self._encode(lease, result),
                header=b"",
                value_ttl_seconds=0.0,
            )
            answer = self._end(end)
        if not isinstance(answer, Finished):
            raise LeaseLost(key)

    def _encode(self, lease: Lease, result: object) -> bytes:
        try:
            return codec.encode(result, job=self.name)
        except Exception:
            self._give_back(lease)
            raise

    def _delete_record(self, data_record: DataRecord) -> None:
        with _closing(data_record.idempotency_key) as opened:
            self._give_back(opened.lease)

    def _give_back(self, lease: Lease) -> None:
        end = End(
            ask=lease.ask,
            token=lease.token,
            fence=lease.fence,
            outcome="W",
            recorded=False,
            result=b"",
            header=b"",
            value_ttl_seconds=0.0,
        )
        self._end(end)

    def _end(self, end: End) -> object:
        parts = self._coordination()
        return parts.claims.read_finish(end, _one(parts, parts.claims.finish(end)))

    def _get_record(self, idempotency_key: str) -> DataRecord:
        """Look a record up by claiming it and giving the claim back where there is none."""
        parts = self._coordination()
        ask = _ask(self.name, idempotency_key, "", parts.terms)
        answer = parts.claims.read_claim(ask, _one(parts, parts.claims.claim(ask)), parts.now())
        if isinstance(answer, Done):
            return Completed(idempotency_key, codec.decode(answer.result))
        if isinstance(answer, Acquired):
            self._give_back_unstarted(answer.lease)
        raise IdempotencyItemNotFoundError

    def _give_back_unstarted(self, lease: Lease) -> None:
        end = End(
            ask=lease.ask,
            token=lease.token,
            fence=lease.fence,
            outcome="U",
            recorded=False,
            result=b"",
            header=b"",
            value_ttl_seconds=0.0,
        )
        self._end(end)


def _from_environment() -> Coordination:
    from sekali import warm

    return warm.container().coordination()


def _unchanged(response: object, record: DataRecord) -> object:
    return record.result if isinstance(record, Completed) else response


def _ask(name: str, key: str, payload_hash: str, terms: Terms) -> Ask:
    return Ask(
        name=name,
        id=key,
        key=key,
        payload_hash=payload_hash,
        token=new_token(),
        terms=replace(terms, max_attempts=2**31),
    )


def _in_progress(key: str, seconds: float) -> DataRecord:
    import time

    return DataRecord(
        idempotency_key=key,
        status=INPROGRESS,
        in_progress_expiry_timestamp=int((time.time() + seconds + 1.0) * 1000),
    )


def _one(parts: Coordination, command: Any) -> Any:  # Any: a command's reply has no type yet
    (reply,) = parts.shared.flush([command])
    if isinstance(reply, Exception):
        raise SharedUnavailable("idempotency", str(reply)) from reply
    return reply


@contextmanager
def _closing(key: str) -> Iterator[_Open]:
    opened = next((one for one in reversed(_OPEN.get()) if one.key == key), None)
    if opened is None:
        raise LeaseLost(key)
    _OPEN.set(tuple(one for one in _OPEN.get() if one is not opened))
    opened.heartbeat.unwatch(opened.lease)
    try:
        yield opened
    finally:
        opened.heartbeat.stop()
