"""Rehearse a deployment: `python -m infra.rehearsal [--plain | --enforced]`."""

import argparse
import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator

from infra.local.processes import Nursery
from infra.local.valkey import ServerNotReady
from infra.local.workspace import workspace
from infra.rehearsal import jobs, leftovers, operator, security_rules, servers
from infra.rehearsal.cdk import Cdk, CdkFailed
from infra.rehearsal.deployment import TOOLKIT, Account, Deployment, Shortfall
from infra.rehearsal.permissions import prove_refusals
from infra.rehearsal.servers import Cloud


def main() -> int:
    """Run the rehearsal once as it is and once with IAM enforced; answer the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--plain", action="store_true", help="only without IAM enforcement")
    chosen.add_argument("--enforced", action="store_true", help="only with IAM enforcement")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)
    # A shell starts what runs in its background with this one ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    started = time.monotonic()
    try:
        if not options.enforced:
            rehearse(enforce=False)
        if not options.plain:
            rehearse(enforce=True)
    except (Shortfall, CdkFailed, ServerNotReady) as failure:
        print(f"\nFAILED: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped; nothing is left behind.")
        return 130
    print(f"All of it held, in {time.monotonic() - started:.0f} s.")
    return 0


def rehearse(*, enforce: bool) -> None:
    """Bootstrap, deploy, give work, compare, destroy; print a line for all that was shown.

    Raises:
        Shortfall: Something was not as it must be.
        CdkFailed: A CDK command ended with an error.
        ServerNotReady: A server did not start.
    """
    print(f"IAM and TLS are {'enforced (AUTH=true USE_SSL=1)' if enforce else 'off'}")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(workspace())
        nursery = stack.enter_context(contextlib.closing(Nursery()))
        with step("servers") as tell:
            cloud = servers.start(nursery, folder=folder, enforce=enforce)
            stack.callback(cloud.cache.close)
            tell(cloud.described())
        _deploy_and_destroy(Cdk(nursery, cloud, folder=folder), cloud, enforce=enforce)


def _deploy_and_destroy(cdk: Cdk, cloud: Cloud, *, enforce: bool) -> None:
    account = Account(cloud)
    with step("cdk bootstrap") as tell:
        cdk.bootstrap()
        tell(account.status(TOOLKIT))
    before = leftovers.listed(account)
    with step("cdk synth") as tell:
        changed = cdk.synthesize()
        tell(f"{changed.resources} resources, deployed as they are but for", *changed.lines())
    with step("cdk deploy") as tell:
        deployment = Deployment(cloud, cdk.deploy())
        tell(deployment.all_made(), f"  {security_rules.make(deployment, changed.rules)}")
    with step("jobs") as tell:
        tell(*jobs.work(deployment))
    with step("changed file") as tell:
        tell(jobs.change_a_file(deployment))
    with step("stuck job") as tell:
        tell(jobs.find_what_waits(deployment))
    with step("sekali command") as tell:
        tell(*operator.operate(deployment))
    if enforce:
        with step("refused calls") as tell:
            tell(*prove_refusals(deployment))
    with step("cdk diff") as tell:
        tell(cdk.diff())
    with step("cdk destroy") as tell:
        leftovers.quieten(deployment)
        cdk.destroy()
        tell(leftovers.none_left(account, before=before))


@contextlib.contextmanager
def step(name: str) -> Iterator[Callable[..., None]]:
    """Name what is done, and print at its end how long it took and what was told of it."""
    print(f"{name:<14}", end="", flush=True)
    started = time.monotonic()
    told: list[str] = []
    yield lambda *lines: told.extend(lines)
    print(f"{time.monotonic() - started:6.1f} s  {told[0]}", *told[1:], sep="\n", flush=True)


def _end(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
