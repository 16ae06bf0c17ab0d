"""A function's role, which nobody but the stack adds to."""

from collections.abc import Mapping

from aws_cdk import aws_iam as iam
from constructs import Construct


class FunctionRole(Construct):
    """A role for one function. `given` is what the function gets: it takes no further grants.

    A statement is a line: its name, its actions separated by spaces, and the resources. Without a
    resource there is nothing to allow, so no statement is made.
    """

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        self._role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        self.given = self._role.without_policy_updates()

    def allow(
        self,
        sid: str,
        actions: str,
        *resources: str,
        where: Mapping[str, Mapping[str, object]] | None = None,
    ) -> None:
        """Allow the actions on the resources, where the conditions hold."""
        self._add(iam.Effect.ALLOW, sid, actions, resources, where)

    def deny(
        self, sid: str, actions: str, *resources: str, where: Mapping[str, Mapping[str, object]]
    ) -> None:
        """Deny the actions, whatever else allows them."""
        self._add(iam.Effect.DENY, sid, actions, resources, where)

    def _add(
        self,
        effect: iam.Effect,
        sid: str,
        actions: str,
        resources: tuple[str, ...],
        where: Mapping[str, Mapping[str, object]] | None,
    ) -> None:
        if not resources:
            return
        self._role.add_to_policy(
            iam.PolicyStatement(
                effect=effect,
                sid=sid,
                actions=actions.split(),
                resources=list(resources),
                conditions=where,
            )
        )
