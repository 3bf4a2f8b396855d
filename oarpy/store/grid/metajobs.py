"""Parallel jobs over clusters: their requests, their places, and their moves after early ends."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from psycopg.types.json import Jsonb

from oarpy.store.database import Connection

Operation = Literal["rigid", "shift", "remap"]


@dataclass(frozen=True, slots=True)
class NewMetajob:
    """The request: ``procs`` of ``unit`` (``/core``). ``end_by`` in epoch seconds; ``at_most`` is by cluster."""

    unit: str
    procs: int
    operation: Operation
    overhead: float = 0
    at_most: Mapping[str, int] | None = None
    end_by: float | None = None


@dataclass(frozen=True, slots=True)
class MetajobRow:
    """A job and its place; instants in epoch seconds. ``told`` has the free slots of each cluster, or why it has none.

    ``begun`` is when its cluster got the call to begin its program.
    """

    job: int
    unit: str
    procs: int
    overhead: float
    operation: Operation
    at_most: Mapping[str, int]
    end_by: float | None
    first: str
    placings: int
    refusals: int
    told: Mapping[str, str]
    promised_start: float | None
    promised_end: float | None
    end: float | None
    idle_on: str
    begun: float | None


@dataclass(frozen=True, slots=True)
class NewShift:
    """A move that is tried; instants in epoch seconds, parts by cluster."""

    job: int
    operation: Operation
    idle_on: str
    old_start: float
    old_end: float
    old_parts: Mapping[str, int]
    new_start: float
    new_end: float
    new_parts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ShiftRow(NewShift):
    """A move, as it was tried ``at`` an instant, and its outcome."""

    id: int
    at: float
    transaction: int
    outcome: str
    message: str


_ADD = """
    INSERT INTO grid_metajobs (job, unit, procs, operation, overhead, at_most, end_by)
    VALUES (%s, %s, %s, %s, %s, %s, to_timestamp(%s))
"""
_OF_JOBS = """
    SELECT job, unit, procs, overhead, operation, at_most, extract(epoch FROM end_by)::float8, first, placings,
           refusals, told, extract(epoch FROM promised_start)::float8, extract(epoch FROM promised_end)::float8,
           extract(epoch FROM end_at)::float8, idle_on, extract(epoch FROM begun_at)::float8
    FROM grid_metajobs WHERE job = ANY(%s)
"""
_EARLIER = "SELECT count(*) FROM grid_metajobs WHERE job < %s"
_LOOKED = "UPDATE grid_metajobs SET first = %s, told = %s WHERE job = %s"
_REFUSED = "UPDATE grid_metajobs SET refusals = refusals + 1 WHERE job = %s"
_PLACED = """
    UPDATE grid_metajobs SET placings = placings + 1, refusals = 0, end_at = to_timestamp(%(end)s), begun_at = NULL,
        promised_start = coalesce(promised_start, to_timestamp(%(start)s)),
        promised_end = coalesce(promised_end, to_timestamp(%(end)s))
    WHERE job = %(job)s
"""
_BEGUN = "UPDATE grid_metajobs SET begun_at = coalesce(begun_at, clock_timestamp()) WHERE job = %s"
_MOVED = "UPDATE grid_metajobs SET end_at = to_timestamp(%s) WHERE job = %s"
_IDLE = "UPDATE grid_metajobs SET idle_on = %s WHERE job = ANY(%s) AND idle_on <> %s"
# Components stand for parts: as many as there are now count, in their order.
_COMPONENTS = """
    INSERT INTO grid_components (job, number, resources, procs, properties, types)
    SELECT %(job)s, s.number - 1, s.resources, s.procs, c.properties, c.types
    FROM unnest(%(resources)s::text[], %(procs)s::int[]) WITH ORDINALITY AS s(resources, procs, number)
         JOIN grid_components c ON (c.job, c.number) = (%(job)s, 0)
    ON CONFLICT (job, number) DO UPDATE SET resources = excluded.resources, procs = excluded.procs
"""
_ROOM = """
    INSERT INTO grid_components (job, number, resources, procs, properties, types)
    SELECT c.job, s.number, c.resources, c.procs, c.properties, c.types
    FROM grid_components c, generate_series(1, %s) AS s(number) WHERE (c.job, c.number) = (%s, 0)
    ON CONFLICT (job, number) DO NOTHING
"""
_COUNT = "UPDATE grid_jobs SET components = %s WHERE id = %s"
_WAIT_ON = """
    UPDATE grid_metajobs m SET idle_on = %(cluster)s FROM grid_jobs j
    WHERE j.id = m.job AND j.state = 'Mapped' AND m.idle_on = '' AND m.operation <> 'rigid'
      AND EXISTS (SELECT FROM grid_parts p WHERE p.job = j.id AND p.cluster = %(cluster)s
                    AND p.state IN ('Committing', 'Waiting'))
"""
_TRY_SHIFT = """
    INSERT INTO grid_shifts (job, operation, idle_on, old_start, old_end, old_parts, new_start, new_end, new_parts,
                             transaction)
    VALUES (%s, %s, %s, to_timestamp(%s), to_timestamp(%s), %s, to_timestamp(%s), to_timestamp(%s), %s, %s)
"""
_SETTLE_SHIFT = "UPDATE grid_shifts SET outcome = %s, message = %s WHERE transaction = %s AND outcome = 'open'"
_TAKE_BACK = "UPDATE grid_shifts SET outcome = 'given up', message = %s WHERE transaction = %s"
_SHIFTS = """
    SELECT job, operation, idle_on, extract(epoch FROM old_start)::float8, extract(epoch FROM old_end)::float8,
           old_parts, extract(epoch FROM new_start)::float8, extract(epoch FROM new_end)::float8, new_parts, id,
           extract(epoch FROM at)::float8, transaction, outcome, message
    FROM grid_shifts WHERE job = ANY(%s) ORDER BY id
"""


def add(connection: Connection, job: int, request: NewMetajob) -> None:
    """Store the request of a job."""
    values = [job, request.unit, request.procs, request.operation, request.overhead, Jsonb(dict(request.at_most or {}))]
    connection.execute(_ADD, [*values, request.end_by])


def of_jobs(connection: Connection, jobs: Sequence[int]) -> dict[int, MetajobRow]:
    """Return the requests and places of the metajobs among these jobs."""
    return {row[0]: MetajobRow(*row) for row in connection.execute(_OF_JOBS, [list(jobs)]).fetchall()}


def of_job(connection: Connection, job: int) -> MetajobRow:
    """Return the request and the place of a metajob."""
    return of_jobs(connection, [job])[job]


def count_before(connection: Connection, job: int) -> int:
    """Return the number of jobs of this kind that came before the job."""
    row = connection.execute(_EARLIER, [job]).fetchone()
    return row[0] if row else 0


def note_look(connection: Connection, job: int, first: str, answers: Mapping[str, str]) -> None:
    """Note which cluster was asked first for a job, and the answers of all."""
    connection.execute(_LOOKED, [first, Jsonb(dict(answers)), job])


def note_refusal(connection: Connection, job: int) -> None:
    """Note that clusters refused the place of a job."""
    connection.execute(_REFUSED, [job])


def make_room(connection: Connection, job: int, parts: int) -> None:
    """Give a job a component for each of ``parts`` parts."""
    connection.execute(_ROOM, [parts - 1, job])


def note_place(connection: Connection, job: int, start: float, end: float, *, moved: bool = False) -> None:
    """Note the start and end of a job's place; the first place is the promise. ``moved``: it had another place."""
    if moved:
        connection.execute(_MOVED, [end, job])
    else:
        connection.execute(_PLACED, {"job": job, "start": start, "end": end})


def note_begun(connection: Connection, job: int) -> None:
    """Note that the program of a job gets the call to begin: from here on it may have begun."""
    connection.execute(_BEGUN, [job])


def note_parts(connection: Connection, row: MetajobRow, procs: Sequence[int]) -> None:
    """Make the components of a job its parts, of ``procs`` processors each."""
    resources = [f"{row.unit}={count}" for count in procs]
    connection.execute(_COMPONENTS, {"job": row.job, "resources": resources, "procs": list(procs)})
    connection.execute(_COUNT, [len(procs), row.job])


def note_idle(connection: Connection, jobs: Collection[int], cluster: str) -> None:
    """Note that processors of a cluster became idle where jobs have parts; empty: that was looked at."""
    connection.execute(_IDLE, [cluster, list(jobs), cluster])


def note_room(connection: Connection, cluster: str) -> None:
    """Have all jobs that wait for their date on a cluster looked at, because one of them has moved."""
    connection.execute(_WAIT_ON, {"cluster": cluster})


def begin_shift(connection: Connection, shift: NewShift, transaction: int) -> None:
    """Note a move that is tried."""
    old = [shift.old_start, shift.old_end, Jsonb(dict(shift.old_parts))]
    new = [shift.new_start, shift.new_end, Jsonb(dict(shift.new_parts))]
    connection.execute(_TRY_SHIFT, [shift.job, shift.operation, shift.idle_on, *old, *new, transaction])


def settle_shift(connection: Connection, transaction: int, outcome: str, message: str = "") -> None:
    """Note the outcome of a move, unless it is known already."""
    connection.execute(_SETTLE_SHIFT, [outcome, message[:1000], transaction])


def take_back(connection: Connection, transaction: int, message: str) -> None:
    """Note that a decided move was given up."""
    connection.execute(_TAKE_BACK, [message[:1000], transaction])


def shifts_of(connection: Connection, jobs: Sequence[int]) -> list[ShiftRow]:
    """Return the moves of jobs, the oldest first."""
    return [ShiftRow(*row) for row in connection.execute(_SHIFTS, [list(jobs)]).fetchall()]
