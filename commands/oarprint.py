"""``oarprint``: the resources of a job, from inside it, in lines of one's own form."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import json_text, write

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(epilog="Inside a job: oarprint host -P host,cpu,core -F 'host: % cpu: % core: %' -C+")
def oarprint(
    key: Annotated[str | None, typer.Argument(metavar="KEY", help="Property: one line for each of its values.")] = None,
    properties: Annotated[
        str | None, typer.Option("-P", "--properties", metavar="NAMES", help="To print, by commas; otherwise the key.")
    ] = None,
    form: Annotated[
        str | None, typer.Option("-F", "--format", metavar="TEXT", help="Line; its tokens stand for the properties.")
    ] = None,
    token: Annotated[str, typer.Option("-T", "--token", metavar="TEXT", help="What stands for a property.")] = "%",
    separator: Annotated[str, typer.Option("-C", "--comma", metavar="TEXT", help="Between several values.")] = ",",
    file: Annotated[
        str | None,
        typer.Option("-f", "--file", metavar="FILE", help="Input, - for standard; otherwise that of the job."),
    ] = None,
    names_only: Annotated[bool, typer.Option("-l", "--list", help="Print the names of the properties.")] = False,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="Print JSON: lists of values, or of names.")] = False,
) -> None:
    """Print the resources of a job, one line for each value of a property, sorted."""
    from oarpy.client.caller import current
    from oarpy.client.jobs import resource_print
    from oarpy.model.errors import UsageError

    resources = resource_print.read_from(current(), file)
    if names_only:
        names = resource_print.property_names(resources)
        write(json_text(names) if as_json else "".join(f"{name}\n" for name in names))
        return
    if key is None:
        raise UsageError("no property is named", hint="oarprint host, or oarprint -l for their names")
    if not token:
        raise UsageError("the token is empty", hint="-T %")
    wanted = [name.strip() for name in (properties or key).split(",")]
    groups = resource_print.grouped(resources, key, wanted)
    if as_json:
        write(json_text([dict(zip(wanted, group, strict=True)) for group in groups]))
        return
    write("".join(f"{line}\n" for line in resource_print.lines(groups, form, token, separator)))


def main() -> None:
    """Entry point."""
    run(app, "oarprint")
