"""``oarwindow``: the window of a reservation that has not begun, and asking for another."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from oarpy.client.caller import current
from oarpy.client.pass_answers import wait_for
from oarpy.client.rendering import JsonValue, joined_date, local_date
from oarpy.client.session import Session
from oarpy.model.dates import FARTHEST, read_date
from oarpy.model.errors import AdmissionRefused, NotFound, OarpyError, Unreachable, UsageError
from oarpy.model.windows import read_fix
from oarpy.store.jobs import windows
from oarpy.store.jobs.windows import OfferRow, ReservationRow


@dataclass(frozen=True, slots=True)
class WindowChange:
    """The window that is asked for, in epoch seconds, None where it stays; ``fix`` lets the job move no more.

    If the window cannot be had, the job goes to the offered start to ``take``.
    """

    ready: float | None = None
    deadline: float | None = None
    fix: bool = False
    take: float | None = None


class WindowRefused(AdmissionRefused):
    """The other window cannot be had: all is as before; ``offers`` are starts that the ``reservation`` could have."""

    def __init__(self, message: str, reservation: ReservationRow, offers: tuple[OfferRow, ...]) -> None:
        super().__init__(message, hint="all stays as it was")
        self.reservation = reservation
        self.offers = offers


def show(session: Session, job_id: int) -> ReservationRow:
    """Return the window of a reservation. Raises :class:`NotFound`, :class:`NotAllowed`, :class:`OarpyError`."""
    with session.connection.transaction():
        return _reservation(session, job_id)


def read_change(ready: str | None, deadline: str | None, *, fix: bool) -> WindowChange:
    """Read the words after ``--from`` and ``--until``. Raises :class:`UsageError`."""
    now = datetime.now().astimezone()
    first, last = (None if text is None else read_date(text, now).timestamp() for text in (ready, deadline))
    return WindowChange(first, last, fix)


def change(session: Session, job_id: int, wanted: WindowChange, timeout: float) -> ReservationRow:
    """Give a reservation another window, or fix it; return how it stands then.

    A wider one is given at once, for others a pass is waited for. Raises as :func:`show`, :class:`UsageError` for a
    window that is too short, :class:`WindowRefused`, and :class:`Unreachable` when no pass answers in ``timeout``.
    """
    with session.connection.transaction():
        row = _reservation(session, job_id)
        if row.broker is not None:
            raise OarpyError(
                f"job {job_id} is a part of a job of broker '{row.broker}', which alone moves it",
                hint="oargridstat shows the whole",
            )
        if wanted.ready is None and wanted.deadline is None:
            windows.fix(session.connection, [row.job])
            return _reservation(session, job_id)
        ready = row.ready if wanted.ready is None else wanted.ready
        deadline = row.deadline if wanted.deadline is None else wanted.deadline
        if wanted.take is None:
            _check(row, ready, deadline)
        usual = read_fix(session.configuration.scheduler.reservation_fix)
        wider = (ready or 0) <= (row.ready or 0) and deadline >= row.deadline
        windows.ask(session.connection, row, (ready, deadline), usual, at_once=wider, take=wanted.take)
    if not wider:
        _wait(session, job_id, timeout)
    with session.connection.transaction():
        present = _reservation(session, job_id)
        granted = (present.ready, present.deadline) in ((ready, deadline), _place(wanted.take, row.walltime))
        if granted and wanted.fix:
            windows.fix(session.connection, [row.job])
            present = _reservation(session, job_id)
        elif not granted and row.strict:
            windows.stay_strict(session.connection, row)
    if not granted:
        offers = tuple(windows.offers(session.connection, [job_id]))
        raise WindowRefused(f"job {job_id} cannot have the window until {local_date(deadline)}", present, offers)
    return present


def record(row: ReservationRow) -> dict[str, JsonValue]:
    """Return the JSON object of ``oarwindow -J``."""
    return {
        "job_id": row.job,
        "ready": None if row.ready is None else int(row.ready),
        "deadline": int(row.deadline),
        "start": int(row.start),
        "state": row.state,
    }


def as_text(row: ReservationRow) -> str:
    """Return the line of ``oarwindow``."""
    ready = "-" if row.ready is None else joined_date(row.ready)
    deadline, start = joined_date(row.deadline), joined_date(row.start)
    return f"{row.job} ready={ready} deadline={deadline} start={start} state={row.state}\n"


def _reservation(session: Session, job_id: int) -> ReservationRow:
    row = windows.reservation(session.connection, job_id, session.configuration.scheduler.reservation_notice)
    if row is None:
        raise NotFound(f"job {job_id} does not exist", hint="oarstat lists the jobs")
    session.require_owner(row.user, f"job {job_id}")
    if row.reservation_state is None:
        raise OarpyError(f"job {job_id} is no reservation", hint="oarsub -r START --until END reserves a window")
    if row.of_bag:
        raise OarpyError(f"job {job_id} is a task of a bag, which moves it", hint="oarstat --bag ID shows the bag")
    if row.job_state not in ("Waiting", "Hold") or row.reservation_state != "Scheduled":
        raise OarpyError(f"job {job_id} is {row.job_state}: only an accepted reservation that waits has a window")
    return row


def _place(start: float | None, walltime: float) -> tuple[float, float] | None:
    """Return the window of just a start and the walltime."""
    return None if start is None else (start, start + walltime)


def _check(row: ReservationRow, ready: float | None, deadline: float) -> None:
    now = datetime.now(UTC).timestamp()
    if deadline < max(ready or now, now) + row.walltime:
        raise UsageError(
            f"the window ends at {local_date(deadline)}, before the start and the walltime", hint="give a later --until"
        )
    if deadline > now + FARTHEST.total_seconds():
        raise UsageError(f"the window ends at {local_date(deadline)}, too far away", hint="at most 10 years")


def _wait(session: Session, job_id: int, timeout: float) -> None:
    """Return when a pass has answered."""
    connection = session.connection
    with current().waiting():
        answered = wait_for(connection, lambda: None if windows.is_asked(connection, job_id) else True, timeout)
    if answered is None:
        raise Unreachable(
            f"no server has answered for job {job_id} within {timeout:g} s",
            hint="the question stays: oarwindow tells",
        )
