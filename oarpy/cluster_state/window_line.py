"""The windows of reservations for a snapshot, and whether movable reservations must be placed anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from oarpy.configuration import SchedulerSettings
from oarpy.model.windows import AskedWindow
from oarpy.scheduler.snapshot import Snapshot, WaitingJob
from oarpy.scheduler.windows.reservation_windows import ReservationWindow, Windows
from oarpy.store.database import Connection
from oarpy.store.passes import window_moves
from oarpy.store.passes.window_moves import WindowRow


class WindowLine:
    """Reads the windows, and remembers the holders of resources in the last pass.

    A job that left before its expected end has left room, and any change of the platform may add or take room. In the
    first pass of a server, which ``begin`` announces, the past is not known.
    """

    def __init__(self, settings: SchedulerSettings) -> None:
        self._settings = settings
        self._last: Snapshot | None = None
        self._begins = False

    def begin(self) -> None:
        """Note that the next reading is that of the first pass of a server."""
        self._begins = True

    def read(self, connection: Connection, snapshot: Snapshot) -> Windows | None:
        """Return the windows, None where no reservation has one or waits for its answer."""
        new = any(job.reservation is not None for job in snapshot.waiting)
        if not new and not snapshot.reservations:
            return None
        rows = window_moves.live(connection)
        if not rows and not new:
            return None
        windows = {row.job: _window(row) for row in rows}
        return windows_of(self._settings, windows, replan=bool(windows) and self._is_other(snapshot, windows))

    def committed(self, snapshot: Snapshot) -> None:
        """Note that the decisions about ``snapshot`` are written."""
        self._last = snapshot

    def _is_other(self, snapshot: Snapshot, windows: Mapping[int, ReservationWindow]) -> bool:
        """Tell whether resources became free or were lost unexpectedly, or a window was changed by hand."""
        for reservation in snapshot.reservations:
            window = windows.get(reservation.job.id)
            if (
                window is not None
                and not (window.ready or 0) <= reservation.start <= window.deadline - reservation.walltime
            ):
                return True
        if self._last is None:
            return self._begins
        return has_other_room(self._last, snapshot)


def has_other_room(last: Snapshot, snapshot: Snapshot) -> bool:
    """Tell whether resources became free or were lost unexpectedly since the last pass."""
    if last.platform is not snapshot.platform:
        return True
    ends = {job.id: job.end for job in snapshot.holding}
    running = (job for job in last.holding if not job.besteffort and job.end > snapshot.now)
    return any(ends.get(job.id, snapshot.now) < job.end for job in running)


def _window(row: WindowRow) -> ReservationWindow:
    wanted = None if row.asked_deadline is None else (row.asked_ready, row.asked_deadline)
    return ReservationWindow(
        row.deadline, row.ready, row.fixed, row.fix_after, row.farthest, wanted, row.take, row.slack_percent
    )


def windows_of(
    settings: SchedulerSettings, windows: Mapping[int, ReservationWindow], *, replan: bool = False
) -> Windows:
    """Return windows with the rules of the site."""
    return Windows(
        windows,
        settings.reservation_order,
        settings.offers_limit,
        settings.options_tried,
        settings.reservation_notice,
        replan,
    )


def with_windows(
    settings: SchedulerSettings, snapshot: Snapshot, jobs: Iterable[WaitingJob], wanted: AskedWindow | None
) -> Snapshot:
    """Return ``snapshot`` in which new reservations ask for a window, or for their date alone."""
    known = dict(snapshot.windows.of) if snapshot.windows else {}
    if wanted is not None:
        ready, deadline = wanted.ready.timestamp(), wanted.deadline.timestamp()
        window = ReservationWindow(
            deadline,
            ready,
            fix_after=wanted.fix_after,
            farthest=wanted.farthest,
            slack_percent=wanted.slack_percent,
        )
        known |= {job.id: window for job in jobs}
    return replace(snapshot, windows=windows_of(settings, known))
