"""``oargriddel``: delete grid jobs, on all their clusters."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import json_text, write
from oarpy.model.errors import UsageError

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="Jobs that cannot be deleted do not keep the others.")
def oargriddel(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Grid jobs to delete.")] = None,
    arrays: Annotated[
        bool, typer.Option("--array", help="The ids are those of grid arrays: every job of them that is not over.")
    ] = False,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")] = False,
) -> None:
    """Delete grid jobs: all their parts end, on all clusters."""
    from oarpy.client.jobs.selection import parse_ids
    from oarpy.client.session import open_session
    from oarpy.grid.reports.deletion import delete

    if not ids:
        raise UsageError("no grid job", hint="oargriddel 3; oargridstat lists yours")
    numbers = parse_ids(ids)
    with open_session("oargriddel") as session:
        deletion = delete(session, numbers, arrays=arrays)
    if as_json:
        write(json_text({"action": "delete", "jobs": list(deletion.job_ids)}))
    else:
        write("".join(f"Deleting the grid job = {job} ...REGISTERED.\n" for job in deletion.job_ids))
    deletion.raise_complaints()


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oargriddel")
