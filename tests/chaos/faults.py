"""Faults, and the moments at which they strike: one at a time, in an order that a seed gives.

The moments are *windows*, the steps of the protocol as the wires see them:

    claim    the first claim of a flush is on its way
    work     a body has said that it starts
    table    the outcome is being written to the durable table
    finish   the first finish of a flush is on its way

Each pair of window and fault is armed in turn, strikes at the next such moment of whatever
environment comes first, and counts once.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

from tests.chaos.wires import FORWARD, Deed

if TYPE_CHECKING:
    from collections.abc import Callable

    from infra.local.environment import Environment
    from infra.local.logs import LogRecord
    from tests.chaos.rig import Rig, Tenant
    from tests.chaos.wires import Line

Window = Literal["claim", "work", "table", "finish"]
Kind = Literal[
    "kill",
    "stop",
    "recycle",
    "cut_request",
    "cut_reply",
    "swallow",
    "delay",
    "half_open",
    "flush",
    "restart",
    "promote",
    "throttle",
    "deliver_again",
]
WINDOWS: Final[tuple[Window, ...]] = get_args(Window)
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

# After these the shared cache has forgotten something.
LOSSES: Final[frozenset[Kind]] = frozenset({"flush", "restart", "promote"})
_ARMED_SECONDS: Final = 6.0


def _refusal(status: bytes, kind: bytes) -> bytes:
    body = b'{"__type":"com.amazonaws.dynamodb.v20120810#%b","message":"as arranged"}' % kind
    head = b"HTTP/1.1 %b\r\nContent-Type: application/x-amz-json-1.0\r\n" % status
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


_REFUSALS: Final = (
    _refusal(b"400 Bad Request", b"ProvisionedThroughputExceededException"),
    _refusal(b"500 Internal Server Error", b"InternalServerError"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault at one moment. `late`: after the server has acted, instead of before."""

    window: Window
    kind: Kind
    late: bool
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """A fault that was injected, at Unix seconds, into an invocation."""

    fault: Fault
    at: float
    request_id: str


def order(seed: int) -> list[Fault]:
    """Answer every pair of window and fault once, shuffled."""
    rng = random.Random(seed)
    faults = [
        Fault(
            window=window, kind=kind, late=rng.random() < 0.5, seconds=round(rng.uniform(1.8, 3), 2)
        )
        for window in WINDOWS
        for kind in KINDS
    ]
    rng.shuffle(faults)
    return faults


class Director:
    """The script of a run's wires: waits for the armed fault's moment, and lets it happen."""

    def __init__(self) -> None:
        self.strikes: list[Strike] = []
        self._armed: Fault | None = None
        self._struck = threading.Event()
        self._lock = threading.Lock()
        self._throttles = 0
        self._rng = random.Random(0)
        self._rig: Rig | None = None

    def watch(self, rig: Rig) -> None:
        """Learn whom faults can strike, and when bodies start."""
        self._rig = rig
        rig.logs.listen(self._hear)

    def counts(self) -> Counter[tuple[Window, Kind]]:
        """Count what was injected."""
        return Counter((strike.fault.window, strike.fault.kind) for strike in self.strikes)

    def strike(self, fault: Fault, *, within_seconds: float = _ARMED_SECONDS) -> bool:
        """Arm a fault and wait until it has struck; answer whether its moment came."""
        with self._lock:
            self._struck.clear()
            self._armed = fault
        struck = self._struck.wait(within_seconds)
        with self._lock:
            self._armed = None
        return struck

    # The moments.

    def meet(self, windows: tuple[str, ...], line: Line) -> Deed:
        """See a parcel on its way to a server."""
        if self._throttles > 0 and "dynamodb" in windows:
            self._throttles -= 1
            return Deed(how="refuse", answer=self._rng.choice(_REFUSALS))
        owner = line.owner
        fault = self._take(windows, getattr(owner, "request_id", ""))
        if fault is None:
            return FORWARD
        tenant: Tenant = owner  # type: ignore[assignment]  # wires know owners as objects
        return self._deed(fault, tenant)

    def _hear(self, record: LogRecord, environment: Environment) -> None:
        if record.fields.get("chaos") != "start" or self._rig is None:
            return
        fault = self._take(("work",), record.request_id)
        if fault is None:
            return
        tenant = self._rig.tenant_of(environment)
        deed = self._deed(fault, tenant)
        if deed is not FORWARD:
            rig = self._rig
            rig.wires.call(lambda: _apply(deed, list(rig.cache.lines), tenant))

    def _take(self, windows: tuple[str, ...], request_id: str) -> Fault | None:
        with self._lock:
            fault = self._armed
            if fault is None or fault.window not in windows or not request_id:
                return None
            self._armed = None
            self.strikes.append(Strike(fault=fault, at=time.time(), request_id=request_id))
            self._struck.set()
            return fault

    # What happens.

    def _deed(self, fault: Fault, tenant: Tenant) -> Deed:
        match fault.kind:
            case "kill":
                return _to_process(fault, tenant.kill)
            case "stop":
                deed = _to_process(fault, lambda: tenant.stop(fault.seconds))
                # What was stopped on its way arrives all the same, after others went by.
                return deed if fault.late else Deed(how="delay", seconds=fault.seconds * 0.9)
            case "cut_request":
                return Deed(how="cut")
            case "delay":
                return Deed(how="delay", seconds=fault.seconds / 2)
            case "throttle":
                self._throttles = 2 + int(fault.seconds * 2)
                return FORWARD
            case "cut_reply" | "swallow" | "half_open":
                return Deed(how=fault.kind)
            case _:
                self._beside(fault)
                # Time for it to come first, or for the request to come first.
                return FORWARD if fault.late else Deed(how="delay", seconds=0.05)

    def _beside(self, fault: Fault) -> None:
        """Do what takes time on a thread of its own."""
        rig = self._rig
        if rig is None:
            return
        actions: dict[Kind, Callable[[], object]] = {
            "recycle": rig.recycle,
            "flush": rig.nodes.flush,
            "restart": lambda: rig.nodes.restart(
                rig.wires, rig.cache, down_seconds=fault.seconds / 3
            ),
            "promote": lambda: rig.nodes.promote(
                rig.wires, rig.cache, suffix_seconds=fault.seconds / 4
            ),
            "deliver_again": rig.inbox.deliver_again,
        }
        threading.Thread(target=actions[fault.kind], daemon=True).start()


def _to_process(fault: Fault, act: Callable[[], None]) -> Deed:
    """Strike before the server hears of it, or as soon as it has acted."""
    if fault.late and fault.window != "work":
        return Deed(then=act)
    act()
    return Deed(how="drop") if fault.kind == "kill" and fault.window != "work" else FORWARD


def _apply(deed: Deed, lines: list[Line], tenant: Tenant) -> None:
    """Let a fault of the connection befall all that an environment has to the cache."""
    for line in lines:
        if line.owner is tenant:
            if deed.how == "cut":
                line.cut()
            else:
                line.at_next(deed)
