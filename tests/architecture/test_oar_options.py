"""The table of OAR's options says what is so: an option that works is one that the command takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from oarpy.commands.completion import tree
from typer.core import TyperOption

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "oar-options.md"
COMMANDS = {path.stem for path in (GUIDE.parents[2] / "commands").glob("oar*.py")}


def rows() -> list[tuple[str, str, str, str]]:
    """Return heading, cell of options, verdict and note of each row."""
    found, heading = [], ""
    for line in GUIDE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line[3:]
        cells = [cell.strip() for cell in line.split(" | ")] if line.startswith("| ") else []
        if len(cells) == 3 and cells[1] not in ("here", "---"):
            found.append((heading, cells[0].lstrip("| "), cells[1], cells[2].rstrip("| ")))
    return found


def taken(command: str) -> set[str]:
    """Return the options that a command takes, with those of its help."""
    (_, parsed), *_ = tree(command)
    words = {word for one in parsed.params if isinstance(one, TyperOption) for word in (*one.opts, *one.secondary_opts)}
    return words | {"--help"} | ({"-h"} - words)


def test_each_row_is_decided_and_what_does_not_work_has_its_reason() -> None:
    table = rows()
    assert len(table) > 60
    for heading, options, verdict, note in table:
        assert verdict in ("works", "otherwise", "left out"), (heading, options)
        assert verdict == "works" or note, (heading, options)


@pytest.mark.parametrize(
    ("heading", "options"), [(heading, options) for heading, options, verdict, _ in rows() if verdict == "works"]
)
def test_what_works_is_taken(heading: str, options: str) -> None:
    for words in re.findall(r"`([^`]+)`", options):
        command, _, option = words.rpartition(" ")
        if words in COMMANDS:
            continue
        assert option.startswith("-"), words
        assert option in taken(command or heading), words
