"""oargridsub: submit a job to one of several clusters, components that start together, or parts on named clusters."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import json_text, say, show, warn, write
from oarpy.client.submission.command_line import OarsubCommand
from oarpy.grid.submission.grid_options import GridOptions
from oarpy.model.errors import AdmissionRefused, UsageError

app = typer.Typer(add_completion=False, rich_markup_mode=None)


def main() -> None:
    """Run oargridsub on the arguments of the process."""
    run(app, "oargridsub")


class GridsubCommand(OarsubCommand):
    """With ``-l``, options stand before the program; parts on named clusters may stand anywhere."""

    def _check_order(self, ctx: typer.Context, args: list[str]) -> None:
        words = (word for word in args if word.startswith(("-l", "--resources")))
        if next(words, None) is not None:
            super()._check_order(ctx, args)

    format_epilog = typer.core.TyperCommand.format_epilog


@app.command(cls=GridsubCommand)
def oargridsub(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PROG|PARTS", help='The program; without -l the parts (a:rdef="/nodes=2",b:rdef="...").'
        ),
    ] = None,
    *,
    resources: Annotated[
        list[str] | None,
        typer.Option("-l", "--resources", metavar="REQUEST", help="What a component needs, on any cluster."),
    ] = None,
    components: Annotated[
        str | None,
        typer.Option("--components", metavar="N", help="So many components, which start together at --deadline."),
    ] = None,
    deadline: Annotated[
        str | None, typer.Option("--deadline", metavar="DATE", help="When the components start: a date, or +30m.")
    ] = None,
    lp: Annotated[
        str | None, typer.Option("--lp", metavar="LP", help="Lp of the tries before the deadline: above 0, at most 1.")
    ] = None,
    tries: Annotated[str | None, typer.Option("--tries", metavar="N", help="Mp of the tries, 0 or more.")] = None,
    wait: Annotated[
        str | None,
        typer.Option("--wait", metavar="SECONDS", help="X of Wait-X: the first try comes so long before; or inf."),
    ] = None,
    array: Annotated[str | None, typer.Option("--array", metavar="N", help="Submit N equal jobs.")] = None,
    parts: Annotated[
        str | None,
        typer.Option("--parts", metavar="any", help="One program, on one cluster or several together."),
    ] = None,
    overhead: Annotated[
        str | None,
        typer.Option("--overhead", metavar="PERCENT", help="So much longer it takes on several clusters: 20%."),
    ] = None,
    operation: Annotated[
        str | None,
        typer.Option("--operation", metavar="NAME", help="After an early end: rigid, shift or remap."),
    ] = None,
    at_most: Annotated[
        list[str] | None,
        typer.Option("--at-most", metavar="CLUSTER=N", help="So many at most from a cluster; repeatable."),
    ] = None,
    processes: Annotated[
        str | None,
        typer.Option("--processes", metavar="N", help="Processes of the program, mapped over cores of several types."),
    ] = None,
    iterations: Annotated[
        str | None, typer.Option("--iterations", metavar="N", help="Iterations of each process.")
    ] = None,
    sizes: Annotated[
        str | None, typer.Option("--sizes", metavar="SIZES", help="Sizes of the processes, SIZE[,SIZE...].")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", help="sync: in stages, async, or the name of a plug-in."),
    ] = None,
    rate: Annotated[
        str | None, typer.Option("--rate", metavar="SCRIPT", help="Script that is timed as SCRIPT SIZE ITERATIONS.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="DATE", help="It is to be over then.")] = None,
    bag: Annotated[
        str | None, typer.Option("--bag", metavar="N", help="N equal tasks over clusters, done by a promise.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", metavar="NAME", help="How a bag is shared out: plb, dplb, dplbv2, nolb or slots."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a bag that cannot be done by --until.")] = False,
    profile: Annotated[
        str | None,
        typer.Option("--profile", metavar="SCRIPT", help="It prints the seconds of a task of a bag, on each cluster."),
    ] = None,
    start: Annotated[
        str | None, typer.Option("-s", "--start", metavar="DATE", help="When parts on named clusters begin; now.")
    ] = None,
    walltime: Annotated[
        str | None, typer.Option("-w", "--walltime", metavar="DURATION", help="Walltime, at speed 1: 1:0:0.")
    ] = None,
    program: Annotated[
        str | None, typer.Option("-p", "--program", metavar="PROG", help="What runs in parts on named clusters.")
    ] = None,
    queue: Annotated[str | None, typer.Option("-q", "--queue", metavar="QUEUE", help="Queue on the clusters.")] = None,
    types: Annotated[
        list[str] | None, typer.Option("-t", "--type", metavar="TYPE", help="Type of all parts; repeatable.")
    ] = None,
    directory: Annotated[
        str | None,
        typer.Option("-d", "--directory", metavar="DIR", help="Working directory on the clusters; the home directory."),
    ] = None,
    name: Annotated[str | None, typer.Option("-n", "--name", metavar="NAME", help="Name of the job.")] = None,
    project: Annotated[
        str | None, typer.Option("--project", metavar="PROJECT", help="Project on the clusters.")
    ] = None,
    properties: Annotated[
        str | None,
        typer.Option("--properties", metavar="CONDITION", help="Filter of resources with -l, as oarsub -p has it."),
    ] = None,
    notify: Annotated[
        str | None,
        typer.Option("--notify", metavar="NOTICE", help="[TAGS]mail:ADDRESS or [TAGS]exec:COMMAND."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say when it would end on each cluster, and store nothing.")
    ] = False,
    answer_timeout: Annotated[
        float,
        typer.Option("--answer-timeout", min=0, metavar="SECONDS", help="Wait so long for the answer of clusters."),
    ] = 60,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Say also how to follow the job.")] = False,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")] = False,
) -> None:
    """Submit a job to any one of several clusters, or to several together, or a bag of tasks."""
    options = GridOptions(
        words=tuple(command or ()),
        resources=tuple(resources or ()),
        program=program,
        start=start,
        walltime=walltime,
        components=components,
        deadline=deadline,
        lp=lp,
        tries=tries,
        wait=wait,
        array=array,
        parts=parts,
        overhead=overhead,
        operation=operation,
        at_most=tuple(at_most or ()),
        processes=processes,
        iterations=iterations,
        sizes=sizes,
        model=model,
        rate=rate,
        until=until,
        bag=bag,
        policy=policy,
        strict=strict,
        profile=profile,
        queue=queue,
        types=tuple(types or ()),
        directory=directory,
        name=name,
        project=project,
        properties=properties,
        notify=notify,
    )
    if dry_run:
        _rehearse(options, as_json=as_json)
    else:
        _submit(options, answer_timeout, as_json=as_json, verbose=verbose)


def _rehearse(options: GridOptions, *, as_json: bool) -> None:
    """Say what the clusters expect; exit status 3 when it could never run."""
    from oarpy.client.session import open_session
    from oarpy.grid.submission import rehearsal

    with open_session("oargridsub") as session:
        rehearsed = rehearsal.rehearse(session, options)
    show(rehearsed, as_json=as_json)
    if rehearsed.refused:
        raise typer.Exit(AdmissionRefused.exit_status)


def _submit(options: GridOptions, timeout: float, *, as_json: bool, verbose: bool) -> None:
    """Store the job; with parts on named clusters, wait until these have answered."""
    from oarpy.client.session import open_session
    from oarpy.grid.reports import grid_job_views
    from oarpy.grid.submission import grid_submission, submission_texts
    from oarpy.store.grid import broker_jobs

    if not timeout < 86400:
        raise UsageError(f"--answer-timeout {timeout:g}", hint="less than a day")
    with open_session("oargridsub") as session:
        submitted = grid_submission.submit(session, options)
        if absent := grid_submission.absent_broker(session):
            warn(absent)
        if submitted.waits:
            if not as_json:
                say(submission_texts.waiting_line(submitted.ids[0]))
            answered = grid_submission.wait_for_answer(session.connection, submitted.ids[0], timeout)
            grid_submission.require_accepted(answered)
        rows = broker_jobs.read(session.connection, submitted.ids)
        shown = grid_job_views.views(session.connection, rows)
    if as_json:
        write(json_text(submission_texts.record(shown)))
    else:
        write(submission_texts.text(shown, verbose=verbose))
