"""``oarconnect``: a shell in a running job of one's own, the same as ``oarsub -C``."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import json_text, say, write

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="Its exit status is that of the shell (128 and the signal when one ended it).")
def oarconnect(
    job: Annotated[
        str, typer.Argument(metavar="[JOB_ID]", show_default=False, help="The job; may be left out when only one runs.")
    ] = "",
    as_json: Annotated[
        bool,
        typer.Option("-J", "--json", help="Print JSON at the end (job_id, status), nothing about the connection."),
    ] = False,
) -> None:
    """Open a shell on the first node of a running job, within the limits of the job. The job goes on without it."""
    from oarpy.client.jobs import interactive

    job_id, status = interactive.connect(interactive.parse_job(job), interactive.silent if as_json else say)
    if as_json:
        write(json_text({"job_id": job_id, "status": status}))
    raise typer.Exit(status)


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oarconnect")
