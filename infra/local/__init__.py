"""The synthesized stack, run on one machine."""
