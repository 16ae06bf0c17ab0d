"""The decision tables of PROTOCOL §2, held against the real scripts."""
