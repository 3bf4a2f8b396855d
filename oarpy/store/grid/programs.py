"""Programs whose processes are mapped over clusters: their requests, and the maps that go with their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from oarpy.store.database import Connection
from oarpy.store.rows import read


@dataclass(frozen=True, slots=True)
class NewGridProgram:
    """The request: the program, by whose rates its processes are mapped, and the script that is timed.

    ``own_walltime``: its user gave a walltime, with which it runs if there are no rates.
    """

    program: str
    program_size: int
    program_date: int
    arguments: str
    script: str
    processes: int
    iterations: int
    sizes: Sequence[str]
    model: str
    own_walltime: bool


@dataclass(frozen=True, slots=True)
class GridProgramRow(NewGridProgram):
    """A program of a job. ``live``: it is mapped; else it runs without a map.

    ``map`` goes with its present place, as JSON: ``seconds`` as predicted, ``cores`` by cluster and type of nodes, and
    what these are ``assigned``: ``[size, processes, seconds of one, how many a core has in a row]``.
    """

    job: int
    live: bool
    map: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class MeasuredProgram:
    """A job, when it was submitted (epoch seconds), and the clusters that may measure the rates of its program."""

    job: int
    submitted: float
    clusters: Sequence[str]


_COLUMNS = """program, program_size, program_date, arguments, script, processes, iterations, sizes, model,
    own_walltime"""
_ADD = f"INSERT INTO grid_programs (job, {_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"  # noqa: S608
_OF_JOBS = f"SELECT {_COLUMNS}, job, live, map FROM grid_programs WHERE job = ANY(%s)"  # noqa: S608
_NOTE_MAP = "UPDATE grid_programs SET map_before = map, map = %s WHERE job = %s"
_TAKE_BACK = "UPDATE grid_programs SET map = map_before WHERE job = %s AND map_before IS NOT NULL"
_NOTE_MEASURED = """
    UPDATE grid_programs SET measured_on = ARRAY(SELECT DISTINCT unnest(measured_on || %(clusters)s::text[]) ORDER BY 1)
    WHERE job = %(job)s AND NOT measured_on @> %(clusters)s::text[]
"""
_MEASURED_IN_VAIN = """
    SELECT p.job, extract(epoch FROM j.submitted_at)::float8 AS submitted, p.measured_on AS clusters
    FROM grid_programs p JOIN grid_jobs j ON j.id = p.job
    WHERE p.measured_on <> '{}' AND j.state IN ('Terminated', 'Error', 'Missed') ORDER BY p.job
"""
_MEASURED_NO_MORE = "UPDATE grid_programs SET measured_on = array_remove(measured_on, %s) WHERE job = %s"
_GIVE_UP = "UPDATE grid_programs SET live = false, map = NULL, map_before = NULL WHERE job = %s"


def add(connection: Connection, job: int, request: NewGridProgram) -> None:
    """Store the program of a job."""
    key = [request.program, request.program_size, request.program_date, request.arguments]
    processes = [request.processes, request.iterations, list(request.sizes), request.model]
    connection.execute(_ADD, [job, *key, request.script, *processes, request.own_walltime])


def of_jobs(connection: Connection, jobs: Sequence[int]) -> dict[int, GridProgramRow]:
    """Return the programs of those jobs whose processes are mapped, or were to be."""
    rows = (GridProgramRow(*row) for row in connection.execute(_OF_JOBS, [list(jobs)]).fetchall())
    return {row.job: row for row in rows}


def live_of_job(connection: Connection, job: int) -> GridProgramRow | None:
    """Return the program of a job if its processes are mapped."""
    row = of_jobs(connection, [job]).get(job)
    return row if row is not None and row.live else None


def note_measured(connection: Connection, job: int, clusters: Sequence[str]) -> None:
    """Note the clusters that are to measure the rates of a job's program."""
    connection.execute(_NOTE_MEASURED, {"job": job, "clusters": list(clusters)})


def measured_in_vain(connection: Connection) -> list[MeasuredProgram]:
    """Return the programs of jobs that are over, as far as clusters do not know it that may measure their rates."""
    return read(connection, _MEASURED_IN_VAIN, MeasuredProgram)


def measured_no_more(connection: Connection, job: int, cluster: str) -> None:
    """Note that a cluster knows that a job is over."""
    connection.execute(_MEASURED_NO_MORE, [cluster, job])


def note_map(connection: Connection, job: int, its_map: Mapping[str, Any]) -> None:
    """Note the map of a job's present place; the one before is kept."""
    connection.execute(_NOTE_MAP, [Jsonb(dict(its_map)), job])


def take_back(connection: Connection, job: int) -> None:
    """Give a job the map back that it had before its last one."""
    connection.execute(_TAKE_BACK, [job])


def give_up(connection: Connection, job: int) -> None:
    """Let a job run without a map."""
    connection.execute(_GIVE_UP, [job])
