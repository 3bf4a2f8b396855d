"""``oartoken``: tokens, by which requests over the web say whose they are."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import json_text, write

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Tokens: by what requests over the web say whose they are.",
)
Json = Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")]


@app.command("new")
def new(
    expires: Annotated[str, typer.Option("--expires", metavar="TIME", help="How long it is valid: 30d, 12h.")] = "30d",
    scope: Annotated[str, typer.Option("--scope", metavar="read|submit|admin", help="The most it allows.")] = "read",
    label: Annotated[str, typer.Option("--label", metavar="TEXT", help="What it is for.")] = "",
    user: Annotated[str | None, typer.Option("--user", metavar="USER", help="Whose it is; for admins.")] = None,
    as_json: Json = False,
) -> None:
    """Make a token and print it. It is shown this once."""
    from oarpy.client.platform import tokens
    from oarpy.client.session import open_session

    lifetime, allowed = tokens.parse_lifetime(expires), tokens.parse_scope(scope)
    with open_session("oartoken") as session:
        token = tokens.make(session, allowed, lifetime, label, user)
    write(json_text(token.record()) if as_json else f"{token.secret}\n")


@app.command("list")
def list_tokens(
    everybody: Annotated[bool, typer.Option("--all", help="Those of everybody; for admins.")] = False,
    as_json: Json = False,
) -> None:
    """List your tokens, without their secrets."""
    from oarpy.client.platform import tokens
    from oarpy.client.session import open_session

    with open_session("oartoken") as session:
        listed = tokens.listed(session, everybody=everybody)
    write(json_text([tokens.record(row) for row in listed]) if as_json else tokens.table(listed))


@app.command("revoke")
def revoke(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Numbers of tokens.")],
    as_json: Json = False,
) -> None:
    """End tokens, and what browsers logged in with them."""
    from oarpy.client.jobs.selection import parse_ids
    from oarpy.client.platform import tokens
    from oarpy.client.session import open_session

    with open_session("oartoken") as session:
        revoked = tokens.revoke(session, parse_ids(ids, "token"))
    write(json_text({"revoked": revoked}) if as_json else f"{len(revoked)} revoked\n")


def main() -> None:
    """Run the command on the arguments of the process."""
    run(app, "oartoken")
