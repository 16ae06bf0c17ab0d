"""Everything by which people see the service, in one construct."""

from collections.abc import Sequence
from typing import Final

from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.monitoring.alarms import Alarms
from infra.monitoring.dashboards import dashboard, deep, overview
from infra.monitoring.incidents import incidents
from infra.monitoring.notices import Notices
from infra.monitoring.queries import save_queries
from infra.monitoring.rankings import Rankings
from infra.monitoring.thresholds import Thresholds
from infra.monitoring.watched import Watched

LEAK: Final = "lock-leak"


class Monitoring(Construct):
    """Dashboards, alarms, rankings of keys and saved queries of one service.

    All of them begin with `name`. `topic` gets what rings; nobody is subscribed to it. `leak` is
    the alarm at which the recovery function looks for leaks.

    Args:
        name: unique in the account and region, such as the stack's.
        log_groups: of the functions whose lines are ranked and queried.
        runbooks_url: where the pages of docs/operations are read; empty names them as files.
        topic: where what rings is published to; None makes one.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        watched: Watched,
        thresholds: Thresholds,
        log_groups: Sequence[logs.ILogGroup],
        runbooks_url: str = "",
        topic: sns.ITopic | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.topic = topic or Notices(self, "Notices").topic
        rankings = Rankings(self, "Rankings", name=name, log_groups=log_groups)
        alarms = Alarms(
            self,
            "Alarms",
            name=name,
            incidents=incidents(watched, thresholds),
            topic=self.topic,
            runbooks_url=runbooks_url,
        )
        self.leak = alarms.incidents[LEAK]
        dashboard(self, f"{name}-overview", overview(watched, thresholds, alarms, rankings))
        dashboard(self, f"{name}-deep", deep(watched, thresholds))
        save_queries(self, folder=name, log_groups=log_groups)
