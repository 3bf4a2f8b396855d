"""``oarnodesetting``: change resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import JsonValue, json_text, write
from oarpy.model.errors import UsageError

if TYPE_CHECKING:
    from oarpy.client.platform.node_settings import Selection, SettingOutcome

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="Jobs on resources set Absent or Dead are killed. Only an admin may.")
def oarnodesetting(
    nodes: Annotated[
        list[str] | None,
        typer.Argument(metavar="NODES...", help="Resources of nodes, as after -h.", show_default=False),
    ] = None,
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
        str | None,
        typer.Option(
            "-m",
            "--maintenance",
            metavar="on|off|START..END",
            help="on: Absent for repair; off: Alive; START..END: a window in which the nodes get no jobs.",
        ),
    ] = None,
    cancel: Annotated[
        list[str] | None,
        typer.Option("--cancel-maintenance", metavar="WINDOW", help="Cancel this maintenance window; repeatable."),
    ] = None,
    drain: Annotated[
        str | None, typer.Option("-d", "--drain", metavar="on|off", help="on: no new jobs, running ones finish.")
    ] = None,
    reboot: Annotated[
        bool, typer.Option("--reboot", help="Drain nodes, and reboot them when their jobs have ended.")
    ] = False,
    reason: Annotated[
        str | None,
        typer.Option("--reason", metavar="TEXT", help="Why nodes go away; kept until they are back."),
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
    from oarpy.client.platform.maintenance import parse_window
    from oarpy.client.session import open_session

    switch = maintenance if maintenance is not None and maintenance.lower() in ("on", "off") else None
    changes = node_settings.Changes(
        state,
        None if switch is None else node_settings.parse_switch(switch, "-m"),
        None if drain is None else node_settings.parse_switch(drain, "-d"),
        tuple(assignments or ()),
        reason,
        None if maintenance is None or switch is not None else parse_window(maintenance),
    )
    hosts = [*(hosts or ()), *(nodes or ())]
    if cancel:
        if hosts or resources or condition is not None or changes != node_settings.Changes():
            raise UsageError("--cancel-maintenance goes with no other option but -J")
        return _cancel(cancel, as_json=as_json)
    if reboot:
        if add or changes != node_settings.Changes(reason=reason):
            raise UsageError("--reboot goes with -h, -r, --sql, --reason and -J only")
        chosen = node_settings.Selection(tuple(resources or ()), tuple(hosts), condition)
        return _reboot(chosen, reason, as_json=as_json)
    if add and (resources or condition is not None):
        raise UsageError("-a goes with -h and -p only", hint="-r and --sql choose existing resources")
    with open_session("oarnodesetting") as session:
        if add:
            outcome = node_settings.add(session, hosts, changes)
        else:
            selection = node_settings.Selection(tuple(resources or ()), tuple(hosts), condition)
            outcome = node_settings.change(session, selection, changes)
    write(_outcome_text(outcome, added=add, as_json=as_json))
    return None


def _outcome_text(outcome: SettingOutcome, *, added: bool, as_json: bool) -> str:
    """Return what became of the resources, or the window that was planned."""
    planned = outcome.planned
    if as_json:
        document: dict[str, JsonValue] = {"resources": outcome.resource_ids, "killed_jobs": outcome.killed_jobs}
        if planned is not None:
            document |= {"window": planned.window, "crossed_jobs": planned.crossed}
        return json_text(document)
    lines = []
    if planned is None:
        lines.append(f"resources {'added' if added else 'changed'}: {', '.join(map(str, outcome.resource_ids))}")
    else:
        lines.append(f"maintenance window {planned.window}: {', '.join(planned.nodes)}")
    if planned is not None and planned.crossed:
        lines.append(f"jobs and reservations that may run into it: {', '.join(map(str, planned.crossed))}")
    if outcome.killed_jobs:
        lines.append(f"jobs to be killed: {', '.join(map(str, outcome.killed_jobs))}")
    return "".join(f"{line}\n" for line in lines)


def _reboot(selection: Selection, reason: str | None, *, as_json: bool) -> None:
    from oarpy.client.platform.node_settings import reboot
    from oarpy.client.session import open_session

    with open_session("oarnodesetting") as session:
        names = reboot(session, selection, reason)
    write(json_text({"rebooted": names}) if as_json else f"to be rebooted without jobs: {', '.join(names)}\n")


def _cancel(windows: list[str], *, as_json: bool) -> None:
    from oarpy.client.platform.maintenance import cancel
    from oarpy.client.session import open_session

    with open_session("oarnodesetting") as session:
        done = cancel(session, windows)
    write(json_text({"cancelled": done}) if as_json else f"maintenance cancelled: {', '.join(map(str, done))}\n")


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oarnodesetting")
