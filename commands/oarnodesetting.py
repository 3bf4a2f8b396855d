"""``oarnodesetting``: change resources."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import json_text, write
from oarpy.model.errors import UsageError

app = typer.Typer(add_completion=False)


@app.command(epilog="Jobs on resources set Absent or Dead are killed. Only an admin may.")
def oarnodesetting(
    add: Annotated[bool, typer.Option("-a", "--add", help="Add a resource on each host given.")] = False,
    hosts: Annotated[
        list[str] | None,
        typer.Option("-h", "--hostname", metavar="NODES", help="Resources of nodes such as node[1-4]; repeatable."),
    ] = None,
    resources: Annotated[
        list[str] | None, typer.Option("-r", "--resource", metavar="ID", help="This resource; repeatable.")
    ] = None,
    condition: Annotated[
        str | None, typer.Option("--sql", metavar="CONDITION", help="Resources that meet a condition on properties.")
    ] = None,
    state: Annotated[
        str | None, typer.Option("-s", "--state", metavar="STATE", help="Set Alive, Absent, Suspected or Dead.")
    ] = None,
    maintenance: Annotated[
        str | None, typer.Option("-m", "--maintenance", metavar="on|off", help="on: Absent for repair; off: Alive.")
    ] = None,
    drain: Annotated[
        str | None, typer.Option("-d", "--drain", metavar="on|off", help="on: no new jobs, running ones finish.")
    ] = None,
    reason: Annotated[
        str | None,
        typer.Option("--reason", metavar="TEXT", help="Why nodes are drained or taken down; kept until they are back."),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "-p", "--property", metavar="NAME=VALUE", help="Set a property; NAME! removes its value; repeatable."
        ),
    ] = None,
    no_wait: Annotated[
        bool, typer.Option("-n", "--no-wait", help="Do not wait for killed jobs (it never does).")
    ] = False,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")] = False,
) -> None:
    """Change the state or the properties of resources, or add some."""
    from oarpy.client.platform import node_settings
    from oarpy.client.session import open_session

    changes = node_settings.Changes(
        state,
        None if maintenance is None else node_settings.parse_switch(maintenance, "-m"),
        None if drain is None else node_settings.parse_switch(drain, "-d"),
        tuple(assignments or ()),
        reason,
    )
    if add and (resources or condition is not None):
        raise UsageError("-a goes with -h and -p only", hint="-r and --sql choose existing resources")
    with open_session("oarnodesetting") as session:
        if add:
            outcome = node_settings.add(session, hosts or (), changes)
        else:
            selection = node_settings.Selection(tuple(resources or ()), tuple(hosts or ()), condition)
            outcome = node_settings.change(session, selection, changes)
    if as_json:
        write(json_text({"resources": outcome.resource_ids, "killed_jobs": outcome.killed_jobs}))
        return
    listed = ", ".join(map(str, outcome.resource_ids))
    write(f"resources {'added' if add else 'changed'}: {listed}\n")
    if outcome.killed_jobs:
        write(f"jobs to be killed: {', '.join(map(str, outcome.killed_jobs))}\n")


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oarnodesetting")
