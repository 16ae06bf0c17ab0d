"""The live page: the synthesized dashboards and alarms, drawn from a running stack's metrics."""
