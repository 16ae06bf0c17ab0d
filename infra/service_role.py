"""A role, which nobody but the stack adds to."""

from collections.abc import Mapping
from typing import Protocol

from aws_cdk import aws_iam as iam
from constructs import Construct


class Passage(Protocol):
    """A way that calls leave by, such as a network whose endpoints have policies."""

    def let_through(self, statement: iam.PolicyStatement) -> None:
        """Let through what the statement allows."""
        ...


class ServiceRole(Construct):
    """A role for one function. `given` is what the function gets: it takes no further grants.

    A statement is a line: its name, its actions separated by spaces, and the resources. Without a
    resource there is nothing to allow, so no statement is made. What the function's own code does
    is let `through` too; `by_lambda` is what Lambda does with the role from elsewhere.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        principal: iam.IPrincipal | None = None,
        through: Passage | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._role = iam.Role(
            self,
            "Role",
            assumed_by=principal or iam.ServicePrincipal("lambda.amazonaws.com"),
        )
        self._through = through
        self.given = self._role.without_policy_updates()

    def allow(
        self,
        sid: str,
        actions: str,
        *resources: str,
        where: Mapping[str, Mapping[str, object]] | None = None,
        by_lambda: bool = False,
    ) -> None:
        """Allow the actions on the resources, where the conditions hold."""
        if not resources:
            return
        self._role.add_to_policy(
            iam.PolicyStatement(
                sid=sid, actions=actions.split(), resources=list(resources), conditions=where
            )
        )
        if self._through and not by_lambda:
            self._through.let_through(
                iam.PolicyStatement(
                    # An endpoint knows no other principals; which role it is, is a condition.
                    principals=[iam.StarPrincipal()],
                    actions=actions.split(),
                    resources=list(resources),
                    conditions={"ArnEquals": {"aws:PrincipalArn": self._role.role_arn}},
                )
            )

    def deny(
        self, sid: str, actions: str, *resources: str, where: Mapping[str, Mapping[str, object]]
    ) -> None:
        """Deny the actions, whatever else allows them."""
        self._role.add_to_policy(
            iam.PolicyStatement(
                effect=iam.Effect.DENY,
                sid=sid,
                actions=actions.split(),
                resources=list(resources),
                conditions=where,
            )
        )
