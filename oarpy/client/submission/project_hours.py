"""Checks that the projects of submissions have hours left for them.

The setting ``when_spent`` of the first project on the way up that has too few hours decides: the submission is refused,
becomes best effort, or waits, for which passes care.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor

from oarpy.client.session import Session
from oarpy.client.submission.feasibility import Need
from oarpy.client.submission.projects import Payers
from oarpy.model.billing import CORE, GPU, Kind, billing_units, hours_text
from oarpy.model.errors import AdmissionRefused
from oarpy.model.job_types import BESTEFFORT, read_types
from oarpy.model.submission import Submission
from oarpy.model.submission_checks import short
from oarpy.store.jobs.submissions import EndedJobRow
from oarpy.store.passes import project_use
from oarpy.store.passes.project_use import ProjectLeftRow
from oarpy.store.platform.consumables import weights_of_units
from oarpy.store.platform.projects import ProjectRow

_NOTHING = 1e-6
"""Billing units, in hours, that are nothing."""

_SHORTEST = {"week": 7, "month": 28, "quarter": 90, "year": 365}
"""The days that a period has at least."""


class Hours:
    """The hours that projects have left for submissions of a moment: each takes its own from those behind it."""

    def __init__(self, session: Session, payers: Payers) -> None:
        self._session, self._payers = session, payers
        self._left: dict[str, ProjectLeftRow] = {}

    def pay(self, submission: Submission, need: Need) -> tuple[str, ...] | None:
        """Return the warnings about a submission that may be as it is; None: it is to be best effort.

        Raises :class:`AdmissionRefused`.
        """
        line = _line(self._payers, submission.project, submission.queue, submission.types)
        if all(row.hours is None for row in line):
            return ()
        self._read(line)
        units = _units(self._session, submission, need, line[0])
        bill = _Bill(line, units * submission.array_size)
        lacking = _take(self._left, bill, {"wait"})
        if lacking is None:
            return _warnings(line, submission, need, units)
        if lacking.when_spent == "refuse":
            raise _refusal(lacking, bill.units)
        if submission.reservation is not None:
            raise AdmissionRefused(
                f"{_left(lacking)}, and a reservation is not best effort", hint="submit it without -r"
            )
        return None

    def _read(self, line: Sequence[ProjectRow]) -> None:
        if unread := [row.project for row in line if row.hours is not None and row.project not in self._left]:
            self._left |= project_use.left(self._session.connection, unread)


@dataclass(frozen=True, slots=True)
class _Bill:
    """The projects whose hours jobs take, their own first, and the billing units, in hours, that the jobs ask for."""

    line: Sequence[ProjectRow]
    units: float


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
    lines = [_line(payers, jobs.submission.project, jobs.submission.queue, jobs.submission.types) for jobs in stored]
    billed = [
        (jobs, _Bill(line, _units(session, jobs.submission, jobs.need, line[0])))
        for jobs, line in zip(stored, lines, strict=True)
        if line
    ]
    if not billed:
        return
    project_use.note_asked(session.connection, {jobs.job_ids[0]: bill.units for jobs, bill in billed})
    _require_rest(session, [_Bill(bill.line, bill.units * len(jobs.job_ids)) for jobs, bill in billed])


def charge_again(session: Session, repeated: Sequence[EndedJobRow]) -> None:
    """Require hours for copies of jobs that were stored just now; else as :func:`charge`.

    Copies of equal jobs ask for their hours together, as an array does.
    """
    payers = Payers(session)
    alike = Counter((job.project, job.queue, tuple(job.types), job.asked_units or 0.0) for job in repeated)
    bills = [
        _Bill(_line(payers, project, queue, types), units * copies)
        for (project, queue, types, units), copies in alike.items()
    ]
    _require_rest(session, bills)


def _require_rest(session: Session, bills: Sequence[_Bill]) -> None:
    """Raise for the first bill that has to be refused, each taking its hours from those behind it.

    All are of jobs that are stored already. Rows of projects are locked in one order.
    """
    limited = sorted({row.project for bill in bills for row in bill.line if row.hours is not None})
    if not limited:
        return
    project_use.lock(session.connection, limited)
    left = project_use.left(session.connection, limited)
    for bill in bills:
        _deduct(left, bill.line, -bill.units)
    for bill in bills:
        if lacking := _take(left, bill, {"wait", "besteffort"}):
            raise _refusal(lacking, bill.units)


def _line(payers: Payers, project: str, queue: str | None, types: Sequence[str]) -> list[ProjectRow]:
    """Return the projects whose hours a job takes, its own first; none where nobody pays."""
    if not payers.required or BESTEFFORT in (queue, *types):
        return []
    known = read_types(types)
    if known.without_quotas or known.containers:
        return []
    return payers.line(project)


def _warnings(line: Sequence[ProjectRow], submission: Submission, need: Need, units: float) -> tuple[str, ...]:
    """Name the first project on the way up that can never pay for a job of ``units``."""
    row = next((row for row in line if not _can_pay(row, units, _walltime(submission, need))), None)
    if row is None:
        return ()
    asks = "this asks" if submission.array_size == 1 else "each of these jobs asks"
    has = f"{hours_text(row.hours or 0)} {'in all' if row.period == 'ever' else f'each {row.period}'}"
    return (
        f"Warning: {asks} for {hours_text(units, ceil)} hours, and project '{short(row.project)}' has {has}: "
        "no start is possible before it has more",
    )


def _can_pay(row: ProjectRow, units: float, walltime: float) -> bool:
    """Return whether the hours of a project reach for a job of ``units`` in ``walltime`` hours, at any date.

    Unless the hours of each period reach for the job all the time, it has those of two: around the end of the first.
    """
    if row.hours is None:
        return True
    if row.period == "ever":
        return units <= row.hours + _NOTHING
    return units <= 2 * row.hours + _NOTHING or units / walltime * 24 * _SHORTEST[row.period] <= row.hours


def _units(session: Session, submission: Submission, need: Need, project: ProjectRow) -> float:
    """Return the billing units, in hours, that each job asks for."""
    amounts: dict[Kind, float] = {CORE: need.cores, GPU: need.gpus, **need.amounts}
    weights = weights_of_units(session.connection, session.configuration.accounting.weights)
    return billing_units(weights, amounts) * _walltime(submission, need) * project.weight


def _walltime(submission: Submission, need: Need) -> float:
    """Return the walltime in hours."""
    return float(submission.alternatives[need.alternative].walltime or 0) / 3600


def _take(left: dict[str, ProjectLeftRow], bill: _Bill, waits: Collection[str]) -> ProjectLeftRow | None:
    """Take the hours of a bill from those left; return the first project that lacks some, and then take none.

    A submission without enough hours takes them all the same where that project says one of ``waits``.
    """
    rows = (left[row.project] for row in bill.line if row.project in left)
    lacking = next((row for row in rows if row.left is not None and row.left < bill.units - _NOTHING), None)
    if lacking is not None and lacking.when_spent not in waits:
        return lacking
    _deduct(left, bill.line, bill.units)
    return None


def _deduct(left: dict[str, ProjectLeftRow], line: Sequence[ProjectRow], units: float) -> None:
    for row in line:
        if row.project in left:
            left[row.project] = replace(left[row.project], left=(left[row.project].left or 0) - units)


def _refusal(lacking: ProjectLeftRow, units: float) -> AdmissionRefused:
    return AdmissionRefused(
        f"{_left(lacking)}, and this asks for {hours_text(units, ceil)}",
        hint=f"ask for less; oarproject show {short(lacking.project)} tells what is used",
    )


def _left(lacking: ProjectLeftRow) -> str:
    left, hours = hours_text(max(lacking.left or 0, 0), floor), hours_text(lacking.hours or 0)
    return f"project '{short(lacking.project)}' has {left} of {hours} hours left"
