"""``oaradmin``: describe the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import Column, Table, json_text, write

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Describe the cluster and its limits; admins only.",
)
resources_app = typer.Typer(no_args_is_help=True, help="Add, list and delete resources.")
app.add_typer(resources_app, name="resources")
quotas_app = typer.Typer(no_args_is_help=True, help="Limits on what runs at one time, by time of the week if need be.")
app.add_typer(quotas_app, name="quotas")
consumables_app = typer.Typer(no_args_is_help=True, help="Declare, list and delete what is divided among jobs.")
app.add_typer(consumables_app, name="consumables")
links_app = typer.Typer(no_args_is_help=True, help="Say what clusters have between them, for those who negotiate.")
app.add_typer(links_app, name="links")
policy_app = typer.Typer(no_args_is_help=True, help="Try other policies on what happened.")
app.add_typer(policy_app, name="policy")

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
        str, typer.Argument(metavar="[PATTERN]", help="Levels, outermost first: /host=node[1-4]/cpu={2}/core={4}.")
    ] = "",
    probe: Annotated[
        str, typer.Option("--probe", metavar="NODES", help="Ask node[1-4] over SSH what they are made of instead.")
    ] = "",
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
    from oarpy.client.platform import resource_creation
    from oarpy.client.platform.resource_text import shown, value_json
    from oarpy.client.session import open_session

    creation = resource_creation.Creation(pattern, kind, transport, address, port, tuple(assignments or ()), probe)
    ids: tuple[int, ...] = ()
    with open_session("oaradmin") as session:
        probed = resource_creation.probe(session, creation)
        if dry_run:
            planned = resource_creation.plan(session, creation, probed)
        else:
            planned, ids = resource_creation.create(session, creation, probed)
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
    from oarpy.client.platform.resource_selection import find
    from oarpy.client.platform.resource_text import properties_of, resource_json, shown
    from oarpy.client.session import open_session

    with open_session("oaradmin") as session:
        rows = find(session, ids or (), hosts or (), condition)
    if as_json:
        write(json_text([resource_json(row) for row in rows]))
    elif rows:
        columns = tuple(Column(name) for name in properties_of(rows[0]))
        cells = (tuple(shown(value) for value in properties_of(row).values()) for row in rows)
        write(Table(columns, tuple(cells)).text())


@resources_app.command("delete")
def delete_resources(
    ids: Annotated[list[str] | None, typer.Argument(metavar="RESOURCE_ID...", help="Resources to delete.")] = None,
    hosts: Hosts = None,
    condition: Condition = None,
    as_json: Json = False,
) -> None:
    """Delete resources that no job ever used."""
    from oarpy.client.platform import resource_creation
    from oarpy.client.session import open_session

    with open_session("oaradmin") as session:
        deleted = resource_creation.delete(session, ids or (), hosts or (), condition)
    write(json_text({"deleted": deleted}) if as_json else f"{len(deleted)} resources deleted\n")


@quotas_app.command("show")
def show_quotas(
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON, as load reads it.")] = False,
) -> None:
    """Print all rules, when each set of rules is valid, and which one is now. Everybody may."""
    from datetime import UTC, datetime

    from oarpy.client.platform import quotas
    from oarpy.client.platform.quota_file import document
    from oarpy.client.session import open_session

    with open_session("oaradmin") as session:
        file = quotas.stored(session)
    write(json_text(document(file)) if as_json else quotas.table(file, datetime.now(UTC)))


@quotas_app.command("load")
def load_quotas(
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON as OAR reads it, - for standard input.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the file and change nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Replace all quotas by those of a file; one that makes no sense changes nothing."""
    from oarpy.client.platform import quotas
    from oarpy.client.session import open_session

    with open_session("oaradmin") as session:
        loaded = quotas.load(session, file, dry_run=dry_run)
    counts = {
        "rules": len(loaded.rules),
        "sets": len(loaded.sets),
        "periods": len(loaded.calendar.weekly),
        "exceptions": len(loaded.calendar.dated),
    }
    text = ", ".join(f"{number} {word}" for word, number in counts.items())
    write(json_text(counts) if as_json else f"{text} {'would be loaded' if dry_run else 'loaded'}\n")


@quotas_app.command("clear")
def clear_quotas(as_json: Json = False) -> None:
    """Remove all quotas."""
    from oarpy.client.platform import quotas
    from oarpy.client.session import open_session

    with open_session("oaradmin") as session:
        removed = quotas.clear(session)
    write(json_text({"removed": removed}) if as_json else f"{removed} rules removed\n")


@consumables_app.command("add")
def add_consumable(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name in requests: memory.")],
    level: Annotated[
        str, typer.Option("--level", metavar="PROPERTY", help="The property whose values have amounts of it.")
    ] = "network_address",
    unit: Annotated[str, typer.Option("--unit", metavar="bytes|count", help="What amounts are.")] = "count",
    as_json: Json = False,
) -> None:
    """Declare a consumable; oarnodesetting -p NAME=AMOUNT says how much of it nodes have."""
    from oarpy.client.platform import consumables
    from oarpy.client.session import open_session

    with open_session("oaradmin") as session:
        consumables.add(session, name, level, unit)
    added = {"added": name, "level": level, "unit": unit}
    write(json_text(added) if as_json else f"consumable {name} added, on each {level}, in {unit}\n")


@consumables_app.command("list")
def list_consumables(as_json: Json = False) -> None:
    """List consumables with what each block has of them and how much of that jobs hold."""
    from oarpy.client.platform import consumables
    from oarpy.client.session import open_session
    from oarpy.store.platform import consumables as store

    with open_session("oaradmin") as session:
        listed, capacities = store.consumables(session.connection), store.capacities(session.connection)
    if as_json:
        write(json_text(consumables.document(listed, capacities)))
    else:
        write(consumables.table(listed, capacities))


@consumables_app.command("delete")
def delete_consumable(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The consumable.")], as_json: Json = False
) -> None:
    """Delete a consumable that no live job asks for."""
    from oarpy.client.platform import consumables
    from oarpy.client.session import open_session

    with open_session("oaradmin") as session:
        consumables.delete(session, name)
    write(json_text({"deleted": name}) if as_json else f"consumable {name} deleted\n")


First = Annotated[str, typer.Argument(metavar="CLUSTER", help="One of the two.")]
Second = Annotated[str, typer.Argument(metavar="CLUSTER", help="The other one.")]


@links_app.command("set")
def set_link(
    cluster: First,
    other: Second,
    latency: Annotated[float, typer.Option("--latency", metavar="SECONDS", help="Seconds from one to the other.")],
    bandwidth: Annotated[float, typer.Option("--bandwidth", metavar="BYTES", help="Bytes a second.")],
) -> None:
    """Describe the link between two clusters, in place of what was said before."""
    from oarpy.client.session import open_session
    from oarpy.negotiation.requests import cluster_links

    with open_session("oaradmin") as session:
        cluster_links.set_link(session, cluster, other, latency, bandwidth)


@links_app.command("delete")
def delete_link(cluster: First, other: Second) -> None:
    """Forget the link between two clusters."""
    from oarpy.client.session import open_session
    from oarpy.negotiation.requests import cluster_links

    with open_session("oaradmin") as session:
        cluster_links.delete_link(session, cluster, other)


@links_app.command("list")
def list_links(as_json: Json = False) -> None:
    """Print the links."""
    from oarpy.client.session import open_session
    from oarpy.store.platform import cluster_links

    with open_session("oaradmin") as session:
        stored = cluster_links.links(session.connection)
    if as_json:
        write(json_text([list(row) for row in stored]))
        return
    columns = (Column("cluster"), Column("other"), Column("latency (s)"), Column("bandwidth (bytes/s)"))
    rows = ((cluster, other, f"{latency:g}", f"{bandwidth:g}") for cluster, other, latency, bandwidth in stored)
    write(Table(columns, tuple(rows)).text())


@policy_app.command("try")
def try_policy(
    days: Annotated[float, typer.Option("--days", metavar="N", help="Replay the jobs of the last N days.")] = 7.0,
    policy: Annotated[str, typer.Option("--policy", metavar="P", help="conservative, easy, fcfs, ...")] = "",
    order: Annotated[str | None, typer.Option("--order", metavar="O", help="Another order of all queues.")] = None,
    quotas: Annotated[
        str | None, typer.Option("--quotas", metavar="FILE|none", help="Other quotas: JSON, or none.")
    ] = None,
    rules: Annotated[
        Path | None, typer.Option("--rules", metavar="DIR", help="Other admission rules: NN_name.py.")
    ] = None,
    weights: Annotated[
        list[str] | None,
        typer.Option("--weight", metavar="NAME=VALUE", help="Another setting of [priority], as age_weight=2."),
    ] = None,
    as_html: Annotated[bool, typer.Option("--html", help="Print a page of HTML.")] = False,
    as_json: Json = False,
) -> None:
    """Replay the last days with changes, and say which users and queues would wait more, and which less."""
    from datetime import UTC, datetime

    from oarpy.client.past import policy_trial
    from oarpy.client.past.history_replay import PolicyChange
    from oarpy.client.session import open_session

    change = PolicyChange((policy,) if policy else (), order, quotas, rules)
    with open_session("oaradmin") as session:
        result = policy_trial.try_policy(session, days, change, weights or (), datetime.now(UTC))
    if as_json:
        write(json_text(policy_trial.document(result)))
    else:
        write(policy_trial.page(result) if as_html else policy_trial.table(result))


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oaradmin")
