"""``oarwindow``: show and change the window of a reservation."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import json_text, write

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
    epilog="A wider window is given at once. For another the next pass finds a place; the job's own one is free then."
)
def oarwindow(
    job: Annotated[str, typer.Argument(metavar="JOB_ID", help="A reservation that has not begun.")],
    ready: Annotated[
        str | None, typer.Option("--from", metavar="DATE", help="Let it start from then on; else as before.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="DATE", help="Let it end by then; else as before.")
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Let it move no more.")] = False,
    answer_timeout: Annotated[
        float, typer.Option("--answer-timeout", min=0, metavar="SECONDS", help="Wait so long for the answer.")
    ] = 60,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")] = False,
) -> None:
    """Show the window of a reservation, ask for another, or fix the reservation where it is."""
    from oarpy.client.jobs.running import windows
    from oarpy.client.jobs.selection import one_job, parse_one
    from oarpy.client.session import open_session
    from oarpy.client.submission.report import offer_lines, offer_records

    chosen, wanted = parse_one(job), windows.read_change(ready, until, fix=fix)
    with open_session("oarwindow") as session:
        job_id = one_job(session, chosen)
        try:
            if wanted == windows.WindowChange():
                reservation = windows.show(session, job_id)
            else:
                reservation = windows.change(session, job_id, wanted, answer_timeout)
        except windows.WindowRefused as refused:
            if as_json:
                found = {**windows.record(refused.reservation), "offers": offer_records(refused.offers)}
                write(json_text(found))
            else:
                write(offer_lines(refused.offers))
            raise
        write(json_text(windows.record(reservation)) if as_json else windows.as_text(reservation))


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oarwindow")
