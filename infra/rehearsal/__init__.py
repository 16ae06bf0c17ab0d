"""Deploy for real, on this machine: `make deploy-local`.

The genuine CDK command bootstraps, deploys, compares and destroys the app against ministack on
loopback, whose CloudFormation makes every resource and whose Lambda runs the worker on the queue.
The replication group of the template resolves to an embedded Valkey behind TLS. A second run
enforces IAM (`AUTH=true USE_SSL=1`), so that the functions' roles are shown to be enough, and no
more.

This shows that the template deploys and that the permissions suffice. How Lambda behaves is shown
elsewhere (`make demo`): ministack's Lambda has another context and another event source.
"""
