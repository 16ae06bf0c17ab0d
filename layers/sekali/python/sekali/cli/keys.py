"""The commands about keys: leases, steal, explain, invalidate; and recover, which looks at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from sekali.cli.door import call, operate
from sekali.cli.faults import Exit, Fault
from sekali.cli.here import with_here, yes_option
from sekali.cli.naming import shown
from sekali.cli.output import duration, table, title, word
from sekali.keys import CACHE_NAME, LOCK_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sekali.cli.here import Here
    from sekali.cli.place import Json, Place

STATES: Final = ("live", "long", "overdue", "endless")
_LEASES: Final = ("state", "job", "key", "id", "age", "left", "owner", "fence")


@click.command()
@click.option("--key", help="Of this key only.")
@click.option(
    "--job", "name", metavar="NAME", help="Of this job only; ~ is the cache, @ are locks."
)
@click.option("--state", type=click.Choice(STATES), help="In this state only.")
@with_here
def leases(here: Here, *, key: str | None, name: str | None, state: str | None) -> None:
    """List who computes what: leases that are held, and those whose holder died.

    live: within its bounds. long: five times what the job usually takes. overdue: it ran out and
    nobody ended it. endless: renewed for longer than an invocation can last.
    """
    found = operate(here.place, "leases", name=name, key=key)
    listed = [one for one in found["leases"] if state is None or one["state"] == state]
    here.show({**found, "leases": listed}, _lease_lines(found, listed))


@click.command()
@click.argument("key")
@click.option("--job", "name", metavar="NAME", help="Whose key: a job, ~ the cache, @ locks.")
@click.option("--reason", default="", help="Why, for the log.")
@yes_option
@with_here
def steal(here: Here, *, key: str, name: str | None, reason: str, yes: bool) -> Exit:
    """Take the lease of KEY away from its holder.

    The fence grows, so that nothing the holder stores counts; the next claim starts anew. The log
    of the recovery function says who did it.
    """
    place = here.place
    name = name or _holder_of(place, key)
    here.confirm(f"Take the lease of {shown(name)} {key} away from its holder", yes=yes)
    told = operate(place, "steal", name=name, key=key, reason=reason)
    if told["stolen"]:
        owner = told["lease"]["owner"]
        here.show(told, [f"taken from {owner}; the fence is now {told['fence']}"])
        return Exit.DONE
    here.show(told, ["nobody holds it" if told["lease"] is None else "somebody newer holds it"])
    return Exit.NO


@click.command()
@click.argument("key")
@click.option("--job", "name", metavar="NAME", help="The job whose value it is; else the cache's.")
@with_here
def explain(here: Here, *, key: str, name: str | None) -> Exit:
    """Tell why KEY is served or not: its copy, age, tags, tombstone, and who computes it."""
    found = operate(here.place, "explain", key=key, name=name)
    here.show(found, _explained(found))
    known = found["shared"] or found["unreadable"] or found["lease_seconds"]
    return Exit.DONE if known else Exit.UNKNOWN


@click.command()
@click.option("--key", "keys", multiple=True, help="Drop this key; may be repeated.")
@click.option("--tag", "tags", multiple=True, help="Drop all that carries this tag.")
@click.option("--job", "name", metavar="NAME", help="The job whose keys these are.")
@yes_option
@with_here
def invalidate(
    here: Here, *, keys: tuple[str, ...], tags: tuple[str, ...], name: str | None, yes: bool
) -> None:
    """Declare values outdated, in every container. A load that is under way is not stored."""
    if not keys and not tags:
        raise click.UsageError("give --key or --tag")
    what = ", ".join([*keys, *(f"the tag {tag}" for tag in tags)])
    here.confirm(f"Invalidate {what} in {here.place.name}", yes=yes)
    told = operate(here.place, "invalidate", keys=keys or None, tags=tags or None, name=name)
    here.show(told, [f"invalidated: {what}"])


@click.command()
@with_here
def recover(here: Here) -> Exit:
    """Run the recovery function once, as its schedule does, and show what it found.

    While the shared cache is away it finds no leases, but the jobs that wait; status 7 says so.
    """
    found = call(here.place, {})
    here.show(found, _recovered(found))
    return Exit.REFUSED if found["leases_unread"] else Exit.DONE


COMMANDS: Final = (leases, steal, explain, invalidate, recover)


def _holder_of(place: Place, key: str) -> str:
    """Return whose lease is meant where only the key was named."""
    found = {one["name"] for one in operate(place, "leases", key=key)["leases"]}
    if not found:
        raise Fault(Exit.UNKNOWN, f"nobody holds a lease of {key}")
    if len(found) > 1:
        text = f"several hold a lease of {key}; name one with --job: {', '.join(sorted(found))}"
        raise Fault(Exit.USAGE, text, kind="job_needed")
    return str(found.pop())


def _lease_lines(found: Json, listed: list[Json]) -> Iterator[str]:
    yield ", ".join(f"{found[state]} {state}" for state in STATES)
    yield from table(_LEASES, [_row(one) for one in listed])


def _row(lease: Json) -> tuple[object, ...]:
    return (
        lease["state"],
        shown(lease["name"]),
        lease["key"],
        # The id of a load or of a lock is a random one.
        "" if lease["name"] in {CACHE_NAME, LOCK_NAME} else lease["id"],
        duration(lease["age_seconds"]),
        duration(lease["remaining_seconds"]),
        lease["owner"],
        lease["fence"],
    )


def _explained(found: Mapping[str, Any]) -> Iterator[str]:  # Any: JSON
    copy = found["shared"]
    served = copy is not None and not copy["outdated_tags"] and copy["left_seconds"] > 0
    state = word("ok") if served else "not served"
    yield f"{title(shown(found['name']) + ' ' + found['key'])}  {state if copy else 'no value'}"
    if copy is not None:
        age, left = duration(copy["age_seconds"]), duration(max(copy["left_seconds"], 0.0))
        yield f"shared     {copy['bytes']} bytes, {age} old, {left} left, fence {copy['fence']}"
        yield f"tags       {', '.join(copy['tags']) or 'none'}"
    if copy is not None and copy["outdated_tags"]:
        yield f"outdated   {', '.join(copy['outdated_tags'])}: not served, whatever its age"
    if found["unreadable"]:
        yield f"unreadable {found['unreadable']}: a miss"
    if found["holder"]:
        yield f"computing  {found['holder']}, {duration(found['lease_seconds'])} left"
    elif found["lease_seconds"]:
        yield f"cooling    {duration(found['lease_seconds'])} after a failed load"
    if found["invalidated"]:
        yield "tombstone  invalidated since this load began: its value will not be stored"
    yield "local      each container has its own copies; they end as the shared one does"


def _recovered(found: Json) -> Iterator[str]:
    if found["leases_unread"]:
        yield "nothing is known of leases: the shared cache did not answer"
    else:
        yield (
            f"{found['live']} live, {len(found['long'])} long, {len(found['overdue'])} overdue,"
            f" {len(found['endless'])} endless, {len(found['revoked'])} revoked"
        )
    listed = [*found["endless"], *found["overdue"], *found["long"]]
    yield from table(_LEASES, [_row(one) for one in listed])
    cut = " or more" if found["pending_unread"] else ""
    yield f"{found['pending_count']}{cut} jobs have been pending for too long"
    rows = [(one["name"], one["id"]) for one in found["pending"]]
    yield from table(("job", "id"), rows)
