"""The first prediction of a job's start that a pass made, as readers of the job see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

TOLD_COLUMNS = """
    extract(epoch FROM f.made_at)::float8, extract(epoch FROM f.planned_start)::float8,
    extract(epoch FROM f.earliest_start)::float8, extract(epoch FROM f.latest_start)::float8, f.learnt_from
"""
"""The columns of ``first_predictions f`` that a query of jobs selects for a :class:`ToldStart`."""


@dataclass(frozen=True, slots=True)
class ToldStart:
    """A job's prediction of its start, made at ``made`` (epoch seconds, like the others).

    ``earliest`` and ``latest`` are None when there were too few past starts; ``starts`` counts these.
    """

    made: float
    planned: float
    earliest: float | None
    latest: float | None
    starts: int

    @classmethod
    def of(cls, columns: Sequence[float | None]) -> ToldStart | None:
        """Return the prediction in the :data:`TOLD_COLUMNS`, None when the job had none."""
        made_at, planned, earliest, latest, starts = columns
        if made_at is None or planned is None:
            return None
        return cls(made_at, planned, earliest, latest, int(starts or 0))
