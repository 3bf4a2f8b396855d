"""Exclusive levels as the database keeps them: at most one job that asks for a level holds a block of it."""

from __future__ import annotations

from collections.abc import Mapping

from psycopg.errors import ExclusionViolation

from oarpy.store.database import Connection

_HELD = "SELECT job_id, array_agg(DISTINCT property) FROM held_blocks GROUP BY job_id"

_KNOWN = "SELECT level, property FROM exclusive_levels"
_FORGET = "DELETE FROM exclusive_levels"
_ADD = "INSERT INTO exclusive_levels (level, property) SELECT * FROM unnest(%s::text[], %s::text[])"
_RETURN = "DELETE FROM held_blocks WHERE NOT property = ANY (%s)"
_HOLDERS = "SELECT DISTINCT job_id FROM assigned_resources WHERE upper_inf(during) OR suspended ORDER BY job_id"
_HOLD = "SELECT hold_blocks(ARRAY[%s::bigint])"


def held(connection: Connection) -> dict[int, tuple[str, ...]]:
    """Return the exclusive levels, as properties, of which each job holds blocks; jobs that hold none are left out."""
    return {job: tuple(levels) for job, levels in connection.execute(_HELD).fetchall()}


def record(connection: Connection, levels: Mapping[str, str]) -> bool:
    """Make ``levels`` the exclusive ones, each with the property whose values are its blocks; return True on a change.

    Running jobs get the blocks of a new level. Where several jobs already share a block, the first of them gets it.
    """
    if dict(connection.execute(_KNOWN).fetchall()) == levels:
        return False
    connection.execute(_FORGET)
    connection.execute(_ADD, [list(levels), list(levels.values())])
    connection.execute(_RETURN, [list(levels.values())])
    for (job,) in connection.execute(_HOLDERS).fetchall() if levels else ():
        try:
            with connection.transaction():
                connection.execute(_HOLD, [job])
        except ExclusionViolation:
            continue
    return True
