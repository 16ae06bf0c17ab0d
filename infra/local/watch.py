"""The stack's CloudWatch: gathers metrics while the stack runs, and lets its alarms ring.

functions' EMF lines ──┐
invocations, batches ──┤                 every quarter of a minute: sample, evaluate
calls on the wire ─────┼──> MetricStore ──────────────────────────────> alarms ──> on_change
queues, cache: asked ──┘
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from infra.local.cloudwatch import emf
from infra.local.cloudwatch.alarms import Alarms
from infra.local.cloudwatch.contributors import Ranking
from infra.local.cloudwatch.emf import EmfRefused
from infra.local.cloudwatch.names import metric
from infra.local.cloudwatch.store import MetricStore
from infra.local.cloudwatch.timeseries import MathUndefined
from infra.local.meters.cache_meter import CacheMeter
from infra.local.meters.dynamodb_meter import DynamoDbMeter
from infra.local.meters.lambda_meter import LambdaMeter
from infra.local.meters.sqs_meter import SqsMeter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from infra.local.aws import Aws
    from infra.local.aws_calls import AwsCalls
    from infra.local.cloudwatch.alarms import Change
    from infra.local.cloudwatch.pace import Pace
    from infra.local.environment import Environment
    from infra.local.fleet import Fleet
    from infra.local.logs import LogRecord, Logs
    from infra.local.relay import Address
    from infra.local.template import Template

_PER_MINUTE: Final = 4
_SHORTEST_SECONDS: Final = 0.2
# A minute is judged when this share of the next one is over: its last lines are in by then.
_GRACE_SHARE: Final = 0.2
_KEPT_REFUSALS: Final = 100


class Watch:
    """Metrics, alarms and rankings of one running stack, from `start` to `stop`.

    Args:
        template: With the alarms and rules.
        pace: How long one of CloudWatch's minutes takes here.
        on_change: Told of each alarm that changes its state.
    """

    def __init__(
        self, template: Template, *, pace: Pace, on_change: Callable[[Change], None]
    ) -> None:
        self.pace = pace
        self.store = MetricStore(pace)
        self.lambda_meter = LambdaMeter(self.store)
        self.rankings = [Ranking(rule.name, rule.body) for rule in template.monitoring.rankings]
        self.alarms = Alarms(
            template.monitoring.alarms,
            store=self.store,
            insight=self.insight,
            on_change=on_change,
        )
        self.refusals: deque[str] = deque(maxlen=_KEPT_REFUSALS)
        self.crashed: Exception | None = None
        self.started_at = time.time()
        self._template = template
        self._samplers: list[Callable[[], None]] = []
        self._closing = contextlib.ExitStack()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def attach(
        self,
        *,
        logs: Logs,
        calls: AwsCalls,
        aws: Aws,
        cache_address: Address,
        fleets: Mapping[str, Fleet],
        clock: Callable[[float], None],
    ) -> None:
        """Listen to everything that is measured; `clock` is told the time now and then."""
        logs.listen_metrics(self._hear_metrics)
        logs.listen(self._hear_line)
        sqs = SqsMeter(self.store, aws=aws, queues=self._template.queues.values())
        calls.listen(sqs.heard)
        calls.listen(DynamoDbMeter(self.store).heard)
        self._samplers = [
            sqs.sample,
            lambda: self.lambda_meter.sample(fleets, self._template.functions),
            lambda: clock(self.now()),
        ]
        for cache in self._template.caches:
            node = f"{cache.name}-001"
            meter = CacheMeter(self.store, address=cache_address, node=node)
            self._samplers.append(meter.sample)
            self._closing.callback(meter.close)

    def start(self) -> None:
        """Begin to sample and to evaluate."""
        self._thread.start()

    def stop(self) -> None:
        """End; what was gathered can still be read."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._closing.close()

    def now(self) -> float:
        """Answer the time in CloudWatch's seconds."""
        return self.pace.cloud(time.time())

    def rule_matched(self, rule: str, called: int) -> None:
        """Count what EventBridge tells of a rule."""
        for name, count in (("TriggeredRules", 1), ("Invocations", called)):
            named = metric("AWS/Events", name, {"RuleName": rule})
            self.store.put_one(named, float(count), at=time.time(), unit="Count")

    def insight(
        self, rule: str, name: str, grid: Sequence[int], period: int
    ) -> Mapping[int, float]:
        """Answer a metric of a Contributor Insights rule.

        Raises:
            MathUndefined: There is no such rule.
        """
        for ranking in self.rankings:
            if ranking.name == rule:
                return ranking.series(name, grid=grid, period=period)
        raise MathUndefined(f"the rule {rule} is nowhere defined")

    def _hear_metrics(self, fields: Mapping[str, Any]) -> None:  # Any JSON.
        try:
            self.store.put(emf.data(fields))
        except EmfRefused as error:
            self.refusals.append(str(error))

    def _hear_line(self, record: LogRecord, environment: Environment) -> None:
        if not record.fields:
            return
        now = self.now()
        for ranking in self.rankings:
            ranking.take(record.fields, log_group=environment.function.log_group, at=now)

    def _run(self) -> None:
        pause = max(_SHORTEST_SECONDS, self.pace.minute_seconds / _PER_MINUTE)
        grace = _GRACE_SHARE * self.pace.minute_seconds
        while not self._stopping.wait(pause):
            try:
                for sample in self._samplers:
                    # A server that is struck down by a test of faults is asked again.
                    with contextlib.suppress(OSError):
                        sample()
                self.alarms.step(self.pace.cloud(time.time() - grace))
            except Exception as error:  # noqa: BLE001 - handed to whoever looks at the alarms
                if not self._stopping.is_set():
                    self.crashed = error
                return
