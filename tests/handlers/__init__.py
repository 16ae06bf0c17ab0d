"""The example functions."""
