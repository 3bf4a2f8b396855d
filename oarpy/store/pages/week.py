"""How busy the cluster was, hour by hour: cells that jobs held, and jobs that waited."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from oarpy.store.database import Connection
from oarpy.store.past.reading import has_past_since, with_past

_HOUR = 3600

# A row for all that a job held at the same time, and for each time that it waited. Jobs that ended before the period
# are not read.
_JOBS = "SELECT job_id FROM jobs WHERE ended_at > %(begin)s OR is_live(state)"
_HELD = f"""
    WITH held AS (
        SELECT a.during, count(*) AS cells
        FROM assigned_resources a JOIN ({_JOBS}) j USING (job_id) JOIN resources r USING (resource_id)
        WHERE r.type = 'default' GROUP BY a.job_id, a.during
    )
    SELECT extract(epoch FROM lower(part))::float8, extract(epoch FROM coalesce(upper(part), %(end)s))::float8,
           cells::float8
    FROM held, unnest(during) AS part
"""  # noqa: S608 - a query of the source
_WAITED = f"""
    SELECT extract(epoch FROM lower(l.during))::float8, extract(epoch FROM coalesce(upper(l.during), %(end)s))::float8
    FROM job_state_logs l JOIN ({_JOBS}) j USING (job_id)
    WHERE l.state = 'Waiting' AND coalesce(upper(l.during), %(end)s) > %(begin)s
"""  # noqa: S608 - a query of the source


@dataclass(frozen=True, slots=True)
class Hours:
    """For each hour from ``begin`` (epoch seconds) on: the mean number of busy cells, and of waiting jobs."""

    begin: float
    busy: tuple[float, ...]
    waiting: tuple[float, ...]


def hours(connection: Connection, begin: datetime, number: int) -> Hours:
    """Return ``number`` hours from ``begin`` on."""
    marks: NDArray[np.float64] = begin.timestamp() + _HOUR * np.arange(number + 1, dtype=np.float64)
    period = {"begin": begin, "end": datetime.fromtimestamp(float(marks[-1]), begin.tzinfo)}
    with with_past(connection) if has_past_since(connection, begin) else nullcontext():
        held = connection.execute(_HELD, period, binary=True).fetchall()
        waited = connection.execute(_WAITED, period, binary=True).fetchall()
    busy = _means(np.array(held, dtype=np.float64).reshape(-1, 3), marks)
    waits = np.array(waited, dtype=np.float64).reshape(-1, 2)
    return Hours(begin.timestamp(), busy, _means(np.column_stack((waits, np.ones(len(waits)))), marks))


def _means(spans: NDArray[np.float64], marks: NDArray[np.float64]) -> tuple[float, ...]:
    """Return the mean between marks of the sum of the values that spans ``(begin, end, value)`` add while they last.

    The sum is a staircase. The area below it up to a mark grows by each begin before it, and less by each end.
    """
    below = _grown(spans[:, 0], spans[:, 2], marks) - _grown(spans[:, 1], spans[:, 2], marks)
    return tuple((np.diff(below) / np.diff(marks)).round(3).tolist())


def _grown(steps: NDArray[np.float64], values: NDArray[np.float64], marks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for each mark, the sum of ``value`` times the time since its step, of the steps before the mark."""
    order = np.argsort(steps, kind="stable")
    # from the first mark on: seconds since 1970 times values are too large to be exact
    at, value = steps[order] - marks[0], values[order]
    number = np.searchsorted(at, marks - marks[0])
    sums, moments = np.r_[0.0, np.cumsum(value)], np.r_[0.0, np.cumsum(value * at)]
    grown: NDArray[np.float64] = (marks - marks[0]) * sums[number] - moments[number]
    return grown
