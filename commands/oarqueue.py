"""``oarqueue``: list and change queues."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import json_text, write
from oarpy.client.session import Session, open_session
from oarpy.model.errors import UsageError

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="Without an option the queues are listed. Only an admin may change them.")
def oarqueue(
    listed: Annotated[bool, typer.Option("-l", "--list", help="List the queues.")] = False,
    enable: Annotated[
        list[str] | None,
        typer.Option("-e", "--enable", metavar="QUEUE", help="Schedule the jobs of this queue; repeatable."),
    ] = None,
    disable: Annotated[
        list[str] | None,
        typer.Option("-d", "--disable", metavar="QUEUE", help="Let the jobs of this queue wait; repeatable."),
    ] = None,
    enable_all: Annotated[bool, typer.Option("-E", "--enable-all", help="Enable every queue.")] = False,
    disable_all: Annotated[bool, typer.Option("-D", "--disable-all", help="Disable every queue.")] = False,
    add: Annotated[
        str | None, typer.Option("--add", metavar="NAME,PRIORITY,POLICY", help="Add a queue, such as night,5,fifo.")
    ] = None,
    change: Annotated[
        str | None, typer.Option("--change", metavar="NAME,PRIORITY,POLICY", help="Change priority and policy.")
    ] = None,
    gives_way: Annotated[
        str | None,
        typer.Option(
            "--gives-way",
            metavar="NAME,OTHERS,MANNER,GRACE,SIGNAL|none",
            help="Have the jobs of a queue give way to those of others, such as guests,default+night,requeue,60,TERM.",
        ),
    ] = None,
    remove: Annotated[
        str | None, typer.Option("--remove", metavar="NAME", help="Remove a queue that never had a job.")
    ] = None,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON: the queues after the change.")] = False,
) -> None:
    """List queues, open and close them, add, change and remove them."""
    actions = [
        bool(enable),
        bool(disable),
        enable_all,
        disable_all,
        add is not None,
        change is not None,
        gives_way is not None,
        remove is not None,
    ]
    if sum(actions) > 1 or (listed and any(actions)):
        raise UsageError("one action at a time", hint="-l, -e, -d, -E, -D, --add, --change, --gives-way or --remove")
    from oarpy.client.platform import queues
    from oarpy.store.platform import queues as store

    with open_session("oarqueue") as session:
        if add is not None:
            queues.add(session, queues.parse_queue(add))
        elif change is not None:
            queues.change(session, queues.parse_queue(change))
        elif gives_way is not None:
            queues.give_way(session, *queues.parse_giving_way(gives_way))
        elif remove is not None:
            queues.remove(session, remove)
        else:
            _switch(session, enable, disable, enable_all=enable_all, disable_all=disable_all)
        current = store.queues(session.connection)
    if as_json:
        write(json_text(queues.document(current)))
    elif not any(actions):
        write(queues.table(current))


def _switch(
    session: Session, enable: list[str] | None, disable: list[str] | None, *, enable_all: bool, disable_all: bool
) -> None:
    from oarpy.client.platform import queues

    if enable or enable_all:
        queues.activate(session, None if enable_all else enable, active=True)
    elif disable or disable_all:
        queues.activate(session, None if disable_all else disable, active=False)


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oarqueue")
