"""Checks that the projects of a submission have hours left for it.

The setting ``when_spent`` of the first project on the way up that has too few hours decides: the submission is refused,
becomes best effort, or waits, for which passes care.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from oarpy.client.session import Session
from oarpy.client.submission.feasibility import Need
from oarpy.client.submission.projects import is_asked, line_of
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


def as_paid(session: Session, submission: Submission, need: Need) -> bool:
    """Return whether a submission may be as it is; False: it is to be best effort. Raises :class:`AdmissionRefused`."""
    line = _payers(session, submission.project, submission.queue, submission.types)
    if not line:
        return True
    units = _units(session, submission, need, line[0]) * submission.array_size
    lacking = _lacking(session, line, units)
    if lacking is None or lacking.when_spent == "wait":
        return True
    if lacking.when_spent == "refuse":
        raise _refusal(lacking, units)
    if submission.reservation is not None:
        raise AdmissionRefused(f"{_left(lacking)}, and a reservation is not best effort", hint="submit it without -r")
    return False


def charge(session: Session, submission: Submission, need: Need, job_ids: Sequence[int]) -> None:
    """Note what jobs ask for that were stored just now, in the transaction of the caller.

    Raises :class:`AdmissionRefused` where that is more than is left, others having come first: the transaction is then
    to be undone.
    """
    line = _payers(session, submission.project, submission.queue, submission.types)
    if not line:
        return
    project_use.lock(session.connection, [row.project for row in line])
    units = _units(session, submission, need, line[0])
    project_use.note_asked(session.connection, job_ids, units)
    require_rest(session, submission.project, submission.queue, submission.types, units * len(job_ids))


def require_rest(session: Session, project: str, queue: str | None, types: Sequence[str], units: float = 0) -> None:
    """Raise :class:`AdmissionRefused` if what is stored asks for more than is left, and must not wait for it."""
    lacking = _lacking(session, _payers(session, project, queue, types), 0)
    if lacking is not None and lacking.when_spent == "refuse":
        raise _refusal(replace(lacking, left=(lacking.left or 0) + units), units)


def _payers(session: Session, project: str, queue: str | None, types: Sequence[str]) -> list[ProjectRow]:
    """Return the projects whose hours a job takes, its own first; none where nobody pays."""
    if not is_asked(session) or BESTEFFORT in (queue, *types):
        return []
    known = read_types(types)
    if known.without_quotas or known.containers:
        return []
    return line_of(session, project)


def _units(session: Session, submission: Submission, need: Need, project: ProjectRow) -> float:
    """Return the billing units, in hours, that each job asks for."""
    hours = float(submission.alternatives[need.alternative].walltime or 0) / 3600
    amounts: dict[BilledKind, float] = {"core": need.cores * hours, "gpu": need.gpus * hours}
    return billing_units(session.configuration.accounting.weights, amounts) * project.weight


def _lacking(session: Session, line: Sequence[ProjectRow], units: float) -> ProjectLeftRow | None:
    """Return the first project of a line that has less than is asked for, None if none has."""
    if all(row.hours is None for row in line):
        return None
    left = project_use.left(session.connection, [row.project for row in line])
    rows = (left[row.project] for row in line if row.project in left)
    return next((row for row in rows if row.left is not None and row.left < units - _NOTHING), None)


def _refusal(lacking: ProjectLeftRow, units: float) -> AdmissionRefused:
    return AdmissionRefused(
        f"{_left(lacking)}, and this asks for {units:.10g}",
        hint=f"ask for less; oarproject show {short(lacking.project)} tells what is used",
    )


def _left(lacking: ProjectLeftRow) -> str:
    return f"project '{short(lacking.project)}' has {max(lacking.left or 0, 0):.10g} of {lacking.hours:.10g} hours left"
