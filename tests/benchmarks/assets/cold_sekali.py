"""A worker of one job, as its function's module would be written."""

from sekali import Worker

worker = Worker("bench", hooks=[])


@worker.job("square", key="{payload[n]}", ttl_seconds=60)
def square(job: object) -> object:
    """Answer at once: the job's own time is nothing."""
    return {"n": getattr(job, "payload")["n"], "answer": 42}  # noqa: B009  the layer has no types


handler = worker.handler
