"""``oardel``: ask for the end of jobs, or send them a signal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import json_text, write
from oarpy.model.errors import UsageError
from oarpy.model.submission_checks import read_signal

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="Jobs that cannot be deleted do not keep the others; signals go to all jobs or to none.")
def oardel(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="JOB_ID...", help="Jobs to delete: ids, 12-20, last, @name, state:S, user:U."),
    ] = None,
    arrays: Annotated[
        bool,
        typer.Option("--array", "--bag", help="The ids are those of arrays, or of bags: every live job of them."),
    ] = False,
    recurring: Annotated[
        bool, typer.Option("--recurring", help="The ids are those of recurring jobs, which end; jobs of theirs stay.")
    ] = False,
    condition: Annotated[
        str | None,
        typer.Option("--sql", metavar="CONDITION", help="Every live job that meets a condition on job columns."),
    ] = None,
    checkpoint: Annotated[
        bool, typer.Option("-c", "--checkpoint", help="Send each job its checkpoint signal instead.")
    ] = False,
    signal: Annotated[
        str | None,
        typer.Option("-s", "--signal", metavar="SIGNAL", help="Send this signal (USR1, 10) instead."),
    ] = None,
    besteffort: Annotated[
        bool,
        typer.Option("-b", "--besteffort", help="Make running jobs best-effort, or ordinary again (admins only)."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say which jobs are meant, and do nothing.")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force-terminate-finishing-job",
            help="End jobs that have been Finishing for too long without their nodes (admins only).",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")] = False,
) -> None:
    """Delete jobs: waiting ones at once, running ones as soon as their nodes have been told."""
    if checkpoint + besteffort + force + (signal is not None) > 1:
        raise UsageError(
            "-b, -c, -s and --force-terminate-finishing-job exclude each other",
            hint="-c sends the job's own checkpoint signal",
        )
    if recurring:
        others = arrays, condition is not None, checkpoint, signal is not None, besteffort, dry_run, force
        _end_series(ids or [], alone=not any(others), as_json=as_json)
        return
    from oarpy.client.jobs import actions
    from oarpy.client.jobs.selection import meant_text, parse_selection
    from oarpy.client.session import open_session

    if besteffort and dry_run:
        raise UsageError("-b with --dry-run", hint="oarstat shows the jobs")
    selection = parse_selection(ids or (), condition, arrays=arrays)
    number = None if signal is None else read_signal(signal)
    deletion = actions.Deletion(())
    with open_session("oardel") as session, actions.tried(session, dry_run=dry_run):
        if besteffort:
            _tell_toggled(actions.toggle_besteffort(session, selection), as_json=as_json)
            return
        if checkpoint:
            done, action = actions.checkpoint(session, selection), "checkpoint"
        elif number is not None:
            done, action = actions.send_signal(session, selection, number), "signal"
        elif force:
            done, action = actions.force_termination(session, selection), "force-terminate"
        else:
            deletion = actions.delete(session, selection)
            done, action = deletion.job_ids, "delete"
    if as_json:
        write(json_text({"action": action, "jobs": done}))
    elif dry_run:
        write(meant_text(action, done))
    elif done:
        write(_text(action, signal, done))
    deletion.raise_complaints()


def _end_series(ids: list[str], *, alone: bool, as_json: bool) -> None:
    """End recurring jobs."""
    from oarpy.client.jobs.selection import parse_ids
    from oarpy.client.session import open_session
    from oarpy.recurrence import series

    if not alone:
        raise UsageError("--recurring with other options", hint="oardel --recurring ID ...")
    numbers = parse_ids(ids, "recurring job")
    if not numbers:
        raise UsageError("--recurring without an id", hint="oarstat --recurring shows them")
    with open_session("oardel") as session:
        series.end(session, numbers)
    if as_json:
        write(json_text({"action": "end", "recurring": numbers}))
    else:
        write("".join(f"Ending the recurring job = {number} ...DONE.\n" for number in numbers))


def _tell_toggled(toggled: Mapping[int, bool], *, as_json: bool) -> None:
    if as_json:
        jobs = [{"job_id": job, "besteffort": besteffort} for job, besteffort in toggled.items()]
        write(json_text({"action": "besteffort", "jobs": jobs}))
    for job, besteffort in {} if as_json else toggled.items():
        done = "Adding the type besteffort to" if besteffort else "Removing the type besteffort from"
        write(f"{done} the job = {job} ...DONE.\n")


def _text(action: str, signal: str | None, job_ids: tuple[int, ...]) -> str:
    if action == "checkpoint":
        return "".join(f"Checkpointing the job = {job} ...REGISTERED.\n" for job in job_ids)
    if action == "signal":
        return "".join(f"Sending {signal} to the job = {job} ...REGISTERED.\n" for job in job_ids)
    if action == "force-terminate":
        return "".join(f"Force the termination of the job = {job} ...DONE.\n" for job in job_ids)
    lines = [f"Deleting the job = {job} ...REGISTERED.\n" for job in job_ids]
    listed = " ".join(map(str, job_ids))
    return "".join(lines) + f"The job(s) [ {listed} ] will be deleted in the near future.\n"


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oardel")
