"""``oargridstat``: show grid jobs, their hosts, why they wait and where they were moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import Document, Report, TwoForms, form, show
from oarpy.model.errors import UsageError

if TYPE_CHECKING:
    from oarpy.client.session import Session
    from oarpy.store.grid.broker_jobs import GridJobRow

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def oargridstat(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID...]", help="Grid jobs; all of yours.")] = None,
    hosts: Annotated[
        bool, typer.Option("-l", "--list-nodes", help="Print the names of the job's hosts alone, one a line.")
    ] = False,
    wait: Annotated[bool, typer.Option("-w", "--wait", help="Wait first until all parts of the job run.")] = False,
    why: Annotated[
        bool, typer.Option("--why", help="Say why the job waits, when it would end elsewhere, and what was tried.")
    ] = False,
    moves: Annotated[bool, typer.Option("--moves", help="Show where jobs were moved while they waited.")] = False,
    everybody: Annotated[bool, typer.Option("--all", help="Jobs of all users; admins only.")] = False,
    ended: Annotated[bool, typer.Option("-e", "--ended", help="Jobs that are over too.")] = False,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")] = False,
) -> None:
    """Show your grid jobs that are not over, or those asked for."""
    from oarpy.client.jobs.selection import parse_ids

    if hosts + why + moves > 1:
        raise UsageError("-l, --why and --moves exclude each other", hint="ask for one after the other")
    if (hosts or why or wait) and len(ids or ()) != 1:
        given = "-l" if hosts else "--why" if why else "-w"
        raise UsageError(f"{given} takes one grid job", hint=f"oargridstat {given} 3")
    if ids and (everybody or ended):
        raise UsageError("--all and -e with ids", hint="leave the ids out")
    numbers = parse_ids(ids or ())
    if wait:
        _wait_and_show(numbers[0], hosts=hosts, why=why, moves=moves, as_json=as_json)
        return
    from oarpy.client.session import open_session

    with open_session("oargridstat") as session:
        jobs = _jobs(session, numbers, everybody=everybody, ended=ended)
        report = _report(session, jobs, named=bool(ids), hosts=hosts, why=why, moves=moves)
    show(report, as_json=as_json)


def _jobs(session: Session, ids: Sequence[int], *, everybody: bool, ended: bool) -> list[GridJobRow]:
    from oarpy.grid.reports import grid_job_views
    from oarpy.store.grid import broker_jobs

    if ids:
        return grid_job_views.own_jobs(session, ids)
    if everybody:
        session.require_admin("see the grid jobs of others")
        return broker_jobs.of_everybody(session.connection, ended=ended)
    return broker_jobs.of_user(session.connection, session.user, ended=ended)


def _report(
    session: Session, jobs: list[GridJobRow], *, named: bool, hosts: bool, why: bool, moves: bool
) -> Report[Document]:
    """Return the report about jobs that the options select."""
    from oarpy.grid.reports import grid_job_texts, grid_job_views, grid_moves, job_explanation

    if moves:
        from oarpy.store.grid.metajobs import shifts_of
        from oarpy.store.grid.reallocation_passes import moves_of_jobs

        ids = [job.id for job in jobs]
        moved, shifts = moves_of_jobs(session.connection, ids), shifts_of(session.connection, ids)
        return TwoForms(
            lambda: grid_moves.text(moved, shifts),
            lambda: [*map(grid_moves.record, moved), *map(grid_moves.shift_record, shifts)],
        )
    views = grid_job_views.views(session.connection, jobs)
    if hosts:
        return TwoForms(lambda: grid_job_texts.hosts(views[0]), lambda: list(views[0].hosts))
    if why:
        from oarpy.grid.submission.rehearsal import ends_of

        return job_explanation.standing(session.connection, views[0], ends_of(session, views[0]))
    return TwoForms(
        lambda: "".join(map(grid_job_texts.description, views)) if named else grid_job_texts.listing(views),
        lambda: list(map(grid_job_texts.record, views)),
    )


def _wait_and_show(number: int, *, hosts: bool, why: bool, moves: bool, as_json: bool) -> None:
    """Show a job once all its parts run; in a session of its own, for that may take long."""
    from oarpy.client.caller import current
    from oarpy.grid.reports.grid_waits import wait_until_it_runs

    with current().attached() as streams:
        with wait_until_it_runs(number, streams) as (session, job):
            report = _report(session, [job], named=True, hosts=hosts, why=why, moves=moves)
        streams.send(1, form(report, as_json=as_json).encode())


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oargridstat")
