"""Describe jobs: how one is registered, and what its function is given.

A job has a *name* (which function), an *id* (who asks) and a *key* (what is computed; default: the
id). An id determines its key, so a key is a pure function of the payload.
"""

from __future__ import annotations

import inspect
import json
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from sekali.errors import MessageInvalid, PermanentError, SettingInvalid
from sekali.light_dataclass import dataclass

if TYPE_CHECKING:
    from sekali.answers import Terms
    from sekali.degraded import Policy
    from sekali.leases import HeldLease
    from sekali.tiered import Tiered

KeyRule = str | Callable[[Mapping[str, Any]], str] | None
"""A template over `payload`, a function of the payload, or None for the id itself."""

TagRule = Sequence[str] | Callable[[Mapping[str, Any]], Sequence[str]]
"""Templates over `payload`, or a function of the payload that returns the tags."""


class _KeyTemplate(string.Formatter):
    """Fill a key template so that two different payloads never make one key by accident.

    Text fields are percent-encoded where they hold `/`, `%` or `~`; every other value is written as
    `~` and its JSON. So `{a}/{b}` keeps its separator, and `1` differs from `"1"`.
    """

    # Any: the formatter protocol of the standard library passes whatever the payload holds.
    def format_field(self, value: Any, format_spec: str) -> str:
        return format(value, format_spec) if format_spec else _field_text(value)

    def fill(self, template: str, payload: Mapping[str, Any]) -> str:
        """Fill `template`; the usual one, which only names fields, without looking at it again."""
        fields = _named_fields(template)
        if fields is None:
            filled: str = self.format(template, payload=payload)
            return filled
        return "".join(
            [
                literal if name is None else literal + _field_text(payload[name])
                for literal, name in fields
            ]
        )


def _field_text(value: object) -> str:
    if isinstance(value, str):
        return value.replace("%", "%25").replace("/", "%2F").replace("~", "%7E")
    return "~" + json.dumps(value, sort_keys=True, separators=(",", ":"))


_TEMPLATE = _KeyTemplate()
_NAMED = re.compile(r"payload\[([A-Za-z_][A-Za-z0-9_-]*)\]")


@lru_cache(maxsize=256)
def _named_fields(template: str) -> tuple[tuple[str, str | None], ...] | None:
    """Return each literal and the name of the field behind it; None where there is more to do."""
    fields: list[tuple[str, str | None]] = []
    for literal, field, spec, conversion in _TEMPLATE.parse(template):
        named = _NAMED.fullmatch(field or "")
        if field is not None and (named is None or spec or conversion):
            return None
        fields.append((literal, named[1] if named else None))
    return tuple(fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A registered job: its function and the numbers that govern its claims.

    `ttl_seconds` is the hard TTL of the key's value in both tiers; 0 means that nothing but the
    record of the id is kept. `permanent` lists the exceptions that no retry can mend. Attempts,
    lease and the degraded policy override the settings where they are not None. `after_crash` says
    whether a job whose body was cut off is run again. `tags` are those of the key's value.
    """

    name: str
    function: Callable[[Job], object]
    key: KeyRule
    ttl_seconds: float
    permanent: tuple[type[Exception], ...] = ()
    max_attempts: int | None = None
    lease_seconds: float | None = None
    degraded: Policy | None = None
    after_crash: Literal["rerun", "in_doubt"] = "rerun"
    tags: TagRule = ()

    def tags_of(self, payload: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the tags that the value of `payload` carries, each once.

        Raises:
            MessageInvalid: the payload lacks what a tag is made of (reason `payload_rejected`).
        """
        if self.key is None or not self.tags:
            return ()
        try:
            if callable(self.tags):
                tags = _texts(self.tags(dict(payload)))
            else:
                tags = [_TEMPLATE.fill(tag, payload) for tag in self.tags]
            return tuple(dict.fromkeys(tags))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # As for the key below.
            raise self._rejected("a tag", error) from error

    def key_of(self, job_id: str, payload: Mapping[str, Any]) -> str:
        """Return the key of `payload`.

        Raises:
            MessageInvalid: the payload lacks what the key is made of (reason `payload_rejected`).
        """
        if self.key is None:
            return job_id
        try:
            if callable(self.key):
                return _text(self.key(dict(payload)))
            return _TEMPLATE.fill(self.key, payload)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # The edge of one record: a key function may fail in any way, and only its own record.
            raise self._rejected("the key", error) from error

    def _rejected(self, what: str, error: BaseException) -> MessageInvalid:
        return MessageInvalid(
            "payload_rejected",
            field="payload",
            rule=f"must hold what {what} of job {self.name} is made of",
            value=f"{type(error).__name__}: {error}",
        )

    def terms(self, defaults: Terms) -> Terms:
        """Return the terms of this job's claims: `defaults` with this job's own numbers."""
        return replace(
            defaults,
            max_attempts=self.max_attempts or defaults.max_attempts,
            lease_seconds=self.lease_seconds or defaults.lease_seconds,
        )

    def is_permanent(self, error: Exception) -> bool:
        """Tell whether no retry can mend `error`."""
        return isinstance(error, (PermanentError, *self.permanent))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One unit of work, as its function sees it. The payload is the function's own copy."""

    name: str
    id: str
    key: str
    payload: dict[str, Any]  # Any: the user's own JSON
    attempt: int
    deferrals: int
    trace: str | None
    lease: HeldLease
    cache: Tiered
    remaining_seconds: Callable[[], float]


def _text(made: object) -> str:
    """Return what a function made of a payload; None made into text would be one key for all."""
    if isinstance(made, str) or type(made) is int:
        return str(made)
    if inspect.iscoroutine(made):
        made.close()
    raise TypeError(f"must return text, got {type(made).__name__}")


def _texts(made: object) -> list[str]:
    if isinstance(made, (str, bytes)) or not isinstance(made, Iterable):
        raise TypeError(f"must return a list of texts, got {type(made).__name__}")
    return [_text(one) for one in made]


def validate_rules(key: KeyRule, tags: TagRule) -> None:
    """Refuse templates that no payload could fill: they would dead-letter every message.

    Raises:
        SettingInvalid: `key` or one of `tags` is no template over `payload`.
    """
    if not (key is None or isinstance(key, str) or callable(key)):
        raise SettingInvalid("key", "must be a template, a function or None", type(key).__name__)
    if isinstance(tags, str):
        raise SettingInvalid("tags", "must be a list of templates, or a function", tags)
    templates = [] if callable(tags) else [("tags", tag) for tag in tags]
    if isinstance(key, str):
        templates.append(("key", key))
    for name, template in templates:
        try:
            fields = [field for _, field, _, _ in _TEMPLATE.parse(template) if field is not None]
        except (ValueError, TypeError) as error:
            raise SettingInvalid(name, f"must be a template: {error}", str(template)) from error
        if any(re.split(r"[.\[]", field, maxsplit=1)[0] != "payload" for field in fields):
            raise SettingInvalid(name, "must be a template over payload alone", template)


def validate_permanent(errors: Sequence[type[Exception]]) -> tuple[type[Exception], ...]:
    """Return `errors` as a tuple.

    Raises:
        TypeError: one of them is not an exception class.
    """
    for error in errors:
        if not issubclass(error, Exception):
            msg = f"permanent must list exception classes, got {error!r}"
            raise TypeError(msg)
    return tuple(errors)
