"""The cells that jobs held, hold and will hold in a period, compactly enough for 10,000 jobs on 10,000 cells.

Jobs and their resources become arrays, which are sorted and cut into runs of neighbouring cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from psycopg.sql import SQL, Identifier

from oarpy.store.database import Connection
from oarpy.store.past.reading import has_past_since, with_past

Places = NDArray[np.int32]
"""Runs of neighbouring cells: first place and number of each, one after the other."""

# Jobs that ended in the period, from the index on the end; jobs that hold; and the plan of the last pass.
_BARS = """
    WITH bars AS (
        SELECT job_id, started_at AS begin, ended_at AS finish, false AS planned, user_name, queue_name, project, state
        FROM jobs WHERE ended_at > %(begin)s AND started_at < %(end)s
        UNION ALL
        SELECT job_id, started_at, greatest(expected_end(jobs), now()), false, user_name, queue_name, project, state
        FROM public.jobs WHERE is_live(state) AND started_at < %(end)s AND started_at IS NOT NULL
        UNION ALL
        SELECT job_id, g.start_time, g.end_time, true, user_name, queue_name, project, state
        FROM gantt_predictions g JOIN public.jobs USING (job_id)
        WHERE g.start_time < %(end)s AND g.end_time > %(begin)s
    )
    SELECT job_id, extract(epoch FROM begin)::float8, extract(epoch FROM finish)::float8, planned,
           user_name, queue_name, project, state
    FROM bars WHERE finish > %(begin)s ORDER BY begin DESC, job_id DESC LIMIT %(limit)s
"""

# The numbers of a job as one string of four bytes each, which becomes an array as it is.
_ASSIGNED = """
    SELECT job_id, string_agg(int4send(resource_id), '\\x') FROM assigned_resources
    WHERE job_id = ANY(ARRAY(SELECT unnest(%s::bigint[]))) GROUP BY job_id
"""
# The resources that grown or shrunk jobs held, by time.
_RESIZED = """
    SELECT a.job_id, extract(epoch FROM lower(part))::float8, extract(epoch FROM upper(part))::float8,
           array_agg(a.resource_id)
    FROM assigned_resources a CROSS JOIN LATERAL unnest(a.during) AS part
    WHERE a.job_id IN (SELECT job_id FROM resizes WHERE job_id = ANY(%s)) GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""
_PLANNED = """
    SELECT g.job_id, lower(part), upper(part) FROM gantt_predictions g, unnest(g.resources) AS part
    WHERE g.job_id = ANY(%s)
"""

# Accepted reservations that may still move, by the plan of the last pass.
_WINDOWS = """
    SELECT job_id, extract(epoch FROM greatest(w.ready, now()))::float8, extract(epoch FROM w.deadline)::float8
    FROM reservation_windows w JOIN public.jobs j USING (job_id) JOIN gantt_predictions USING (job_id)
    WHERE j.state IN ('Waiting', 'Hold') AND j.reservation_state = 'Scheduled' AND w.fixed_at IS NULL
      AND j.reservation_start > now() + %(notice)s * interval '1 second'
      AND w.deadline > %(begin)s AND greatest(w.ready, now()) < %(end)s
    ORDER BY w.deadline, job_id LIMIT %(limit)s
"""

_OVER = ("Terminated", "Error")
_MOST_KEPT = 200_000

_LEVELS = "SELECT resource_id, {columns} FROM resources WHERE type = 'default' ORDER BY {order}"


class Span(NamedTuple):
    """A job from ``begin`` to ``end`` (epoch seconds) on the cells of ``places``; ``planned``: it has not started."""

    job_id: int
    begin: float
    end: float
    planned: bool
    user: str
    queue: str
    project: str
    state: str
    places: Places


class WindowSpan(NamedTuple):
    """A reservation that may move from ``ready`` to ``deadline`` (epoch seconds), and the cells that it has now."""

    job_id: int
    ready: float
    deadline: float
    places: Places


@dataclass(frozen=True, slots=True)
class Axis:
    """The cells in the order of the hierarchy: ids by place, and the values of each level by place.

    ``past`` keeps the places of ended jobs, which never change.
    """

    resource_ids: NDArray[np.int64]
    levels: dict[str, list[str]]
    past: dict[int, Places] = field(default_factory=dict)


def axis(connection: Connection, levels: Sequence[str]) -> Axis:
    """Return the cells ordered by ``levels``, which are names of columns of ``resources``, the widest first."""
    columns = SQL(", ").join(map(Identifier, levels))
    rows = connection.execute(SQL(_LEVELS).format(columns=columns, order=SQL("resource_id"))).fetchall()
    # nodes in the order in which they were described; a wider level begins with its first node
    ranks = [_ranks([row[place + 1] for row in rows]) for place in range(len(levels))]
    order = sorted(range(len(rows)), key=lambda at: tuple(rank[at] for rank in ranks))
    ids = np.array([rows[at][0] for at in order], dtype=np.int64)
    return Axis(ids, {name: [str(rows[at][place + 1]) for at in order] for place, name in enumerate(levels)})


def _ranks(values: Sequence[object]) -> list[int]:
    known: dict[object, int] = {}
    return [known.setdefault(value, len(known)) for value in values]


def spans(connection: Connection, begin: datetime, end: datetime, cells: Axis, limit: int) -> tuple[Span, ...]:
    """Return the spans that meet the period, the latest ``limit`` of them, the latest start first."""
    period = {"begin": begin, "end": end, "limit": limit}
    with with_past(connection) if has_past_since(connection, begin) else nullcontext():
        rows = connection.execute(_BARS, period, binary=True).fetchall()
        begun = [row[0] for row in rows if not row[3] and row[0] not in cells.past]
        resized = _resized(connection, begun, cells)
        placed = _placed(connection, [job for job in begun if job not in resized], cells)
    _keep(cells, {row[0]: placed[row[0]] for row in rows if row[7] in _OVER and row[0] in placed})
    placed.update(cells.past)
    planned = _planned(connection, [row[0] for row in rows if row[3]], cells)
    nowhere = np.empty(0, dtype=np.int32)
    listed: list[Span] = []
    for row in rows:
        job, planned_only = row[0], row[3]
        if planned_only or job not in resized:
            listed.append(Span(*(*row, (planned if planned_only else placed).get(job, nowhere))))
            continue
        for since, until, places in resized[job]:
            begun_at, over_at = max(row[1], since), min(row[2], until)
            if begun_at < over_at:
                listed.append(Span(*(job, begun_at, over_at, *row[3:], places)))
    return tuple(listed)


def windows(
    connection: Connection, begin: datetime, end: datetime, cells: Axis, limit: int, notice: float
) -> list[WindowSpan]:
    """Return the windows that meet the period, the first ``limit`` by their deadlines.

    A reservation that begins within ``notice`` seconds no longer moves.
    """
    rows = connection.execute(_WINDOWS, {"begin": begin, "end": end, "limit": limit, "notice": notice}).fetchall()
    places = _planned(connection, [row[0] for row in rows], cells)
    return [WindowSpan(*(*row, places[row[0]])) for row in rows if row[0] in places]


def _keep(cells: Axis, over: dict[int, Places]) -> None:
    if len(cells.past) + len(over) > _MOST_KEPT:
        cells.past.clear()
    cells.past.update(over)


def _placed(connection: Connection, jobs: Sequence[int], cells: Axis) -> dict[int, Places]:
    rows = connection.execute(_ASSIGNED, [list(jobs)], binary=True).fetchall()
    owners = np.array([row[0] for row in rows], dtype=np.int64)
    counts = np.array([len(row[1]) // 4 for row in rows], dtype=np.int64)
    resources = np.frombuffer(b"".join(row[1] for row in rows), dtype=">i4").astype(np.int64)
    return _runs(np.repeat(owners, counts), resources, cells)


def _resized(connection: Connection, jobs: Sequence[int], cells: Axis) -> dict[int, list[tuple[float, float, Places]]]:
    """Return the resources that grown or shrunk jobs among these held, by time; instants are epoch seconds."""
    rows = connection.execute(_RESIZED, [list(jobs)]).fetchall()
    if not rows:
        return {}
    pieces = np.repeat(np.arange(len(rows)), [len(row[3]) for row in rows])
    places = _runs(pieces, np.array([resource for row in rows for resource in row[3]], dtype=np.int64), cells)
    by_job: dict[int, list[tuple[float, float, Places]]] = {}
    for piece, (job, since, until, _) in enumerate(rows):
        if piece in places:
            by_job.setdefault(job, []).append((since, inf if until is None else until, places[piece]))
    return by_job


def _planned(connection: Connection, jobs: Sequence[int], cells: Axis) -> dict[int, Places]:
    rows = connection.execute(_PLANNED, [list(jobs)]).fetchall()
    owners, firsts, ends = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    lengths = ends - firsts
    # each range counted out: its first number, and the distance of each number from it
    steps = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return _runs(np.repeat(owners, lengths), np.repeat(firsts, lengths) + steps, cells)


def _runs(jobs: NDArray[np.int64], resources: NDArray[np.int64], cells: Axis) -> dict[int, Places]:
    """Return the runs of neighbouring places of each job; resources that are no cells are left out."""
    place_of = np.full(int(max(cells.resource_ids.max(initial=0), resources.max(initial=0))) + 1, -1, dtype=np.int64)
    place_of[cells.resource_ids] = np.arange(len(cells.resource_ids))
    places = place_of[resources]
    if not len(places):
        return {}
    # one number for job and place, a job's last place far from the next job's first
    wide = len(cells.resource_ids) + 1
    keys = (jobs * wide + places)[places >= 0]
    keys.sort()
    begins = np.flatnonzero(np.r_[True, np.diff(keys) != 1])
    counts = np.diff(np.r_[begins, len(keys)])
    owners, firsts = np.divmod(keys[begins], wide)
    runs = np.column_stack((firsts, counts)).astype(np.int32).reshape(-1)
    bounds = np.flatnonzero(np.r_[True, np.diff(owners) != 0])
    ends = np.r_[bounds[1:], len(owners)]
    parts = zip(owners[bounds].tolist(), (2 * bounds).tolist(), (2 * ends).tolist(), strict=True)
    return {owner: runs[first:last] for owner, first, last in parts}
