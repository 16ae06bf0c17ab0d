"""A model of the fleet: calibrated here, checked against real runs, then taken to scale."""
