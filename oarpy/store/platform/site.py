"""This installation, as its database knows it."""

from __future__ import annotations

from typing import NamedTuple

from oarpy.store.database import Connection


class Generation(NamedTuple):
    """A life of this database: 0 is the first, each later one began when the database was found to be restored.

    ``owing`` has the nodes that have not reported yet the jobs that the database lost with that.
    """

    number: int
    owing: tuple[str, ...]


_OWING = """
    SELECT array_agg(network_address ORDER BY network_address) FROM nodes WHERE recalled < %s
"""
# A higher id was given by this database when it knew more.
_HIGHEST = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM jobs_job_id_seq"


def instance(connection: Connection) -> str:
    """Return the id that tells this installation's jobs from the jobs of any other on the same nodes."""
    row = connection.execute("SELECT instance FROM site").fetchone()
    assert row is not None
    return str(row[0])


# Since when the memory of nodes counts: all of it, if that is not known.
_LOST_FROM = """
    SELECT coalesce(extract(epoch FROM lost_from - interval '1 minute'), 0)::float8
    FROM generations ORDER BY generation DESC LIMIT 1
"""


def lost_from(connection: Connection) -> float:
    """Return when (epoch seconds) the database was last written before it was restored, 0 if that is not known."""
    row = connection.execute(_LOST_FROM).fetchone()
    return row[0] if row else 0.0


def generation(connection: Connection) -> Generation:
    """Return the present generation; begin one, with an event, when this is another copy of the database."""
    return _generation(connection, "SELECT notice_restore()")


def generation_before(connection: Connection, job: int, why: str) -> Generation:
    """Return the generation, a new one when ``job`` is above all ids that the database knows to have given."""
    return _generation(connection, "SELECT begin_generation(%s, %s)", why, job)


def _generation(connection: Connection, query: str, *values: object) -> Generation:
    row = connection.execute(query, values).fetchone()
    number: int = row[0] if row else 0
    owing = connection.execute(_OWING, (number,)).fetchone()
    return Generation(number, tuple(owing[0] or ()) if owing else ())


def highest_job(connection: Connection) -> int:
    """Return the highest job id that was given."""
    row = connection.execute(_HIGHEST).fetchone()
    return row[0] if row else 0
