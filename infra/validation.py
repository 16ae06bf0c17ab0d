"""The rules of `infra.rules` as a plugin of the CDK.

For any app: `Validations.of(app).add_plugins(SekaliRules())`.
"""

import json
from pathlib import Path

import jsii
from aws_cdk import (
    IPolicyValidationContext,
    IPolicyValidationPlugin,
    PolicyValidationPluginReport,
    PolicyViolatingResource,
    PolicyViolation,
)

from infra.rules import RULES, check


@jsii.implements(IPolicyValidationPlugin)
class SekaliRules:
    """The rules as a plugin of the CDK: a template that breaks one stops the synth."""

    @property
    def name(self) -> str:
        """Head the report."""
        return "Sekali"

    @property
    def version(self) -> str:
        """Tell one set of rules from another."""
        return "1"

    @property
    def rule_ids(self) -> list[str]:
        """List what can be found."""
        return [rule.__name__.replace("_", "-") for rule in RULES]

    def validate(self, context: IPolicyValidationContext) -> PolicyValidationPluginReport:
        """Check the templates of the app."""
        violations = [
            PolicyViolation(
                rule_name=broken.rule,
                description=broken.text,
                fix=broken.fix,
                violating_resources=[
                    PolicyViolatingResource(
                        locations=[f"Resources/{broken.resource}"],
                        resource_logical_id=broken.resource,
                        template_path=path,
                    )
                ],
            )
            for path in context.template_paths
            for broken in check(json.loads(Path(path).read_text(encoding="utf-8")))
        ]
        return PolicyValidationPluginReport(success=not violations, violations=violations)
