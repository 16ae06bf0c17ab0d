"""Give Powertools' idempotency utility a persistence layer that stands on leases and fences.

In any Powertools project, one claim at a time::

    layer = IdempotencyLayer()

    @idempotent_function(data_keyword_argument="order", persistence_store=layer)
    def charge(order): ...

    t=0   A: put      → claim: lease of 12 s, fence 7; a heartbeat renews it while the body runs
    t=1   B: put      → Busy: IdempotencyAlreadyInProgressError
    t=2   A is frozen; t=14 its lease ends; t=16 C: put → claim: fence 8
    t=20  C: update   → finish: done, its result is final
    t=60  A thaws: update → LeaseLost, nothing is written over; when A's caller tries again, it gets
          C's result

Under the worker a whole batch was claimed before, in one pipeline: `PreparedLayer` only hands each
record its answer and keeps the outcome for the batch's own flush.

One layer serves one function, because Powertools keeps the function's name on the layer, where a
second function would overwrite it under threads.

When the shared cache is away, no body starts; a body that has started keeps trying to store its
result for as long as its lease would last, and a body that failed keeps its own error. Powertools
wraps what the layer raises in `IdempotencyPersistenceLayerError`; the layer's own is its cause. Of
a body that leaves by `SystemExit` Powertools tells nobody: the heartbeat notices, and lets its
lease end.

What is *not* guaranteed here: a durable record. Alone, the layer is the worker's mode `redis`.
"""

from __future__ import annotations

import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from sekali import codec
from sekali.answers import LONGEST_INVOCATION_SECONDS, Acquired, Busy, Done, Mismatch
from sekali.errors import ResultUnencodable, SettingInvalid
from sekali.keys import check_job_name
from sekali.lone_claims import LoneClaims
from sekali.powertools_idempotency import (
    BasePersistenceLayer,
    DataRecord,
    IdempotencyHandler,
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
    IdempotencyValidationError,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from aws_lambda_powertools.utilities.idempotency.config import IdempotencyConfig

    from sekali.warm import Container

COMPLETED: Final = "COMPLETED"
INPROGRESS: Final = "INPROGRESS"
_NOT_RULES: Final = frozenset({"lambda_context", "response_hook"})


class IdempotencyLayer(BasePersistenceLayer):
    """Store idempotency records as claims: leased, fenced, final once done."""

    def __init__(
        self, name: str = "idempotent", *, container: Callable[[], Container] | None = None
    ) -> None:
        """Make a layer; nothing is connected and no setting read before its first record.

        Args:
            name: the name under which records are kept, beside the function's own; as a job's name.
            container: whose cache is used; by default the warm container of `Settings.from_env`.

        Raises:
            KeyInvalid: the name cannot be used.
        """
        super().__init__()  # type: ignore[no-untyped-call]  # Powertools left it untyped
        check_job_name(name)
        self.name = name
        self._claims = LoneClaims(name, container)
        self._bound: tuple[str | None, str | None, dict[str, object]] | None = None
        self._config: IdempotencyConfig | None = None
        self._lock = threading.Lock()

    def configure(
        self,
        config: IdempotencyConfig,
        function_name: str | None = None,
        key_prefix: str | None = None,
    ) -> None:
        """Bind the layer to one function and one set of rules; Powertools calls it at each use.

        Raises:
            SettingInvalid: it already belongs to another function, or the rules differ. Powertools
                would keep the first one's key expression and answer with another request's result.
        """
        bound = (function_name, key_prefix, _rules(config))
        with self._lock:
            if self._bound is None:
                super().configure(config, function_name, key_prefix)
                self._bound = bound
        if bound != self._bound:
            raise SettingInvalid(
                "persistence_store",
                "must serve one function with one configuration: make a layer for each",
                f"{_last(function_name)} beside {_last(self._bound[0])}",
            )
        if not isinstance(config.response_hook, _Replay):
            config.response_hook = _Replay(config.response_hook)
        self._config = config

    # Of the public verbs, the two that would warn or change the result; the others do the right
    # thing by means of the four verbs below.

    def save_inprogress(
        self,
        data: Any,  # Any: the user's argument
        remaining_time_in_millis: int | None = None,
    ) -> None:
        """Claim the record of `data`, or raise what Powertools answers a known one with.

        Without a registered Lambda context it does not warn: a lease ends by itself.
        """
        if remaining_time_in_millis is None:
            remaining_time_in_millis = int(LONGEST_INVOCATION_SECONDS * 1000)
        super().save_inprogress(data, remaining_time_in_millis)

    def save_success(self, data: Any, result: Any) -> None:  # Any: the user's argument and result
        """Finish the claim of this context with `result`, exactly as it is or not at all.

        Raises:
            ResultUnencodable: JSON cannot carry it; the claim is given back.
            LeaseLost: another holder's result or claim is newer. Try again to get its result.
            SharedUnavailable: it could not be stored within the time of the lease.
        """
        key = self._get_hashed_idempotency_key(data)
        if key is None:
            return
        body = self._succeed(key, result)
        if self.use_local_cache:
            record = _completed(key, body, self._get_hashed_payload(data))
            record.expiry_timestamp = self._get_expiry_timestamp()
            self._save_to_cache(record)

    # The four verbs of the contract between Powertools and its stores, one claim at a time.

    def _put_record(self, data_record: DataRecord) -> None:
        key, ends_ms = data_record.idempotency_key, data_record.in_progress_expiry_timestamp
        context = self._config.lambda_context if self._config else None
        answer = self._claims.claim(
            key,
            payload_hash=data_record.payload_hash,
            record_ttl_seconds=self.expires_after_seconds,
            ends_at=None if ends_ms is None else ends_ms / 1000,
            request_id=str(getattr(context, "aws_request_id", "-")),
            wanted=_caller_is_running(),
        )
        match answer:
            case Acquired():
                return
            case Done(result=result):
                known = _completed(key, result, data_record.payload_hash)
                raise IdempotencyItemAlreadyExistsError(old_data_record=known)
            case Busy():
                running = DataRecord(key, INPROGRESS)
                raise IdempotencyItemAlreadyExistsError(old_data_record=running)
            case Mismatch():
                raise IdempotencyValidationError(
                    "Payload does not match stored record for this event key"
                )
            case _:  # Nothing that this layer writes is failed, quarantined or served.
                rule = "must not be the name of a worker's job"
                raise SettingInvalid("name of the IdempotencyLayer", rule, self.name)

    def _update_record(self, data_record: DataRecord) -> None:
        self._succeed(data_record.idempotency_key, data_record.response_json_as_dict())

    def _delete_record(self, data_record: DataRecord) -> None:
        self._claims.give_back(data_record.idempotency_key)

    def _get_record(self, idempotency_key: str) -> DataRecord:
        seen = self._claims.peek(idempotency_key)
        if seen is not None and seen.status == "done":
            return _completed(idempotency_key, seen.result, seen.payload_hash)
        if seen is not None and seen.status == "running":
            return DataRecord(idempotency_key, INPROGRESS, payload_hash=seen.payload_hash)
        raise IdempotencyItemNotFoundError

    def _succeed(self, key: str, result: object) -> bytes:
        """Finish the claim of this context; return the result as it was stored."""
        try:
            body = codec.encode(result, job=self.function_name)
        except ResultUnencodable:
            self._claims.give_back(key)
            raise
        self._claims.finish(key, body)
        return body

    # Powertools' local cache, which several threads would tear.

    def _save_to_cache(self, data_record: DataRecord) -> None:
        """Remember a result that this container stored; of any other the end is not known."""
        if data_record.expiry_timestamp is not None:
            with self._lock:
                super()._save_to_cache(data_record)

    def _retrieve_from_cache(self, idempotency_key: str) -> DataRecord | None:
        with self._lock:
            found: DataRecord | None = super()._retrieve_from_cache(idempotency_key)
            return found

    def _delete_from_cache(self, idempotency_key: str) -> None:
        with self._lock:
            super()._delete_from_cache(idempotency_key)


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


class PreparedLayer(IdempotencyLayer):
    """Hand each record of a batch the answer that its claim has got already.

    The data argument is the prepared record itself; it returns itself from `__deepcopy__`, because
    Powertools copies that argument. Nothing is hashed and nothing is sent.
    """

    def configure(self, *_: object, **__: object) -> None:
        """Do nothing: there is no key to extract and no payload to hash."""

    def save_inprogress(
        self,
        data: Any,  # Any: a `Prepared`, for which Powertools writes dict
        remaining_time_in_millis: int | None = None,  # noqa: ARG002  a lease has its own end
    ) -> None:
        """Let the body run, or raise what Powertools answers a finished record with."""
        if data.known():
            raise IdempotencyItemAlreadyExistsError(old_data_record=DataRecord("", COMPLETED))

    def save_success(self, data: Any, result: object) -> None:  # Any: as above
        """Keep the result for the batch's flush."""
        data.succeed(result)

    def delete_record(self, data: Any, exception: Exception) -> None:  # Any: as above
        """Keep the error for the batch's flush."""
        data.fail(exception)


class _Replay:
    """Hand a stored `0`, `False`, `""` or `[]` to the caller: Powertools makes None of them."""

    def __init__(self, hook: Callable[[Any, DataRecord], Any] | None) -> None:
        """Keep the user's own hook, which gets the same value."""
        self._hook = hook

    # Any: a result is whatever JSON holds; the names are those of Powertools' protocol.
    def __call__(self, response: Any, idempotent_data: DataRecord) -> Any:
        if response is None:
            response = idempotent_data.response_json_as_dict()
        return response if self._hook is None else self._hook(response, idempotent_data)


def _caller_is_running() -> Callable[[], bool] | None:
    """Return what tells whether Powertools' call around the body goes on; None if it is not its."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - public by its documentation
    while frame is not None and frame.f_globals.get("__name__") != IdempotencyHandler.__module__:
        frame = frame.f_back
    return None if frame is None else partial(_is_executing, frame)


def _is_executing(frame: FrameType) -> bool:
    try:
        frame.clear()  # Refused while the frame executes, which is the way to ask.
    except RuntimeError:
        return True
    return False


def _rules(config: IdempotencyConfig) -> dict[str, object]:
    """Return what a configuration says about records; `@idempotent` alone makes one per call."""
    return {name: value for name, value in vars(config).items() if name not in _NOT_RULES}


def _last(function_name: str | None) -> str:
    return (function_name or "").rpartition(".")[2]


def _completed(key: str, result: bytes, payload_hash: str) -> DataRecord:
    text = result.decode("utf-8", "surrogatepass")
    return DataRecord(key, COMPLETED, response_data=text, payload_hash=payload_hash)
