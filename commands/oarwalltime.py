"""``oarwalltime``: show and change the walltime of a running job."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import json_text, show, write
from oarpy.model.errors import UsageError

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
    # a reduction, -1:0:0, looks like an option
    context_settings={"ignore_unknown_options": True},
    epilog="A change is granted in the next scheduling pass, as far as it delays nobody who is placed already.",
)
def oarwalltime(
    job: Annotated[str, typer.Argument(metavar="JOB_ID", help="A running job.")],
    amount: Annotated[
        str | None,
        typer.Argument(
            metavar="[[+-]H:M:S]",
            help="The new walltime; with a sign, how much it changes. +0 cancels what is pending.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("-f", "--force", help="Neither wait for the end of the job to come near, nor grow in steps.")
    ] = False,
    whole: Annotated[bool, typer.Option("-w", "--whole", help="All of it or nothing.")] = False,
    delay_next_jobs: Annotated[
        bool,
        typer.Option("-d", "--delay-next-jobs", help="Also when jobs that wait start later; reservations never do."),
    ] = False,
    timeout: Annotated[
        int | None,
        typer.Option("-t", "--timeout", metavar="SECONDS", min=0, help="Forget after this what is then still pending."),
    ] = None,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")] = False,
) -> None:
    """Show how the walltime of a running job stands, or ask for another."""
    if amount is None and (force or whole or delay_next_jobs or timeout is not None):
        raise UsageError("no new walltime given", hint="oarwalltime JOB_ID +H:M:S")
    from oarpy.client.jobs.running import walltime_changes
    from oarpy.client.jobs.selection import one_job, parse_one
    from oarpy.client.session import open_session

    chosen = parse_one(job)
    with open_session("oarwalltime") as session:
        job_id = one_job(session, chosen)
        if amount is None:
            show(walltime_changes.show(session, job_id), as_json=as_json)
            return
        question = walltime_changes.WalltimeQuestion(amount, force, whole, delay_next_jobs, timeout)
        pending = walltime_changes.change(session, job_id, question)
    if as_json:
        write(json_text({"action": "walltime", "job": job_id, "pending": pending}))
    elif pending:
        write(f"Accepted: walltime change request registered for job {job_id}, it will be handled shortly.\n")
    else:
        write(f"Accepted: nothing is pending any more for job {job_id}.\n")


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oarwalltime")
