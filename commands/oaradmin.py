"""``oaradmin``: describe the cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import Column, Table, json_text, write

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Describe the cluster. Only an admin may.")
resources_app = typer.Typer(no_args_is_help=True, help="Add, list and delete resources.")
app.add_typer(resources_app, name="resources")

Json = Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")]
Condition = Annotated[
    str | None, typer.Option("--sql", metavar="CONDITION", help="Those that meet a condition on properties.")
]
Hosts = Annotated[
    list[str] | None,
    typer.Option("-h", "--host", metavar="NODES", help="Those of nodes such as node[1-4]; repeatable."),
]


@resources_app.command("add")
def add(
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="Levels, outermost first: /host=node[1-4]/cpu={2}/core={4}.")
    ],
    kind: Annotated[str, typer.Option("--type", metavar="TYPE", help="Type of the resources.")] = "default",
    transport: Annotated[
        str | None, typer.Option("--transport", metavar="local|ssh", help="How the nodes are reached; default ssh.")
    ] = None,
    address: Annotated[
        str | None, typer.Option("--address", metavar="HOSTS", help="Where the nodes are, if not under their names.")
    ] = None,
    port: Annotated[
        str | None, typer.Option("--port", metavar="PORTS", help="SSH port, or one a node: 2201-2204.")
    ] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("-p", "--property", metavar="NAME=VALUE", help="Set a property; repeatable.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the rows and change nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Add nodes and resources; levels that are no property yet become one."""
    from oarpy.client import resource_creation
    from oarpy.client.resource_text import shown, value_json
    from oarpy.client.session import open_session

    creation = resource_creation.Creation(pattern, kind, transport, address, port, tuple(assignments or ()))
    ids: tuple[int, ...] = ()
    with open_session("oaradmin") as session:
        if dry_run:
            planned = resource_creation.plan(session, creation)
        else:
            planned, ids = resource_creation.create(session, creation)
    if as_json:
        rows = [{name: value_json(value) for name, value in row.items()} for row in planned.rows]
        write(json_text({"added": ids, "rows": rows, "new_properties": [name for name, _ in planned.new_columns]}))
    elif dry_run:
        columns = tuple(Column(name) for name in planned.kinds)
        cells = tuple(tuple(shown(row[name]) for name in planned.kinds) for row in planned.rows)
        write(Table(columns, cells).text())
    else:
        nodes = {row["network_address"] for row in planned.rows} - {None}
        write(f"{len(ids)} resources added on {len(nodes)} nodes\n")


@resources_app.command("list")
def list_resources(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="RESOURCE_ID...", help="Resources to list; default all.")
    ] = None,
    hosts: Hosts = None,
    condition: Condition = None,
    as_json: Json = False,
) -> None:
    """List resources with all their properties."""
    from oarpy.client.resource_selection import find
    from oarpy.client.resource_text import properties_of, resource_json, shown
    from oarpy.client.session import open_session

    with open_session("oaradmin") as session:
        found = find(session, ids or (), hosts or (), condition)
    if as_json:
        write(json_text([resource_json(one) for one in found]))
    elif found:
        columns = tuple(Column(name) for name in properties_of(found[0]))
        cells = (tuple(shown(value) for value in properties_of(one).values()) for one in found)
        write(Table(columns, tuple(cells)).text())


@resources_app.command("delete")
def delete_resources(
    ids: Annotated[list[str] | None, typer.Argument(metavar="RESOURCE_ID...", help="Resources to delete.")] = None,
    hosts: Hosts = None,
    condition: Condition = None,
    as_json: Json = False,
) -> None:
    """Delete resources that no job ever used."""
    from oarpy.client import resource_removal
    from oarpy.client.session import open_session

    with open_session("oaradmin") as session:
        deleted = resource_removal.delete(session, ids or (), hosts or (), condition)
    write(json_text({"deleted": deleted}) if as_json else f"{len(deleted)} resources deleted\n")


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oaradmin")
