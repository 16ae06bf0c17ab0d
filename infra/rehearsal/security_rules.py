"""The rules between security groups, made through EC2's interface in CloudFormation's place."""

from collections.abc import Mapping
from typing import Any

from infra.rehearsal.deployment import Deployment, Shortfall

Json = Any  # A template and an answer of EC2 are any JSON.


def make(deployment: Deployment, rules: Mapping[str, Json]) -> str:
    """Make each rule as its resource describes it, and read it back.

    Raises:
        Shortfall: A rule is not there afterwards.
    """
    ec2 = deployment.client("ec2")
    for name, rule in rules.items():
        wanted = {
            field: value if isinstance(value, int | str) else deployment.physical_id(value)
            for field, value in rule["Properties"].items()
        }
        inward = "SourceSecurityGroupId" in wanted
        peer = wanted["SourceSecurityGroupId" if inward else "DestinationSecurityGroupId"]
        permission = {
            "IpProtocol": wanted["IpProtocol"],
            "FromPort": wanted["FromPort"],
            "ToPort": wanted["ToPort"],
            "UserIdGroupPairs": [{"GroupId": peer, "Description": wanted["Description"]}],
        }
        group_id = wanted["GroupId"]
        make_rule = ec2.authorize_security_group_ingress if inward else None
        make_rule = make_rule or ec2.authorize_security_group_egress
        make_rule(GroupId=group_id, IpPermissions=[permission])
        (group,) = ec2.describe_security_groups(GroupIds=[group_id])["SecurityGroups"]
        there = group["IpPermissions" if inward else "IpPermissionsEgress"]
        if not any(_leads_to(one, permission, peer) for one in there):
            raise Shortfall(f"{name} is not among the rules of {group_id}: {there}")
    return f"{len(rules)} rules between security groups made, and read back"


def _leads_to(found: Json, permission: Json, peer: Json) -> bool:
    ports = ("FromPort", "ToPort")
    return all(found.get(name) == permission[name] for name in ports) and any(
        pair.get("GroupId") == peer for pair in found.get("UserIdGroupPairs", [])
    )
