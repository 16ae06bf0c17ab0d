"""The keys behind contention and failures."""

from infra.monitoring.graphs import Segment, heading
from infra.monitoring.ranked import RankedKeys
from infra.monitoring.rankings import Rankings


def ranked_keys(rankings: Rankings) -> Segment:
    """Show which keys are contended most, and which fail most."""
    return [
        heading("Keys"),
        [
            RankedKeys(title="Most contended keys", rule_name=rankings.contended),
            RankedKeys(title="Most failing keys", rule_name=rankings.failing),
        ],
    ]
