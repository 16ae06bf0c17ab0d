"""The functions that events call, and the bus that calls them."""

from __future__ import annotations

import contextlib
import functools
import time
from typing import TYPE_CHECKING, Any, Final

from infra.local import differences
from infra.local.async_calls import AsyncCalls
from infra.local.cloudwatch.alarm_state import ALARM
from infra.local.event_bus import EventBus
from infra.local.fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from infra.local.aws import Aws
    from infra.local.cloudwatch.alarms import Change
    from infra.local.environment import Environment
    from infra.local.fleet import Invocation
    from infra.local.template import Function, Template

# Events are rare; two at once is more than they need.
_ENVIRONMENTS: Final = 2


class EventFunctions:
    """Runs the functions of the stack's rules, from `start` to `stop` and `join`.

    Args:
        template: With the rules and the functions.
        aws: Where events that fail end, and whose objects make events.
        fleets: Of the functions that have one already, because a queue feeds them too.
        start_environment: Starts an environment of a function.
        on_invocation: Told of each invocation.
        on_match: Told of each rule that matched, and how many functions it called.
        minute_seconds: How long one of CloudWatch's minutes takes.
    """

    def __init__(
        self,
        template: Template,
        *,
        aws: Aws,
        fleets: Mapping[str, Fleet],
        start_environment: Callable[[Function, int], Environment],
        on_invocation: Callable[[Function, Invocation], None],
        on_match: Callable[[str, int], None],
        minute_seconds: float,
    ) -> None:
        self._template = template
        self._aws = aws
        self.fleets: dict[str, Fleet] = {}
        self._lines: dict[str, AsyncCalls] = {}
        self._deaf = False
        destinations = {one.function: one for one in template.destinations}
        for logical_id in {name for rule in template.rules for name in rule.functions}:
            function = template.functions[logical_id]
            fleet = fleets.get(logical_id)
            if fleet is None:
                fleet = self.fleets[logical_id] = Fleet(
                    functools.partial(start_environment, function),
                    limit=_ENVIRONMENTS,
                    on_invocation=functools.partial(on_invocation, function),
                )
            self._lines[logical_id] = AsyncCalls(
                function.name,
                invoke=fleet.invoke,
                destination=destinations.get(logical_id),
                send=self._send,
                minute_seconds=minute_seconds,
            )
        self.bus = EventBus(template.rules, call=self.call, on_match=on_match)
        aws.s3.meta.events.register("before-parameter-build.s3.PutObject", _remember)
        aws.s3.meta.events.register("after-call.s3.PutObject", self._object_created)

    def start(self) -> None:
        """Begin to handle events."""
        for line in self._lines.values():
            line.start()

    def stop(self) -> None:
        """Begin nothing more, and kill what runs."""
        for line in self._lines.values():
            line.stop()
        for fleet in self.fleets.values():
            fleet.close()

    def join(self) -> None:
        """Wait until everything has ended."""
        for line in self._lines.values():
            line.join()

    def call(self, function: str, event: Any) -> None:  # Any JSON.
        """Let a function (a logical id) handle an event; nobody waits for it."""
        self._lines[function].call(event)

    @contextlib.contextmanager
    def deaf_to_objects(self) -> Iterator[None]:
        """Let the objects that are put inside make no events."""
        self._deaf = True
        try:
            yield
        finally:
            self._deaf = False

    def alarm_changed(self, change: Change) -> None:
        """Tell the bus of an alarm, as CloudWatch does."""
        self.bus.put(
            {
                "source": "aws.cloudwatch",
                "detail-type": "CloudWatch Alarm State Change",
                "resources": [change.alarm.arn],
                "detail": {
                    "alarmName": change.alarm.name,
                    "state": {"value": change.after, "reason": change.reason},
                    "previousState": {"value": change.before},
                },
            }
        )
        # An alarm's own action may be a function.
        if change.after == ALARM:
            for arn in change.actions:
                for logical_id in self._lines:
                    if arn.endswith(f":function:{self._template.functions[logical_id].name}"):
                        self.call(logical_id, {"source": "aws.cloudwatch", "alarmArn": arn})

    def deployed(self) -> None:
        """Tell the bus of a change of the stack, as CloudFormation does."""
        stack = differences.pseudo_parameters(self._template.stack_name)["AWS::StackId"]
        self.bus.put(
            {
                "source": "aws.cloudformation",
                "detail-type": "CloudFormation Stack Status Change",
                "resources": [stack],
                "detail": {"stack-id": stack, "status-details": {"status": "UPDATE_IN_PROGRESS"}},
            }
        )

    def _send(self, queue_arn: str, body: str) -> None:
        for queue in self._template.queues.values():
            if queue.arn == queue_arn:
                self._aws.sqs.send_message(QueueUrl=self._aws.queue_url(queue), MessageBody=body)

    def _object_created(self, **told: Any) -> None:  # Any: what botocore hands to a hook.
        where = told["context"].get("sekali_object")
        if where is not None and not self._deaf and told["http_response"].status_code == 200:  # noqa: PLR2004 - OK
            bucket, key = where
            self.bus.put(
                {
                    "source": "aws.s3",
                    "detail-type": "Object Created",
                    "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                    "detail": {"bucket": {"name": bucket}, "object": {"key": key}},
                }
            )


def _remember(params: Any, context: Any, **_: Any) -> None:  # Any: as above.
    context["sekali_object"] = (params["Bucket"], params["Key"])
