"""What every durable store must do, whatever it is built on."""

from __future__ import annotations

from tests.contracts.store_claims import ClaimContract
from tests.contracts.store_outcomes import OutcomeContract
from tests.contracts.store_reads import ReadContract


class StoreContract(OutcomeContract, ReadContract, ClaimContract):
    """Inherit it and give a `backend`."""
