"""``packaging/man/*.1``: a man page for each command, from the command itself and ``docs/commands.toml``.

``python docs/man_pages.py`` writes the pages; the wheel installs them below ``share/man``.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import typer
from oarpy.commands.completion import command_names, tree
from typer.core import TyperArgument, TyperGroup, TyperOption

from oarpy.client.boundary import Parser

DOCS = Path(__file__).resolve().parent
FOLDER = DOCS.parent / "packaging" / "man"

_STATUSES = (
    "0 done, 1 failed, 2 usage, 3 refused by admission, 4 no such object, 5 not allowed, 6 the database cannot be "
    "reached, 130 interrupted."
)


def man_pages() -> dict[str, str]:
    """Return the pages by the name of their file."""
    texts = tomllib.loads((DOCS / "commands.toml").read_text(encoding="utf-8"))
    return {f"{name}.1": _page(name, texts.get(name, {})) for name in command_names()}


def _page(name: str, said: dict[str, str]) -> str:
    (_, whole), *below = tree(name)
    lines = [
        f'.TH {name.upper()} 1 "" "oarpy" "oarpy"',
        ".SH NAME",
        f"{name} \\- {escaped(_first_sentence(whole.help or ''))}",
        ".SH SYNOPSIS",
    ]
    leaves = [node for node in ((name, whole), *below) if not isinstance(node[1], TyperGroup)]
    for path, command in leaves:
        lines += [f".B {escaped(path)}", escaped(_usage(path, command)), ".br"]
    lines += [".SH DESCRIPTION", *_paragraphs(whole.help or "")]
    lines += _paragraphs(said.get("text", ""))
    lines.append(".SH OPTIONS" if not below else ".SH COMMANDS")
    for path, command in leaves:
        if below:
            lines += [f".SS {escaped(path)}", *_paragraphs(command.help or "")]
        lines += _options(command)
    lines += [".SH EXIT STATUS", *_paragraphs(said.get("exit") or _STATUSES)]
    others = ", ".join(f"\\fB{other}\\fR(1)" for other in command_names() if other != name)
    return "\n".join([*lines, ".SH SEE ALSO", others]) + "\n"


def _usage(path: str, command: Parser) -> str:
    return " ".join(command.collect_usage_pieces(typer.Context(command, info_name=path)))


def _first_sentence(text: str) -> str:
    return text.strip().split("\n\n")[0].replace("\n", " ").split(". ")[0].rstrip(".")


def _options(command: Parser) -> Iterator[str]:
    for one in command.params:
        if isinstance(one, TyperArgument):
            yield from (".TP", f".I {escaped((one.metavar or str(one.name)).upper())}", escaped(one.help or ""))
        elif isinstance(one, TyperOption) and not one.hidden:
            names = ", ".join(f"\\fB{escaped(word)}\\fR" for word in (*one.opts, *one.secondary_opts))
            value = "" if one.is_flag else f" \\fI{escaped(one.metavar or 'VALUE')}\\fR"
            yield from (".TP", f"{names}{value}", escaped(one.help or ""))


def _paragraphs(markdown: str) -> Iterator[str]:
    """Yield roff for the little of Markdown that the texts use: paragraphs, lists, tables, code, bold words, links."""
    for block in re.split(r"\n\s*\n", markdown.replace("\b", "").strip()):
        lines = block.strip("\n").splitlines()
        if not lines:
            continue
        if lines[0].startswith("|"):
            yield from _table(lines)
        elif lines[0].startswith("    ") or lines[0].startswith("```"):
            yield from (".PP", ".nf", *(escaped(line.strip("`")) for line in lines), ".fi")
        elif lines[0].startswith("- "):
            for item in re.split(r"\n- ", "\n".join(lines)[2:]):
                yield from (".IP \\(bu 2", _inline(" ".join(item.split())))
        else:
            yield from (".PP", _inline(" ".join(" ".join(lines).split())))


def _table(lines: list[str]) -> Iterator[str]:
    for line in lines[2:]:
        first, _, rest = line.strip().strip("|").replace("\\|", "\0").partition("|")
        meaning = " \\(em ".join(_inline(cell.strip().replace("\0", "|")) for cell in rest.split("|"))
        yield from (".TP", _inline(first.strip().replace("\0", "|")), meaning)


def _inline(text: str) -> str:
    text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text)
    parts = re.split(r"(\*\*.+?\*\*|`[^`]+`)", text)
    roff = "".join(
        f"\\fB{_letters(part.strip('*`'))}\\fR" if part.startswith(("**", "`")) else _letters(part) for part in parts
    )
    return f"\\&{roff}" if roff.startswith((".", "'")) else roff


def escaped(text: str) -> str:
    """Return ``text`` so that roff prints it as it is, on one line."""
    roff = _letters(" ".join(text.replace("\b", "").split()))
    return f"\\&{roff}" if roff.startswith((".", "'")) else roff


def _letters(text: str) -> str:
    return (
        text.replace("\\", "\\(rs")
        .replace("-", "\\-")
        .replace("'", "\\(aq")
        .replace("^", "\\(ha")
        .replace("~", "\\(ti")
    )


def main() -> int:
    """Write every page."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in man_pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    sys.stdout.write(f"{FOLDER} written\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
