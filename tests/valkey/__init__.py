"""Behaviour that only a real Valkey can show."""
