"""``oarwalltime``: the possible changes of a running job's walltime, and requests for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from oarpy.client.rendering import JsonValue
from oarpy.client.session import Session
from oarpy.configuration import Walltime
from oarpy.model.durations import format_duration, parse_duration
from oarpy.model.errors import NotAllowed, NotFound, OarpyError, UsageError
from oarpy.model.job_types import read_types
from oarpy.model.setting_values import UNLIMITED, limit_of
from oarpy.model.states import JobState
from oarpy.store.jobs import walltime_changes
from oarpy.store.jobs.walltime_changes import PendingChange, RequestedChange

_EVERYBODY = "*"


@dataclass(frozen=True, slots=True)
class WalltimeQuestion:
    """The user's words: ``amount`` as ``[+-]h:m:s``, and the options; ``timeout`` in seconds, None by default."""

    amount: str
    force: bool = False
    whole: bool = False
    delay_next_jobs: bool = False
    timeout: int | None = None


@dataclass(frozen=True, slots=True)
class WalltimeDocument:
    """The walltime of a job and its changes; durations in seconds, null for no limit."""

    job: int
    state: str
    walltime: int | None
    possible_increase: int | None
    """The most by which the walltime may grow."""
    why_not: str
    """Why that is 0."""
    granted: int
    pending: int
    forced: bool
    whole: bool
    delay_next_jobs: bool

    def text(self) -> str:
        """Return the lines for people."""
        if self.why_not:
            possible = f"NO ({self.why_not})"
        elif self.possible_increase is None:
            possible = "UNLIMITED"
        else:
            possible = format_duration(self.possible_increase)
        options = ""
        if self.pending:
            options = with_options(forced=self.forced, whole=self.whole, delay_next_jobs=self.delay_next_jobs)
        walltime = "none yet" if self.walltime is None else format_duration(self.walltime)
        return (
            f"Walltime change status for job {self.job} (job is {self.state.lower()}):\n"
            f"  Current walltime:     {walltime:>9}\n"
            f"  Possible increase:    {possible:>9}\n"
            f"  Already granted:      {signed(self.granted):>9}\n"
            f"  Pending/unsatisfied:  {signed(self.pending):>9}{options}\n"
        )

    def data(self) -> dict[str, JsonValue]:
        """Return the answer as data for programs."""
        return asdict(self)


def show(session: Session, job_id: int) -> WalltimeDocument:
    """Return how the walltime of a job stands. Raises :class:`NotFound`, :class:`NotAllowed`."""
    with session.connection.transaction():
        job = _job(session, job_id, locked=False)
    possible, why_not = _possible(job, session.configuration.walltime, exempt=session.is_admin)
    return WalltimeDocument(
        job.job,
        job.state,
        job.walltime,
        possible,
        why_not,
        job.granted,
        job.pending,
        job.forced,
        job.whole,
        job.delay_next_jobs,
    )


def change(session: Session, job_id: int, question: WalltimeQuestion) -> int:
    """Ask for a change, which replaces the request before; return the seconds that are pending now.

    Raises :class:`UsageError`, :class:`NotFound`, :class:`NotAllowed`, :class:`OarpyError` when the job does not run.
    """
    sign, amount = _amount(question.amount)
    rules = session.configuration.walltime
    with session.connection.transaction():
        job = _job(session, job_id, locked=True)
        if not rules.enabled:
            raise NotAllowed("walltime changes are not enabled here", hint="walltime.enabled = true enables them")
        if job.state != JobState.RUNNING or job.walltime is None:
            raise OarpyError(f"job {job_id} is {job.state}: only the walltime of a running job can be changed")
        seconds = sign * amount if sign else amount - job.walltime
        if not session.is_admin:
            _check(session, job, question, seconds)
        timeout = rules.timeout if question.timeout is None else question.timeout
        request = RequestedChange(
            job_id,
            seconds,
            session.user,
            question.force,
            question.whole,
            question.delay_next_jobs,
            timeout if seconds else 0,
        )
        _require_sense(job, seconds)
        walltime_changes.ask(session.connection, request, _text(request))
    return seconds


def _job(session: Session, job_id: int, *, locked: bool) -> PendingChange:
    job = walltime_changes.one(session.connection, job_id, locked=locked)
    if job is None:
        raise NotFound(f"job {job_id} does not exist", hint="oarstat lists the jobs")
    session.require_owner(job.user, f"job {job_id}")
    return job


def _amount(text: str) -> tuple[int, int]:
    """Return the sign (0: absolute) and the seconds."""
    text = text.strip()
    sign = {"+": 1, "-": -1}.get(text[:1], 0)
    rest = text[1:].strip() if sign else text
    if sign and rest and not rest.strip("0:"):
        return sign, 0
    return sign, parse_duration(rest)


def _possible(job: PendingChange, rules: Walltime, *, exempt: bool) -> tuple[int | None, str]:
    if not rules.enabled:
        return 0, "walltime changes are not enabled"
    if job.state != JobState.RUNNING or job.walltime is None:
        return 0, "not running"
    if exempt:
        return None, ""
    first = job.walltime - job.granted
    if job.walltime < limit_of(rules.minimum, job.queue, first):
        return 0, "its walltime is too short"
    most = limit_of(rules.max_increase, job.queue, first)
    return (None, "") if most == UNLIMITED else (max(most - job.granted, 0), "")


def _check(session: Session, job: PendingChange, question: WalltimeQuestion, seconds: int) -> None:
    """Raise unless the user may ask for this; admins may ask for anything."""
    rules = session.configuration.walltime
    if seconds < 0 and not rules.reduction:
        raise NotAllowed("walltimes cannot be made shorter here", hint="oardel ends a job")
    if seconds > 0:
        possible, why_not = _possible(job, rules, exempt=False)
        if why_not:
            raise NotAllowed(f"the walltime of job {job.job} cannot grow: {why_not}")
        if possible is not None and seconds > possible:
            raise NotAllowed(
                f"the walltime of job {job.job} can grow by {format_duration(possible)} at most, "
                f"not by {format_duration(seconds)}"
            )
    for wanted, users, option in (
        (question.force, rules.users_to_force, "--force"),
        (question.delay_next_jobs, rules.users_to_delay_next_jobs, "--delay-next-jobs"),
    ):
        if wanted and not _named(session.user, users):
            raise NotAllowed(f"'{session.user}' may not use {option}", hint="an admin may")


def _named(user: str, users: Sequence[str]) -> bool:
    return _EVERYBODY in users or user in users


def _require_sense(job: PendingChange, seconds: int) -> None:
    if seconds < 0 and read_types(job.types).containers:
        raise OarpyError(f"job {job.job} is a container: its walltime cannot be made shorter")
    if job.walltime is not None and job.walltime + seconds <= 0:
        raise UsageError(
            f"job {job.job} has a walltime of {format_duration(job.walltime)}, which cannot be made shorter by "
            f"{format_duration(-seconds)}",
            hint="oardel ends a job",
        )


def _text(request: RequestedChange) -> str:
    if not request.seconds:
        return f"asked by {request.by}: nothing is pending any more"
    return f"asked by {request.by}: {signed(request.seconds)}" + with_options(
        forced=request.forced, whole=request.whole, delay_next_jobs=request.delay_next_jobs
    )


def with_options(*, forced: bool, whole: bool, delay_next_jobs: bool) -> str:
    """Return how a change was asked for, in brackets after a blank; empty when nothing special was."""
    options = [
        option
        for wanted, option in (
            (forced, "forced"),
            (whole, "whole"),
            (delay_next_jobs, "may delay next jobs"),
        )
        if wanted
    ]
    return f" ({', '.join(options)})" if options else ""


def signed(seconds: int) -> str:
    """Write a change of a walltime: ``+1:0:0``, ``-0:30:0``, ``0:0:0``."""
    sign = "+" if seconds > 0 else "-" if seconds < 0 else ""
    return sign + format_duration(abs(seconds))
