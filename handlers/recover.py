"""Report leaked leases and stuck jobs: runs on a schedule and when the leak alarm rings."""

from __future__ import annotations

from sekali import Recovery

recovery = Recovery("flight-reports")

handler = recovery.handler
