"""``oarproperty``: list and change the properties resources have."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import json_text, write
from oarpy.client.session import open_session
from oarpy.model.errors import UsageError

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="Without an option the properties are listed. Only an admin may change them.")
def oarproperty(
    listed: Annotated[bool, typer.Option("-l", "--list", help="List the properties with their types.")] = False,
    add: Annotated[str | None, typer.Option("-a", "--add", metavar="NAME", help="Add a property, integer.")] = None,
    varchar: Annotated[bool, typer.Option("-c", "--varchar", help="With -a: text instead of integer.")] = False,
    delete: Annotated[
        str | None, typer.Option("-d", "--delete", metavar="NAME", help="Delete a property and its values.")
    ] = None,
    rename: Annotated[str | None, typer.Option("-r", "--rename", metavar="OLD,NEW", help="Rename a property.")] = None,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing when it is done.")] = False,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON: the properties after the change.")] = False,
) -> None:
    """List, add, delete and rename properties; each is a column of the table resources."""
    actions = [action is not None for action in (add, delete, rename)]
    if sum(actions) > 1 or (listed and any(actions)):
        raise UsageError("one action at a time", hint="-l, -a, -d or -r")
    if varchar and add is None:
        raise UsageError("-c goes with -a", hint="the type of a property does not change")
    from oarpy.client.platform import properties
    from oarpy.store.platform import properties as store

    message = ""
    with open_session("oarproperty") as session:
        if add is not None:
            properties.add(session, add, "text" if varchar else "integer")
            message = f"Added property: {add}\n"
        elif delete is not None:
            properties.delete(session, delete)
            message = f"Deleted property: {delete}\n"
        elif rename is not None:
            old, new = properties.rename(session, rename)
            message = f"Renamed property: {old} to {new}\n"
        current = store.properties(session.connection)
    if as_json:
        write(json_text(properties.document(current)))
    elif not any(actions):
        write(properties.table(current))
    elif not quiet:
        write(message)


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oarproperty")
