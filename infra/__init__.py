"""The CDK app, and the same stack on one machine."""
