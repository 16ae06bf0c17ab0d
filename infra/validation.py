"""The rules of `infra.rules` as a plugin of the CDK, which comes with every `QueueWorker`."""

import json
from pathlib import Path
from typing import Final

import jsii
from aws_cdk import (
    IPolicyValidationContext,
    IPolicyValidationPlugin,
    PolicyValidationPluginReport,
    PolicyViolatingResource,
    PolicyViolation,
    Validations,
)
from constructs import Construct

from infra.rules import RULES, check

_MARK: Final = "SekaliRules"


def watch(scope: Construct) -> None:
    """Check all templates of the app that `scope` is part of, once however often it is asked."""
    app = scope.node.root
    if app.node.try_find_child(_MARK) is None:
        # The app itself remembers it: a construct without a resource.
        Construct(app, _MARK)  # type: ignore[arg-type]  # The root of an app is a construct.
        Validations.of(app).add_plugins(SekaliRules())


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
