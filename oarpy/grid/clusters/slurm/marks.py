"""A part of a broker, written into the comment of its job: Slurm keeps it, and forgets it with the job.

``oarpy:BROKER:PART:KIND:WALLTIME:MADE:TRANSACTION:KEY:STATE:AT:NOTE``, each field quoted as in an address. So the next
caller finds a part again, after a lost answer or a restart of the broker.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal
from urllib.parse import quote, unquote

MarkState = Literal[
    "prepared", "committed", "begun", "ended", "frozen", "thawed", "withdrawn", "aborted", "cancelled", "stopped"
]
"""``begun``, ``ended``: of the program of a claim. ``stopped``: cancelled after the program had begun."""

_WORD = "oarpy"


@dataclass(frozen=True, slots=True)
class PartMark:
    """The mark of a part: ``made`` is the transaction that made it, ``transaction`` and ``key`` are the last prepare's.

    ``at``: the time when it lapses (prepared, frozen), begins (committed) or began (begun, ended, stopped). ``note``:
    the ECT of a frozen part, the exit status of an ended part, the reason of a cancelled part.
    """

    broker: str
    part: str
    kind: str
    walltime: float
    made: str
    transaction: str
    key: str
    state: MarkState = "prepared"
    at: float = 0
    note: str = ""

    def __str__(self) -> str:
        values = (getattr(self, field.name) for field in fields(self))
        texts = (f"{value:.3f}" if isinstance(value, int | float) else value for value in values)
        return ":".join((_WORD, *(quote(text, safe="") for text in texts)))

    def so_far(self, state: MarkState) -> str:
        """Return the text of a state up to its ``at``, which a script appends, with ``:`` and a note."""
        return str(replace(self, state=state, at=0, note="")).removesuffix("0.000:")

    @classmethod
    def read(cls, comment: str) -> PartMark | None:
        """Return the mark in a comment, None for any other comment."""
        word, *texts = comment.split(":")
        if word != _WORD or len(texts) != len(fields(cls)):
            return None
        broker, part, kind, walltime, maker, transaction, key, state, at, note = map(unquote, texts)
        return cls(broker, part, kind, float(walltime), maker, transaction, key, state, float(at), note)  # type: ignore[arg-type]
