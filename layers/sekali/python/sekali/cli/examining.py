"""Gather the facts that the doctor judges: each is asked for once, and may be refused.

A fact that cannot be read is a fact too: what is not there, and what the caller may not see, are
told apart, because the remedies differ.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from sekali.cli.door import operate
from sekali.cli.faults import Fault
from sekali.errors import SekaliError, SettingInvalid
from sekali.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sekali.cli.place import FunctionFacts, Json, Place

T = TypeVar("T")
State = Literal["ok", "wrong", "warning", "unknown"]

_DENIED: Final = ("AccessDenied", "AuthorizationError", "UnauthorizedOperation")
METRICS_NAMESPACE: Final = "Sekali"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found; the remedy is empty where nothing has to be done."""

    check: str
    state: State
    found: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Unread:
    """A fact that could not be read: what was answered instead."""

    code: str
    text: str

    @property
    def denied(self) -> bool:
        """Tell whether it is the caller's rights that were missing, and not the thing."""
        return any(word in self.code for word in _DENIED)


Facts = dict[str, Any]
"""Any: as boto3 answers."""


class Examined:
    """One stack, as far as it can be seen."""

    def __init__(self, place: Place) -> None:
        """Read nothing yet."""
        self.place = place

    def settings_of(self, function: FunctionFacts) -> Settings | SettingInvalid:
        """Return the settings that a function starts with, or why it does not."""
        own = {name: value for name, value in function.variables.items() if _is_setting(name)}
        try:
            return Settings.from_env(own)
        except SettingInvalid as error:
            return error

    @cached_property
    def settings(self) -> Settings | SettingInvalid:
        """Return the worker's settings."""
        return self.settings_of(self.place.worker)

    @cached_property
    def queue(self) -> Facts | Unread:
        """Return the attributes of the worker's queue."""
        return self._queue("SEKALI_QUEUE_URL")

    @cached_property
    def dead_letters(self) -> Facts | Unread:
        """Return the attributes of the dead letter queue."""
        return self._queue("SEKALI_DEAD_LETTER_QUEUE_URL")

    @cached_property
    def table(self) -> Facts | Unread:
        """Return the description of the table."""
        name = self.variable("SEKALI_TABLE_NAME")
        dynamodb = self.place.clients
        return _asked(lambda: dynamodb("dynamodb").describe_table(TableName=name)["Table"])

    @cached_property
    def table_ttl(self) -> Facts | Unread:
        """Return which attribute of the table is a time to live."""
        name, clients = self.variable("SEKALI_TABLE_NAME"), self.place.clients
        return _asked(
            lambda: clients("dynamodb").describe_time_to_live(TableName=name)[
                "TimeToLiveDescription"
            ]
        )

    @cached_property
    def bucket(self) -> Facts | Unread:
        """Return an empty answer where the bucket is there."""
        name, clients = self.variable("SEKALI_RESULTS_BUCKET"), self.place.clients
        return _asked(lambda: clients("s3").head_bucket(Bucket=name))

    @cached_property
    def lifecycle(self) -> list[Facts] | Unread:
        """Return the rules by which the bucket's objects end."""
        name, clients = self.variable("SEKALI_RESULTS_BUCKET"), self.place.clients
        return _asked(
            lambda: clients("s3").get_bucket_lifecycle_configuration(Bucket=name)["Rules"]
        )

    @cached_property
    def cache(self) -> Json | Unread:
        """Return what a probe of the cache found."""
        return _asked(lambda: operate(self.place, "probe"))

    @cached_property
    def leases(self) -> Json | Unread:
        """Return the leases."""
        return _asked(lambda: operate(self.place, "leases"))

    @cached_property
    def reserved_concurrency(self) -> int | Unread | None:
        """Return how many of the account's executions are the worker's alone."""
        clients, name = self.place.clients, self.place.worker.name
        return _asked(
            lambda: (
                clients("lambda")
                .get_function_concurrency(FunctionName=name)
                .get("ReservedConcurrentExecutions")
            )
        )

    @cached_property
    def metrics(self) -> list[dict[str, str]] | Unread:
        """Return the sets of dimensions under which the kit's metrics are really there."""
        if self.place.log_file is not None:
            return list(_logged_dimensions(Path(self.place.log_file)))
        return _asked(lambda: self.dimensions_of(METRICS_NAMESPACE, None))

    @cached_property
    def alarms(self) -> list[Facts] | Unread:
        """Return the alarms of the stack."""
        return _asked(self._alarms)

    def dimensions_of(self, namespace: str, metric: str | None) -> list[dict[str, str]]:
        """Return the sets of dimensions that CloudWatch has of a namespace, or one metric of it."""
        options = {} if metric is None else {"MetricName": metric}
        pages = self.place.clients("cloudwatch").get_paginator("list_metrics")
        return [
            {one["Name"]: one["Value"] for one in listed["Dimensions"]}
            for page in pages.paginate(Namespace=namespace, **options)
            for listed in page["Metrics"]
        ]

    def refused_actions(self, needed: Sequence[tuple[str, str]]) -> list[str] | Unread:
        """Return which of these actions the worker's role may not do on their resources."""
        iam, role = self.place.clients, self.place.worker.role
        return _asked(
            lambda: [
                result["EvalActionName"]
                for action, resource in needed
                for result in iam("iam").simulate_principal_policy(
                    PolicySourceArn=role, ActionNames=[action], ResourceArns=[resource]
                )["EvaluationResults"]
                if result["EvalDecision"] != "allowed"
            ]
        )

    def variable(self, name: str) -> str:
        """Return a variable of the worker's, empty where it is not set."""
        return self.place.worker.variables.get(name, "")

    def _queue(self, variable: str) -> Facts | Unread:
        url, clients = self.variable(variable), self.place.clients
        if not url:
            return Unread("NotSet", f"{variable} is not set")
        return _asked(
            lambda: clients("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])[
                "Attributes"
            ]
        )

    def _alarms(self) -> list[Facts]:
        pages = self.place.clients("cloudformation").get_paginator("list_stack_resources")
        names = [
            resource["PhysicalResourceId"]
            for page in pages.paginate(StackName=self.place.name)
            for resource in page["StackResourceSummaries"]
            if resource["ResourceType"] == "AWS::CloudWatch::Alarm"
        ]
        found: list[Facts] = []
        for start in range(0, len(names), 100):
            answer = self.place.clients("cloudwatch").describe_alarms(
                AlarmNames=names[start : start + 100]
            )
            found += answer["MetricAlarms"]
        return found


def _asked(ask: Callable[[], T]) -> T | Unread:
    """Return the answer, or what stands in its place."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return ask()
    except ClientError as error:
        return Unread(error.response["Error"].get("Code", "unknown"), str(error))
    except (BotoCoreError, SekaliError) as error:
        return Unread(type(error).__name__, str(error))
    except Fault as fault:
        return Unread(fault.kind, fault.message)


def _is_setting(name: str) -> bool:
    return name.startswith("SEKALI_") or name == "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"


def _logged_dimensions(log_file: Path) -> Iterator[dict[str, str]]:
    """Yield the sets of dimensions of every metric that a function of this machine printed."""
    seen: set[frozenset[tuple[str, str]]] = set()
    with log_file.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.endswith("\n") or '\\"_aws\\"' not in line:
                continue
            fields = json.loads(json.loads(line)["text"])
            for directive in fields["_aws"]["CloudWatchMetrics"]:
                if directive["Namespace"] != METRICS_NAMESPACE:
                    continue
                for names in directive["Dimensions"]:
                    dimensions = {name: str(fields.get(name)) for name in names}
                    if (found := frozenset(dimensions.items())) not in seen:
                        seen.add(found)
                        yield dimensions
