"""Rehearse a deployment: `python -m infra.rehearsal [--plain | --enforced]`."""

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator

from infra.local.processes import Nursery
from infra.local.workspace import workspace
from infra.rehearsal import servers
from infra.rehearsal.cdk import BATCHES, Cdk
from infra.rehearsal.jobs import Deployment, Shortfall
from infra.rehearsal.permissions import prove_refusals


def main() -> int:
    """Run the rehearsal once as it is and once with IAM enforced; answer the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plain", action="store_true", help="only without IAM enforcement")
    parser.add_argument("--enforced", action="store_true", help="only with IAM enforcement")
    chosen = parser.parse_args()
    runs = [enforce for enforce in (False, True) if not (chosen.plain and enforce)]
    runs = [enforce for enforce in runs if enforce or not chosen.enforced]
    try:
        for enforce in runs:
            rehearse(enforce=enforce)
    except Shortfall as shortfall:
        print(f"FAILED: {shortfall}", file=sys.stderr)
        return 1
    return 0


def rehearse(*, enforce: bool) -> None:
    """Bootstrap, deploy, send jobs, compare, destroy."""
    print(f"--- IAM and TLS {'enforced' if enforce else 'off'} ---")
    with workspace() as folder, contextlib.closing(Nursery()) as nursery:
        with step("start ministack and Valkey"):
            cloud = servers.start(nursery, folder=folder, enforce=enforce)
        cdk = Cdk(cloud, folder=folder)
        try:
            with step("cdk bootstrap"):
                cdk.bootstrap()
            with step("cdk synth"):
                print(f"  left out, unknown to ministack: {', '.join(cdk.synthesize())}")
                print(f"  added, asked for by ministack only: {', '.join(BATCHES.values())}")
            with step("cdk deploy"):
                outputs = cdk.deploy()
            deployment = Deployment(cloud, outputs)
            with step("send jobs, read results"):
                print(deployment.work())
            if enforce:
                with step("refused to the worker's role"):
                    print(prove_refusals(deployment))
            with step("cdk diff"):
                cdk.diff()
            with step("cdk destroy"):
                deployment.empty()
                cdk.destroy()
            print(deployment.left_over())
        finally:
            cloud.cache.close()


@contextlib.contextmanager
def step(name: str) -> Iterator[None]:
    """Say what is done, and how long it took."""
    print(f"{name} ...", flush=True)
    started = time.monotonic()
    yield
    print(f"{name}: {time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
