"""What each function may do, and the code that does it: no grant slips in, none stays behind."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from tests.infra.synthesized import (
    GROUP,
    ROOT,
    SERVERLESS,
    as_list,
    resolved,
    statements,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.infra.synthesized import Resource, Synthesized

pytestmark = pytest.mark.slow

LIBRARY = "layers/sekali/python/sekali"
HANDLERS = ("reports", "invalidate", "recover")


@dataclass(frozen=True)
class Need:
    """Why an action is allowed: the text in the file that makes the call, or who else makes it."""

    file: str = ""
    text: str = ""
    by: str = ""


LAMBDA = Need(by="Lambda itself, with the function's role")
MAPPING = Need(by="the event source mapping, with the function's role")
KMS = Need(by="the encrypted service, with the caller's rights")

NEEDS: dict[tuple[str, str], Need] = {
    ("WriteLogs", "logs:CreateLogStream"): LAMBDA,
    ("WriteLogs", "logs:PutLogEvents"): LAMBDA,
    ("SendTraces", "xray:PutTelemetryRecords"): LAMBDA,
    ("SendTraces", "xray:PutTraceSegments"): LAMBDA,
    **{
        ("JoinNetwork", f"ec2:{action}"): LAMBDA
        for action in (
            "AssignPrivateIpAddresses",
            "CreateNetworkInterface",
            "DeleteNetworkInterface",
            "DescribeNetworkInterfaces",
            "DescribeSubnets",
            "UnassignPrivateIpAddresses",
        )
    },
    ("ReadQueue", "sqs:DeleteMessage"): MAPPING,
    ("ReadQueue", "sqs:GetQueueAttributes"): MAPPING,
    ("ReadQueue", "sqs:ReceiveMessage"): MAPPING,
    # One or the other, by the kind of the queue: see `granted_for`.
    ("DeferMessages", "sqs:SendMessage"): Need(f"{LIBRARY}/outbox.py", "send_message_batch("),
    ("DeferMessages", "sqs:ChangeMessageVisibility"): Need(
        f"{LIBRARY}/outbox.py", "change_message_visibility"
    ),
    ("SendDeadLetters", "sqs:SendMessage"): Need(f"{LIBRARY}/outbox.py", "send_message_batch("),
    ("KeepResults", "dynamodb:BatchGetItem"): Need(f"{LIBRARY}/table.py", "batch_get_item("),
    ("KeepResults", "dynamodb:PutItem"): Need(f"{LIBRARY}/table.py", ".put_item"),
    ("KeepResults", "dynamodb:UpdateItem"): Need(f"{LIBRARY}/table.py", ".update_item"),
    ("FindPending", "dynamodb:Query"): Need(f"{LIBRARY}/table.py", ".query("),
    ("KeepLargeResults", "s3:GetObject"): Need(f"{LIBRARY}/large_results.py", "get_object("),
    ("KeepLargeResults", "s3:PutObject"): Need(f"{LIBRARY}/large_results.py", "put_object("),
    ("ReadPayloads", "s3:GetObject"): Need(f"{LIBRARY}/payload_bucket.py", "get_object("),
    ("ReadFlights", "s3:GetObject"): Need("handlers/reports.py", "get_object("),
    ("TellMissingFromForbidden", "s3:ListBucket"): Need("handlers/reports.py", "NoSuchKey"),
    ("ConnectToCache", "elasticache:Connect"): Need(f"{LIBRARY}/iam.py", "connect"),
    ("KeepUndelivered", "sqs:SendMessage"): LAMBDA,
    **{
        ("UseKey", f"kms:{action}"): KMS
        for action in (
            "Decrypt",
            "DescribeKey",
            "Encrypt",
            "GenerateDataKey",
            "ReEncryptFrom",
            "ReEncryptTo",
        )
    },
}
COMMON = {"WriteLogs", "SendTraces", "JoinNetwork", "ConnectToCache"}
SIDS = {
    "reports": COMMON
    | {
        "ReadQueue",
        "DeferMessages",
        "SendDeadLetters",
        "KeepResults",
        "KeepLargeResults",
        "ReadPayloads",
        "ReadFlights",
        "TellMissingFromForbidden",
    },
    "invalidate": COMMON | {"KeepUndelivered"},
    "recover": COMMON | {"KeepUndelivered", "FindPending"},
}
# What knows no resources.
WITHOUT_RESOURCES = {"SendTraces", "JoinNetwork", "JoinNetworkFromCode"}


# The rights of a key belong to whoever reads or writes what it encrypts.
ENCRYPTED = {"reports", "recover"}


def granted_for(handler: str, *, fifo: bool = False, key: bool = False) -> set[tuple[str, str]]:
    """The statements and actions that a role needs, of all that are listed above."""
    other_kind = ("DeferMessages", "sqs:SendMessage" if fifo else "sqs:ChangeMessageVisibility")
    sids = SIDS[handler] | ({"UseKey"} if key and handler in ENCRYPTED else set())
    return {one for one in NEEDS if one[0] in sids} - {other_kind}


@pytest.mark.parametrize("handler", HANDLERS)
def test_each_role_may_do_what_is_listed_here_and_nothing_else(
    handler: str, events: Synthesized, fifo: Synthesized, hardened: Synthesized
) -> None:
    assert allowed(events, handler) == granted_for(handler)
    assert allowed(fifo, handler) == granted_for(handler, fifo=True)
    assert allowed(hardened, handler) == granted_for(handler, key=True)


def test_every_role_of_the_stack_is_one_of_those_that_are_listed(
    every_or_own: Synthesized,
) -> None:
    functions = {every_or_own.function(name)["Role"]["Fn::GetAtt"][0] for name in HANDLERS}
    flows = {
        one["DeliverLogsPermissionArn"]["Fn::GetAtt"][0]
        for one in every_or_own.of("AWS::EC2::FlowLog").values()
    }

    assert every_or_own.of("AWS::IAM::Role").keys() == functions | flows


@pytest.mark.parametrize("handler", HANDLERS)
@pytest.mark.parametrize(
    "added",
    [
        {"Sid": "KeepResults", "Action": "dynamodb:DeleteItem"},
        {"Sid": "Convenient", "Action": ["dynamodb:PutItem"]},
        {"Sid": "WriteLogs", "Action": "logs:*"},
    ],
    ids=["an action in a known statement", "a statement of known actions", "a wildcard"],
)
def test_a_grant_that_nobody_listed_is_found(
    handler: str, added: dict[str, object], events: Synthesized
) -> None:
    """The mutants of the test above: each is a grant that slipped in."""
    widened = replace(events, resources=copy.deepcopy(events.resources))
    statements(widened, handler).append({**added, "Effect": "Allow", "Resource": "x"})

    assert allowed(widened, handler) != granted_for(handler)


@pytest.mark.parametrize("handler", HANDLERS)
def test_a_grant_that_is_taken_away_is_missed(handler: str, events: Synthesized) -> None:
    for number, statement in enumerate(statements(events, handler)):
        if statement["Effect"] == "Allow":
            narrowed = replace(events, resources=copy.deepcopy(events.resources))
            del statements(narrowed, handler)[number]

            assert allowed(narrowed, handler) != granted_for(handler)


def path_is_there(need: Need, root: Path = ROOT) -> bool:
    """Tell whether the code that needs a grant still makes its call."""
    return bool(need.by) or need.text in (root / need.file).read_text(encoding="utf-8")


@pytest.mark.parametrize(("sid", "action"), NEEDS)
def test_each_grant_names_a_code_path_that_is_still_there(sid: str, action: str) -> None:
    """A grant outlives the call that needed it: nothing fails when the call is removed."""
    assert path_is_there(NEEDS[sid, action])


@pytest.mark.parametrize(
    ("sid", "action"), [one for one, need in NEEDS.items() if not need.by], ids=str
)
def test_a_call_that_is_removed_leaves_its_grant_without_a_reason(
    sid: str, action: str, tmp_path: Path
) -> None:
    need = NEEDS[sid, action]
    file = tmp_path / need.file
    file.parent.mkdir(parents=True)
    file.write_text((ROOT / need.file).read_text(encoding="utf-8").replace(need.text, ""))

    assert not path_is_there(need, tmp_path)


@pytest.mark.parametrize("action", ["s3:*", "dynamodb:Get*", "*"])
def test_a_wildcard_in_an_action_is_found(action: str) -> None:
    with pytest.raises(AssertionError):
        check_narrow([{"Sid": "Any", "Effect": "Allow", "Action": action, "Resource": "x"}])


def test_a_resource_that_is_everything_is_found() -> None:
    with pytest.raises(AssertionError):
        check_narrow([{"Sid": "Any", "Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}])


# A call on a client: of an item, an object or a message, or through a whole table.
CALLS = re.compile(
    r"\b_?(?:client|s3|sqs)(?:\(\))?"
    r"\.(\w+_(?:items?|objects?(?:_v2)?|messages?|visibility)(?:_batch)?|scan|query)[(,]"
)


def test_each_call_of_the_library_and_the_handlers_has_a_grant() -> None:
    """The other way round: a new call would be refused, in production first."""
    called = {
        call
        for folder in (ROOT / LIBRARY, ROOT / "handlers")
        for file in folder.rglob("*.py")
        for call in CALLS.findall(file.read_text(encoding="utf-8"))
    }
    granted = {action.partition(":")[2] for _, action in NEEDS}

    # Batches need the right of the single call; the producer sends with its own program's role.
    unknown = {pascal(name.removesuffix("_batch")) for name in called} - granted

    assert len(called) >= 8
    assert unknown == set()


def test_no_action_has_a_wildcard_and_a_resource_only_where_there_is_none_to_name(
    every_or_own: Synthesized, events: Synthesized
) -> None:
    for stack, handler in (
        (every_or_own, "reports"),
        *((events, handler) for handler in HANDLERS),
    ):
        check_narrow(statements(stack, handler))
    for policy in every_or_own.of("AWS::IAM::Policy").values():
        check_narrow(policy["PolicyDocument"]["Statement"])


def check_narrow(given: list[Resource]) -> None:
    for statement in given:
        assert not [action for action in as_list(statement["Action"]) if "*" in action]
        if statement["Sid"] not in WITHOUT_RESOURCES:
            assert "*" not in as_list(statement["Resource"])


def test_code_cannot_use_what_lambda_may_do_with_network_interfaces(events: Synthesized) -> None:
    for handler in HANDLERS:
        (denied,) = [one for one in statements(events, handler) if one["Effect"] == "Deny"]
        (given,) = [one for one in statements(events, handler) if one["Sid"] == "JoinNetwork"]

        assert denied["Action"] == given["Action"]
        assert denied["Condition"] == {"Null": {"lambda:SourceFunctionArn": "false"}}


def test_objects_are_reached_under_three_prefixes_only(dev: Synthesized) -> None:
    resources = {
        one["Sid"]: resolved(one["Resource"], dev.resources)
        for one in statements(dev)
        if one["Sid"] in {"ReadFlights", "KeepLargeResults", "ReadPayloads"}
    }

    assert resources["ReadFlights"].endswith("/flights/*")
    assert resources["KeepLargeResults"].endswith("/results/*")
    assert resources["ReadPayloads"].endswith("/payloads/*")


def test_the_key_is_used_through_the_services_that_it_encrypts_only(hardened: Synthesized) -> None:
    (statement,) = [one for one in statements(hardened) if one["Sid"] == "UseKey"]
    (key,) = hardened.data_keys()
    services = statement["Condition"]["StringEquals"]["kms:ViaService"]

    assert statement["Resource"] == {"Fn::GetAtt": [key, "Arn"]}
    assert [resolved(one, hardened.resources).partition(".")[0] for one in services] == [
        "dynamodb",
        "s3",
        "sqs",
    ]


def test_nothing_is_granted_by_a_managed_policy(every_or_own: Synthesized) -> None:
    roles = every_or_own.of("AWS::IAM::Role")

    assert not [role for role in roles.values() if "ManagedPolicyArns" in role]
    assert len(every_or_own.of("AWS::IAM::Policy")) == len(roles)


def test_the_worker_connects_as_its_own_user_to_its_own_cache(
    dev: Synthesized, serverless: Synthesized
) -> None:
    for stack in (dev, serverless):
        (statement,) = [one for one in statements(stack) if one["Sid"] == "ConnectToCache"]
        (user,) = stack.of("AWS::ElastiCache::User")
        name = stack.worker()["Environment"]["Variables"]["SEKALI_CACHE_NAME"]

        granted = {resolved(arn, stack.resources) for arn in statement["Resource"]}

        caches = {f"{logical_id.lower()}.example.com" for logical_id in stack.of(SERVERLESS)}
        caches |= {
            f"arn:partition:elasticache:region:accountid:replicationgroup:{name}"
            for _ in stack.of(GROUP)
        }
        assert granted == {f"{user.lower()}.example.com", *caches}
        assert len(caches) == 1


def test_the_worker_connects_to_a_cache_that_was_there_before(own: Synthesized) -> None:
    (statement,) = [one for one in statements(own) if one["Sid"] == "ConnectToCache"]

    granted = {resolved(arn, own.resources) for arn in statement["Resource"]}

    assert granted == {
        "arn:partition:elasticache:region:accountid:replicationgroup:theirs",
        "arn:partition:elasticache:region:accountid:user:worker",
    }


def allowed(stack: Synthesized, handler: str) -> set[tuple[str, str]]:
    """Each action that a role may do, with the name of its statement."""
    return {
        (statement["Sid"], action)
        for statement in statements(stack, handler)
        if statement["Effect"] == "Allow"
        for action in as_list(statement["Action"])
    }


def pascal(name: str) -> str:
    """Write an operation of boto3 as its action is called."""
    return "".join(part.capitalize() for part in name.split("_"))
