"""oargriddoor: what a broker of several clusters runs on each of them to ask it, a JSON line a call."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.caller import current

app = typer.Typer(add_completion=False, rich_markup_mode=None)


def main() -> None:
    """Run oargriddoor on the arguments of the process."""
    run(app, "oargriddoor")


@app.command()
def oargriddoor(
    broker: Annotated[
        str,
        typer.Argument(
            metavar="BROKER", help="The broker, one of those in door.brokers; or a cluster, of grid.accounts."
        ),
    ],
) -> None:
    """Answer the calls of a broker: JSON lines on standard input and output."""
    # imported here: whoever asks for help needs none of it
    from oarpy.grid.door.session import enter
    from oarpy.grid.entering.by_broker import let_pass

    caller = current()
    settings = caller.configuration()
    entered = let_pass if broker in settings.grid.accounts and broker not in settings.door.brokers else enter
    raise typer.Exit(entered(caller, broker))
