"""What deployed queues and their mapping must be (FACTS 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.infra.synthesized import MAPPING, QUEUE, queues, resolved

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.infra.synthesized import Synthesized

pytestmark = pytest.mark.slow

FOURTEEN_DAYS_SECONDS = 1_209_600


def test_a_message_stays_hidden_for_six_timeouts_and_the_window(every: Synthesized) -> None:
    source, _ = queues(every)
    function, mapping = every.worker(), every.only(MAPPING)

    least = 6 * function["Timeout"] + mapping.get("MaximumBatchingWindowInSeconds", 0)

    assert source["VisibilityTimeout"] >= least


def test_failed_messages_alone_go_back_and_events_are_counted(every: Synthesized) -> None:
    mapping = every.only(MAPPING)

    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["MetricsConfig"] == {"Metrics": ["EventCount"]}
    assert every.worker()["Environment"]["Variables"]["SEKALI_PARTIAL_BATCH"] == "true"


def test_a_large_batch_has_a_window(variant: Callable[[str], Synthesized]) -> None:
    mapping = variant("large batches").only(MAPPING)

    assert (mapping["BatchSize"], mapping["MaximumBatchingWindowInSeconds"]) == (500, 3)


def test_pollers_are_capped_within_what_is_reserved(every: Synthesized, prod: Synthesized) -> None:
    mapping = every.only(MAPPING)
    pollers = mapping.get("ProvisionedPollerConfig", {}).get("MaximumPollers", 0)
    cap = mapping.get("ScalingConfig", {}).get("MaximumConcurrency", 0)
    reserved = every.worker().get("ReservedConcurrentExecutions")

    # Each provisioned poller invokes up to ten at once; the two exclude each other.
    assert bool(pollers) != bool(cap)
    assert 2 <= cap + pollers * 10 <= (reserved or 1000)
    assert prod.worker()["ReservedConcurrentExecutions"] == 50


def test_dead_letters_outlive_the_messages_of_their_queue(every: Synthesized) -> None:
    source, dead_letters = queues(every)

    assert dead_letters["MessageRetentionPeriod"] == FOURTEEN_DAYS_SECONDS
    assert source["MessageRetentionPeriod"] < FOURTEEN_DAYS_SECONDS


def test_only_the_source_may_send_its_dead_letters_there(every: Synthesized) -> None:
    source, dead_letters = queues(every)
    name = resolved(source["QueueName"], every.resources)
    policy = dead_letters["RedriveAllowPolicy"]

    (arn,) = policy["sourceQueueArns"]

    assert policy["redrivePermission"] == "byQueue"
    assert resolved(arn, every.resources) == f"arn:partition:sqs:region:accountid:{name}"


def test_the_receive_count_is_a_backstop_above_the_workers_attempts(every: Synthesized) -> None:
    source, _ = queues(every)
    variables = every.worker()["Environment"]["Variables"]

    least = 5 + int(variables["SEKALI_MAX_ATTEMPTS"])

    assert least <= source["RedrivePolicy"]["maxReceiveCount"] <= 1000


def test_fifo_queues_come_in_pairs_and_their_mapping_has_no_window(fifo: Synthesized) -> None:
    source, dead_letters = queues(fifo)
    mapping = fifo.only(MAPPING)

    assert source["FifoQueue"] is True
    assert dead_letters["FifoQueue"] is True
    assert resolved(source["QueueName"], fifo.resources).endswith(".fifo")
    assert "MaximumBatchingWindowInSeconds" not in mapping
    assert mapping["BatchSize"] <= 10
    # Each deferral on FIFO is a receive: a holder of 30 s and a lease of 12 s, second by second.
    assert source["RedrivePolicy"]["maxReceiveCount"] == 5 + 3 + 30 + 12


def test_queues_are_encrypted_with_a_key_of_aws_or_the_own_one(
    every: Synthesized, hardened: Synthesized
) -> None:
    for queue in queues(every):
        assert queue.get("SqsManagedSseEnabled") or queue["KmsMasterKeyId"]

    (key,) = hardened.data_keys()

    for queue in queues(hardened):
        assert queue["KmsMasterKeyId"] == {"Fn::GetAtt": [key, "Arn"]}


def test_queues_and_bucket_refuse_plain_http(every: Synthesized) -> None:
    policies = [*every.of("AWS::SQS::QueuePolicy").values(), every.only("AWS::S3::BucketPolicy")]

    refusals = [
        statement
        for policy in policies
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny"
        and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    ]

    assert len(refusals) == len(policies) == 1 + len(every.of(QUEUE))
