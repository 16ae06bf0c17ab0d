"""What stops a synth: our rules and cdk-nag's packs, on the stack and on other apps."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from infra.config import read
from infra.queue_numbers import QueueNumbers
from infra.rules import check
from tests.infra.synthesized import MAPPING, QUEUE, Synthesized, flags, resolved, statements
from tests.infra.synthesized import read as read_assembly

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

NUMBERS = QueueNumbers(
    timeout_seconds=10,
    batch_size=10,
    batching_window_seconds=0,
    max_concurrency=5,
    reserved_concurrency=None,
    retention_seconds=345_600,
    record_ttl_seconds=1_296_000,
    lease_seconds=12,
    max_attempts=3,
)
THEIRS = "arn:aws:sqs:eu-west-1:111122223333:theirs"


def worker_in(stack: Any, **options: Any) -> Any:  # Any: constructs are imported late.
    """Put a QueueWorker into a stack that has nothing else of ours."""
    from aws_cdk import RemovalPolicy
    from aws_cdk import aws_iam as iam
    from aws_cdk import aws_lambda as lambda_
    from aws_cdk import aws_logs as logs

    from infra.functions import Surroundings
    from infra.queue_worker import QueueWorker

    return QueueWorker(
        stack,
        "Orders",
        numbers=NUMBERS,
        surroundings=Surroundings(
            code=lambda_.Code.from_inline("def handler(event, context): ..."),
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.ARM_64,
            layers=[],
            log_retention=logs.RetentionDays.ONE_WEEK,
            removal_policy=RemovalPolicy.DESTROY,
        ),
        handler="index.handler",
        memory_mib=256,
        environment={},
        role=iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com")),
        **options,
    )


def synthesized(tmp_path: Path, **options: Any) -> Synthesized:
    """The template of a foreign app that uses the construct."""
    from aws_cdk import App, Stack

    app = App(context=flags(), outdir=str(tmp_path))
    worker_in(Stack(app, "Shop"), **options)
    app.synth()
    return read_assembly(tmp_path)


def test_the_construct_works_in_any_app_without_a_network(tmp_path: Path) -> None:
    shop = synthesized(tmp_path)

    assert check(json.loads(shop.text)) == []
    assert len(shop.of(QUEUE)) == 2
    assert "VpcConfig" not in shop.only("AWS::Lambda::Function")


def test_the_construct_works_off_a_queue_that_is_there(tmp_path: Path) -> None:
    from aws_cdk import App, Stack
    from aws_cdk import aws_sqs as sqs

    from infra.queue_worker import Queues

    app = App(context=flags(), outdir=str(tmp_path))
    stack = Stack(app, "Shop")
    worker_in(
        stack,
        existing=Queues(
            queue=sqs.Queue.from_queue_arn(stack, "Theirs", THEIRS),
            dead_letters=sqs.Queue.from_queue_arn(stack, "Letters", f"{THEIRS}-letters"),
        ),
    )
    app.synth()
    shop = read_assembly(tmp_path)
    variables = shop.only("AWS::Lambda::Function")["Environment"]["Variables"]

    assert shop.of(QUEUE) == {}
    assert shop.only(MAPPING)["EventSourceArn"] == THEIRS
    assert resolved(variables["SEKALI_QUEUE_URL"], shop.resources).endswith("/111122223333/theirs")


def test_a_mapping_that_was_changed_afterwards_stops_the_synth(tmp_path: Path) -> None:
    from aws_cdk import App, Stack

    app = App(context=flags(), outdir=str(tmp_path))
    worker = worker_in(Stack(app, "Shop"))
    worker.mapping.node.default_child.add_property_deletion_override("FunctionResponseTypes")

    with pytest.raises(RuntimeError, match="messages that failed are deleted"):
        app.synth()


def test_the_rules_are_added_once_for_all_workers_and_judge_what_is_beside_them(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from aws_cdk import App, Stack
    from aws_cdk import aws_sqs as sqs

    app = App(context=flags(), outdir=str(tmp_path))
    worker_in(Stack(app, "Shop"))
    worker_in(Stack(app, "Store"))
    beside = Stack(app, "Beside")
    letters = sqs.DeadLetterQueue(max_receive_count=1, queue=sqs.Queue(beside, "Letters"))
    sqs.Queue(beside, "Queue", dead_letter_queue=letters)

    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()

    report = (tmp_path / "validation-report.json").read_text()
    assert report.count("1 receives are spent") == 1
    capfd.readouterr()


def test_the_packs_of_cdk_nag_stop_the_synth_of_the_stack(tmp_path: Path) -> None:
    from aws_cdk import App
    from aws_cdk import aws_sqs as sqs

    from infra.app import check as add_checks
    from infra.stack import SekaliStack

    app = App(context=flags(), outdir=str(tmp_path))
    config = read({})
    stack = SekaliStack(app, "Sekali", config=config)
    add_checks(app, stack, config)
    sqs.Queue(stack, "Open")

    with pytest.raises(RuntimeError, match="AwsSolutions-SQS4"):
        app.synth()


def test_the_stack_works_off_queues_that_are_there(tmp_path: Path) -> None:
    from aws_cdk import App

    from infra.stack import SekaliStack

    app = App(context=flags(), outdir=str(tmp_path))
    config = read({"queue_arn": THEIRS, "dead_letter_queue_arn": f"{THEIRS}-letters"})
    SekaliStack(app, "Sekali", config=config)
    app.synth()
    stack = read_assembly(tmp_path)
    granted = {
        one["Sid"]: one["Resource"]
        for one in statements(stack)
        if one["Sid"] in {"ReadQueue", "DeferMessages", "SendDeadLetters"}
    }

    assert stack.only(MAPPING)["EventSourceArn"] == THEIRS
    assert granted == {
        "ReadQueue": THEIRS,
        "DeferMessages": THEIRS,
        "SendDeadLetters": f"{THEIRS}-letters",
    }
