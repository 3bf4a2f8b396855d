"""The rows of docs/guides/oar-options.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "oar-options.md"
COMMANDS = {path.stem for path in (GUIDE.parents[2] / "commands").glob("oar*.py")}


@dataclass(frozen=True, slots=True)
class OptionRow:
    """A row: the ``options`` of a command, each with the command, the ``verdict``, what was ``tried``, the ``note``."""

    heading: str
    options: tuple[tuple[str, str], ...]
    verdict: str
    tried: tuple[str, ...]
    note: str


def option_rows() -> list[OptionRow]:
    """Return all rows in order."""
    found, heading = [], ""
    for line in GUIDE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line[3:]
        if not line.startswith("| `"):
            continue
        options, verdict, tried, note = (cell.strip() for cell in line.strip("|").split("|"))
        found.append(OptionRow(heading, _options(heading, options), verdict, _quoted(tried), note))
    return found


def _options(heading: str, cell: str) -> tuple[tuple[str, str], ...]:
    """Return (command, option) of each; a command that stands alone has the option ``""``."""
    pairs = []
    for words in _quoted(cell):
        command, _, option = words.rpartition(" ")
        pairs.append((words, "") if words in COMMANDS else (command or heading, option))
    return tuple(pairs)


def _quoted(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))
