"""The log of events, of jobs and of nodes.

Statements that change rows log their changes by themselves; events that are known beforehand go through :func:`log`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from oarpy.model.reasons import Reason, ReasonDocument, local_instant, reason_json, sentence
from oarpy.store.database import Connection
from oarpy.store.past.reading import has_past_since, with_past


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at ``at`` (epoch seconds) to a job, to nodes, or to both."""

    event_id: int
    at: float
    type: str
    job_id: int | None
    hosts: tuple[str, ...]
    description: str
    reason_data: ReasonDocument | None = None
    """The description for programs, of a pass's verdict on a job, or of the change of a waiting job."""


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event to log about a job, about nodes, or about both."""

    type: str
    description: str
    job: int | None = None
    hosts: tuple[str, ...] = ()


_LOG = """
    INSERT INTO event_logs (type, job_id, hosts, description)
    SELECT type, job_id, string_to_array(hosts, ' '), description
    FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::text[]) AS e(type, job_id, hosts, description)
"""

_OF_JOBS = """
    SELECT event_id, extract(epoch FROM at)::float8, type, job_id, hosts, description, reason_data
    FROM event_logs WHERE job_id = ANY(%s) ORDER BY event_id
"""

# The newest first, from the index on the date; without hosts, every event that names some.
_OF_HOSTS = """
    SELECT event_id, extract(epoch FROM at)::float8, type, job_id, hosts, description, reason_data
    FROM event_logs
    WHERE CASE WHEN %(all)s THEN hosts <> '{}' ELSE hosts && %(hosts)s::text[] END
      AND at >= coalesce(%(since)s::timestamptz, '-infinity')
    ORDER BY at DESC, event_id DESC LIMIT %(limit)s
"""


def log(connection: Connection, new: Iterable[NewEvent]) -> None:
    """Log events, in this order."""
    rows = [(event.type, event.job, " ".join(event.hosts), event.description) for event in new]
    if rows:
        connection.execute(_LOG, [list(column) for column in zip(*rows, strict=True)])


def log_request(connection: Connection, job_ids: Iterable[int], by: str, event: str) -> None:
    """Log for each job that ``by`` requested ``event``."""
    log(connection, (NewEvent(event, f"asked by {by}", job) for job in job_ids))


_LOG_REASON = """
    INSERT INTO event_logs (type, job_id, description, reason_data)
    SELECT %s, e.job, e.words, e.data::jsonb FROM unnest(%s::bigint[], %s::text[], %s::text[]) AS e(job, words, data)
"""


def log_reasons(connection: Connection, event: str, reasons: Mapping[int, Reason]) -> None:
    """Log an event of each job, described for people and for programs."""
    described = [sentence(reason, local_instant) for reason in reasons.values()]
    connection.execute(_LOG_REASON, [event, list(reasons), described, list(map(reason_json, reasons.values()))])


def job_events(connection: Connection, job_ids: Sequence[int]) -> dict[int, tuple[Event, ...]]:
    """Return the events of each job that has some, oldest first."""
    by_job: dict[int, list[Event]] = defaultdict(list)
    for number, at, kind, job, hosts, *details in connection.execute(_OF_JOBS, [list(job_ids)]):
        by_job[job].append(Event(number, at, kind, job, tuple(hosts), *details))
    return {job: tuple(events) for job, events in by_job.items()}


def host_events(
    connection: Connection, hosts: Sequence[str] | None, since: datetime | None, limit: int | None
) -> tuple[Event, ...]:
    """Return events of ``hosts`` (None: of any), oldest first: the last ``limit`` (None: all) from ``since`` on."""
    values = {"all": hosts is None, "hosts": list(hosts or ()), "since": since, "limit": limit}
    rows = connection.execute(_OF_HOSTS, values).fetchall()
    # an event may tell of a job that ended the month before
    oldest = datetime.fromtimestamp(rows[-1][1], UTC) if rows and len(rows) == limit else since
    if oldest is None or has_past_since(connection, oldest - timedelta(days=31)):
        with with_past(connection):
            rows = connection.execute(_OF_HOSTS, values).fetchall()
    return tuple(
        Event(number, at, kind, job, tuple(hosts), *details)
        for number, at, kind, job, hosts, *details in reversed(rows)
    )
