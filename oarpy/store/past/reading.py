"""The queries of the live tables, run over live tables and past together, or over the past alone.

Tables of the past, and the views of both, have the names of the live tables. So a search path chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TypeVar

from oarpy.store.database import Connection

Found = TypeVar("Found")

_PATH = "SELECT current_setting('search_path')"
_SET_PATH = "SELECT set_config('search_path', %s, true)"

# Whether some of these are not among the live jobs while there is a past.
_IN_PAST = """
    SELECT EXISTS (SELECT FROM past_months WHERE dropped_at IS NULL) AND (
        %(open)s
        OR EXISTS (SELECT FROM unnest(%(jobs)s::bigint[]) AS given (id)
                   WHERE NOT EXISTS (SELECT FROM public.jobs j WHERE j.job_id = given.id))
        OR EXISTS (SELECT FROM unnest(%(arrays)s::bigint[]) AS given (id)
                   WHERE NOT EXISTS (SELECT FROM public.jobs j WHERE j.array_id = given.id)))
"""

# A job is filed in the month of its end, or later.
_PAST_SINCE = """
    SELECT EXISTS (SELECT FROM past_months
                   WHERE dropped_at IS NULL AND (month + interval '1 month') AT TIME ZONE 'UTC' > %s)
"""


def is_in_past(connection: Connection, jobs: Sequence[int], arrays: Sequence[int], *, others: bool = False) -> bool:
    """Tell whether the past has to be read for these jobs and arrays; ``others``: for a condition, too."""
    row = connection.execute(_IN_PAST, {"jobs": list(jobs), "arrays": list(arrays), "open": others}).fetchone()
    return row == (True,)


def has_past_since(connection: Connection, moment: datetime) -> bool:
    """Tell whether some job of the past may have ended after ``moment``."""
    row = connection.execute(_PAST_SINCE, [moment]).fetchone()
    return row == (True,)


def first_found(connection: Connection, find: Callable[[], Found | None]) -> Found | None:
    """Return the result of ``find`` among live jobs, else its result in the past."""
    result = find()
    if result is None:
        with past_alone(connection):
            result = find()
    return result


@contextmanager
def with_past(connection: Connection) -> Iterator[None]:
    """Let queries inside read the past too; they cannot write tables that have a past. It is a transaction."""
    with _path(connection, "oar_all"):
        yield


@contextmanager
def past_alone(connection: Connection) -> Iterator[None]:
    """Inside, queries and changes are about the past alone. It is a transaction."""
    with _path(connection, "oar_past"):
        yield


@contextmanager
def _path(connection: Connection, schema: str) -> Iterator[None]:
    with connection.transaction():
        row = connection.execute(_PATH).fetchone()
        assert row is not None
        connection.execute(_SET_PATH, [f"{schema}, {row[0]}"])
        yield
        # the transaction may go on
        connection.execute(_SET_PATH, [row[0]])
