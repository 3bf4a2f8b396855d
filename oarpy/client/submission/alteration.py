"""``oaralter``: let jobs that wait ask for something else, by the rules and checks of a new submission."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import TYPE_CHECKING, Any

from oarpy.admission.filters.parts import as_asked
from oarpy.client.jobs.actions import checked, in_state
from oarpy.client.jobs.selection import JobSelection
from oarpy.client.session import Session
from oarpy.client.submission.draft import directory
from oarpy.client.submission.options import Options
from oarpy.client.submission.project_hours import Stored, charge
from oarpy.client.submission.submission import Admitted, message, readmitted, require_no_launcher
from oarpy.model.durations import format_duration
from oarpy.model.errors import OarpyError, UsageError
from oarpy.model.job_types import BAG, read_types
from oarpy.model.reasons import Change, Reason, Why
from oarpy.model.request import ResourceRequest
from oarpy.model.states import JobState
from oarpy.model.submission import Submission
from oarpy.store.jobs import alterations, details, submissions
from oarpy.store.jobs.alterations import AskedRow
from oarpy.store.jobs.requests import JobHandle

if TYPE_CHECKING:
    from oarpy.client.submission.dry_run import Forecast

_WAITING = frozenset({JobState.WAITING, JobState.HOLD})
_NAMES = {"alternatives": "resources"}
"""Names of fields for people, where they say more."""
_OF_THE_USER = "notify"
"""The field whose values other users do not see."""
_ONE_MOMENT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
"""A plan is of one moment."""
_UNDONE = "nothing was done"


@dataclass(frozen=True, slots=True)
class Altered:
    """The jobs that were meant, ascending, and the changes of jobs that had another request.

    ``warnings`` come from the checks, ``notes`` from the rules.
    """

    job_ids: tuple[int, ...]
    changes: dict[int, tuple[Change, ...]]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def alter(session: Session, selection: JobSelection, options: Options) -> Altered:
    """Give the selected jobs, which must wait, the request of ``options``. In an array, the waiting jobs are meant.

    A throttle is of an array: with one, ids are ids of arrays.

    Raises :class:`UsageError`, and as :func:`oarpy.client.submission.submission.submit`; then nothing is changed.
    """
    values = _values(options)
    if "throttle" in values:  # a throttle is only of whole arrays
        selection = replace(selection, job_ids=(), array_ids=(*selection.array_ids, *selection.job_ids))
    connection = session.connection
    with connection.transaction():
        jobs = checked(session, selection, _why_not, arrays_in_part=True)
        ids = [job.job_id for job in jobs]
        rows = alterations.asked(connection, ids)
        alterations.lock(connection, rows)
        for row in rows:
            _require_own_request(row)
        before = _request_texts(session, rows)
        outcomes = [_alter(session, members, values) for members in _alike(rows)]
        charge(session, [stored for _, stored in outcomes if stored is not None])
        if "throttle" in values:
            alterations.throttle(connection, ids, values["throttle"])
        after = _request_texts(session, alterations.asked(connection, ids))
        changes = {job: tuple(_compared(before[job], after[job])) for job in ids}
        altered = {job: changed for job, changed in changes.items() if changed}
        reasons = {job: Reason(Why.ALTERED, session.user, changes=changed) for job, changed in altered.items()}
        alterations.log(connection, reasons)
    warnings = dict.fromkeys(warning for admitted, _ in outcomes for warning in admitted.warnings)
    notes = dict.fromkeys(note for admitted, _ in outcomes for note in admitted.trace.notes)
    return Altered(tuple(ids), altered, tuple(warnings), tuple(notes))


def alter_and_predict(
    session: Session, selection: JobSelection, options: Options, *, dry_run: bool
) -> tuple[Altered, dict[int, Forecast]]:
    """Do as :func:`alter`, and return also a pass's forecast for the first and the last job, where they wait.

    With ``dry_run`` all is undone at the end: no other process ever sees it.
    """
    if not dry_run:
        altered = alter(session, selection, options)
        with session.connection.transaction():
            session.connection.execute(_ONE_MOMENT)
            return altered, _predict(session, altered.job_ids)
    with session.connection.transaction(force_rollback=True):
        session.connection.execute(_ONE_MOMENT)
        altered = alter(session, selection, options)
        return altered, _predict(session, altered.job_ids)


def _predict(session: Session, jobs: Sequence[int]) -> dict[int, Forecast]:
    from oarpy.client.submission.dry_run import forecast_of
    from oarpy.cluster_state.order_plugins import SiteOrders
    from oarpy.scheduler.decide import decide

    reader = session.snapshot_reader()
    snapshot = reader.read(session.connection, int(time.time()), only_places=True).snapshot
    placements = decide(snapshot, None, SiteOrders(), reader.matchers).plan.by_job()
    return {job: forecast_of(placements[job]) for job in (jobs[0], jobs[-1]) if job in placements}


def _values(options: Options) -> dict[str, Any]:
    """Return the fields that are to change.

    Raises :class:`UsageError` for none, and for a value that its option refuses.
    """
    values = options.values()
    if "directory" in values:
        values["directory"] = directory(options)
    if not values:
        raise UsageError("nothing to change", hint="oaralter JOB_ID with options of oarsub, as -l or -q")
    return values


def _why_not(job: JobHandle) -> str | None:
    if read_types(job.types).negotiates:
        return f"job {job.job_id} negotiates: its launcher asks for hosts and time"
    if BAG in job.types:
        return f"job {job.job_id} is a task of a bag, whose end is promised for what it asked for"
    hint = "cannot be changed: only a job that waits can"
    return in_state(_WAITING, hint + ("; oarwalltime changes walltimes" * (job.state == JobState.RUNNING)))(job)


def _require_own_request(row: AskedRow) -> None:
    """Raise :class:`OarpyError` for a job whose request a broker decides about, or that has been promised its place."""
    if row.broker is not None:
        raise OarpyError(
            f"job {row.job} is a part of a job of broker '{row.broker}', which alone changes it", hint=_UNDONE
        )
    if row.reservation:
        raise OarpyError(f"job {row.job} is a reservation", hint="oarwindow shows and changes its window")
    if not row.record:
        raise OarpyError(f"what job {row.job} asked for is not known", hint="submit it anew")


def _alike(rows: Sequence[AskedRow]) -> list[list[AskedRow]]:
    """Return the rows by submission."""
    of = defaultdict[int, list[AskedRow]](list)
    for row in rows:
        of[row.submission].append(row)
    return list(of.values())


def _alter(session: Session, members: Sequence[AskedRow], values: dict[str, Any]) -> tuple[Admitted, Stored | None]:
    """Store the new request of jobs of one submission; return what is to be charged, None if it is the same."""
    first = members[0]
    former = Submission.from_record(first.record)
    if "alternatives" in values:
        values = {**values, "alternatives": _completed(values["alternatives"], former.alternatives)}
    admitted = readmitted(session, first.record, values)
    require_no_launcher(admitted.submission)
    if admitted.requested == former.changed(groups=admitted.requested.groups):
        return admitted, None
    kind = admitted.submission.kind if session.configuration.submission.hints else None
    new = submissions.NewSubmission(admitted.submission, message(admitted), admitted.requested, kind)
    alterations.store(session.connection, [row.job for row in members], first.submission, new)
    return admitted, Stored(admitted.submission, admitted.need, [row.job for row in members])


def _completed(requested: Sequence[ResourceRequest], former: Sequence[ResourceRequest]) -> tuple[ResourceRequest, ...]:
    """Return the alternatives, completed by the resources or the walltime of the former ones."""
    if len(former) not in (1, len(requested)):
        return tuple(requested)
    return tuple(
        replace(
            request,
            groups=request.groups or before.groups,
            walltime=request.walltime or before.walltime,
            consumes=request.consumes if request.groups else before.consumes,
        )
        for request, before in zip(requested, cycle(former), strict=False)
    )


def _request_texts(session: Session, rows: Sequence[AskedRow]) -> dict[int, dict[str, str]]:
    """Return the request of each job, in words."""
    requests = details.requests_of(session.connection, {row.submission for row in rows})
    words = {number: "; ".join(map(_request_text, requested)) for number, requested in requests.items()}
    return {
        row.job: {name: _text(value) for name, value in row.fields.items()}
        | {"alternatives": words.get(row.submission, ""), "message": row.message}
        for row in rows
    }


def _compared(before: dict[str, str], after: dict[str, str]) -> list[Change]:
    names = [name for name, value in after.items() if value != before[name]]
    return [
        Change(name) if name == _OF_THE_USER else Change(_NAMES.get(name, name), before[name], after[name])
        for name in names
    ]


def _request_text(request: ResourceRequest) -> str:
    return f"{as_asked(request)},walltime={format_duration(request.walltime or 0)}"


def _text(value: object) -> str:
    return ", ".join(value) if isinstance(value, list) else "" if value is None else str(value)
