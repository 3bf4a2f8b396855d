"""``oarsh``: a program, or a shell, on a node of a job of one's own."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.options.ssh_options import AsUsual, NoInput, SshSetting
from oarpy.client.rendering import json_text, write
from oarpy.model.errors import NotAllowed, UsageError

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
    epilog="Its exit status is that of the program (128 and the signal when one ended it).",
    context_settings={"allow_interspersed_args": False},
)
def oarsh(
    host: Annotated[str, typer.Argument(metavar="HOST", help="A node of the job.")] = "",
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND...]", help="For the shell there; none: a shell.")
    ] = None,
    job: Annotated[
        str | None,
        typer.Option("-j", "--job", metavar="ID", help="The job, or last or @NAME; otherwise OAR_JOB_ID says which."),
    ] = None,
    with_terminal: Annotated[
        bool, typer.Option("-t", "--terminal", help="Give it a terminal, if there is one here; a shell always has one.")
    ] = False,
    no_input: NoInput = False,
    as_json: Annotated[
        bool, typer.Option("-J", "--json", help="Print JSON when it has ended: status, stdout, stderr. No input.")
    ] = False,
    user: Annotated[
        str | None, typer.Option("-l", "--login", metavar="USER", help="The owner of the job, as in USER@HOST.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("-i", metavar="KEY", help="The key of the job: enter it by ssh; otherwise OAR_JOB_KEY_FILE."),
    ] = None,
    port: Annotated[str | None, typer.Option("-p", metavar="PORT", help="The port of ssh, with a key.")] = None,
    as_usual: AsUsual = False,
    ssh_setting: SshSetting = None,
    connect_to: Annotated[
        str,
        typer.Option("-W", metavar="HOST:PORT", help="Connect standard input and output to a port, from that node."),
    ] = "",
    as_lines: Annotated[
        bool, typer.Option("--ssh-config", help="Print lines for ~/.ssh/config: ssh then leads into the job.")
    ] = False,
    with_ssh: Annotated[
        bool, typer.Option("-X", "-A", "-N", help="Become ssh, through the job: windows, the agent, no program.")
    ] = False,
    ssh_ports: Annotated[
        list[str] | None, typer.Option("-L", "-R", "-D", metavar="PORTS", help="Likewise: ports forwarded by ssh.")
    ] = None,
) -> None:
    """Run a program inside one's job on one of its nodes, within the limits of the job."""
    from oarpy.client.caller import current
    from oarpy.client.jobs import forwarding, job_steps
    from oarpy.client.jobs.selection import one_job
    from oarpy.client.session import open_session

    if key is not None or port is not None:
        raise UsageError("-p without -i" if key is None else "-i with -J or without a key", hint="oarsh -i KEY HOST")
    if with_ssh or ssh_ports:
        raise UsageError("-X, -L, -R, -D, -A and -N need a host, and no -J", hint="oarsh -X -j ID HOST")
    if not host and not as_lines:
        raise UsageError("no host given", hint="oarsh -j ID HOST; oarstat -j ID names the nodes of a job")
    caller = current()
    chosen = job_steps.named_job(job, caller.environment)
    host, user = job_steps.host_and_user(host, user)
    with open_session("oarsh") as session:
        if user not in (None, session.user):
            raise NotAllowed(f"'{session.user}' cannot enter a job as '{user}'", hint="only a job's owner enters it")
        entered = job_steps.running_job(session, one_job(session, chosen))
    if as_lines:
        write(forwarding.configuration(entered, [entered.node(host)] if host else entered.nodes))
        return
    node = entered.node(host)
    text = job_steps.shell_text(command or [])
    if connect_to:
        text = forwarding.connecting(node.python, connect_to, text)
    with_input = not (no_input or as_json)
    with caller.attached() as attached, job_steps.steps_of(entered) as steps:
        terminal = None
        if with_input and (with_terminal or not text):
            terminal = job_steps.open_terminal(attached, caller.environment)
        elif with_input:
            attached.begin_input(terminal=False)
        collected = job_steps.Collected() if as_json else None
        spec = job_steps.step_spec(entered, node, text, terminal=terminal)
        raw = job_steps.relay(steps, steps.start(node, spec), collected or attached, with_input=with_input)
    status = job_steps.exit_status(raw)
    if collected is not None:
        outputs = {"stdout": collected.text(1), "stderr": collected.text(2)}
        write(json_text({"job_id": entered.launch.spec.job, "host": node.name, "status": status, **outputs}))
    raise typer.Exit(status)


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oarsh")
