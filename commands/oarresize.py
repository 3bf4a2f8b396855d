"""``oarresize``: more hosts for a running job, or fewer."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import json_text, write
from oarpy.model.errors import UsageError
from oarpy.negotiation.messages import FIRM, REVOCABLE

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
    # hosts to give back, -n3, look like an option
    context_settings={"ignore_unknown_options": True},
    epilog="The job stays one job: it ends when it would have ended, with all of its hosts.",
)
def oarresize(
    job: Annotated[str, typer.Argument(metavar="JOB_ID", help="A running job.")],
    change: Annotated[
        str,
        typer.Argument(
            metavar="+N[@CLUSTER] | -HOST[,HOST]",
            help="So many hosts more, of a cluster if one is named; or the hosts to give back. +0: nothing more.",
        ),
    ],
    revocable: Annotated[
        bool, typer.Option("--revocable", help="Hosts that are taken back, after a notice, when others need them.")
    ] = False,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")] = False,
) -> None:
    """Ask for more hosts for a running job, or give some back."""
    from oarpy.client.jobs.selection import one_job, parse_one
    from oarpy.client.session import open_session
    from oarpy.negotiation.requests import resizing

    chosen, (hosts, names) = parse_one(job), resizing.read_change(change)
    if names and revocable:
        raise UsageError("--revocable beside hosts to give back", hint="it goes with +N")
    with open_session("oarresize") as session:
        job_id = one_job(session, chosen)
        if names:
            answer = resizing.released(session, job_id, resizing.release(session, job_id, names), names)
        else:
            number = resizing.extend(session, job_id, hosts, REVOCABLE if revocable else FIRM)
            answer = resizing.ResizeAnswer(job_id) if number is None else resizing.extended(session, job_id, number)
    write(json_text(resizing.record(answer)) if as_json else resizing.as_text(answer))


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oarresize")
