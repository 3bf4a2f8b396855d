"""``oarcp``: copy files to and from the nodes of a job of one's own."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.frontend import job_key

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
    epilog="Its options and its exit status are those of scp.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def oarcp(
    words: Annotated[
        list[str],
        typer.Argument(metavar="[OPTION...] SOURCE... TARGET", help="PATH is a file here, HOST:PATH one on a node."),
    ],
) -> None:
    """Copy files to and from the nodes of a running job, which OAR_JOB_ID or a key (-i) names."""
    job_key.copy(words)


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oarcp")
