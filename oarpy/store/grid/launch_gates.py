"""Gates of launches: jobs that hold their resources, and are not launched before a date.

A gate that lapses is opened by its broker at an instant that is not known before. The end of its job does not move: the
wait is taken from its walltime.
"""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.store.database import Connection

_PUT = """
    INSERT INTO launch_gates (job_id, expected_at, walltime, lapses_at)
    VALUES (%s, to_timestamp(%s), %s * interval '1 second', to_timestamp(%s))
"""
_OPEN = """
    UPDATE launch_gates SET expected_at = coalesce(to_timestamp(%(begin)s), expected_at),
        opens_at = CASE WHEN lapses_at IS NULL THEN coalesce(to_timestamp(%(begin)s), expected_at) END
    WHERE job_id = ANY(%(jobs)s)
"""
_BEGIN = """
    UPDATE launch_gates SET opens_at = now(),
        walltime = greatest(walltime - greatest(now() - expected_at, interval '0'), interval '1 second')
    WHERE job_id = %s AND opens_at IS NULL
"""
_PUT_BAG = """
    INSERT INTO launch_gates (job_id, expected_at, walltime)
    SELECT job_id, now(), %s * interval '1 second' FROM jobs WHERE array_id = %s AND 'bag' = ANY(types)
"""
_REMOVE_BAGS = """
    DELETE FROM launch_gates g USING jobs j
    WHERE j.job_id = g.job_id AND j.array_id = ANY(%s) AND 'bag' = ANY(j.types)
"""
_LAPSE = """
    INSERT INTO kill_requests (job_id, requested_by, reason)
    SELECT job_id, 'door', 'its broker did not let it begin in time' FROM launch_gates
    WHERE opens_at IS NULL AND lapses_at <= clock_timestamp()
    ON CONFLICT (job_id) DO NOTHING
"""
_NEXT_LAPSE = """
    SELECT extract(epoch FROM min(lapses_at))::float8 FROM launch_gates
    WHERE opens_at IS NULL AND lapses_at > clock_timestamp()
"""


def put(connection: Connection, job: int, expected: float, walltime: float, lapses: float | None = None) -> None:
    """Keep a job from its launch until its gate opens, at ``expected`` (epoch seconds); then it has ``walltime``.

    A gate that ``lapses`` opens by :func:`begin` alone, and its job ends if it is shut at that time.
    """
    connection.execute(_PUT, [job, expected, walltime, lapses])


def put_bag(connection: Connection, bag: int, walltime: float) -> None:
    """Let no task of a bag be launched until :func:`remove_bags`."""
    connection.execute(_PUT_BAG, [walltime, bag])


def remove_bags(connection: Connection, bags: Sequence[int]) -> None:
    """Let the tasks of bags be launched when it is their turn."""
    connection.execute(_REMOVE_BAGS, [list(bags)])


def open_gates(connection: Connection, jobs: Sequence[int], begin: float | None) -> None:
    """Open the gates of jobs at ``begin`` (epoch seconds), with None at the expected start.

    A gate that lapses stays shut until :func:`begin`.
    """
    connection.execute(_OPEN, {"jobs": list(jobs), "begin": begin})


def begin(connection: Connection, job: int) -> None:
    """Open the gate of a job now, unless its opening is set already."""
    connection.execute(_BEGIN, [job])


def lapse(connection: Connection) -> int:
    """Ask for the end of jobs whose gates were not opened in time; return their number."""
    return connection.execute(_LAPSE).rowcount


def next_lapse(connection: Connection) -> float | None:
    """Return when the next gate lapses (epoch seconds); None when none does."""
    row = connection.execute(_NEXT_LAPSE).fetchone()
    return None if row is None else row[0]
