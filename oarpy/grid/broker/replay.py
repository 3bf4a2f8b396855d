"""``oarpy grid replay``: takes stored decisions of the broker again, and reports the differences."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from oarpy.grid.broker.decisions import as_noted, taken_again
from oarpy.store.grid.decisions import GridDecisionRow

_SHOWN = 2000
"""Letters of each side that are shown."""


@dataclass(frozen=True, slots=True)
class DifferingDecision:
    """A decision with another result: at an event, the stored actions and the new ones."""

    id: int
    module: str
    event: int
    stored: Any
    came_out: Any

    def line(self) -> str:
        """Return it as a line of text."""
        where = f"decision {self.id} of the {self.module}, event {self.event}"
        return f"{where}: stored {_text(self.stored)}, came out {_text(self.came_out)}"


@dataclass(frozen=True, slots=True)
class UnreplayableDecision:
    """A decision that was too large to be stored whole."""

    id: int


def differing(rows: Iterable[GridDecisionRow]) -> Iterator[DifferingDecision | UnreplayableDecision | None]:
    """Take decisions again; yield for each None, its difference, or the note that it cannot be taken."""
    for row in rows:
        if not row.replayable:
            yield UnreplayableDecision(row.id)
            continue
        try:
            repeated = taken_again(row.state, row.events)
        except Exception as error:  # any error of a record is reported, and the other records are looked at
            yield DifferingDecision(row.id, row.module, 0, row.actions, f"{type(error).__name__}: {error}")
            continue
        yield next(
            (
                DifferingDecision(row.id, row.module, place, stored, out)
                for place, (stored, out) in enumerate(_pairs(list(row.actions), repeated), 1)
                if out not in (stored, as_noted(stored))
            ),
            None,
        )


def _pairs(stored: list[Any], repeated: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Pair the stored and the repeated actions of each event; None stands for a missing side."""
    for place in range(max(len(stored), len(repeated))):
        yield stored[place] if place < len(stored) else None, repeated[place] if place < len(repeated) else None


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
