"""Checks that the projects of submissions have hours left for them.

The setting ``when_spent`` of the first project on the way up that has too few hours decides: the submission is refused,
becomes best effort, or waits, for which passes care.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from oarpy.client.session import Session
from oarpy.client.submission.feasibility import Need
from oarpy.client.submission.projects import Payers
from oarpy.model.billing import BilledKind, billing_units
from oarpy.model.errors import AdmissionRefused
from oarpy.model.job_types import BESTEFFORT, read_types
from oarpy.model.submission import Submission
from oarpy.model.submission_checks import short
from oarpy.store.passes import project_use
from oarpy.store.passes.project_use import ProjectLeftRow
from oarpy.store.platform.projects import ProjectRow

_NOTHING = 1e-6
"""Billing units, in hours, that are nothing."""


class Hours:
    """The hours that projects have left for submissions of a moment: each takes its own from those behind it."""

    def __init__(self, session: Session, payers: Payers) -> None:
        self._session, self._payers = session, payers
        self._left: dict[str, ProjectLeftRow] = {}

    def pay(self, submission: Submission, need: Need) -> bool:
        """Return whether a submission may be as it is; False: it is to be best effort.

        Raises :class:`AdmissionRefused`.
        """
        line = _line(self._payers, submission.project, submission.queue, submission.types)
        if all(row.hours is None for row in line):
            return True
        self._read(line)
        units = _units(self._session, submission, need, line[0]) * submission.array_size
        lacking = _lacking(line, self._left, units)
        if lacking is None or lacking.when_spent == "wait":
            for name in _names(line) & self._left.keys():
                self._left[name] = _less(self._left[name], units)
            return True
        if lacking.when_spent == "refuse":
            raise _refusal(lacking, units)
        if submission.reservation is not None:
            raise AdmissionRefused(
                f"{_left(lacking)}, and a reservation is not best effort", hint="submit it without -r"
            )
        return False

    def _read(self, line: Sequence[ProjectRow]) -> None:
        if unread := [row.project for row in line if row.hours is not None and row.project not in self._left]:
            self._left |= project_use.left(self._session.connection, unread)


@dataclass(frozen=True, slots=True)
class Stored:
    """Jobs of a submission that were stored just now."""

    submission: Submission
    need: Need
    job_ids: Sequence[int]


def charge(session: Session, stored: Sequence[Stored]) -> None:
    """Note what jobs ask for that were stored just now, in the transaction of the caller.

    Raises :class:`AdmissionRefused` where that is more than is left, others having come first: the transaction is then
    to be undone.
    """
    payers = Payers(session)
    lines = [_line(payers, one.submission.project, one.submission.queue, one.submission.types) for one in stored]
    billed = [
        (one, line, _units(session, one.submission, one.need, line[0]))
        for one, line in zip(stored, lines, strict=True)
        if line
    ]
    if not billed:
        return
    project_use.lock(session.connection, sorted({name for _, line, _ in billed for name in _names(line)}))
    project_use.note_asked(session.connection, {one.job_ids[0]: units for one, _, units in billed})
    _require_rest(session, [(line, units * len(one.job_ids)) for one, line, units in billed])


def require_rest(session: Session, project: str, queue: str | None, types: Sequence[str]) -> None:
    """Raise :class:`AdmissionRefused` if what is stored asks for more than is left, and must not wait for it."""
    _require_rest(session, [(_line(Payers(session), project, queue, types), 0)])


def _require_rest(session: Session, asked: Sequence[tuple[Sequence[ProjectRow], float]]) -> None:
    """Raise for the first project without rest; ``asked`` are lines of projects with what is asked of each."""
    limited = sorted({row.project for line, _ in asked for row in line if row.hours is not None})
    if not limited:
        return
    left = project_use.left(session.connection, limited)
    for line, _ in asked:
        lacking = _lacking(line, left, 0)
        if lacking is not None and lacking.when_spent == "refuse":
            units = sum(units for line, units in asked if lacking.project in _names(line))
            raise _refusal(_less(lacking, -units), units)


def _line(payers: Payers, project: str, queue: str | None, types: Sequence[str]) -> list[ProjectRow]:
    """Return the projects whose hours a job takes, its own first; none where nobody pays."""
    if not payers.required or BESTEFFORT in (queue, *types):
        return []
    known = read_types(types)
    if known.without_quotas or known.containers:
        return []
    return payers.line(project)


def _names(line: Sequence[ProjectRow]) -> set[str]:
    return {row.project for row in line}


def _units(session: Session, submission: Submission, need: Need, project: ProjectRow) -> float:
    """Return the billing units, in hours, that each job asks for."""
    hours = float(submission.alternatives[need.alternative].walltime or 0) / 3600
    amounts: dict[BilledKind, float] = {"core": need.cores * hours, "gpu": need.gpus * hours}
    return billing_units(session.configuration.accounting.weights, amounts) * project.weight


def _lacking(line: Sequence[ProjectRow], left: Mapping[str, ProjectLeftRow], units: float) -> ProjectLeftRow | None:
    """Return the first project of a line that has less than is asked for, None if none has."""
    rows = (left[row.project] for row in line if row.project in left)
    return next((row for row in rows if row.left is not None and row.left < units - _NOTHING), None)


def _less(row: ProjectLeftRow, units: float) -> ProjectLeftRow:
    return replace(row, left=(row.left or 0) - units)


def _refusal(lacking: ProjectLeftRow, units: float) -> AdmissionRefused:
    return AdmissionRefused(
        f"{_left(lacking)}, and this asks for {units:.10g}",
        hint=f"ask for less; oarproject show {short(lacking.project)} tells what is used",
    )


def _left(lacking: ProjectLeftRow) -> str:
    return f"project '{short(lacking.project)}' has {max(lacking.left or 0, 0):.10g} of {lacking.hours:.10g} hours left"
