"""A widget of Contributor Insights, which the CDK does not know."""

from typing import Any

import jsii
from aws_cdk import Aws
from aws_cdk import aws_cloudwatch as cloudwatch

from infra.monitoring.graphs import HALF, HEIGHT

MOST_SHOWN = 10


class RankedKeys(cloudwatch.ConcreteWidget):
    """The keys that a rule ranks highest."""

    def __init__(self, *, title: str, rule_name: str) -> None:
        super().__init__(HALF, HEIGHT)
        self._place: dict[str, float] = {}
        self._properties = {
            "view": "timeSeries",
            "title": title,
            "region": Aws.REGION,
            "insightRule": {
                "maxContributorCount": MOST_SHOWN,
                "orderBy": "Sum",
                "ruleName": rule_name,
            },
            "legend": {"position": "right"},
        }

    @jsii.member(jsii_name="position")
    def position(self, x: float, y: float) -> None:
        """Take the place that the dashboard gives."""
        self._place = {"x": x, "y": y}

    @jsii.member(jsii_name="toJson")
    def to_json(self) -> list[Any]:  # Any: what a dashboard's body holds.
        """Return the widget as a dashboard's body has it."""
        return [
            {
                "type": "metric",
                "width": self.width,
                "height": self.height,
                **self._place,
                "properties": self._properties,
            }
        ]
