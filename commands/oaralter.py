"""``oaralter``: change what jobs that wait ask for."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from oarpy.client.boundary import run
from oarpy.client.options.documents import DocumentCommand
from oarpy.client.rendering import json_text, write
from oarpy.client.submission.command_line import given_options, with_options
from oarpy.model.submission import ALTERABLE

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(
    cls=DocumentCommand,
    epilog="All or nothing: one job that cannot be changed stops the whole request. What is not given stays.",
)
@with_options(ALTERABLE)
def oaralter(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="JOB_ID...", help="Jobs that wait: ids, 12-20, last, @name, state:S, user:U."),
    ] = None,
    *,
    arrays: Annotated[
        bool, typer.Option("--array", help="The ids are those of arrays: every member that waits.")
    ] = False,
    condition: Annotated[
        str | None,
        typer.Option("--sql", metavar="CONDITION", help="Every live job that meets a condition on job columns."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be changed, and what a pass would say; change nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")] = False,
    **typed: Any,
) -> None:
    """Change jobs that wait, by the rules and the checks of oarsub; they keep their place in the queue."""
    from oarpy.client.jobs.selection import parse_selection
    from oarpy.client.session import open_session
    from oarpy.client.submission import alteration

    selection = parse_selection(ids or (), condition, arrays=arrays)
    with open_session("oaralter") as session:
        altered, forecasts = alteration.alter_and_predict(session, selection, given_options(typed), dry_run=dry_run)
    # imported here: it needs the scheduler, with the numpy under it
    from oarpy.client.submission import alteration_report

    document = alteration_report.record(altered, forecasts)
    write(json_text(document) if as_json else alteration_report.text(altered, forecasts))


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oaralter")
