"""Decide what happens to records while the shared cache is away, by each job's explicit policy.

    durable   the id is claimed in the table, for as long as the invocation can last; the body runs
              and its outcome is recorded there. Two containers never run one id so, but a holder
              of the cache that cannot be seen from here may: two bodies, one result.
    defer     the id is marked as pending in the table and the message goes back as a delayed copy:
              nobody is blocked, nothing runs twice.
    fail      the message returns to the queue, spending one of its receives.

What is *not* guaranteed while degraded: that a key is computed once. Neither tier is filled, no
lease is touched; when the cache answers again, it is told what the table recorded.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Final, Literal

from sekali.settling import defer, give_back
from sekali.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sekali.invocation import Invocation
    from sekali.items import Item
    from sekali.warm import Container

_log = logging.getLogger(__name__)

Policy = Literal["durable", "defer", "fail"]

RECOVERY_SECONDS: Final = 2.0
"""How long a message stays away while the cache is: short, so that recovery is noticed soon."""


class Degraded:
    """Take records through without the shared cache."""

    def __init__(self, container: Container, invocation: Invocation) -> None:
        """Keep the container and the invocation."""
        self._container = container
        self._invocation = invocation

    def take(self, items: Iterable[Item], error: Exception) -> None:
        """Give each item a table claim or a verdict, by the policy of its job."""
        by_policy: dict[Policy, list[Item]] = defaultdict(list)
        for item in items:
            item.answer = item.ending = None
            by_policy[self._policy_of(item)].append(item)
        count = sum(map(len, by_policy.values()))
        _log.error("%d records go on without the shared cache: %s", count, error)
        for item in by_policy["fail"]:
            item.verdict = give_back("shared_unavailable")
        self._defer(by_policy["defer"])
        self._claim(by_policy["durable"])

    def _policy_of(self, item: Item) -> Policy:
        chosen = item.spec.degraded if item.spec else None
        return chosen or self._container.settings.degraded

    def _defer(self, items: list[Item]) -> None:
        durable = self._container.durable
        if durable is not None and items:
            durable.mark_pending(items, deadline=self._invocation.monotonic_deadline())
        for item in items:
            item.table_claim = None
            item.verdict = item.verdict or defer("pending", RECOVERY_SECONDS)

    def _claim(self, items: list[Item]) -> None:
        durable = self._container.durable
        if durable is None or not items:
            for item in items:
                item.verdict = give_back("shared_unavailable")
            return
        durable.claim(
            items,
            remaining_seconds=self._invocation.remaining_seconds(),
            deadline=self._invocation.monotonic_deadline(),
        )
        for item in items:
            if item.table_claim is not None:
                self._container.emit(events.Degraded(name=item.name))
