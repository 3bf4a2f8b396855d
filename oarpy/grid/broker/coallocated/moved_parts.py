"""The parts that are the place of a moving parallel job, the old or the new ones, from the rows of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oarpy.grid.broker.transactions import part_origin
from oarpy.model.states import GridPartState
from oarpy.store.grid.broker_parts import GridPartRow

_GONE = (GridPartState.ABORTING, GridPartState.GONE, GridPartState.DELETING)
_UNDECIDED = (GridPartState.PREPARING, GridPartState.PREPARED)
_STANDING = (GridPartState.WAITING, GridPartState.RUNNING)


@dataclass(frozen=True, slots=True)
class MovedParts:
    """The parts of a job's last transaction: the parts that it ``made``, and the ``old`` parts that these replace."""

    made: Sequence[GridPartRow]
    old: Sequence[GridPartRow]

    @classmethod
    def of(cls, rows: Sequence[GridPartRow]) -> MovedParts:
        """Tell the parts of a transaction apart."""
        new = [row for row in rows if part_origin(row.name)[1] == row.transaction]
        old = sorted((row for row in rows if row not in new), key=lambda row: part_origin(row.name))
        return cls(new, old)

    @property
    def present(self) -> list[GridPartRow]:
        """The parts of the job's present place, the part of the program first."""
        new = [row for row in self.made if row.state not in _GONE]
        if self.old and (self.came_to_nothing or all(row.state in _UNDECIDED for row in new)):
            return [row for row in self.old if row.state not in _GONE]
        return new

    @property
    def came_to_nothing(self) -> bool:
        """Tell whether it moved, and no cluster has anything of the new place."""
        return bool(self.old) and all(_never_was(row) for row in self.made)

    @property
    def stands(self) -> bool:
        """Tell whether a cluster has a new part, or had it running."""
        return any(row.state in _STANDING or row.started is not None for row in self.made)

    @property
    def kept(self) -> list[GridPartRow]:
        """Old parts that clusters let go on, as far as their end has not been requested."""
        return [row for row in self.old if row.end_asked is None and row.state not in _GONE and not _never_was(row)]


def holds_only_hosts(row: GridPartRow) -> bool:
    """Tell whether a part only holds hosts, so that the program runs in another part."""
    return part_origin(row.name)[0] > 0


def _never_was(row: GridPartRow) -> bool:
    return row.state is GridPartState.ENDED and row.started is None
