"""What can go wrong, one file each, in the words of docs/operations."""

from infra.monitoring.incident import Incident
from infra.monitoring.incidents.cold_start_storm import cold_start_storm
from infra.monitoring.incidents.contention import contention
from infra.monitoring.incidents.degraded_mode import degraded_mode
from infra.monitoring.incidents.evictions import evictions
from infra.monitoring.incidents.growing_backlog import growing_backlog
from infra.monitoring.incidents.lock_leak import lock_leak
from infra.monitoring.incidents.poison_messages import poison_messages
from infra.monitoring.incidents.stampede import stampede
from infra.monitoring.incidents.storage_spike import storage_spike
from infra.monitoring.thresholds import Thresholds
from infra.monitoring.watched import Watched

_ALL = (
    degraded_mode,
    growing_backlog,
    poison_messages,
    evictions,
    lock_leak,
    contention,
    stampede,
    storage_spike,
    cold_start_storm,
)


def incidents(watched: Watched, thresholds: Thresholds) -> list[Incident]:
    """Return every incident that these parts can have, the harmful ones first."""
    found = [make(watched, thresholds) for make in _ALL]
    return [one for one in found if one.symptoms]
