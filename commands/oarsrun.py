"""``oarsrun``: one program many times across the nodes of a running job."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import json_text, write

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
    epilog="Its exit status is the highest one of the programs, with -n that of the first process which failed (128 and"
    " the signal when one ended it).",
    context_settings={"allow_interspersed_args": False},
)
def oarsrun(
    command: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND...", help="The program and its arguments; one word is text for the shell."),
    ],
    count: Annotated[
        str | None,
        typer.Option("-n", "--processes", metavar="N", help="N processes over the cores; otherwise one on each node."),
    ] = None,
    cores: Annotated[
        str | None, typer.Option("--cpus-per-task", metavar="N", help="With -n: N cores for each process.")
    ] = None,
    on_node: Annotated[
        str | None, typer.Option("--ntasks-per-node", metavar="N", help="With -n: at most N processes on a node.")
    ] = None,
    overcommit: Annotated[
        bool, typer.Option("--overcommit", help="With -n: use cores again for processes that have no core left.")
    ] = False,
    pmix: Annotated[
        bool, typer.Option("--pmix", help="With -n: by prterun, where it is installed, for programs that ask by PMIx.")
    ] = False,
    job: Annotated[
        str | None,
        typer.Option("-j", "--job", metavar="ID", help="The job, or last or @NAME; otherwise OAR_JOB_ID says which."),
    ] = None,
    no_prefix: Annotated[
        bool, typer.Option("--no-prefix", help="Print lines as they are, without the node they come from.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("-J", "--json", help="Print JSON when all have ended: status, stdout, stderr of each.")
    ] = False,
) -> None:
    """Run a program on every node of one's running job at the same time, within the limits of the job."""
    from oarpy.client.caller import current
    from oarpy.client.jobs import job_ranks, job_steps, parallel_steps
    from oarpy.client.jobs.selection import one_job
    from oarpy.client.session import open_session

    caller = current()
    flags = {"--overcommit": overcommit, "--pmix": pmix}
    ranks = job_ranks.checked(count, cores, on_node, [flag for flag, is_given in flags.items() if is_given])
    chosen = job_steps.named_job(job, caller.environment)
    with open_session("oarsrun") as session:
        running = job_steps.running_job(session, one_job(session, chosen))
    if ranks is not None:
        raise typer.Exit(job_ranks.run(caller, running, ranks, command, plain=no_prefix, as_json=as_json))
    where = parallel_steps.places(running)
    kept = {place: job_steps.Collected() for place in where} if as_json else {}
    with caller.attached() as streams:

        def pass_on(place: parallel_steps.StepPlace, stream: int, lines: bytes) -> None:
            if as_json:
                kept[place].send(stream, lines)
            else:
                streams.send(stream, lines if no_prefix else parallel_steps.labelled(place.label, lines))

        text = command[0] if len(command) == 1 else shlex.join(command)
        outcomes = parallel_steps.run(running, where, text, streams, pass_on)
        status = parallel_steps.worst(outcomes)
        for outcome in outcomes:
            if outcome.error:
                streams.send(2, f"oarsrun: {outcome.place.label}: {outcome.error}\n".encode())
    if as_json:
        processes = [
            {
                "rank": process.place.rank,
                "host": process.place.node.name,
                "status": process.status,
                "error": process.error or None,
                "stdout": kept[process.place].text(1),
                "stderr": kept[process.place].text(2),
            }
            for process in outcomes
        ]
        write(json_text({"job_id": running.launch.spec.job, "status": status, "processes": processes}))
    raise typer.Exit(status)


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oarsrun")
