"""Ask the shared cache, from inside its network: through the recovery function, or from here.

Both ways run the same code (`operating`), so both answer the same. A deployed cache is reachable
from its functions only; that of a stack on this machine, or through a tunnel, from here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sekali.cli.faults import EXITS, Exit, Fault

if TYPE_CHECKING:
    from sekali.cli.place import Place

Json = dict[str, Any]
"""Any: JSON."""


def operate(place: Place, operation: str, **arguments: Any) -> Json:  # Any: JSON
    """Have one operation done and return its answer.

    Raises:
        Fault: it was refused, or there is nobody to ask.
        SekaliError: the same, from here.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    request = {"operation": operation, "arguments": given, "by": caller(place)}
    return call(place, {"sekali": request})


def call(place: Place, event: Json) -> Json:
    """Call the recovery function with `event` and return its answer."""
    return _here(place, event) if place.reaches_cache else _invoked(place, event)


def caller(place: Place) -> str:
    """Return who asks, for the audit: of a stack on this machine its user."""
    if place.local:
        import getpass

        return f"local:{getpass.getuser()}"
    arn: str = place.clients("sts").get_caller_identity()["Arn"]
    return arn


def _here(place: Place, event: Json) -> Json:
    from sekali import warm
    from sekali.recovery import Recovery

    container = warm.Container(place.settings, emit=lambda _: None, client_factory=place.clients)
    try:
        with warm.inside(container):
            return Recovery("sekali", hooks=[]).handler(event, None)
    finally:
        container.close()


def _invoked(place: Place, event: Json) -> Json:
    if place.recover is None:
        text = (
            f"the cache of {place.name} is reachable from its functions only, and the stack has no"
            " recovery function to ask: deploy handlers/recover.py with it, or open a tunnel to the"
            " cache and name its end with --cache-url"
        )
        raise Fault(Exit.NO_STACK, text)
    answer = place.clients("lambda").invoke(
        FunctionName=place.recover.name, Payload=json.dumps(event).encode()
    )
    payload: Json = json.loads(answer["Payload"].read() or b"{}")
    if "FunctionError" not in answer:
        return payload
    kind = str(payload.get("errorType", "FunctionError"))
    text = f"{place.recover.name}: {payload.get('errorMessage', 'failed')}"
    raise Fault(EXITS.get(kind, Exit.REFUSED), text, kind=kind)
