"""Describe a deployed stack by its outputs, and by what Lambda says of the functions they name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sekali.cli.faults import Exit, Fault
from sekali.cli.place import FunctionFacts, MappingFacts, Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sekali.cli.place import Clients

WORKER: Final = "FunctionName"
RECOVER: Final = "RecoverFunctionName"


def place(stack: str, clients: Clients, *, worker: str | None, cache_url: str | None) -> Place:
    """Read the stack; three or four calls.

    Args:
        stack: its name.
        clients: with the caller's own rights.
        worker: module of a worker that is not the first one.
        cache_url: where the caller reaches its cache, if he does.

    Raises:
        Fault: there is no such stack, or it is none of ours.
        botocore.exceptions.ClientError: the caller may not read it.
    """
    outputs = _outputs(stack, clients)
    return _place(stack, clients, outputs, _function_name(stack, outputs, worker), cache_url)


def _place(
    stack: str,
    clients: Clients,
    outputs: Mapping[str, str],
    function: str,
    cache_url: str | None,
) -> Place:
    worker = _function(function, clients)
    recover = _function(outputs[RECOVER], clients) if RECOVER in outputs else None
    return Place(
        name=stack,
        local=False,
        clients=clients,
        worker=worker,
        mapping=_mapping(worker.name, worker.variables.get("SEKALI_QUEUE_URL", ""), clients),
        recover=recover,
        cache_url=cache_url,
        others=(recover,) if recover else (),
    )


def _function_name(stack: str, outputs: Mapping[str, str], worker: str | None) -> str:
    """Return the worker's function: an output of the first one has no prefix."""
    if WORKER not in outputs:
        text = f"the stack {stack} has no output {WORKER}: it is none of this kit"
        raise Fault(Exit.NO_STACK, text)
    if worker is None:
        return outputs[WORKER]
    prefix = "".join(part.title() for part in worker.replace("-", "_").split("_"))
    named = outputs.get(f"{prefix}{WORKER}")
    if named is not None:
        return named
    if f"-{prefix}Worker".lower() in outputs[WORKER].lower():
        return outputs[WORKER]
    raise Fault(Exit.NO_STACK, f"the stack {stack} has no worker {worker}", kind="no_worker")


def _outputs(stack: str, clients: Clients) -> dict[str, str]:
    from botocore.exceptions import ClientError

    try:
        [found] = clients("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        if error.response["Error"].get("Code") != "ValidationError":
            raise
        text = f"there is no stack {stack} in this account and region; see --profile and --region"
        raise Fault(Exit.NO_STACK, text) from error
    return {one["OutputKey"]: one["OutputValue"] for one in found.get("Outputs", [])}


def _function(name: str, clients: Clients) -> FunctionFacts:
    told = clients("lambda").get_function_configuration(FunctionName=name)
    return FunctionFacts(
        name=name,
        timeout_seconds=told["Timeout"],
        memory_mib=told["MemorySize"],
        variables=told.get("Environment", {}).get("Variables", {}),
        log_group=told.get("LoggingConfig", {}).get("LogGroup", f"/aws/lambda/{name}"),
        role=told.get("Role", ""),
    )


def _mapping(function: str, queue_url: str, clients: Clients) -> MappingFacts | None:
    """Return what feeds the worker from its queue, the alias' mapping where it has one."""
    queue = queue_url.rpartition("/")[2]
    found = _mappings(function, clients) or _mappings(f"{function}:live", clients)
    for one in found:
        if one.get("EventSourceArn", "").rpartition(":")[2] == queue:
            return MappingFacts(
                queue_arn=one["EventSourceArn"],
                batch_size=one["BatchSize"],
                window_seconds=one.get("MaximumBatchingWindowInSeconds", 0),
                partial_batches="ReportBatchItemFailures" in one.get("FunctionResponseTypes", []),
                max_concurrency=one.get("ScalingConfig", {}).get("MaximumConcurrency", 0),
                enabled=one.get("State", "Enabled") in {"Enabled", "Enabling", "Updating"},
            )
    return None


def _mappings(function: str, clients: Clients) -> list[Mapping[str, Any]]:  # Any: as boto3 answers
    from botocore.exceptions import ClientError

    try:
        answer = clients("lambda").list_event_source_mappings(FunctionName=function)
    except ClientError as error:
        if error.response["Error"].get("Code") != "ResourceNotFoundException":
            raise
        return []
    found: list[Mapping[str, Any]] = answer["EventSourceMappings"]
    return found
