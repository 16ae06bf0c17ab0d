"""A world of workers: several containers in one process, one clock, and faults at every boundary.

The shared cache is a real Valkey with the real scripts; table and queue are in memory. Time is
virtual: letting it pass moves every container's clock and makes everything on the server older by
as much, so that leases run out without anybody waiting.
"""
