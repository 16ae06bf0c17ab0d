"""Histories made by a generator, and the rules that hold in each."""
