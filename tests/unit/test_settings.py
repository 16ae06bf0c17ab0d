"""The environment is read once, bounded, and refused with name, rule and value."""

from __future__ import annotations

import dataclasses

import pytest

from sekali.errors import PartialBatchOff, SettingInvalid
from sekali.settings import Settings, variables

LEAST = {
    "SEKALI_CACHE_URL": "valkey://cache.internal:6379",
    "SEKALI_TABLE_NAME": "results",
}
WORKER = {
    **LEAST,
    "SEKALI_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/123456789012/jobs",
    "SEKALI_DEAD_LETTER_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/123456789012/dead",
    "SEKALI_PARTIAL_BATCH": "true",
}
IAM = {
    **LEAST,
    "SEKALI_CACHE_URL": "valkeys://cache.internal:6379",
    "SEKALI_CACHE_IAM_USER": "worker",
    "SEKALI_CACHE_NAME": "reports",
    "SEKALI_CACHE_SERVERLESS": "true",
    "SEKALI_CACHE_CLUSTER": "true",
}


def refused(environ: dict[str, str]) -> SettingInvalid:
    with pytest.raises(SettingInvalid) as caught:
        Settings.from_env(environ)
    return caught.value


def test_the_least_environment_gets_every_default() -> None:
    settings = Settings.from_env(LEAST)

    assert settings == Settings(cache_url="valkey://cache.internal:6379", table_name="results")
    assert settings.namespace == "sekali"
    assert settings.durable_mode == "recorded"
    assert settings.lease_seconds == 12.0
    assert settings.max_attempts == 3
    assert settings.retention_seconds == 345_600.0
    assert settings.max_age_seconds == 345_600.0
    assert settings.flush_after_seconds == 0.25
    assert settings.local_max_bytes == 16 * 1024 * 1024
    assert settings.heartbeat is True
    assert settings.fifo is False


def test_every_variable_is_read() -> None:
    environ = {
        **WORKER,
        **IAM,
        "SEKALI_NAMESPACE": "stage-7",
        "SEKALI_SERVICE": "flight-reports",
        "SEKALI_TRACING": "opentelemetry",
        "SEKALI_METRICS": "off",
        "SEKALI_LOG_KEYS": "hash",
        "SEKALI_LOG_ERROR_TEXT": "true",
        "SEKALI_LOG_SAMPLE_RATE": "0.1",
        "SEKALI_CACHE_CONNECT_TIMEOUT_SECONDS": "1.5",
        "SEKALI_CACHE_TIMEOUT_SECONDS": "0.75",
        "SEKALI_DURABLE_MODE": "durable",
        "SEKALI_DEGRADED": "durable",
        "SEKALI_RESULTS_BUCKET": "large-results",
        "SEKALI_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/123456789012/jobs.fifo",
        "SEKALI_DEAD_LETTER_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/1/dead.fifo",
        "SEKALI_FIFO": "true",
        "SEKALI_VISIBILITY_SECONDS": "181",
        "SEKALI_RETENTION_SECONDS": "86400",
        "SEKALI_MAX_AGE_SECONDS": "3600",
        "SEKALI_LEASE_SECONDS": "10",
        "SEKALI_HEARTBEAT": "false",
        "SEKALI_MAX_ATTEMPTS": "5",
        "SEKALI_REVOKE_ENDLESS": "true",
        "SEKALI_RECORD_TTL_SECONDS": "90000",
        "SEKALI_COOLING_BASE_SECONDS": "2",
        "SEKALI_COOLING_CAP_SECONDS": "60",
        "SEKALI_BUCKETS": "128",
        "SEKALI_FLUSH_AFTER_SECONDS": "0.5",
        "SEKALI_LOCAL_MAX_ENTRIES": "50",
        "SEKALI_LOCAL_MAX_BYTES": "4096",
    }

    settings = Settings.from_env(environ)

    assert set(environ) == {variable.name for variable in variables()}
    defaults = Settings.from_env(LEAST)
    unread = [
        field.name
        for field in dataclasses.fields(Settings)
        if getattr(settings, field.name) == getattr(defaults, field.name)
    ]
    assert unread == ["table_name"]


@pytest.mark.parametrize(
    ("variable", "value", "rule"),
    [
        ("SEKALI_LEASE_SECONDS", "0", "must be between 1 and 900"),
        ("SEKALI_LEASE_SECONDS", "900.5", "must be between 1 and 900"),
        ("SEKALI_LEASE_SECONDS", "-1", "must be between 1 and 900"),
        ("SEKALI_LEASE_SECONDS", "nan", "must be between 1 and 900"),
        ("SEKALI_LEASE_SECONDS", "inf", "must be between 1 and 900"),
        ("SEKALI_LEASE_SECONDS", "1e2", "must be between 1 and 900"),
        ("SEKALI_LEASE_SECONDS", "1_0", "must be between 1 and 900"),
        ("SEKALI_LEASE_SECONDS", " 10", "must be between 1 and 900"),
        ("SEKALI_LEASE_SECONDS", "١٢", "must be between 1 and 900"),
        ("SEKALI_LEASE_SECONDS", "", "must be between 1 and 900"),
        ("SEKALI_MAX_ATTEMPTS", "101", "must be a whole number between 1 and 100"),
        ("SEKALI_MAX_ATTEMPTS", "3.0", "must be a whole number between 1 and 100"),
        ("SEKALI_BUCKETS", "16385", "must be a whole number between 1 and 16384"),
        ("SEKALI_RETENTION_SECONDS", "1209601", "must be between 60 and 1209600"),
        ("SEKALI_HEARTBEAT", "True", "must be true or false"),
        ("SEKALI_FIFO", "1", "must be true or false"),
        ("SEKALI_DURABLE_MODE", "both", "must be one of redis, recorded, durable"),
        ("SEKALI_NAMESPACE", "Stage", "must match [a-z0-9-]{1,32}"),
        ("SEKALI_NAMESPACE", "stage\n", "must match [a-z0-9-]{1,32}"),
        ("SEKALI_QUEUE_URL", "jobs", "must be the URL of a queue"),
        ("SEKALI_TABLE_NAME", "a/b", "must match [a-zA-Z0-9_.-]{3,255}"),
    ],
)
def test_a_value_that_breaks_its_rule_is_refused(variable: str, value: str, rule: str) -> None:
    error = refused({**LEAST, variable: value})

    assert (error.variable, error.rule, error.value) == (variable, rule, value)
    assert str(error) == f"{variable} {rule}, got {value!r}"


@pytest.mark.parametrize("variable", sorted(LEAST))
def test_a_missing_variable_is_named(variable: str) -> None:
    environ = {name: value for name, value in LEAST.items() if name != variable}

    error = refused(environ)

    assert (error.variable, error.value) == (variable, None)
    assert "is required" in error.rule


def test_the_table_is_not_needed_where_the_cache_is_the_only_record() -> None:
    environ = {"SEKALI_CACHE_URL": LEAST["SEKALI_CACHE_URL"], "SEKALI_DURABLE_MODE": "redis"}

    assert Settings.from_env(environ).table_name is None


def test_a_record_must_outlive_the_queue_where_it_is_the_only_one() -> None:
    environ = {**LEAST, "SEKALI_RECORD_TTL_SECONDS": "345599"}

    error = refused({**environ, "SEKALI_DURABLE_MODE": "redis"})

    assert Settings.from_env(environ).record_ttl_seconds == 345_599.0
    assert error.variable == "SEKALI_RECORD_TTL_SECONDS"
    assert error.rule == "must be at least SEKALI_RETENTION_SECONDS (345600) in mode redis"


def test_a_job_may_not_wait_longer_than_its_queue_keeps_it() -> None:
    error = refused({**LEAST, "SEKALI_RETENTION_SECONDS": "600", "SEKALI_MAX_AGE_SECONDS": "601"})

    assert error.variable == "SEKALI_MAX_AGE_SECONDS"


def test_the_longest_wait_follows_the_retention() -> None:
    settings = Settings.from_env({**LEAST, "SEKALI_RETENTION_SECONDS": "600"})

    assert settings.max_age_seconds == 600.0


@pytest.mark.parametrize(
    "missing", ["SEKALI_CACHE_IAM_USER", "SEKALI_CACHE_NAME", "SEKALI_CACHE_SERVERLESS"]
)
def test_the_variables_of_iam_authentication_come_together(missing: str) -> None:
    error = refused({name: value for name, value in IAM.items() if name != missing})

    assert (error.variable, error.value) == (missing, None)
    assert error.rule.startswith("is required together with SEKALI_CACHE_")


def test_iam_authentication_needs_tls() -> None:
    error = refused({**IAM, "SEKALI_CACHE_URL": "valkey://cache.internal:6379"})

    assert error.variable == "SEKALI_CACHE_URL"


def test_a_serverless_cache_is_a_cluster() -> None:
    error = refused({**IAM, "SEKALI_CACHE_CLUSTER": "false"})

    assert error.variable == "SEKALI_CACHE_CLUSTER"


def test_a_cooling_may_not_start_above_its_cap() -> None:
    error = refused({**LEAST, "SEKALI_COOLING_BASE_SECONDS": "301"})

    assert str(error) == (
        "SEKALI_COOLING_CAP_SECONDS must be at least SEKALI_COOLING_BASE_SECONDS (301), got '300'"
    )


def test_the_kind_of_queue_must_match_its_name() -> None:
    standard = refused({**WORKER, "SEKALI_FIFO": "true"})
    fifo = refused({**WORKER, "SEKALI_QUEUE_URL": WORKER["SEKALI_QUEUE_URL"] + ".fifo"})

    assert standard.rule == "must end in .fifo where SEKALI_FIFO is true"
    assert fifo.rule == "must not end in .fifo where SEKALI_FIFO is false"


def test_a_queue_may_not_be_its_own_dead_letter_queue() -> None:
    error = refused({**WORKER, "SEKALI_DEAD_LETTER_QUEUE_URL": WORKER["SEKALI_QUEUE_URL"]})

    assert error.variable == "SEKALI_DEAD_LETTER_QUEUE_URL"


def test_an_unknown_variable_names_the_nearest_known_one_and_hides_its_value() -> None:
    error = refused({**LEAST, "SEKALI_LEASE_SECOND": "hunter2"})

    assert error.variable == "SEKALI_LEASE_SECOND"
    assert error.rule == "is not a setting, the nearest is SEKALI_LEASE_SECONDS"
    assert "hunter2" not in str(error)


def test_variables_of_others_are_left_alone() -> None:
    environ = {**LEAST, "PATH": "/usr/bin", "sekali_lease_seconds": "0", "POWERTOOLS_DEV": "?"}

    assert Settings.from_env(environ) == Settings.from_env(LEAST)


@pytest.mark.parametrize(
    ("url", "host", "port", "tls"),
    [
        ("valkey://127.0.0.1:6400", "127.0.0.1", 6400, False),
        (
            "valkeys://cache.use1.cache.amazonaws.com:6379",
            "cache.use1.cache.amazonaws.com",
            6379,
            True,
        ),
        ("redis://localhost:6379/0", "localhost", 6379, False),
        ("rediss://[::1]:6380/", "::1", 6380, True),
    ],
)
def test_the_cache_address_is_taken_apart(url: str, host: str, port: int, tls: bool) -> None:  # noqa: FBT001 - a parameter of the test
    settings = Settings.from_env({**LEAST, "SEKALI_CACHE_URL": url})

    assert (settings.cache_host, settings.cache_port, settings.cache_tls) == (host, port, tls)


@pytest.mark.parametrize(
    "url",
    [
        "cache:6379",
        "http://cache:6379",
        "valkey://cache",
        "valkey://cache:0",
        "valkey://cache:65536",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    assert refused({**LEAST, "SEKALI_CACHE_URL": url}).value == url


@pytest.mark.parametrize("user", ["", "app", "p@rt"])
def test_a_password_in_the_address_is_refused_and_not_shown(user: str) -> None:
    error = refused({**LEAST, "SEKALI_CACHE_URL": f"valkey://{user}:hunter2@cache:6379"})

    assert error.value == "valkey://<hidden>@cache:6379"


def test_the_local_cache_takes_a_tenth_of_the_functions_memory() -> None:
    settings = Settings.from_env({**LEAST, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024"})

    assert settings.local_max_bytes == 1024 * 1024 * 1024 // 10


def test_the_worker_refuses_to_run_where_failed_messages_would_be_deleted() -> None:
    settings = Settings.from_env({**WORKER, "SEKALI_PARTIAL_BATCH": "false"})

    with pytest.raises(PartialBatchOff, match="SEKALI_PARTIAL_BATCH must be true"):
        settings.for_worker()


@pytest.mark.parametrize("missing", ["SEKALI_QUEUE_URL", "SEKALI_DEAD_LETTER_QUEUE_URL"])
def test_the_worker_refuses_to_run_without_its_queues(missing: str) -> None:
    environ = {name: value for name, value in WORKER.items() if name != missing}

    with pytest.raises(SettingInvalid) as caught:
        Settings.from_env(environ).for_worker()

    assert str(caught.value) == f"{missing} is required by the worker, it is not set"


def test_the_worker_gets_its_queues() -> None:
    queues = Settings.from_env(WORKER).for_worker()

    assert queues.queue_url == WORKER["SEKALI_QUEUE_URL"]
    assert queues.dead_letter_queue_url == WORKER["SEKALI_DEAD_LETTER_QUEUE_URL"]


def test_settings_cannot_be_changed() -> None:
    settings = Settings.from_env(LEAST)

    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.lease_seconds = 1.0  # type: ignore[misc]  # the test does what mypy forbids
