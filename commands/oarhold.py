"""``oarhold``: keep waiting jobs from starting, suspend running ones."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import json_text, write

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="All or nothing: one job that cannot be acted on stops the whole request.")
def oarhold(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="JOB_ID...", help="Jobs to hold: ids, 12-20, last, @name, state:S, user:U."),
    ] = None,
    arrays: Annotated[
        bool, typer.Option("--array", help="The ids are those of arrays: every live job of them.")
    ] = False,
    condition: Annotated[
        str | None,
        typer.Option("--sql", metavar="CONDITION", help="Every live job that meets a condition on job columns."),
    ] = None,
    running: Annotated[
        bool, typer.Option("-r", "--running", help="Also suspend jobs that run, if one may do that here.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say which jobs are meant, and do nothing.")] = False,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")] = False,
) -> None:
    """Keep waiting jobs from being scheduled, and suspend running ones (-r), until oarresume."""
    from oarpy.client.jobs import actions
    from oarpy.client.jobs.selection import meant_text, parse_selection
    from oarpy.client.session import open_session

    selection = parse_selection(ids or (), condition, arrays=arrays)
    with open_session("oarhold") as session, actions.tried(session, dry_run=dry_run):
        done = actions.hold(session, selection, running=running)
    if as_json:
        write(json_text({"action": "hold", "jobs": done}))
    elif dry_run:
        write(meant_text("hold", done))
    else:
        write("".join(f"[{job}] Hold request was sent to the OAR server.\n" for job in done))


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oarhold")
