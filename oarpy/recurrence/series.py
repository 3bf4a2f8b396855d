"""Series of recurring jobs as commands handle them, and the submission of a due time."""

from __future__ import annotations

import pwd
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from oarpy.client.caller import ProcessCaller, acting_for
from oarpy.client.session import Session, is_administrator
from oarpy.client.submission import job_keys
from oarpy.client.submission.options import Options
from oarpy.client.submission.site import unix_groups
from oarpy.client.submission.submission import (
    admit_drafted,
    as_submitted,
    drafted,
    message,
    require_no_launcher,
    store,
    submitter,
    unscheduled,
)
from oarpy.configuration import Configuration
from oarpy.model.errors import AdmissionRefused, NotAllowed, NotFound, OarpyError, UsageError
from oarpy.model.submission import OPTIONS, Submission
from oarpy.recurrence.rules import one_form, read_rule
from oarpy.store.database import Connection
from oarpy.store.jobs import recurring
from oarpy.store.jobs.recurring import DueSeries, SeriesRow

_ONCE = {
    "interactive": "a user waits for an interactive job: leave --every or -I out",
    "reservation": "each job starts when it can after its due time: leave -r out",
    "until": "each job starts when it can after its due time: leave --until out",
    "bag": "--array N submits N jobs at each due time",
    "processes": "submit it by itself: its map is made once",
    "key_file": "-k makes a key for each job",
    "key_text": "-k makes a key for each job",
    "key_export": "oarsh finds the key of each job by itself: leave -e out",
}
"""Fields of a submission that is made once, with the cure."""


class NoAccount(NotAllowed):
    """The system does not know the user of a series: there is no account, or who knows accounts does not answer."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A series that was begun, its rule and first due time, with warnings, notes and the trace of admission rules."""

    number: int
    rule: str
    due: datetime
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    trace: tuple[str, ...]


def begin(
    session: Session, options: Options, every: str, arguments: Sequence[str], environment: Mapping[str, str]
) -> Begun:
    """Store a series for the user of ``session``, after the checks of a submission now.

    Raises :class:`OarpyError` as a submission does, and for a rule or options that fit no series; nothing is stored.
    """
    limit = session.configuration.submission.recurring_jobs_per_user
    if not limit:
        raise AdmissionRefused("no recurring jobs here", hint="submission.recurring_jobs_per_user is 0")
    rule = read_rule(every)
    caller = submitter(session, environment, arguments)
    requested, warnings = drafted(session, options, caller)
    _check(requested)
    accepted = admit_drafted(session, requested, warnings, caller.now)
    require_no_launcher(accepted.submission)
    due, text = rule.after(caller.now, caller.now), one_form(every)
    with session.connection.transaction():
        if recurring.count_of_user(session.connection, session.user) >= limit:
            raise AdmissionRefused(
                f"'{session.user}' has {limit} recurring jobs",
                hint="oardel --recurring ends those that are of no use (submission.recurring_jobs_per_user)",
            )
        number = recurring.insert(session.connection, session.user, text, requested.to_record(), due)
    submitted = as_submitted(accepted, (0,), unscheduled(session))
    return Begun(number, text, due, submitted.warnings, submitted.notes, submitted.trace)


def _check(requested: Submission) -> None:
    """Raise :class:`UsageError` for a submission that cannot be repeated."""
    for name, cure in _ONCE.items():
        if getattr(requested, name):
            raise UsageError(f"--every with {OPTIONS[name].words[0]}", hint=cure)


def submit(
    connection: Connection, configuration: Configuration, series: DueSeries, following: datetime, now: datetime
) -> int | None:
    """Submit the jobs of a due time as the user of the series would; return the first.

    One transaction stores them and has the series wait for the ``following`` due time. None: the due time was taken, or
    the series ended. Raises :class:`OarpyError` for a submission that is refused, and then nothing is changed.
    """
    session = _session(connection, configuration, series.user)
    requested = Submission.from_record({**series.submission, "user": series.user})
    requested = requested.changed(groups=unix_groups(series.user))
    with acting_for(_Owner(session.uid)):
        accepted = admit_drafted(session, requested, (), now)
    require_no_launcher(accepted.submission)
    pairs = job_keys.key_pairs(accepted.submission, {})
    kind = accepted.submission.kind if configuration.submission.hints else None
    with connection.transaction():
        if not recurring.take(connection, series, following):
            return None
        job_ids = store(session, accepted, message(accepted), kind)
        job_keys.store(connection, accepted.submission, job_ids, pairs)
        recurring.note_submitted(connection, series, job_ids[0])
    return job_ids[0]


class _Owner(ProcessCaller):
    """The user of a series. Only processes of the user may see its folders; the node says what is missing there."""

    environment: Mapping[str, str] = {}

    def __init__(self, uid: int) -> None:
        self._uid = uid

    @property
    def uid(self) -> int:
        """The user's id."""
        return self._uid

    def has_directory(self, path: str) -> bool:
        """Take it for granted."""
        return True

    def has_program(self, name: str) -> bool:
        """Take it for granted, too."""
        return True


def _session(connection: Connection, configuration: Configuration, user: str) -> Session:
    """Return a session on behalf of a user. Raises :class:`NoAccount`."""
    try:
        uid = pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        raise NoAccount(f"user '{user}' has no account on this machine", hint="ask an admin to add it") from None
    return Session(connection, configuration, user, uid, is_administrator(configuration, user, uid))


def shown(session: Session, numbers: Sequence[int], user: str | None) -> list[SeriesRow]:
    """Return these series, ended or not, or all that go on; of one ``user``, if one is given.

    Raises :class:`NotFound` for a number without a series.
    """
    rows = recurring.series(session.connection, numbers or None, user)
    if missing := set(numbers) - {row.number for row in rows}:
        raise _unknown(min(missing))
    return rows


def end(session: Session, numbers: Sequence[int]) -> None:
    """End series; their jobs stay. All or none.

    Raises :class:`NotFound`, :class:`NotAllowed` for another user's series, :class:`OarpyError` for an ended one.
    """
    with session.connection.transaction():
        recurring.lock(session.connection, numbers)
        rows = {row.number: row for row in recurring.series(session.connection, numbers, None)}
        for number in numbers:
            if number not in rows:
                raise _unknown(number)
            session.require_owner(rows[number].user, f"recurring job {number}")
            if rows[number].ended is not None:
                raise OarpyError(
                    f"recurring job {number} was ended by '{rows[number].ended_by}'", hint="nothing was done"
                )
        recurring.end(session.connection, numbers, session.user)


def _unknown(number: int) -> NotFound:
    return NotFound(f"recurring job {number} does not exist", hint="oarstat --recurring shows those that go on")
