"""The rows of bags that a pass reads and writes: bags that wait for a promise, promises, and every change of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from oarpy.store.database import Connection
from oarpy.store.rows import read

ANY_THERE = "EXISTS (SELECT FROM bags WHERE ended IS NULL)"

_LIVE = """
    SELECT b.bag_id AS bag, extract(epoch FROM b.deadline)::float8 AS deadline, b.strict,
           extract(epoch FROM b.promise)::float8 AS promise, extract(epoch FROM b.expected)::float8 AS expected,
           -- what was not accepted with the others waits as any job does
           coalesce(array_agg(j.job_id) FILTER (
               WHERE is_live(j.state) AND (b.promise IS NULL OR j.reservation_start IS NOT NULL)), '{}') AS tasks,
           coalesce(array_agg(j.job_id) FILTER (
               WHERE is_live(j.state) AND b.promise IS NOT NULL AND j.reservation_start IS NULL
                 AND j.resubmit_of IS NOT NULL), '{}') AS repeated,
           extract(epoch FROM max(j.ended_at))::float8 AS last_end,
           (SELECT extract(epoch FROM p.completion)::float8 FROM door_parts p WHERE p.job_id = b.bag_id) AS completion,
           coalesce(b.profile, (SELECT jsonb_object_agg(p.node_type, p.seconds) FROM bag_profiles p
            WHERE p.bag_id = b.bag_id AND p.seconds IS NOT NULL)) AS profile
    FROM bags b LEFT JOIN jobs j ON j.array_id = b.bag_id AND 'bag' = ANY(j.types)
    WHERE b.ended IS NULL
    GROUP BY b.bag_id
"""

# The events of a bag are events of its first job, while that job is here.
_CHANGE = """
    WITH news AS (
        SELECT bag_id, kind, to_timestamp(promise) AS promise, to_timestamp(expected) AS expected, cause, description
        FROM unnest(%s::bigint[], %s::text[], %s::float8[], %s::float8[], %s::text[], %s::text[])
            AS n(bag_id, kind, promise, expected, cause, description)
    ), noted AS (
        UPDATE bags b SET promise = n.promise, expected = n.expected FROM news n
        WHERE b.bag_id = n.bag_id AND n.kind <> 'REFUSED'
          AND (b.promise, b.expected) IS DISTINCT FROM (n.promise, n.expected)
    ), over AS (
        UPDATE bags b SET ended = now() FROM news n WHERE b.bag_id = n.bag_id AND n.kind = 'REFUSED'
    ), told AS (
        INSERT INTO event_logs (type, job_id, description)
        SELECT n.kind, n.bag_id, n.description FROM news n
        WHERE EXISTS (SELECT FROM jobs j WHERE j.job_id = n.bag_id)
    )
    INSERT INTO bag_changes (bag_id, kind, promise, expected, cause)
    SELECT bag_id, kind, promise, expected, cause FROM news
"""

_END = """
    WITH over AS (
        UPDATE bags b SET ended = coalesce((
            SELECT max(j.ended_at) FROM jobs j WHERE j.array_id = b.bag_id AND 'bag' = ANY(j.types)), now())
        WHERE b.ended IS NULL AND NOT EXISTS (
            SELECT FROM jobs j WHERE j.array_id = b.bag_id AND 'bag' = ANY(j.types) AND is_live(j.state))
        RETURNING b.bag_id, b.promise, b.ended
    ), told AS (
        INSERT INTO event_logs (type, job_id, description)
        SELECT 'END', o.bag_id, 'all tasks of the bag are over' FROM over o
        WHERE EXISTS (SELECT FROM jobs j WHERE j.job_id = o.bag_id)
    )
    INSERT INTO bag_changes (bag_id, kind, promise, expected, cause)
    SELECT bag_id, 'END', promise, ended, 'all its tasks are over' FROM over
"""

_LIVE_PROFILES = """
    SELECT p.job_id AS job, p.bag_id AS bag, b.ended IS NOT NULL AS over,
           extract(epoch FROM b.submitted_at)::float8 AS submitted
    FROM bag_profiles p JOIN jobs j USING (job_id) JOIN bags b USING (bag_id)
    WHERE p.bag_id = ANY(%s) AND is_live(j.state)
"""
_TELL_UNPROFILED = """
    INSERT INTO event_logs (type, job_id, description)
    SELECT 'NOT_PROFILED', p.bag_id, format(
           'its tasks count with their walltime on nodes of type %%s: %%s', p.node_type,
           CASE p.failure WHEN '' THEN format('job %%s ended before it told the seconds of a task', p.job_id)
                ELSE p.failure END)
    FROM bag_profiles p JOIN jobs j ON j.job_id = p.bag_id
    WHERE p.bag_id = ANY(%s) AND p.seconds IS NULL
    ORDER BY p.job_id
"""


@dataclass(frozen=True, slots=True)
class LiveBagRow:
    """A bag that is not over; instants in epoch seconds.

    ``tasks`` are live, ``last_end`` is that of the others. Tasks that failed wait as ``repeated`` to be run again. Of a
    bag over several clusters ``completion`` is when it is done over all, by the message of its broker. ``profile`` has
    the seconds of a task by type of nodes.
    """

    bag: int
    deadline: float | None
    strict: bool
    promise: float | None
    expected: float | None
    tasks: tuple[int, ...]
    repeated: tuple[int, ...]
    last_end: float | None
    completion: float | None
    profile: Mapping[str, float] | None


@dataclass(frozen=True, slots=True)
class LiveProfileRow:
    """A job that takes the profile of a bag, which was ``submitted`` (epoch seconds) and may be ``over``."""

    job: int
    bag: int
    over: bool
    submitted: float


@dataclass(frozen=True, slots=True)
class BagChange:
    """A change of the promise of a bag; ``description`` is for its user."""

    bag: int
    kind: str
    promise: float | None
    expected: float | None
    cause: str
    description: str


def live(connection: Connection) -> list[LiveBagRow]:
    """Return the bags that are not over."""
    return read(connection, _LIVE, LiveBagRow)


def change(connection: Connection, changes: Sequence[BagChange]) -> None:
    """Note the changes of promises, and write events of them."""
    if changes:
        rows = [
            (change.bag, change.kind, change.promise, change.expected, change.cause, change.description)
            for change in changes
        ]
        connection.execute(_CHANGE, [list(column) for column in zip(*rows, strict=True)])


def end(connection: Connection) -> None:
    """End the bags that have no task left."""
    connection.execute(_END)


def live_profiles(connection: Connection, bags: Collection[int]) -> list[LiveProfileRow]:
    """Return the jobs that take profiles of bags."""
    return read(connection, _LIVE_PROFILES, LiveProfileRow, [list(bags)])


def tell_unprofiled(connection: Connection, bags: Collection[int]) -> None:
    """Write an event for each type of nodes for which a bag has no profile, though one was asked for."""
    if bags:
        connection.execute(_TELL_UNPROFILED, [list(bags)])
