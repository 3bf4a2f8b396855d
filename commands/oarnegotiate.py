"""oarnegotiate: carry the lines of a launcher, which chooses the hosts of its job."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.caller import current
from oarpy.client.session import open_session
from oarpy.model.errors import UsageError
from oarpy.negotiation.messages import ExtendHosts, ReleaseHosts, RequestHosts, Unreadable, read

app = typer.Typer(add_completion=False, rich_markup_mode=None)


def main() -> None:
    """Run oarnegotiate on the arguments of the process."""
    run(app, "oarnegotiate")


@app.command()
def oarnegotiate(
    ask: Annotated[
        str | None,
        typer.Option("--ask", metavar="JOB", help="Ask for hosts for this job, or give some back, by --request."),
    ] = None,
    request: Annotated[
        str | None,
        typer.Option(
            "--request", metavar="JSON", help="A message 'request', 'extend' or 'release', as a launcher writes it."
        ),
    ] = None,
) -> None:
    """Carry lines between standard input and output and the server, for a job that chooses its hosts."""
    if ask is None and request is None:
        current().hand_over()
        return
    if ask is None or request is None or not ask.isdecimal():
        raise UsageError("--ask and --request go together", hint="oarnegotiate --ask 12 --request '{...}'")
    try:
        message = read(request.encode("utf-8", "surrogateescape"))
    except Unreadable as error:
        raise UsageError(f"--request: {error}", hint="docs/negotiation.md has every message") from None
    # imported here: carrying lines needs none of it
    from oarpy.negotiation.requests import application_requests, resizing

    with open_session("oarnegotiate") as session:
        match message:
            case RequestHosts():
                application_requests.ask(session, int(ask), message)
            case ExtendHosts():
                resizing.extend(session, int(ask), message.hosts, message.kind, message.tag)
            case ReleaseHosts():
                resizing.release(session, int(ask), message.names)
            case _:
                hint = "docs/negotiation.md has every message"
                raise UsageError("--request takes a message 'request', 'extend' or 'release'", hint=hint)
