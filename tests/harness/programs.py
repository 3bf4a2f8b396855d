"""A program of many processes, and the script that is timed to measure its rate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Programs:
    """``program`` and ``rate.sh`` in a folder."""

    folder: Path

    def change(self) -> None:
        """Make another program of it."""
        with (self.folder / "program").open("a", encoding="utf-8") as file:
            file.write("# changed\n")

    def script(self, name: str, text: str) -> str:
        """Make an executable script; return its path from the folder."""
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
        return f"./{name}"


def make_programs(folder: Path) -> Programs:
    """Make both."""
    made = Programs(folder)
    made.script("program", "exit 0")
    made.script("rate.sh", "echo rate 4")
    return made
