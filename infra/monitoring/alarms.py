"""Make alarms of incidents: symptoms that say why, and composites that tell people."""

from collections.abc import Sequence
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.monitoring.deployment import deploying
from infra.monitoring.incident import Incident, Symptom

RUNBOOKS: Final = "docs/operations"
# How long a composite waits for the news of a deployment, and for what that stirred up to settle: a
# minute until EventBridge has counted, and one until the alarm was evaluated. See deployment.py.
WAIT: Final = Duration.minutes(2)
EXTENSION: Final = Duration.minutes(5)


class Alarms(Construct):
    """The alarms of some incidents.

        <name>-lock-leak-takeovers  ┐
        <name>-lock-leak-lost       ├─ any ─> <name>-lock-leak ┐
        …                            ┘                           ├─ any ─> <name>-unhealthy
                                     … other harmful incidents ──┘

    Only the composites have actions: a fault with five symptoms is one message, and only actions of
    composites can be suppressed, which `<name>-deploying` does.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        incidents: Sequence[Incident],
        topic: sns.ITopic,
        runbooks_url: str,
    ) -> None:
        super().__init__(scope, construct_id)
        self._name = name
        self._runbooks = runbooks_url.rstrip("/") or RUNBOOKS
        self._action = actions.SnsAction(topic)
        self._suppressor = deploying(self, "Deploying", name=f"{self._name}-deploying")
        self.symptoms: list[cloudwatch.Alarm] = []
        self.incidents: dict[str, cloudwatch.CompositeAlarm] = {
            incident.name: self._incident(incident) for incident in incidents
        }
        self.unhealthy = self._composite(
            "Unhealthy",
            name=f"{self._name}-unhealthy",
            of=[self.incidents[one.name] for one in incidents if one.harmful],
            description="Jobs fail, wait, or are less safe than promised. First: see which"
            f" incident rings, and open its page. Runbooks: {self._runbooks}/",
        )

    def _incident(self, incident: Incident) -> cloudwatch.CompositeAlarm:
        symptoms = [self._symptom(incident, symptom) for symptom in incident.symptoms]
        self.symptoms += symptoms
        return self._composite(
            _identifier(incident.name),
            name=f"{self._name}-{incident.name}",
            of=symptoms,
            description=self._described(incident.meaning, incident.first, incident.name),
        )

    def _symptom(self, incident: Incident, symptom: Symptom) -> cloudwatch.Alarm:
        name = f"{incident.name}-{symptom.name}"
        comparison = cloudwatch.ComparisonOperator
        return cloudwatch.Alarm(
            self,
            _identifier(name),
            alarm_name=f"{self._name}-{name}",
            alarm_description=self._described(symptom.meaning, symptom.first, incident.name),
            metric=symptom.metric,
            threshold=symptom.threshold,
            comparison_operator=comparison.LESS_THAN_THRESHOLD
            if symptom.below
            else comparison.GREATER_THAN_THRESHOLD,
            evaluation_periods=symptom.minutes,
            datapoints_to_alarm=symptom.breaching,
            treat_missing_data=symptom.missing,
        )

    def _composite(
        self,
        construct_id: str,
        *,
        name: str,
        of: Sequence[cloudwatch.IAlarm],
        description: str,
    ) -> cloudwatch.CompositeAlarm:
        ringing = [cloudwatch.AlarmRule.from_alarm(one, cloudwatch.AlarmState.ALARM) for one in of]
        alarm = cloudwatch.CompositeAlarm(
            self,
            construct_id,
            composite_alarm_name=name,
            alarm_description=description,
            alarm_rule=cloudwatch.AlarmRule.any_of(*ringing),
            actions_suppressor=self._suppressor,
            actions_suppressor_wait_period=WAIT,
            actions_suppressor_extension_period=EXTENSION,
        )
        alarm.add_alarm_action(self._action)
        alarm.add_ok_action(self._action)
        return alarm

    def _described(self, meaning: str, first: str, page: str) -> str:
        return f"{meaning} First: {first} Runbook: {self._runbooks}/{page}.md"


def _identifier(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))
