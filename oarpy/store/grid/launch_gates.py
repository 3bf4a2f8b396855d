"""Gates of launches: jobs that hold their resources, and are not launched before a date."""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.store.database import Connection

_PUT = """
    INSERT INTO launch_gates (job_id, expected_at, walltime)
    VALUES (%s, to_timestamp(%s), %s * interval '1 second')
"""
_OPEN = """
    UPDATE launch_gates SET opens_at = coalesce(to_timestamp(%(begin)s), expected_at),
        expected_at = coalesce(to_timestamp(%(begin)s), expected_at)
    WHERE job_id = ANY(%(jobs)s)
"""


def put(connection: Connection, job: int, expected: float, walltime: float) -> None:
    """Let a job not be launched before its gate opens, which is ``expected`` (epoch seconds); then for ``walltime``."""
    connection.execute(_PUT, [job, expected, walltime])


def open_gates(connection: Connection, jobs: Sequence[int], begin: float | None) -> None:
    """Let jobs be launched from ``begin`` (epoch seconds) on; None: from when it was expected."""
    connection.execute(_OPEN, {"jobs": list(jobs), "begin": begin})
