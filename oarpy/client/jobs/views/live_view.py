"""``oarstat --top``: the list of jobs, renewed when something happens, until its user presses q or ctrl-C."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from oarpy.client.caller import Size, Streams, current
from oarpy.client.jobs import job_table
from oarpy.client.rendering import Look, cut, local_date
from oarpy.client.session import Session, open_session
from oarpy.model.errors import UsageError
from oarpy.model.states import JobState
from oarpy.store.jobs import job_listing
from oarpy.store.jobs.job_listing import ListedJob
from oarpy.store.jobs.scope import JobScope
from oarpy.store.notifications import EVENTS, Ear
from oarpy.store.platform import resources
from oarpy.transport.wakeup import readable

_PERIOD = 10.0
"""Seconds after which durations are renewed even without a notification."""

_LOOK_PERIOD = 15.0
"""Seconds between two looks of a command that may keep no connection to the database meanwhile."""

_PAUSE = 0.5
"""Seconds between two looks however many notifications arrive."""

_FULL_SCREEN, _LEAVE_SCREEN = b"\x1b[?1049h\x1b[?25l", b"\x1b[?25h\x1b[?1049l"
_FROM_TOP, _REST_OF_LINE, _REST = "\x1b[H", "\x1b[K", "\x1b[J"
_LEAVE = (b"q", b"Q", b"\x03")

_ORDER = "FRLSWHET"
"""Letters of states, as they come in the list."""

Find = Callable[[Session], JobScope]
"""Returns which jobs are shown."""


def frame(session: Session, scope: JobScope, seen: Look, rows: int | None = None) -> list[str]:
    """Return the lines to be seen: a summary, and as many jobs as ``rows`` lines have room for (None: all)."""
    jobs = sorted(job_listing.listing(session.connection, scope), key=_order)
    now = job_listing.database_time(session.connection)
    held, total = resources.occupation(session.connection)
    letters = Counter(JobState(job.state).letter for job in jobs)
    counts = "  ".join(f"{letter} {letters[letter]}" for letter in _ORDER if letters[letter])
    head = f"{local_date(now)}  {held} of {total} resources held  {len(jobs)} jobs  {counts}".rstrip()
    room = len(jobs) if rows is None else max(0, rows - 4)
    shown = jobs[:room] if len(jobs) <= room else jobs[: max(0, room - 1)]
    lines = [head, *job_table.job_table(shown, job_table.DEFAULT_FORMAT, now, seen).text(seen).splitlines()]
    if len(shown) < len(jobs):
        lines.append(f"... and {len(jobs) - len(shown)} more")
    return [lines[0] if seen.columns is None else cut(lines[0], seen.columns), *lines[1:]]


def _order(job: ListedJob) -> tuple[int, float, int]:
    return _ORDER.index(JobState(job.state).letter), job.predicted or 0, job.job_id


def follow(find: Find, seen: Look) -> None:
    """Show the list on the caller's terminal until they leave; raise :class:`UsageError` when it is none."""
    with current().attached() as streams, _screen(streams) as size:
        view = _LiveView(streams, size, seen)
        while view.open:
            keeps = current().may_keep_connection()
            with open_session("oarstat") as session:
                ear = Ear(session.connection, EVENTS)
                scope = find(session)
                view.draw(frame(session, scope, view.look, view.size.rows))
                while keeps and view.open:
                    view.wait(_PERIOD, ear)
                    ear.drain()
                    if view.open:
                        view.draw(frame(session, scope, view.look, view.size.rows))
                        view.wait(_PAUSE)
            if view.open:
                view.wait(_LOOK_PERIOD)


@contextmanager
def _screen(streams: Streams) -> Iterator[Size]:
    size = streams.begin_input(terminal=True)
    if size is None:
        streams.end_input()
        raise UsageError("--top needs a terminal", hint="--top --once prints the list once")
    streams.send(1, _FULL_SCREEN)
    try:
        yield size
    finally:
        streams.send(1, _LEAVE_SCREEN)
        streams.end_input()


class _LiveView:
    """The content of the terminal, and the input of its user; ``open`` until they leave."""

    def __init__(self, streams: Streams, size: Size, wish: Look) -> None:
        self.open = True
        self.size = size
        self._streams = streams
        self._wish = wish
        self._take(streams.take_early())

    @property
    def look(self) -> Look:
        """Return the present size and abilities of the terminal."""
        return Look(self.size.columns, self._wish.colours, self._wish.ellipsis)

    def draw(self, lines: Sequence[str]) -> None:
        """Put lines on the screen, over the lines before."""
        shown = "".join(f"{line}{_REST_OF_LINE}\r\n" for line in lines[: self.size.rows - 1])
        self._streams.send(1, f"{_FROM_TOP}{shown}{_REST}q ends{_REST_OF_LINE}".encode())

    def wait(self, seconds: float, ear: Ear | None = None) -> None:
        """Return after ``seconds``, at once when ``ear`` gets a notification, the size changes or the user leaves."""
        until = time.monotonic() + seconds
        files = [] if ear is None else [ear.fileno()]
        while self.open and (left := until - time.monotonic()) > 0:
            heard = [] if self._streams.ended else [self._streams.fileno()]
            ready = readable([*files, *heard], left)
            if heard and heard[0] in ready and self._take(self._streams.receive()):
                return
            if ear is not None and ear.fileno() in ready:
                ear.listen()
                if ear.heard:
                    return

    def _take(self, pieces: Sequence[bytes | Size]) -> bool:
        """Process keys and changes of size; return whether to draw the screen again."""
        before = self.size
        for piece in pieces:
            if isinstance(piece, Size):
                self.size = piece if piece.rows else self.size
            elif not piece or any(key in piece for key in _LEAVE):
                self.open = False
        return self.size != before
