"""``oargridctl``: what brokers may do here; and for a broker its clusters, reallocation passes and doubts."""

from __future__ import annotations

from typing import Annotated

import typer
from oarpy.commands.grants import app as grants_app

from oarpy.client.boundary import run
from oarpy.client.rendering import json_text, look, write
from oarpy.client.session import open_session
from oarpy.model.errors import UsageError

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Several clusters: what brokers may do here; of a broker its clusters, passes and doubts.",
)
app.add_typer(grants_app)
clusters_app = typer.Typer(no_args_is_help=True, help="The clusters that the broker uses.")
app.add_typer(clusters_app, name="clusters")
passes_app = typer.Typer(no_args_is_help=True, help="Reallocation passes, which move waiting jobs.")
app.add_typer(passes_app, name="passes")

_MOST_PASSES = 10_000
Json = Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")]
Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Clusters.")]


@clusters_app.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name: letters, digits and '_'.")],
    door: Annotated[
        str | None,
        typer.Option("--door", metavar="COMMAND", help="What leads to its door: 'ssh -i KEY oargrid@host'."),
    ] = None,
    slurm: Annotated[
        str | None,
        typer.Option("--slurm", metavar="COMMAND", help="What leads to a cluster of Slurm: 'ssh user@host'."),
    ] = None,
    users: Annotated[
        str | None,
        typer.Option(
            "--users", metavar="NAMES", help="Who may use a cluster of Slurm: ann,bob or all. Else admins alone."
        ),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option("--speed", metavar="S", help="How many times as fast as speed 1 it is; else as it says."),
    ] = None,
    dedicated: Annotated[
        bool, typer.Option("--dedicated", help="The broker alone submits there: algorithm 2 may withdraw jobs.")
    ] = False,
    place: Annotated[
        int, typer.Option("--place", metavar="N", help="Its place in the configured order, which decides ties.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Add a cluster, or change the one of that name; it is enabled then."""
    from oarpy.grid.administration import cluster_settings

    settings = cluster_settings.read_settings(name, door, slurm, speed, place, dedicated=dedicated, users=users)
    with open_session("oargridctl") as session:
        lent = cluster_settings.add(session, settings)
    if as_json:
        write(json_text({"action": "add", "clusters": [name], "users": None if lent is None else list(lent)}))
        return
    write(f"Cluster {name} is added.\n")
    if settings.users == ():
        write(f"Nobody but {', '.join(lent or ())} may use it: --users ann,bob or --users all opens it.\n")


@clusters_app.command("list")
def list_clusters(as_json: Json = False) -> None:
    """Show the clusters, in configured order; to admins also how they are entered."""
    from oarpy.grid.administration import cluster_settings
    from oarpy.store.grid import clusters

    with open_session("oargridctl") as session:
        rows, admin = clusters.every(session.connection), session.is_admin
    if as_json:
        write(json_text([cluster_settings.record(row, with_door=admin) for row in rows]))
    else:
        write(cluster_settings.table(rows, with_doors=admin).text(look()))


@clusters_app.command("enable")
def enable(names: Names, as_json: Json = False) -> None:
    """Let new jobs go to clusters."""
    from oarpy.grid.administration import cluster_settings

    with open_session("oargridctl") as session:
        cluster_settings.enable(session, names, active=True)
    _tell("enable", names, "Cluster {} is enabled.\n", as_json=as_json)


@clusters_app.command("disable")
def disable(names: Names, as_json: Json = False) -> None:
    """Keep new jobs away from clusters; those that are there go on."""
    from oarpy.grid.administration import cluster_settings

    with open_session("oargridctl") as session:
        cluster_settings.enable(session, names, active=False)
    _tell("disable", names, "Cluster {} is disabled.\n", as_json=as_json)


@clusters_app.command("remove")
def remove(names: Names, as_json: Json = False) -> None:
    """Remove clusters that no job was ever given."""
    from oarpy.grid.administration import cluster_settings

    with open_session("oargridctl") as session:
        cluster_settings.remove(session, names)
    _tell("remove", names, "Cluster {} is removed.\n", as_json=as_json)


@passes_app.command("list")
def list_passes(
    count: Annotated[int, typer.Option("--count", metavar="N", help="So many of them, the latest first.")] = 20,
    as_json: Json = False,
) -> None:
    """Show the latest reallocation passes, and those that were asked for."""
    from oarpy.grid.administration import pass_list
    from oarpy.store.grid import reallocation_passes

    if not 1 <= count <= _MOST_PASSES:
        raise UsageError(f"--count {count}", hint=f"from 1 to {_MOST_PASSES}")
    with open_session("oargridctl") as session:
        rows = reallocation_passes.latest(session.connection, count)
    write(json_text(list(map(pass_list.record, rows))) if as_json else pass_list.table(rows).text(look()))


@passes_app.command("start")
def start(as_json: Json = False) -> None:
    """Have the broker make a reallocation pass now."""
    from oarpy.grid.administration import pass_list

    with open_session("oargridctl") as session:
        number = pass_list.start(session)
    write(json_text({"action": "start", "pass": number}) if as_json else f"Pass {number} is asked for.\n")


@app.command("doubts")
def doubts(as_json: Json = False) -> None:
    """Show transactions that are decided, and whose outcome on a cluster is not known yet."""
    from oarpy.grid.administration import doubt_list
    from oarpy.store.grid import transactions

    with open_session("oargridctl") as session:
        session.require_admin("see the doubts of a broker")
        rows = transactions.doubts(session.connection)
    write(json_text(list(map(doubt_list.record, rows))) if as_json else doubt_list.table(rows).text(look()))


@app.command("strays")
def strays(
    end: Annotated[bool, typer.Option("--end", help="Have their clusters end them.")] = False, as_json: Json = False
) -> None:
    """Show parts on clusters that the broker does not know, as after a restore of its database."""
    from oarpy.grid.administration import stray_parts
    from oarpy.grid.broker.connections import clusters_of
    from oarpy.model.errors import Unreachable

    with open_session("oargridctl") as session:
        session.require_admin("see the strays of a broker")
        opening = clusters_of(session.configuration.grid.name)
        strayed = stray_parts.find(session.connection, opening, end=end)
    write(json_text(list(map(stray_parts.record, strayed))) if as_json else stray_parts.table(strayed).text(look()))
    if not stray_parts.all_asked(strayed):
        raise typer.Exit(Unreachable.exit_status)


def _tell(action: str, names: list[str], sentence: str, *, as_json: bool) -> None:
    """Print the action and its clusters."""
    write(json_text({"action": action, "clusters": names}) if as_json else "".join(map(sentence.format, names)))


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oargridctl")
