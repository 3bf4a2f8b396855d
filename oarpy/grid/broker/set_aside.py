"""Work about one job that fails alone: the job is set aside for a while, and the module goes on with the others.

::

    work about a job --its rows contradict, or it raises--> rolled back, the job's message says so
          ^                                                      |
          '----------- after 0.5 s, 1 s, ... 30 s ---------------'

If the database is lost or busy, no job is at fault: that error is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
import structlog

from oarpy.grid.broker.conversations import Conversations
from oarpy.store.database import Connection
from oarpy.store.grid import broker_jobs
from oarpy.store.refusals import first_line, is_refusal

log = structlog.get_logger()

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_REMEMBERED = 300.0
"""Seconds after its pause for which a failure makes the next pause longer."""


@dataclass(slots=True)
class Attempt:
    """Work about a job; ``failure`` says why the job was set aside, and is empty if the work was done."""

    failure: str = ""


@dataclass(frozen=True, slots=True)
class _Pause:
    until: float
    seconds: float


class JobsSetAside:
    """The jobs, by id, and other work, by name, that a module leaves out for a while.

    Conversations that failed work had begun are dropped.
    """

    def __init__(self, module: str, conversations: Conversations[object], clock: Callable[[], float]) -> None:
        self._module, self._conversations, self._clock = module, conversations, clock
        self._pauses: dict[Hashable, _Pause] = {}

    def __contains__(self, work: Hashable) -> bool:
        return work in self._pauses and self._pauses[work].until > self._clock()

    def jobs(self) -> set[int]:
        """Return the jobs that are left out now."""
        return {work for work in self._pauses if isinstance(work, int) and work in self}

    def wake_at(self) -> float | None:
        """Return when work that is left out now is tried again (epoch seconds); None if there is none."""
        return min((pause.until for work, pause in self._pauses.items() if work in self), default=None)

    def clear(self) -> None:
        """Leave out no work any more."""
        self._pauses.clear()

    @contextmanager
    def attempt(self, connection: Connection, jobs: Sequence[int], work: Hashable = None) -> Iterator[Attempt]:
        """Open a transaction about jobs; if the block raises, they are set aside, or only ``work`` if it is given.

        Without jobs and work, the caller decides what follows from the failure.
        """
        attempt = Attempt()
        try:
            with self._conversations.dropped_on_error(), connection.transaction():
                yield attempt
        except psycopg.Error as error:
            if not is_refusal(error):
                raise
            attempt.failure = f"the database refuses it: {first_line(error)}"
            self.put(connection, jobs, attempt.failure, work)
        except Exception as error:
            attempt.failure = contradiction(error)
            self.put(connection, jobs, attempt.failure, work)

    def put(self, connection: Connection, jobs: Sequence[int], failure: str, work: Hashable = None) -> None:
        """Set jobs aside, or only ``work`` about them, because of the error that is being handled."""
        now = self._clock()
        self._pauses = {work: pause for work, pause in self._pauses.items() if now < pause.until + _REMEMBERED}
        for left_out in jobs if work is None else [work]:
            before = self._pauses.get(left_out)
            seconds = _FIRST_PAUSE if before is None else min(2 * before.seconds, _LONGEST_PAUSE)
            self._pauses[left_out] = _Pause(now + seconds, seconds)
        log.exception("set aside", module=self._module, jobs=list(jobs), reason=failure)
        try:
            with connection.transaction():
                broker_jobs.note_set_aside(connection, jobs, f"set aside: {failure}"[:1000])
        except psycopg.Error as error:
            # of some rows the database refuses any change
            if not is_refusal(error):
                raise


def contradiction(error: Exception) -> str:
    """Return the words for an error that was raised about the rows of a job."""
    return f"its rows contradict each other ({error!r})"
