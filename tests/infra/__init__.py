"""The synthesized stack, and its copy on one machine."""
