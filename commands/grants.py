"""``oargridctl grant|revoke|grants|key``: what brokers of several clusters may do on this one."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.rendering import json_text, write
from oarpy.model.durations import parse_duration

app = typer.Typer(add_completion=False, rich_markup_mode=None)
Broker = Annotated[str, typer.Argument(metavar="BROKER", help="A broker of door.brokers.")]
BrokerUser = Annotated[str, typer.Argument(metavar="USER", help="The user's name at the broker.")]
Json = Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")]


@app.command("grant")
def grant(
    broker: Broker,
    broker_user: BrokerUser,
    user: Annotated[
        str | None, typer.Option("--user", metavar="ACCOUNT", help="Who that is here; for admins. Default: you.")
    ] = None,
    queues: Annotated[
        list[str] | None, typer.Option("-q", "--queue", metavar="QUEUE", help="May use this queue; may be repeated.")
    ] = None,
    resources: Annotated[
        int | None, typer.Option("--resources", min=1, metavar="N", help="Most resources of a job.")
    ] = None,
    walltime: Annotated[
        str | None, typer.Option("--walltime", metavar="TIME", help="Longest walltime of a job: 12:00:00, 2h.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Let a broker act on this cluster for one of its users, as you."""
    from oarpy.client.session import open_session
    from oarpy.grid.door import grant_reports, grants

    longest = None if walltime is None else parse_duration(walltime)
    with open_session("oargridctl") as session:
        limits = {"most_resources": resources, "longest_walltime": longest}
        granted = grants.grant(session, broker, broker_user, local_user=user, queues=queues or (), **limits)
    write(json_text(grant_reports.record(granted)) if as_json else f"Granted: {grant_reports.sentence(granted)}\n")


@app.command("revoke")
def revoke(broker: Broker, broker_user: BrokerUser, as_json: Json = False) -> None:
    """Take a grant back. Jobs that were submitted by it stay."""
    from oarpy.client.session import open_session
    from oarpy.grid.door import grant_reports, grants

    with open_session("oargridctl") as session:
        gone = grants.revoke(session, broker, broker_user)
    write(json_text(grant_reports.record(gone)) if as_json else f"Revoked: {grant_reports.sentence(gone)}\n")


@app.command("grants")
def list_grants(as_json: Json = False) -> None:
    """List what brokers may do here as you; as an admin, as anybody."""
    from oarpy.client.session import open_session
    from oarpy.grid.door import grant_reports, grants

    with open_session("oargridctl") as session:
        rows = grants.visible(session)
    write(json_text([grant_reports.record(row) for row in rows]) if as_json else grant_reports.table(rows))


@app.command("key")
def key(
    broker: Broker,
    public_key: Annotated[str, typer.Argument(metavar="FILE", help="The public key of the broker.")],
    program: Annotated[
        str, typer.Option("--program", metavar="PATH", help="Where oargriddoor is on this machine.")
    ] = "oargriddoor",
    as_json: Json = False,
) -> None:
    """Print the line of authorized_keys that lets a broker's key run oargriddoor, and nothing else."""
    from oarpy.client.caller import current
    from oarpy.grid.door import broker_keys

    caller = current()
    text = caller.read_file(public_key, broker_keys.LARGEST).decode("utf-8", "replace")
    line = broker_keys.authorized_line(caller.configuration(), broker, text, program)
    write(json_text({"line": line.strip()}) if as_json else line)
