"""The error tree says what is wrong and keeps its data."""

from __future__ import annotations

import copy
import pickle

import pytest

from sekali import errors

EXAMPLES = [
    errors.SettingInvalid("SEKALI_LEASE_SECONDS", "must be between 1 and 900", "0"),
    errors.PartialBatchOff(),
    errors.KeyInvalid("job name", "must match [A-Za-z0-9_.-]{1,64}", "a b"),
    errors.PermanentError("no such carrier"),
    errors.MessageInvalid("wrong_type", "id", "must be text", "int"),
    errors.ResultUnencodable("monthly-delays", "datetime", "$.rows[3].day"),
    errors.ResultTooLarge("monthly-delays", 400_000, 307_200),
    errors.ValueUnreadable("checksum"),
    errors.InDoubt("order-7"),
    errors.ValueTooLarge(2_000_000, 1_048_576),
    errors.LeaseLost("flights/2013-01", "worker-7"),
    errors.LeaseBusy("ledger", "worker-7", 1.5),
    errors.JobFailed("monthly-delays", "order-7", "permanent", "PermanentError", "no such month"),
    errors.ResultTimeout("monthly-delays", "order-7", 60.0),
    errors.LoadTimeout("flights/2013-01", 2.5),
    errors.SharedUnavailable("flush", "TimeoutError"),
    errors.StoreUnavailable("record", "ThrottlingException"),
]


def test_every_class_of_the_tree_has_an_example() -> None:
    tree = {
        item
        for item in vars(errors).values()
        if isinstance(item, type) and issubclass(item, errors.SekaliError)
    }

    assert {type(example) for example in EXAMPLES} == tree - {errors.SekaliError}


def test_the_drawing_names_every_class() -> None:
    drawn = errors.__doc__ or ""

    assert all(type(example).__name__ in drawn for example in EXAMPLES)


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_a_copied_or_pickled_error_is_whole(error: errors.SekaliError) -> None:
    copies = [copy.copy(error), pickle.loads(pickle.dumps(error))]  # noqa: S301 - our own bytes

    assert [str(error), str(error)] == [str(one) for one in copies]
    assert [vars(error), vars(error)] == [vars(one) for one in copies]


def test_a_message_gives_name_rule_and_value() -> None:
    error = errors.SettingInvalid("SEKALI_LEASE_SECONDS", "must be between 1 and 900", "0")

    assert str(error) == "SEKALI_LEASE_SECONDS must be between 1 and 900, got '0'"


def test_a_missing_setting_is_told_from_an_empty_one() -> None:
    missing = errors.SettingInvalid("SEKALI_CACHE_URL", "is required", None)
    empty = errors.SettingInvalid("SEKALI_CACHE_URL", "is required", "")

    assert str(missing) == "SEKALI_CACHE_URL is required, it is not set"
    assert str(empty) == "SEKALI_CACHE_URL is required, got ''"


def test_a_long_value_is_cut_in_the_message_and_kept_as_an_attribute() -> None:
    error = errors.KeyInvalid("key", "must be shorter", "x" * 5_000)

    assert len(str(error)) < 200
    assert error.value == "x" * 5_000


def test_faults_of_message_and_result_are_permanent() -> None:
    permanent = [error for error in EXAMPLES if isinstance(error, errors.PermanentError)]

    assert {type(error).__name__ for error in permanent} == {
        "PermanentError",
        "InDoubt",
        "MessageInvalid",
        "ResultUnencodable",
        "ResultTooLarge",
    }
