"""``docs/commands.md``: usage and options from the commands themselves, the rest from ``docs/commands.toml``.

``python docs/command_pages.py`` writes the page.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import typer
from oarpy.commands.completion import tree
from typer.core import TyperArgument, TyperGroup, TyperOption

from oarpy.client.boundary import Parser

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "commands.md"

_INTRODUCTION = """# Commands

Every command ends with 0 (done), 1 (failed), 2 (usage), 3 (refused by admission), 4 (no such object), 5 (not allowed),
6 (the database cannot be reached) or 130 (interrupted). What goes wrong is one line on standard error, `command: what,
which value (what to do)`, and has changed nothing. `-J` and `--json` are the same option everywhere, and the keys of
JSON output are stable. Options that take `[VALUE]` may come alone. `-h` or `--help` shows the options, but where
`-h` is an option of OAR, and `-V` the version.
"""


def commands() -> tuple[str, ...]:
    """Return the names of all commands."""
    return tuple(sorted(path.stem for path in (DOCS.parent / "commands").glob("oar*.py")))


def options(name: str) -> set[str]:
    """Return every option of a command and of its subcommands, short and long."""
    return {
        spelling
        for _, command in _leaves(name)
        for one in command.params
        if isinstance(one, TyperOption) and not one.hidden
        for spelling in one.opts
    }


def commands_page() -> str:
    """Return the whole page."""
    texts = tomllib.loads((DOCS / "commands.toml").read_text(encoding="utf-8"))
    parts = [_INTRODUCTION, "".join(f"- [{name}](#{name})\n" for name in commands())]
    for name in commands():
        parts.append(f"## {name}\n")
        parts += [_reference(path, command) for path, command in _leaves(name)]
        if name in texts:
            parts.append(texts[name]["text"].strip() + "\n")
            parts.append(f"Exit status: {texts[name]['exit']}\n")
    return "\n".join(parts)


def _leaves(name: str) -> Iterator[tuple[str, Parser]]:
    """Yield what can be run, with the words that run it."""
    return (node for node in tree(name) if not isinstance(node[1], TyperGroup))


def _reference(path: str, command: Parser) -> str:
    usage = " ".join(
        [path, *command.collect_usage_pieces(typer.Context(command, info_name=path, **command.context_settings))]
    )
    rows = [
        (f"`{name}`", (one.help or "").replace("|", "\\|"))
        for one in command.params
        if isinstance(one, TyperArgument | TyperOption) and not one.hidden
        for name in (_spelled(one),)
    ]
    table = "".join(f"| {option} | {meaning} |\n" for option, meaning in [("option", "meaning"), ("---", "---"), *rows])
    lines = [f"    {usage}", "", (command.help or "").strip(), "", table]
    return "\n".join(lines)


def _spelled(one: TyperArgument | TyperOption) -> str:
    if isinstance(one, TyperArgument):
        return one.metavar or str(one.name).upper()
    value = "" if one.is_flag else f" {(one.metavar or 'VALUE')}".replace("|", "\\|")
    return ", ".join([*one.opts, *one.secondary_opts]) + value


if __name__ == "__main__":
    PAGE.write_text(commands_page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE} written\n")
