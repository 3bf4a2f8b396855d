"""What passes read and write of jobs whose processes are mapped: rates, and the map that goes with a place."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from psycopg.types.json import Jsonb

from oarpy.store.database import Connection
from oarpy.store.jobs.rates import SAME_PROGRAM
from oarpy.store.refusals import set_wise
from oarpy.store.rows import read

ANY_THERE = "EXISTS (SELECT FROM mapped_jobs WHERE live)"

# Every change of a row has another transaction, which may be older than those of other rows.
_VERSION = "SELECT count(*), sum(hashint8extended(job_id, xmin::text::bigint)) FROM mapped_jobs WHERE live"
_END = """
    UPDATE mapped_jobs m SET live = false FROM jobs j WHERE m.live AND j.job_id = m.job_id AND NOT is_live(j.state)
"""

_LIVE = f"""
    SELECT m.job_id AS job, m.processes, m.iterations, m.sizes, m.model, m.cores, m.own_walltime,
           m.node_types AS settled, m.walltime, m.node_property,
           EXISTS (SELECT FROM rate_measurements w JOIN jobs k USING (job_id)
                   WHERE is_live(k.state) AND k.user_name = j.user_name
                     AND {SAME_PROGRAM.format("w", "m")}) AS measuring
    FROM mapped_jobs m JOIN jobs j USING (job_id) WHERE m.live
"""  # noqa: S608 - a condition of the neighbour
_RATES = f"""
    SELECT m.job_id AS job, r.node_type AS kind, r.size_name AS size, r.rate
    FROM mapped_jobs m JOIN jobs j USING (job_id)
        JOIN application_rates r ON r.user_name = j.user_name AND {SAME_PROGRAM.format("r", "m")}
    WHERE m.live
"""  # noqa: S608
_SETTLE = """
    UPDATE mapped_jobs m
    SET seconds = s.seconds, walltime = s.walltime, node_property = %(property)s, node_types = s.node_types,
        assigned = s.assigned
    FROM unnest(%(jobs)s::bigint[], %(seconds)s::float8[], %(walltimes)s::int[], %(node_types)s::jsonb[],
                %(assigned)s::jsonb[]) AS s(job_id, seconds, walltime, node_types, assigned)
    WHERE m.job_id = s.job_id AND m.live
"""
_GIVE_UP = """
    WITH given_up AS (
        UPDATE mapped_jobs SET live = false, seconds = NULL, walltime = NULL, node_types = NULL, assigned = NULL
        WHERE job_id = ANY(%(jobs)s) RETURNING job_id
    )
    INSERT INTO event_logs (type, job_id, description) SELECT 'NOT_MAPPED', job_id, %(reason)s FROM given_up
"""


@dataclass(frozen=True, slots=True)
class MappedRow:
    """A job to be mapped. ``settled`` are its cores by type in the last pass, ``walltime`` (seconds) what followed."""

    job: int
    processes: int
    iterations: int
    sizes: tuple[str, ...]
    model: str
    cores: int
    own_walltime: bool
    settled: Mapping[str, int] | None
    walltime: int | None
    node_property: str
    measuring: bool


@dataclass(frozen=True, slots=True)
class RateRow:
    """A rate that is of use to a job."""

    job: int
    kind: str
    size: str
    rate: float


@dataclass(frozen=True, slots=True)
class SettledRow:
    """The map of a job: by type of node the cores, and ``(size, processes, seconds of one, how many a core has)``."""

    job: int
    seconds: float
    walltime: int
    cores: Mapping[str, int]
    assigned: Mapping[str, Sequence[tuple[str, int, float, int]]]


def version(connection: Connection) -> tuple[object, ...]:
    """Return what changes whenever the row of a job that is to be mapped does."""
    row = connection.execute(_VERSION).fetchone()
    assert row is not None
    return row


def live(connection: Connection) -> list[MappedRow]:
    """Return the jobs that are to be mapped as long as they wait."""
    return read(connection, _LIVE, MappedRow)


def end(connection: Connection) -> None:
    """Map no more jobs that are over."""
    connection.execute(_END)


def rates(connection: Connection) -> list[RateRow]:
    """Return the rates of their programs."""
    return read(connection, _RATES, RateRow)


@set_wise
def settle(connection: Connection, settled: Sequence[SettledRow], node_property: str) -> None:
    """Note the maps of jobs; their types are values of ``node_property``."""
    if settled:
        columns = {
            "property": node_property,
            "jobs": [row.job for row in settled],
            "seconds": [row.seconds for row in settled],
            "walltimes": [row.walltime for row in settled],
            "node_types": [Jsonb(dict(row.cores)) for row in settled],
            "assigned": [Jsonb(row.assigned) for row in settled],
        }
        connection.execute(_SETTLE, columns)


def give_up(connection: Connection, jobs: Collection[int], reason: str) -> None:
    """Let jobs run without a map, and tell why."""
    if jobs:
        connection.execute(_GIVE_UP, {"jobs": list(jobs), "reason": reason})
