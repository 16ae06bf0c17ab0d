"""The budgets of the design, each measured."""
