"""oaradmissionrules: see, try and change the rules that every submission passes."""

from __future__ import annotations

from typing import Annotated

import typer

from oarpy.client.boundary import run
from oarpy.client.rendering import Column, Table, form, json_text, write
from oarpy.client.rules import rules, trials
from oarpy.client.session import open_session
from oarpy.model.errors import UsageError
from oarpy.store.platform.admission_rules import AdmissionRuleRow, VersionRow

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, help="See, try and change the rules that every submission passes."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the rule.")]
File = Annotated[str | None, typer.Option("-f", "--file", help="File with the text of the rule, - for standard input.")]
Priority = Annotated[int | None, typer.Option("--priority", help="Lower runs first (default 50).")]
AsJson = Annotated[bool, typer.Option("-J", "--json", help="Print JSON.")]


def main() -> None:
    """Run oaradmissionrules on the arguments of the process."""
    run(app, "oaradmissionrules")


@app.command("list")
def list_rules(as_json: AsJson = False) -> None:
    """List the rules in the order they run."""
    with open_session("oaradmissionrules") as session:
        rows = rules.all_rules(session)
    if as_json:
        write(json_text([rules.record(row) for row in rows]))
        return
    titles = tuple(map(Column, ("priority", "name", "enabled", "version", "description")))
    cells = [
        (str(row.priority), row.name, _yes(row.enabled), str(row.version), rules.as_rule(row).description)
        for row in rows
    ]
    write(Table(titles, tuple(cells)).text())


@app.command()
def show(
    name: Name,
    version: Annotated[int | None, typer.Option("--version", metavar="N", help="An earlier version.")] = None,
    history: Annotated[bool, typer.Option("--history", help="List the versions.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the text of a rule, or its history."""
    if history and version is not None:
        raise UsageError("--history and --version exclude each other", hint="give one of them")
    with open_session("oaradmissionrules") as session:
        if history:
            versions = rules.history(session, name)
            write(json_text([rules.version_record(row) for row in versions]) if as_json else _history(versions))
        elif version is not None:
            old = rules.version(session, name, version)
            write(json_text(rules.version_record(old)) if as_json else _ended(old.text))
        else:
            row = rules.find(session, name)
            write(json_text({**rules.record(row), "text": row.text}) if as_json else _ended(row.text))


@app.command()
def add(
    name: Name,
    file: File = None,
    priority: Priority = rules.DEFAULT_PRIORITY,
    disabled: Annotated[bool, typer.Option("--disabled", help="Do not run it yet.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add a rule."""
    with open_session("oaradmissionrules") as session:
        session.require_admin("add an admission rule")
        if file is None:
            raise UsageError("no text for the rule", hint="give --file FILE, or --file - for standard input")
        text = rules.read_text(file)
        rules.add(
            session, name, text, priority=rules.DEFAULT_PRIORITY if priority is None else priority, enabled=not disabled
        )
        _done(rules.find(session, name), "added", as_json)


@app.command()
def edit(name: Name, file: File = None, priority: Priority = None, as_json: AsJson = False) -> None:
    """Change a rule's text (from a file, else in $EDITOR) or its priority."""
    with open_session("oaradmissionrules") as session:
        session.require_admin("change an admission rule")
        row = rules.find(session, name)
        text = None
        if file is not None:
            text = rules.read_text(file)
        elif priority is None:
            text = rules.edit_text(name, row.text)
        before, after = rules.change(session, name, text=text, priority=priority)
        _done(rules.find(session, name), "changed" if after != before else "unchanged", as_json)


@app.command()
def enable(name: Name, as_json: AsJson = False) -> None:
    """Let a rule run from the next submission on."""
    _switch(name, as_json, enabled=True)


@app.command()
def disable(name: Name, as_json: AsJson = False) -> None:
    """Keep a rule but do not run it."""
    _switch(name, as_json, enabled=False)


@app.command()
def delete(name: Name, as_json: AsJson = False) -> None:
    """Remove a rule; its versions can still be shown."""
    with open_session("oaradmissionrules") as session:
        rules.delete(session, name)
    write(json_text({"name": name, "deleted": True}) if as_json else f"# rule {name} deleted\n")


@app.command("load-defaults")
def load_defaults(as_json: AsJson = False) -> None:
    """Add default rules that were never here, renew those nobody changed (oarpy db upgrade does it too)."""
    from oarpy.client.installation import load_default_rules

    with open_session("oaradmissionrules") as session:
        session.require_admin("load the default rules")
        loaded = load_default_rules(session.connection)
    words = {"added": loaded.added, "updated": loaded.updated, "kept": loaded.kept}
    if as_json:
        write(json_text({word: list(names) for word, names in words.items()}))
        return
    lines = [f"# {len(names)} {word}{': ' if names else ''}{', '.join(names)}\n" for word, names in words.items()]
    write("".join(lines))


@app.command("test")
def try_rule(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Rule to try (default: all).")] = None,
    file: File = None,
    priority: Priority = None,
    last: Annotated[int | None, typer.Option("--last", metavar="N", help="On the N newest submissions (20).")] = None,
    submission: Annotated[
        str | None, typer.Option("--submission", metavar="FILE.toml", help="On the submissions of this file.")
    ] = None,
    cases: Annotated[
        str | None,
        typer.Option("--cases", metavar="FILE.toml", help="On the cases of this file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a rule, or its new text in --file, would change for submissions; nothing is stored."""
    if sum(source is not None for source in (last, submission, cases)) > 1:
        raise UsageError("--last, --submission and --cases exclude each other", hint="give one of them")
    text = None if file is None else rules.read_text(file)
    if cases is not None:
        _prove(name, text, cases, as_json)
        return
    with open_session("oaradmissionrules") as session:
        if submission is not None:
            specimens = trials.from_file(session, submission)
        else:
            specimens = trials.recent(session, 20 if last is None else last)
        trial = trials.compare_rule(session, name, text, priority, specimens)
    write(form(trial, as_json=as_json))


def _prove(name: str | None, text: str | None, cases: str, as_json: bool) -> None:
    if name is None:
        raise UsageError("--cases without the name of a rule", hint="oaradmissionrules test NAME --cases FILE.toml")
    with open_session("oaradmissionrules") as session:
        proof = trials.prove(session, name, text, cases)
    write(form(proof, as_json=as_json))
    if proof.failed:
        raise typer.Exit(1)


def _switch(name: str, as_json: bool, *, enabled: bool) -> None:
    with open_session("oaradmissionrules") as session:
        before, after = rules.change(session, name, enabled=enabled)
        word = "enabled" if enabled else "disabled"
        _done(rules.find(session, name), word if before != after else f"was {word} already", as_json)


def _done(row: AdmissionRuleRow, what: str, as_json: bool) -> None:
    write(json_text(rules.record(row)) if as_json else f"# rule {row.name} {what}, version {row.version}\n")


def _history(versions: list[VersionRow]) -> str:
    titles = tuple(map(Column, ("version", "changed", "by", "priority", "enabled", "lines")))
    cells = [
        (
            str(row.version),
            row.changed_at.astimezone().strftime("%Y-%m-%d %H:%M:%S"),
            row.changed_by,
            str(row.priority),
            "deleted" if row.deleted else _yes(row.enabled),
            str(len(row.text.splitlines())),
        )
        for row in versions
    ]
    return Table(titles, tuple(cells)).text()


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
