"""The jobs of a chaos run, and the mutants of the library that such a run must catch."""
