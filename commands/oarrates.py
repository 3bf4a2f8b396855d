"""``oarrates``: list and forget the measured rates of programs."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import show, write
from oarpy.model.errors import UsageError

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="Rates are measured for oarsub --processes, and kept for processes.rate_age.")
def oarrates(
    program: Annotated[
        str | None, typer.Option("--forget", metavar="PROGRAM", help="Forget the rates of this program.")
    ] = None,
    forget_all: Annotated[bool, typer.Option("--forget-all", help="Forget all rates.")] = False,
    user: Annotated[str | None, typer.Option("-u", "--user", metavar="USER", help="For admins: those of USER.")] = None,
    everybody: Annotated[bool, typer.Option("--all", help="For admins: those of all users.")] = False,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")] = False,
    job: Annotated[str | None, typer.Option("--tell", metavar="JOB", hidden=True)] = None,
    measured: Annotated[str | None, typer.Option("--rates", metavar="RATES", hidden=True)] = None,
    seconds: Annotated[str | None, typer.Option("--seconds", metavar="SECONDS", hidden=True)] = None,
    failure: Annotated[str | None, typer.Option("--failed", metavar="REASON", hidden=True)] = None,
    measure: Annotated[bool, typer.Option("--measure", hidden=True)] = False,
) -> None:
    """List your measured rates, or forget some."""
    if measure:
        raise UsageError("--measure is for jobs that measure", hint="oarsub --processes submits them")
    if program is not None and forget_all:
        raise UsageError("--forget with --forget-all", hint="leave one out")
    if user is not None and everybody:
        raise UsageError("-u with --all", hint="leave one out")
    from oarpy.client.jobs import rates
    from oarpy.client.jobs.rates import Told
    from oarpy.client.session import open_session

    with open_session("oarrates") as session:
        if job is not None:
            rates.tell(session, job, Told(measured, seconds, failure))
            if failure is not None:
                raise typer.Exit(1)
            return
        if program is None and not forget_all:
            show(rates.listed(session, user, everybody=everybody), as_json=as_json)
            return
        count = rates.forget(session, program, user, everybody=everybody)
    write(f"{count} rates are forgotten.\n")


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oarrates")
