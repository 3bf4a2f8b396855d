"""``oarnodes``: nodes, their resources, their states and the jobs on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import typer

from oarpy.client.boundary import run
from oarpy.client.options.documents import DocumentCommand
from oarpy.client.options.optional_values import OptionalValue, OptionalValueCommand
from oarpy.client.rendering import Color, Document, Report, look, show, write
from oarpy.model.errors import UsageError

app = typer.Typer(add_completion=False, rich_markup_mode=None)


_DATE = r"(?i:\d{4}-|\d{9,11}$|\d{1,2}:|now|yesterday|today|[+-]\d)"
"""The beginning of a date, unlike that of the name of a node."""


class OarnodesCommand(OptionalValueCommand, DocumentCommand):
    """``-e`` may come without a date; a word after it that is none is a node."""

    optional_values: ClassVar[Mapping[str, OptionalValue]] = {
        "-e": OptionalValue("--events", _DATE),
        "--events": OptionalValue("--events", _DATE),
    }


@app.command(cls=OarnodesCommand)
def oarnodes(
    hosts: Annotated[
        list[str] | None, typer.Argument(metavar="NODES...", help="Nodes such as node[1-4]; default all.")
    ] = None,
    resources: Annotated[
        list[str] | None, typer.Option("-r", "--resource", metavar="ID", help="Show this resource; repeatable.")
    ] = None,
    state: Annotated[bool, typer.Option("-s", "--state", help="Show the states alone.")] = False,
    names: Annotated[bool, typer.Option("-l", "--list", help="Show the names of the nodes alone.")] = False,
    jobs: Annotated[bool, typer.Option("-j", "--jobs", help="Show the jobs on each resource that is held.")] = False,
    events: Annotated[
        str | None,
        typer.Option(
            "-e", "--events", metavar="[DATE]", help="Show the events of nodes from a date on; alone: the last."
        ),
    ] = None,
    windows: Annotated[
        bool, typer.Option("--maintenance", help="Show the maintenance windows that are under way or to come.")
    ] = False,
    properties: Annotated[
        list[str] | None,
        typer.Option("-p", "--property", metavar="PROP[,...]", help="Show these properties, in columns; repeatable."),
    ] = None,
    all_properties: Annotated[
        bool, typer.Option("-P", "--properties", help="Show all properties of each resource, and nothing else.")
    ] = False,
    summary: Annotated[
        bool, typer.Option("-S", "--summary", help="Show how many nodes and resources are in each state.")
    ] = False,
    condition: Annotated[
        str | None,
        typer.Option("--sql", metavar="CONDITION", help="Show resources that meet a condition on properties."),
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="DATE", help="Show states and jobs as they were at this date.")
    ] = None,
    color: Color = "auto",
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")] = False,
) -> None:
    """Show resources with their states, properties and jobs; on a terminal, a line a node unless some are named."""
    if sum((state, names, jobs, windows, events is not None, bool(properties or all_properties), summary)) > 1:
        raise UsageError("-s, -l, -j, -e, -p, -P, -S and --maintenance exclude each other")
    seen = look(color)
    from oarpy.client.past import past_cluster
    from oarpy.client.past.periods import parse_date, parse_past_date
    from oarpy.client.platform import maintenance, nodes
    from oarpy.client.platform.resource_selection import find
    from oarpy.client.session import open_session

    since = parse_date(events) if events else None
    with open_session("oarnodes") as session:
        rows = find(session, resources or (), hosts or (), condition)
        report: Report[Document]
        if at is not None:
            report = past_cluster.nodes(session, parse_past_date(at), frozenset(row.resource_id for row in rows))
        elif state:
            report = nodes.states(session, rows, seen)
        elif properties or all_properties:
            chosen = [] if all_properties else [name for word in properties or () for name in word.split(",") if name]
            report = nodes.properties(rows, chosen)
        elif summary:
            report = nodes.summary(session, rows, seen)
        elif names:
            report = nodes.names(rows)
        elif jobs:
            report = nodes.jobs(session, rows)
        elif windows:
            report = maintenance.listed(session, (row.network_address for row in rows))
        elif events is not None:
            everywhere = not (hosts or resources or condition)
            report = nodes.event_log(session, rows, since, everywhere=everywhere)
        elif seen.terminal and not (as_json or resources or hosts or condition):
            write(nodes.overview(session, rows, seen))
            return
        else:
            report = nodes.full(session, rows)
    show(report, as_json=as_json)


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oarnodes")
