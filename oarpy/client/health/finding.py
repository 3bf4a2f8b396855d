"""One fault, and its cure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of ``check``: ``what`` is wrong, and how to mend it."""

    check: str
    what: str
    todo: str

    def line(self) -> str:
        """Return it as a line of text."""
        return f"{self.check}: {self.what} ({self.todo})\n"
