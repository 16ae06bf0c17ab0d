"""Read the environment once, bound every value, and refuse what cannot work.

A setting is one field of `Settings`: its variable is the field's name in capitals after `SEKALI_`,
its rule, default and meaning stand beside it, and docs/settings.md is checked against them. Nothing
here connects or imports anything; a wrong value stops the container before its first message, with
the variable, the rule and the value in the error.
"""

from __future__ import annotations

from dataclasses import MISSING, field, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sekali.bounds import CACHE_URL, CacheUrl, Choice, Flag, Number, Text, Whole
from sekali.errors import PartialBatchOff, SettingInvalid
from sekali.light_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sekali.bounds import Rule

PREFIX = "SEKALI_"

_MEBIBYTE = 1024 * 1024
_MEMORY_VARIABLE = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"
_SAMPLE_VARIABLE = "POWERTOOLS_LOGGER_SAMPLE_RATE"
_HIDDEN = "<hidden>"


_FLAG = Flag()
_QUEUE_URL = Text(r"https?://[^\s/]+/\S{1,1000}", "must be the URL of a queue")


def _setting(
    rule: Rule, meaning: str, *, default: object = MISSING, shown: str = ""
) -> Any:  # Any: a value of the field, as `dataclasses.field`
    about = {"rule": rule, "meaning": meaning, "shown": shown}
    if default is MISSING:
        return field(metadata=about)
    return field(default=default, metadata=about)


class Variable(NamedTuple):
    """Describe one variable, for the docs and for the check of unknown names."""

    name: str
    rule: str
    default: str
    meaning: str


class WorkerQueues(NamedTuple):
    """Hold the two queues without which the worker cannot promise anything."""

    queue_url: str
    dead_letter_queue_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Hold every setting of a function, valid together.

    `from_env` is the way in for functions. Built by hand (tests, other programs) the rules between
    settings are still checked, the bounds of each are not.
    """

    namespace: str = _setting(
        Text("[a-z0-9-]{1,32}"),
        "Prefix of every key in the shared cache; one per stage where a cache is shared.",
        default="sekali",
    )
    service: str | None = _setting(
        Text("[A-Za-z0-9_.-]{1,64}"),
        "Service name: a dimension of the metrics.",
        default=None,
        shown="the worker's name",
    )
    tracing: Literal["xray", "opentelemetry", "off"] = _setting(
        Choice("xray", "opentelemetry", "off"),
        "Who draws traces; X-Ray only where a Lambda function runs.",
        default="xray",
    )
    metrics: Literal["cloudwatch", "opentelemetry", "off"] = _setting(
        Choice("cloudwatch", "opentelemetry", "off"),
        "Who keeps metrics; the dashboards and alarms of the stack are CloudWatch's.",
        default="cloudwatch",
    )
    log_keys: Literal["key", "hash"] = _setting(
        Choice("key", "hash"),
        "Whether log lines and traces show a key, or only its hash.",
        default="key",
    )
    log_error_text: bool = _setting(
        _FLAG,
        "Log the text of a job's error too, which may hold what its payload held.",
        default=False,
    )
    log_sample_rate: float = _setting(
        Number(0, 1),
        "Share of traces of which every step is logged.",
        default=0.0,
        shown="POWERTOOLS_LOGGER_SAMPLE_RATE, or 0",
    )
    cache_url: str = _setting(
        CacheUrl(), "Address of the shared cache; `redis://` and `rediss://` mean the same."
    )
    cache_cluster: bool = _setting(
        _FLAG, "The cache runs in cluster mode; a serverless one always does.", default=False
    )
    cache_iam_user: str | None = _setting(
        Text("[a-zA-Z][a-zA-Z0-9-]{0,39}"),
        "User id (and name) for IAM authentication; needs TLS and the next two.",
        default=None,
    )
    cache_name: str | None = _setting(
        Text("[a-z][a-z0-9-]{0,49}"),
        "Name of the cache, in lower case: it is signed.",
        default=None,
    )
    cache_serverless: bool | None = _setting(
        _FLAG, "Whether the named cache is a serverless one: it is signed too.", default=None
    )
    cache_connect_timeout_seconds: float = _setting(
        Number(0.05, 10), "How long one connection attempt may take.", default=1.0
    )
    cache_timeout_seconds: float = _setting(
        Number(0.05, 10), "How long one reply of the cache may take.", default=0.5
    )
    durable_mode: Literal["redis", "recorded", "durable"] = _setting(
        Choice("redis", "recorded", "durable"),
        "`redis` keeps no durable record; in `durable` the table is the authority.",
        default="recorded",
    )
    degraded: Literal["durable", "defer", "fail"] = _setting(
        Choice("durable", "defer", "fail"),
        "What a job does while the shared cache is away, unless it says so itself.",
        default="defer",
    )
    table_name: str | None = _setting(
        Text("[a-zA-Z0-9_.-]{3,255}"),
        "Table of results.",
        default=None,
        shown="required unless the mode is `redis`",
    )
    results_bucket: str | None = _setting(
        Text("[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"),
        "Bucket of results that are too large for the table.",
        default=None,
    )
    queue_url: str | None = _setting(
        _QUEUE_URL,
        "Queue of the worker, for delayed copies.",
        default=None,
        shown="required by the worker",
    )
    dead_letter_queue_url: str | None = _setting(
        _QUEUE_URL,
        "Queue of what cannot be done, with the reason.",
        default=None,
        shown="required by the worker",
    )
    fifo: bool = _setting(_FLAG, "The queues are FIFO; their names end in `.fifo`.", default=False)
    partial_batch: bool = _setting(
        _FLAG,
        "The event source reports batch item failures; the worker refuses to run without.",
        default=False,
    )
    visibility_seconds: float | None = _setting(
        Number(1, 43_200), "Visibility timeout of the queue.", default=None
    )
    retention_seconds: float = _setting(
        Number(60, 1_209_600), "Retention of the queue.", default=345_600.0
    )
    max_age_seconds: float = _setting(
        Number(1, 1_209_600),
        "A job that waited longer than this since it was first sent becomes a dead letter.",
        default=345_600.0,
        shown="the retention",
    )
    lease_seconds: float = _setting(
        Number(1, 900),
        "Length of a lease: how long a dead holder blocks its key. It is renewed while work runs.",
        default=12.0,
    )
    heartbeat: bool = _setting(
        _FLAG, "Renew leases while a job runs, at a third of their length.", default=True
    )
    max_attempts: int = _setting(
        Whole(1, 100), "Bodies of one job that may start before it is quarantined.", default=3
    )
    revoke_endless: bool = _setting(
        _FLAG,
        "Recovery takes leases away that were renewed for longer than an invocation can last.",
        default=False,
    )
    record_ttl_seconds: float = _setting(
        Number(60, 31_536_000),
        "Life of a job's record in the shared cache: the longest retention and a day.",
        default=1_296_000.0,
    )
    cooling_base_seconds: float = _setting(
        Number(0.001, 900),
        "Pause of a key after its first failed attempt; it doubles.",
        default=1.0,
    )
    cooling_cap_seconds: float = _setting(
        Number(0.001, 43_200), "Longest pause of a key.", default=300.0
    )
    buckets: int = _setting(
        Whole(1, 16_384),
        "Hash slots over which keys are spread. Changing it forgets what is stored.",
        default=64,
    )
    flush_after_seconds: float = _setting(
        Number(0, 60),
        "Finished work is sent after this, at a record boundary or beside a record that runs on.",
        default=0.25,
    )
    local_max_entries: int = _setting(
        Whole(0, 10_000_000), "Most entries of the local cache; 0 switches it off.", default=10_000
    )
    local_max_bytes: int = _setting(
        Whole(0, 10_737_418_240),
        "Most bytes of the local cache.",
        default=16 * _MEBIBYTE,
        shown="a tenth of the function's memory; 16 MiB elsewhere",
    )

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Settings:
        """Return the settings of `environ`, typically `os.environ`.

        Raises:
            SettingInvalid: a variable is required and missing, breaks its rule, contradicts another
                one, or starts with `SEKALI_` and is not known.

        """
        _refuse_unknown(environ)
        values: dict[str, Any] = {}  # Any: one value per field, each of its field's type
        for one in fields(cls):
            name = PREFIX + one.name.upper()
            if name in environ:
                values[one.name] = _read(name, one.metadata["rule"], environ[name])
            elif one.default is MISSING:
                raise SettingInvalid(name, "is required", None)
        if "max_age_seconds" not in values:
            values["max_age_seconds"] = values.get("retention_seconds", 345_600.0)
        if "local_max_bytes" not in values and _MEMORY_VARIABLE in environ:
            memory = _read(_MEMORY_VARIABLE, Whole(1, 1_000_000), environ[_MEMORY_VARIABLE])
            values["local_max_bytes"] = memory * _MEBIBYTE // 10
        if "log_sample_rate" not in values and _SAMPLE_VARIABLE in environ:
            found = environ[_SAMPLE_VARIABLE]
            values["log_sample_rate"] = _read(_SAMPLE_VARIABLE, Number(0, 1), found)
        return cls(**values)

    def __post_init__(self) -> None:
        """Check the rules between settings."""
        self._check_durability()
        self._check_authentication()
        self._check_queues()
        if self.cooling_cap_seconds < self.cooling_base_seconds:
            rule = f"must be at least SEKALI_COOLING_BASE_SECONDS ({self.cooling_base_seconds:g})"
            raise SettingInvalid(
                "SEKALI_COOLING_CAP_SECONDS", rule, f"{self.cooling_cap_seconds:g}"
            )

    @property
    def cache_host(self) -> str:
        """Return the host of the shared cache, without the brackets of an IPv6 address."""
        return self._cache_part("host").strip("[]")

    @property
    def cache_port(self) -> int:
        """Return the port of the shared cache."""
        return int(self._cache_part("port"))

    @property
    def cache_tls(self) -> bool:
        """Tell whether the connection to the shared cache is encrypted."""
        return self._cache_part("scheme") in {"valkeys", "rediss"}

    def for_worker(self) -> WorkerQueues:
        """Return the worker's queues, or refuse to run without what its guarantee needs.

        Raises:
            PartialBatchOff: failed messages would be deleted by the event source mapping.
            SettingInvalid: a queue is not set.

        """
        if not self.partial_batch:
            raise PartialBatchOff
        if self.queue_url is None:
            raise SettingInvalid("SEKALI_QUEUE_URL", "is required by the worker", None)
        if self.dead_letter_queue_url is None:
            raise SettingInvalid("SEKALI_DEAD_LETTER_QUEUE_URL", "is required by the worker", None)
        return WorkerQueues(self.queue_url, self.dead_letter_queue_url)

    def _cache_part(self, name: str) -> str:
        match = CACHE_URL.fullmatch(self.cache_url)
        if match is None:
            raise SettingInvalid("SEKALI_CACHE_URL", CacheUrl.text, _harmless(self.cache_url))
        return match[name]

    def _check_durability(self) -> None:
        if self.durable_mode != "redis" and self.table_name is None:
            rule = "is required unless SEKALI_DURABLE_MODE is redis"
            raise SettingInvalid("SEKALI_TABLE_NAME", rule, None)
        if self.durable_mode == "redis" and self.degraded == "durable":
            # There is no table that could be claimed.
            rule = "must not be durable where SEKALI_DURABLE_MODE is redis"
            raise SettingInvalid("SEKALI_DEGRADED", rule, self.degraded)
        retention = f"SEKALI_RETENTION_SECONDS ({self.retention_seconds:.10g})"
        if self.durable_mode == "redis" and self.record_ttl_seconds < self.retention_seconds:
            # Without a table, a message that outlives the record would start its job again.
            rule = f"must be at least {retention} in mode redis"
            found = f"{self.record_ttl_seconds:.10g}"
            raise SettingInvalid("SEKALI_RECORD_TTL_SECONDS", rule, found)
        if self.max_age_seconds > self.retention_seconds:
            # The queue would drop the message before the worker gives it a reason.
            found = f"{self.max_age_seconds:.10g}"
            raise SettingInvalid("SEKALI_MAX_AGE_SECONDS", f"must be at most {retention}", found)

    def _check_authentication(self) -> None:
        trio = {
            "SEKALI_CACHE_IAM_USER": self.cache_iam_user,
            "SEKALI_CACHE_NAME": self.cache_name,
            "SEKALI_CACHE_SERVERLESS": self.cache_serverless,
        }
        missing = [name for name, value in trio.items() if value is None]
        if missing and len(missing) < len(trio):
            present = " and ".join(name for name, value in trio.items() if value is not None)
            raise SettingInvalid(missing[0], f"is required together with {present}", None)
        if not missing and not self.cache_tls:
            rule = "must be valkeys://host:port where SEKALI_CACHE_IAM_USER is set"
            raise SettingInvalid("SEKALI_CACHE_URL", rule, self.cache_url)
        if self.cache_serverless and not self.cache_cluster:
            rule = "must be true where SEKALI_CACHE_SERVERLESS is true"
            raise SettingInvalid("SEKALI_CACHE_CLUSTER", rule, "false")

    def _check_queues(self) -> None:
        queues = {
            "SEKALI_QUEUE_URL": self.queue_url,
            "SEKALI_DEAD_LETTER_QUEUE_URL": self.dead_letter_queue_url,
        }
        for name, url in queues.items():
            if url is not None and url.endswith(".fifo") != self.fifo:
                ending = "must" if self.fifo else "must not"
                rule = f"{ending} end in .fifo where SEKALI_FIFO is {str(self.fifo).lower()}"
                raise SettingInvalid(name, rule, url)
        if self.queue_url is not None and self.queue_url == self.dead_letter_queue_url:
            rule = "must differ from SEKALI_QUEUE_URL"
            raise SettingInvalid("SEKALI_DEAD_LETTER_QUEUE_URL", rule, self.queue_url)


def variables() -> Iterator[Variable]:
    """Yield every variable with its rule, default and meaning, in the order of the fields."""
    for one in fields(Settings):
        about = one.metadata
        yield Variable(
            name=PREFIX + one.name.upper(),
            rule=about["rule"].text,
            default=about["shown"] or _default_text(one.default),
            meaning=about["meaning"],
        )


def _default_text(default: object) -> str:
    if default is MISSING:
        return "required"
    if default is None:
        return "not set"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default:.10g}`" if isinstance(default, float) else f"`{default}`"


def _read(name: str, rule: Rule, found: str) -> Any:  # Any: of the type of the field
    value = rule.read(found)
    if value is None:
        raise SettingInvalid(name, rule.text, _harmless(found))
    return value


def _harmless(found: str) -> str:
    """Hide what stands before an `@`: the one place where a password may be by mistake."""
    scheme, separator, rest = found.rpartition("@")
    return f"{scheme.partition('://')[0]}://{_HIDDEN}@{rest}" if separator else found


def _refuse_unknown(environ: Mapping[str, str]) -> None:
    known = {PREFIX + one.name.upper() for one in fields(Settings)}
    unknown = sorted({name for name in environ if name.startswith(PREFIX)} - known)
    if not unknown:
        return
    from difflib import get_close_matches

    nearest = get_close_matches(unknown[0], sorted(known), n=1, cutoff=0.0)[0]
    raise SettingInvalid(unknown[0], f"is not a setting, the nearest is {nearest}", _HIDDEN)
