"""``oarresume``: release held jobs, let suspended ones go on."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import json_text, write

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="All or nothing: one job that cannot be acted on stops the whole request.")
def oarresume(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="JOB_ID...", help="Jobs to resume: ids, 12-20, last, @name, state:S, user:U."),
    ] = None,
    arrays: Annotated[
        bool, typer.Option("--array", help="The ids are those of arrays: every live job of them.")
    ] = False,
    condition: Annotated[
        str | None,
        typer.Option("--sql", metavar="CONDITION", help="Every live job that meets a condition on job columns."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say which jobs are meant, and do nothing.")] = False,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")] = False,
) -> None:
    """Let held jobs be scheduled again, and suspended ones go on."""
    from oarpy.client.jobs import actions
    from oarpy.client.jobs.selection import meant_text, parse_selection
    from oarpy.client.session import open_session

    selection = parse_selection(ids or (), condition, arrays=arrays)
    with open_session("oarresume") as session, actions.tried(session, dry_run=dry_run):
        done = actions.resume(session, selection)
    if as_json:
        write(json_text({"action": "resume", "jobs": done}))
    elif dry_run:
        write(meant_text("resume", done))
    else:
        write("".join(f"[{job}] Resume request was sent to the OAR server.\n" for job in done))


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oarresume")
