"""A deployed stack as far as the command sees it: what AWS answers, and a recovery function."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from sekali import Recovery, warm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sekali.cli.place import Service

QUEUE_ARN = "arn:aws:sqs:eu-west-1:1:jobs"
CALLER = "arn:aws:iam::1:user/eve"


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": f"{code}: so it is"}}, "Call")


class Pages:
    """A paginator of one page."""

    def __init__(self, page: Callable[..., Any]) -> None:
        self._page = page

    def paginate(self, **arguments: Any) -> Iterator[Any]:
        yield self._page(**arguments)


class Client:
    """A client whose operations are functions of a table; what is not there, is refused."""

    def __init__(self, operations: Mapping[str, Callable[..., Any]]) -> None:
        self._operations = operations

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self._operations:
            return lambda **_: (_ for _ in ()).throw(refused("AccessDeniedException"))
        return self._operations[name]

    def get_paginator(self, name: str) -> Pages:
        return Pages(getattr(self, name))


@dataclass
class Cloud:
    """What an account answers. `variables` are those of both functions."""

    variables: dict[str, str]
    outputs: dict[str, str] = field(
        default_factory=lambda: {
            "FunctionName": "Sekali-dev-ReportsWorker",
            "ColdStorageFunctionName": "Sekali-dev-ColdStorageWorker",
            "RecoverFunctionName": "Sekali-dev-Recover",
        }
    )
    more: dict[str, dict[str, Callable[..., Any]]] = field(default_factory=dict)
    invoked: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, service: Service) -> Any:  # Any: a stand-in of a client
        known = {"cloudformation": self._cloudformation, "lambda": self._lambda, "sts": self._sts}
        operations = known[service]() if service in known else {}
        return Client({**operations, **self.more.get(service, {})})

    def _cloudformation(self) -> dict[str, Callable[..., Any]]:
        def describe_stacks(*, StackName: str) -> Any:  # noqa: N803 - boto3's own
            if StackName != "Sekali-dev":
                raise refused("ValidationError")
            outputs = [
                {"OutputKey": name, "OutputValue": value} for name, value in self.outputs.items()
            ]
            return {"Stacks": [{"Outputs": outputs}]}

        return {"describe_stacks": describe_stacks}

    def _lambda(self) -> dict[str, Callable[..., Any]]:
        def configuration(*, FunctionName: str) -> Any:  # noqa: N803 - as above
            return {
                "FunctionName": FunctionName,
                "Timeout": 30,
                "MemorySize": 512,
                "Environment": {"Variables": self.variables},
                "Role": "arn:aws:iam::1:role/worker",
            }

        def mappings(*, FunctionName: str) -> Any:  # noqa: N803 - as above
            one = {
                "EventSourceArn": QUEUE_ARN,
                "BatchSize": 10,
                "FunctionResponseTypes": ["ReportBatchItemFailures"],
                "ScalingConfig": {"MaximumConcurrency": 10},
                "State": "Enabled",
            }
            return {"EventSourceMappings": [one] if FunctionName.endswith("ReportsWorker") else []}

        def invoke(*, FunctionName: str, Payload: bytes) -> Any:  # noqa: N803 - as above
            assert FunctionName == self.outputs["RecoverFunctionName"]
            event = json.loads(Payload)
            self.invoked.append(event)
            try:
                answer = self._recover(event)
            except Exception as error:  # noqa: BLE001 - as Lambda's runtime does
                told = {"errorType": type(error).__name__, "errorMessage": str(error)}
                body = io.BytesIO(json.dumps(told).encode())
                return {"FunctionError": "Unhandled", "Payload": body}
            return {"Payload": io.BytesIO(json.dumps(answer).encode())}

        return {
            "get_function_configuration": configuration,
            "list_event_source_mappings": mappings,
            "invoke": invoke,
        }

    def _recover(self, event: dict[str, Any]) -> dict[str, Any]:
        """Be the function in its network: its own environment, its own container."""
        from sekali import Settings

        container = warm.Container(Settings.from_env(self.variables), emit=lambda _: None)
        try:
            with warm.inside(container):
                return Recovery("tests", hooks=[]).handler(event, None)
        finally:
            container.close()

    @staticmethod
    def _sts() -> dict[str, Callable[..., Any]]:
        return {"get_caller_identity": lambda: {"Arn": CALLER}}
