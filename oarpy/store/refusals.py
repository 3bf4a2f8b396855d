"""Set-wise writes of which the database refuses a part: made without the refused jobs, which wait a while.

::

    write all at once  --refused-->  the module runs again, carefully: each write halves until refused jobs are known
                                          |                                  |
                                     the others are written        event; withheld for 0.5 s, 1 s, ... 30 s, then tried

Which jobs wait is decided once in a run: its last step leaves out the jobs that its first step leaves out, however long
it takes. A connection remembers its refusals, which are forgotten with it. Until a write is refused, this costs a look
at an empty table.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import psycopg
import structlog

from oarpy.store.database import Connection

log = structlog.get_logger()

Write = TypeVar("Write", bound=Callable[..., Any])

_FIRST_DELAY, _LONGEST_DELAY = 0.5, 30.0
_REMEMBERED = 300.0
"""Seconds after which a refusal no longer lengthens the next delay."""
_RESOURCE = re.compile(r"^Key \(resource_id, .*?\)=\((\d+),", re.DOTALL)

# One event, however often the write is tried. The job may be gone.
_TELL = """
    INSERT INTO event_logs (type, job_id, description)
    SELECT 'SET_ASIDE', j.job_id, %(reason)s FROM jobs j
    WHERE j.job_id = %(job)s AND NOT EXISTS (
        SELECT FROM event_logs e WHERE e.job_id = j.job_id AND e.type = 'SET_ASIDE' AND e.description = %(reason)s)
"""


@dataclass(slots=True)
class _Wait:
    """Why a job is withheld, until when (monotonic clock), and how long it was made to wait, in seconds."""

    reason: str
    until: float
    delay: float


@dataclass(slots=True)
class Refusals:
    """The refusals of the database: jobs that wait until they are tried again, and resources that are still held.

    ``contested`` are resources (ids) that a job was refused because of a holder that no pass had read.
    """

    careful: bool = False
    contested: set[int] = field(default_factory=set)
    _waits: dict[int, _Wait] = field(default_factory=dict)
    _run_began: float = field(default_factory=time.monotonic)

    def begin_run(self) -> None:
        """Note the begin of a module's run, as ``modules.loop.module.run`` does: jobs that waited enough are tried."""
        self._run_began = time.monotonic()

    def withheld(self) -> Mapping[int, str]:
        """Return the jobs that this run is not to write of, each with the reason."""
        return {job: wait.reason for job, wait in self._waits.items() if wait.until > self._run_began}

    def withhold(self, connection: Connection, job: int, reason: str) -> None:
        """Set a job aside for a while, longer each time, and tell so in its events."""
        now = time.monotonic()
        before = self._waits.get(job)
        delay = min(before.delay * 2, _LONGEST_DELAY) if before is not None else _FIRST_DELAY
        self._waits = {number: wait for number, wait in self._waits.items() if now < wait.until + _REMEMBERED}
        self._waits[job] = _Wait(reason, now + delay, delay)
        log.warning("job set aside", job=job, reason=reason, again_in=delay)
        connection.execute(_TELL, {"job": job, "reason": reason})

    def next_try(self) -> float | None:
        """Return in how many seconds a job that this run left out is tried again, None when it left out none."""
        first = min((self._waits[job].until for job in self.withheld()), default=None)
        return None if first is None else max(first - time.monotonic(), 0.0)

    @contextmanager
    def carefully(self) -> Iterator[None]:
        """Have every set-wise write inside the block do without the jobs that the database refuses."""
        self.careful = True
        try:
            yield
        finally:
            self.careful = False

    @property
    def any(self) -> bool:
        """True if a write has to look at its jobs singly."""
        return self.careful or bool(self._waits)


_KNOWN: WeakKeyDictionary[Connection, Refusals] = WeakKeyDictionary()


def refusals_of(connection: Connection) -> Refusals:
    """Return the refusals over a connection."""
    refusals = _KNOWN.get(connection)
    if refusals is None:
        refusals = _KNOWN[connection] = Refusals()
    return refusals


def is_refusal(error: psycopg.Error) -> bool:
    """Tell whether the database refused the content of a statement; not when the database was lost, or is busy."""
    return isinstance(error, psycopg.DatabaseError) and not isinstance(error, psycopg.OperationalError)


def set_wise(write: Write) -> Write:
    """Have a write of many items leave out withheld jobs and, when careful, refused jobs.

    It takes a connection and the items, and returns a list about the written items, or nothing. An item is a job, has
    it as ``job``, or is a tuple that begins with it.
    """
    return _guarded(write, withheld_too=False)


def set_wise_of_all(write: Write) -> Write:
    """Do the same for a write that is made of withheld jobs too: it tells of them."""
    return _guarded(write, withheld_too=True)


def _guarded(write: Write, *, withheld_too: bool) -> Write:
    @wraps(write)
    def written(connection: Connection, items: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        refusals = refusals_of(connection)
        if not refusals.any or not items:
            return write(connection, items, *args, **kwargs)
        withheld = {} if withheld_too else refusals.withheld()
        kept = [item for item in items if _job_of(item) not in withheld]
        if not refusals.careful:
            return write(connection, kept, *args, **kwargs)
        parts = list(_parts(connection, kept, lambda some: write(connection, some, *args, **kwargs)))
        returned = [part for part in parts if part is not None]
        return [value for part in returned for value in part] if returned else write(connection, [], *args, **kwargs)

    return cast(Write, written)


def _job_of(item: Any) -> int:
    if isinstance(item, int):
        return item
    return int(item[0] if isinstance(item, tuple) else item.job)


def _parts(connection: Connection, items: Sequence[Any], write: Callable[[Sequence[Any]], Any]) -> Iterator[Any]:
    """Write items together; when they are refused, each half of them by itself."""
    if not items:
        return
    try:
        with connection.transaction():
            written = write(items)
    except psycopg.Error as error:
        if not is_refusal(error):
            raise
        refused = error
    else:
        yield written
        return
    jobs = {_job_of(item) for item in items}
    if len(jobs) == 1:
        refusals = refusals_of(connection)
        refusals.contested.update(map(int, _RESOURCE.findall(refused.diag.message_detail or "")))
        refusals.withhold(connection, jobs.pop(), f"the database refuses what is to be written of it: {_line(refused)}")
        return
    middle = len(items) // 2
    yield from _parts(connection, items[:middle], write)
    yield from _parts(connection, items[middle:], write)


def first_line(error: psycopg.Error) -> str:
    """Return the message of an error in one line."""
    return ((error.diag.message_primary or str(error)).strip().splitlines() or [type(error).__name__])[0][:300]


def _line(error: psycopg.Error) -> str:
    """Return the message of an error in one line, with the rows in conflict where it names them."""
    text = first_line(error)
    detail = " ".join((error.diag.message_detail or "").split())
    return f"{text} ({detail})"[:500] if detail.startswith("Key") else text
