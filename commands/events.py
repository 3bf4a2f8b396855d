"""``oarpy events``: what happens in the cluster, as it happens."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

Since = Annotated[
    str | None,
    typer.Option("--since", metavar="CURSOR", help="Go on after this cursor of an event; default: now."),
]


def events(
    since: Since = None,
    jobs: Annotated[
        list[str] | None, typer.Option("-j", "--job", metavar="ID", help="Tell of this job alone; repeatable.")
    ] = None,
    user: Annotated[
        str | None, typer.Option("-u", "--user", metavar="USER", help="Tell of the jobs of this user alone.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when all was told that had happened.")] = False,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print a JSON object a line.")] = False,
) -> None:
    """Print what happens to jobs, nodes and queues, a line each, until interrupted."""
    from oarpy.client.caller import current
    from oarpy.client.events import watching
    from oarpy.client.jobs.selection import parse_ids

    wanted = watching.Watched(frozenset(parse_ids(jobs or [])), user)
    with suppress(BrokenPipeError), current().attached() as streams:
        watching.follow("events", since, wanted, streams, as_json=as_json, once=once)
