"""Acting on jobs: delete, signal, hold, release, suspend, resume.

All or nothing, except for deletion: every named job is checked first, in the transaction that acts. A job that is
unknown, another user's or in the wrong state stops the whole request before anything is written. Selectors that search
mean the caller's own jobs, unless they name users, and only jobs on which the action is possible. The user sees these
jobs before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cache

from oarpy.client.jobs.selection import JobSelection, ids_in_brief, require_known
from oarpy.client.rendering import remark
from oarpy.client.session import Session
from oarpy.model.durations import format_duration
from oarpy.model.errors import NotFound, OarpyError
from oarpy.model.job_types import known_types
from oarpy.model.states import FINAL_STATES, JobState
from oarpy.store import events
from oarpy.store.grid import door_parts
from oarpy.store.jobs import kill_requests, requests, suspensions
from oarpy.store.jobs.requests import JobHandle
from oarpy.store.platform import nodes

FORCED = "FORCE_TERMINATE_FINISHING_JOB"
"""Type of the events of a job that was ended without its nodes, and of the nodes."""

_NODE_PATIENCE = 30.0
"""Seconds for the nodes of a job to kill its remaining processes, as the launcher gives them."""


def tried(session: Session, *, dry_run: bool) -> AbstractContextManager[object]:
    """Open a transaction that is undone at the end with ``dry_run``, so that no other process ever sees it."""
    return session.connection.transaction(force_rollback=True) if dry_run else nullcontext()


@dataclass(frozen=True, slots=True)
class Deletion:
    """The jobs whose end was requested, and the complaints about other named jobs."""

    job_ids: tuple[int, ...]
    complaints: tuple[OarpyError, ...] = ()

    def raise_complaints(self) -> None:
        """Raise all complaints as one, of the kind with the highest exit status."""
        if self.complaints:
            worst = max(self.complaints, key=lambda complaint: complaint.exit_status)
            hint = "the others are deleted" if self.job_ids else worst.hint
            raise type(worst)("; ".join(complaint.message for complaint in self.complaints), hint=hint)


def delete(session: Session, selection: JobSelection) -> Deletion:
    """Ask for the end of the selected jobs. A repeated request changes nothing.

    A named job that cannot be deleted leaves the others as they are. In an array or a condition, another user's job
    stops the whole request. Raises :class:`NotAllowed` for such a job, :class:`NotFound` when there are no jobs.
    """
    with session.connection.transaction():
        if selection.array_ids or selection.last or selection.searches:
            deletion = Deletion(_ids(checked(session, selection, lambda job: None)))
        else:
            deletion = _deletable(session, selection)
        kill_requests.ask(session.connection, deletion.job_ids, session.user, f"oardel by {session.user}")
    return deletion


def _deletable(session: Session, selection: JobSelection) -> Deletion:
    jobs = {job.job_id: job for job in requests.lock(session.connection, selection.scope(live=False))}
    deletable, complaints = [], list[OarpyError]()
    for number in selection.job_ids:
        try:
            require_known(JobSelection((number,)), jobs, ())
            job = jobs[number]
            session.require_owner(job.user, f"job {number}")
            if job.state in FINAL_STATES:
                raise OarpyError(f"job {number} has already ended ({job.state})", hint="nothing was done")
            deletable.append(number)
        except OarpyError as error:
            complaints.append(error)
    return Deletion(tuple(deletable), tuple(complaints))


def send_signal(session: Session, selection: JobSelection, number: int) -> tuple[int, ...]:
    """Ask for signal ``number`` to be sent to the selected jobs, which must run; return their ids."""
    with session.connection.transaction():
        job_ids = _ids(checked(session, selection, in_state({JobState.RUNNING}, "cannot get a signal")))
        kill_requests.signal(session.connection, [(job, number) for job in job_ids], session.user, f"SIGNAL_{number}")
    return job_ids


def checkpoint(session: Session, selection: JobSelection) -> tuple[int, ...]:
    """Ask for each selected job, which must run, to get its own checkpoint signal; return their ids."""
    with session.connection.transaction():
        jobs = checked(session, selection, in_state({JobState.RUNNING}, "cannot be checkpointed"))
        signals = [(job.job_id, job.checkpoint_signal) for job in jobs]
        kill_requests.signal(session.connection, signals, session.user, "CHECKPOINT")
    return _ids(jobs)


def toggle_besteffort(session: Session, selection: JobSelection) -> dict[int, bool]:
    """Turn the selected jobs, which must run, into best-effort ones or back; return which are best-effort now.

    Raises :class:`NotAllowed` for a user who is no admin.
    """
    session.require_admin("turn running jobs into best-effort ones or back")
    with session.connection.transaction():
        jobs = checked(session, selection, in_state({JobState.RUNNING}, "cannot become best-effort or cease to be"))
        usual = session.configuration.submission.default_queue
        toggled = requests.toggle_besteffort(session.connection, _ids(jobs), usual)
        for wanted, event in ((True, "ADD_BESTEFFORT_TYPE"), (False, "REMOVE_BESTEFFORT_TYPE")):
            changed = [job for job, besteffort in toggled.items() if besteffort is wanted]
            events.log_request(session.connection, changed, session.user, event)
    return dict(sorted(toggled.items()))


def force_termination(session: Session, selection: JobSelection) -> tuple[int, ...]:
    """End the selected jobs, which have been Finishing for too long, without their nodes; return their ids.

    The nodes are Suspected, as processes of the jobs may be left there. Raises :class:`NotAllowed` for a user who is no
    admin.
    """
    session.require_admin("end jobs without their nodes")
    connection, patience = session.connection, _end_patience(session)
    with connection.transaction():
        jobs = _ids(checked(session, selection, in_state({JobState.FINISHING}, "not Finishing")))
        finishing = kill_requests.finishing(connection, jobs)
        for job, seconds, _ in finishing:
            if seconds < patience:
                left = format_duration(math.ceil(patience - seconds))
                raise OarpyError(f"job {job} is Finishing, for {seconds:.0f} s only", hint=f"try again in {left}")
        kill_requests.close(connection, jobs)
        events.log_request(connection, jobs, session.user, FORCED)
        faults = [nodes.Fault(node, FORCED, job, f"did not end job {job}") for job, _, on in finishing for node in on]
        nodes.blame(connection, faults)
    return jobs


def _end_patience(session: Session) -> float:
    """Return for how many seconds a job may be Finishing: two rounds of asking its nodes, and the site's scripts."""
    jobs = session.configuration.jobs
    return 2 * (_NODE_PATIENCE + jobs.kill_grace) + jobs.script_timeout + jobs.server_script_timeout


def hold(session: Session, selection: JobSelection, *, running: bool = False) -> tuple[int, ...]:
    """Keep the selected jobs, which must wait, from being scheduled; return their ids.

    With ``running``, running jobs are suspended; ``jobs.users_may_suspend`` says whether users may do that.
    """
    if not running:
        allowed = in_state(
            {JobState.WAITING, JobState.HOLD},
            "cannot be held: only a waiting job can; oarhold -r suspends one that runs",
        )
        return _move(session, selection, allowed, JobState.WAITING, JobState.HOLD, "HOLD_WAITING_JOB")
    with session.connection.transaction():
        jobs = checked(session, selection, lambda job: _why_not_suspended(session, job))
        waiting, active, resuming = (
            [job.job_id for job in jobs if job.state == state]
            for state in (JobState.WAITING, JobState.RUNNING, JobState.RESUMING)
        )
        requests.move(session.connection, waiting, JobState.WAITING, JobState.HOLD)
        requests.move(session.connection, resuming, JobState.RESUMING, JobState.SUSPENDED)
        suspensions.ask(session.connection, active, session.user)
        events.log_request(session.connection, waiting, session.user, "HOLD_WAITING_JOB")
        events.log_request(session.connection, [*active, *resuming], session.user, "HOLD_RUNNING_JOB")
    return _ids(jobs)


def resume(session: Session, selection: JobSelection) -> tuple[int, ...]:
    """Resume the selected jobs, which must be held or suspended; return their ids."""
    with session.connection.transaction():
        undecided = cache(lambda: door_parts.undecided_jobs(session.connection))  # read when the jobs are locked
        jobs = checked(session, selection, lambda job: _why_not_resumed(session, job, undecided))
        held, suspended = (
            [job.job_id for job in jobs if job.state == state] for state in (JobState.HOLD, JobState.SUSPENDED)
        )
        requests.move(session.connection, held, JobState.HOLD, JobState.WAITING)
        requests.move(session.connection, suspended, JobState.SUSPENDED, JobState.RESUMING)
        events.log_request(session.connection, [*held, *suspended], session.user, "RESUME_JOB")
    return _ids(jobs)


_HOLDABLE = frozenset({JobState.WAITING, JobState.HOLD, JobState.RUNNING, JobState.SUSPENDED, JobState.RESUMING})
_RESUMABLE = frozenset({JobState.WAITING, JobState.HOLD, JobState.SUSPENDED, JobState.RESUMING})


def _why_not_suspended(session: Session, job: JobHandle) -> str | None:
    if job.state not in _HOLDABLE:
        return f"job {job.job_id} is {job.state} and cannot be held: only a waiting or a running job can"
    if job.state in (JobState.WAITING, JobState.HOLD):
        return None
    _require_may_suspend(session)
    named = sorted(kind.name for kind in known_types(job.types).values() if not kind.suspendable)
    return f"job {job.job_id} has the type {named[0]} and cannot be suspended" if named else None


def _why_not_resumed(session: Session, job: JobHandle, undecided: Callable[[], Mapping[int, str]]) -> str | None:
    if job.state not in _RESUMABLE:
        return f"job {job.job_id} is {job.state} and cannot be resumed: only a held or a suspended job can"
    if job.state == JobState.HOLD and job.job_id in undecided():
        return f"job {job.job_id} is held for broker '{undecided()[job.job_id]}', which decides where it runs"
    if job.state in (JobState.SUSPENDED, JobState.RESUMING):
        _require_may_suspend(session)
    return None


def _require_may_suspend(session: Session) -> None:
    if not session.configuration.jobs.users_may_suspend:
        session.require_admin("suspend and resume running jobs here")


Check = Callable[[JobHandle], "str | None"]
"""Says why a job cannot be acted on, None if it can."""


def in_state(allowed: Collection[JobState], complaint: str) -> Check:
    """Return the check that a job is in one of these states; the complaint follows its state and ``and``."""
    return lambda job: None if job.state in allowed else f"job {job.job_id} is {job.state} and {complaint}"


def _move(
    session: Session, selection: JobSelection, check: Check, source: JobState, target: JobState, event: str
) -> tuple[int, ...]:
    with session.connection.transaction():
        jobs = checked(session, selection, check)
        moving = [job.job_id for job in jobs if job.state == source]
        requests.move(session.connection, moving, source, target)
        events.log_request(session.connection, moving, session.user, event)
    return _ids(jobs)


def checked(
    session: Session, selection: JobSelection, check: Check, *, arrays_in_part: bool = False
) -> tuple[JobHandle, ...]:
    """Lock the selected jobs and return them, or raise the error of the first job on which the action is impossible.

    Named jobs must all exist and be live; of arrays and conditions the live jobs are meant. With ``arrays_in_part``
    only the jobs of arrays are meant on which the action is possible.
    """
    selected = _own(session, selection.resolved(session))
    jobs = requests.lock(session.connection, selected.scope(live=selected.searches))
    _require_all_found(selected, jobs)
    for job in jobs:
        session.require_owner(job.user, f"job {job.job_id}")
    named = set(selected.job_ids)
    live = tuple(job for job in jobs if job.state not in FINAL_STATES)
    for job in jobs:
        if job.state in FINAL_STATES and job.job_id in named:
            raise OarpyError(f"job {job.job_id} has already ended ({job.state})", hint="nothing was done")
    if not live:
        ended = f"job {jobs[0].job_id} has" if selection.last and len(jobs) == 1 else "every job of the array has"
        raise OarpyError(f"{ended} already ended", hint="nothing was done")
    fit = tuple(job for job in live if check(job) is None)
    needed = [job for job in live if job.job_id in named] if arrays_in_part and selected.array_ids else live
    if not fit or (not set(needed) <= set(fit) and not _is_search(selected)):
        complaints = (complaint for job in live if (complaint := check(job)))
        raise OarpyError(next(complaints), hint="nothing was done")
    if selection.last or _is_search(selected):
        remark(f"{len(fit)} job{'s' if len(fit) > 1 else ''} meant: {ids_in_brief([job.job_id for job in fit])}")
    return fit


def _is_search(selection: JobSelection) -> bool:
    """Tell whether selectors search for the jobs; a condition in SQL is taken literally."""
    return selection.searches and selection.condition is None


def _own(session: Session, selection: JobSelection) -> JobSelection:
    return replace(selection, users=(session.user,)) if _is_search(selection) and not selection.users else selection


def _require_all_found(selection: JobSelection, jobs: Sequence[JobHandle]) -> None:
    if selection.searches:
        if not jobs:
            raise NotFound(
                "no live job meets the condition" if selection.condition else "no live job of yours is meant",
                hint=f"oarstat {'--sql ' if selection.condition else ''}shows what does",
            )
        return
    require_known(selection, {job.job_id for job in jobs}, {job.array_id for job in jobs})


def _ids(jobs: Sequence[JobHandle]) -> tuple[int, ...]:
    return tuple(job.job_id for job in jobs)
