"""The Lambda functions: one module per function."""
