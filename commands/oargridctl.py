"""oargridctl: several clusters, for admins and for users who let a broker act for them."""

from __future__ import annotations

import typer
from oarpy.commands.grants import app as grants

from oarpy.client.boundary import run

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Several clusters: what brokers may do here.",
)
app.add_typer(grants)


def main() -> None:
    """Run oargridctl on the arguments of the process."""
    run(app, "oargridctl")
