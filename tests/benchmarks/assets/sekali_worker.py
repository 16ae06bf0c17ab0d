"""The job as one writes it with the library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sekali import Worker

if TYPE_CHECKING:
    from sekali import Job

worker = Worker("bench")


@worker.job("square", key="{payload[n]}", ttl_seconds=600)
def square(job: Job) -> dict[str, object]:
    """Do next to nothing: what is measured is what stands around it."""
    return {"n": job.payload["n"], "answer": 42}


handler = worker.handler
