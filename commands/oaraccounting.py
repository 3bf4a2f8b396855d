"""``oaraccounting``: bring the accounting up to date, or clean it."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import json_text, write
from oarpy.model.errors import UsageError

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def oaraccounting(
    reinitialize: Annotated[
        bool, typer.Option("--reinitialize", help="Drop all sums and count every ended job again.")
    ] = False,
    delete_before: Annotated[
        str | None,
        typer.Option("--delete-before", metavar="DATE|SECONDS", help="Drop windows that ended before; count nothing."),
    ] = None,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")] = False,
) -> None:
    """Count the jobs that have ended since the last time (the accounting module does it by itself)."""
    if reinitialize and delete_before is not None:
        raise UsageError("--reinitialize and --delete-before exclude each other")
    from oarpy.client.past import accounting
    from oarpy.client.past.periods import parse_date_or_age
    from oarpy.client.session import open_session

    moment = None if delete_before is None else parse_date_or_age(delete_before)
    with open_session("oaraccounting") as session:
        if moment is not None:
            key, count = "deleted", accounting.delete_before(session, moment)
        else:
            key, count = "accounted", accounting.update(session, reinitialize=reinitialize)
    what = "windows deleted" if key == "deleted" else "jobs accounted"
    write(json_text({key: count}) if as_json else f"{count} {what}\n")


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oaraccounting")
