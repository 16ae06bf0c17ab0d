"""Do each job once and compute each answer once, in SQS-triggered Lambda workers."""

__version__ = "0.1.0"
