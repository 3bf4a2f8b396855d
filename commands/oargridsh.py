"""``oargridsh``: a program on a host of any part of one's job on several clusters."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.options.ssh_options import AsUsual, NoInput, SshSetting

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
    epilog="Its exit status is that of the program (128 and the signal when one ended it).",
    context_settings={"allow_interspersed_args": False},
)
def oargridsh(
    host: Annotated[str, typer.Argument(metavar="HOST", help="A host of the job, one of OAR_GRID_NODEFILE.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND...]", help="For the shell there; none: a shell.")
    ] = None,
    job: Annotated[
        int | None, typer.Option("-j", "--job", metavar="ID", help="The grid job, at the broker; in a job: that one.")
    ] = None,
    no_input: NoInput = False,
    as_usual: AsUsual = False,
    ssh_setting: SshSetting = None,
) -> None:
    """Run a program inside one's job on any of its clusters, within the limits of the job."""
    from oarpy.client.caller import current
    from oarpy.client.jobs import job_steps
    from oarpy.client.session import open_session
    from oarpy.grid.entering.by_broker import WayByBroker, way_of_user
    from oarpy.grid.entering.from_jobs import WayFromJob, way_from_job

    caller = current()
    text = job_steps.shell_text(command or [])
    with open_session("oargridsh") as session:
        way: WayByBroker | WayFromJob
        if job is not None:
            way = way_of_user(session, job, host, text, with_input=not no_input)
        else:
            way = way_from_job(session, caller.environment, host, text, with_input=not no_input)
    with caller.attached() as attached:
        if not no_input:
            attached.begin_input(terminal=False)
        raise typer.Exit(way.enter(attached))


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oargridsh")
