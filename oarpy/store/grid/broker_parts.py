"""The parts of components on clusters. Transactions change them, and so do the events of clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oarpy.model.states import GridPartState
from oarpy.store.database import Connection


@dataclass(frozen=True, slots=True)
class GridPartRow:
    """A part; times in epoch seconds, ``walltime`` in seconds on its cluster. ``component`` is a number in its job."""

    name: str
    job: int
    component: int
    cluster: str
    kind: str
    state: GridPartState
    cluster_job: str
    transaction: int
    walltime: float
    hosts: tuple[str, ...]
    made: float
    started: float | None
    ended: float | None
    exit_status: int | None
    end_asked: float | None
    message: str


@dataclass(frozen=True, slots=True)
class WaitingGridPart:
    """A committed waiting part of a mapped job that no open transaction concerns: it may be moved."""

    name: str
    job: int
    cluster: str
    user: str
    submitted: float
    walltime: float
    resources: str
    procs: int
    queue: str
    properties: str
    project: str
    types: tuple[str, ...]


_PART = """
    SELECT p.name, p.job, p.component, p.cluster, p.kind, p.state, p.cluster_job, p.transaction,
           extract(epoch FROM p.walltime)::float8, p.hosts, extract(epoch FROM p.made_at)::float8,
           extract(epoch FROM p.started_at)::float8, extract(epoch FROM p.ended_at)::float8, p.exit_status,
           extract(epoch FROM p.end_asked)::float8, p.message
    FROM grid_parts p
"""
_OF_JOBS = f"{_PART} WHERE p.job = ANY(%s) ORDER BY p.job, p.component, p.made_at, p.name"
_LAST_OF_JOBS = f"""{_PART}
    JOIN (SELECT job, max(transaction) AS transaction FROM grid_parts WHERE job = ANY(%s) GROUP BY job) l
        USING (job, transaction)
    ORDER BY p.job, p.component, p.made_at, p.name
"""  # noqa: S608 - a text of this file
_BY_NAME = f"{_PART} WHERE p.name = ANY(%s) ORDER BY p.name"
_OF_TRANSACTION = f"{_PART} WHERE p.transaction = %s ORDER BY p.job, p.component, p.name"
_TO_END = f"""{_PART}
    WHERE p.end_asked IS NOT NULL AND p.state IN ('Committing', 'Waiting', 'Running') ORDER BY p.name
"""
_LIVE_CLUSTERS = """
    SELECT DISTINCT cluster FROM grid_parts WHERE state NOT IN ('Ended', 'Gone') ORDER BY cluster
"""
_LOCK = f"{_PART} WHERE p.name = ANY(%s) ORDER BY p.name FOR NO KEY UPDATE"
_MOVE = """
    UPDATE grid_parts SET state = %(state)s, message = coalesce(%(message)s, message),
        started_at = coalesce(to_timestamp(%(started)s), started_at),
        ended_at = coalesce(to_timestamp(%(ended)s), ended_at),
        exit_status = coalesce(%(status)s, exit_status),
        hosts = CASE WHEN %(hosts)s::text[] = '{}' THEN hosts ELSE %(hosts)s END,
        cluster_job = CASE WHEN %(job)s = '' THEN cluster_job ELSE %(job)s END
    WHERE name = %(name)s AND state <> %(state)s
"""
_NOTE_HOSTS = """
    UPDATE grid_parts p SET hosts = ARRAY(SELECT h.host FROM unnest(%s::text[], %s::text[]) AS h(name, host)
                                          WHERE h.name = p.name)
    WHERE p.name = ANY(%s)
"""
_ASK_END = """
    UPDATE grid_parts SET end_asked = clock_timestamp(), message = %s
    WHERE name = ANY(%s) AND end_asked IS NULL AND state NOT IN ('Ended', 'Gone') RETURNING name
"""
# No place has more parts than there are clusters.
_SET_ASIDE = """
    WITH aside AS (
        INSERT INTO grid_components (job, number, resources, procs, properties, types)
        SELECT c.job, greatest((SELECT max(number) FROM grid_components WHERE job = c.job),
                               (SELECT count(*) FROM grid_clusters)) + 1, c.resources, c.procs, c.properties, c.types
        FROM grid_parts p JOIN grid_components c ON (c.job, c.number) = (p.job, p.component) WHERE p.name = %(name)s
        RETURNING number
    )
    UPDATE grid_parts SET component = aside.number FROM aside WHERE name = %(name)s
"""
_NUMBER = """
    UPDATE grid_parts p SET component = s.number FROM unnest(%s::text[], %s::int[]) AS s(name, number)
    WHERE p.name = s.name AND p.component <> s.number
"""
_MOVABLE = """
    SELECT p.name, p.job, p.cluster, j.user_name, extract(epoch FROM j.submitted_at)::float8,
           extract(epoch FROM j.walltime)::float8, c.resources, c.procs, j.queue_name, c.properties, j.project, c.types
    FROM grid_parts p JOIN grid_jobs j ON j.id = p.job
         JOIN grid_components c ON c.job = p.job AND c.number = p.component
         JOIN grid_transactions t ON t.id = p.transaction
    WHERE p.state = 'Waiting' AND j.kind = 'mapped' AND j.state = 'Mapped' AND j.delete_asked IS NULL
      AND p.end_asked IS NULL AND t.state = 'Done'
    ORDER BY j.submitted_at, j.id
"""


def of_jobs(connection: Connection, jobs: Sequence[int]) -> list[GridPartRow]:
    """Return all parts that jobs ever had, by job and component, older parts first."""
    return _rows(connection, _OF_JOBS, [list(jobs)])


def last_of_jobs(connection: Connection, jobs: Sequence[int]) -> list[GridPartRow]:
    """Return the parts of the last transaction of each of these jobs, by job and component."""
    return _rows(connection, _LAST_OF_JOBS, [list(jobs)])


def by_name(connection: Connection, names: Sequence[str]) -> list[GridPartRow]:
    """Return these parts, by name; unknown names are missing."""
    return _rows(connection, _BY_NAME, [list(names)])


def lock(connection: Connection, names: Sequence[str]) -> list[GridPartRow]:
    """Return these parts, and keep others from changing them until the transaction ends."""
    return _rows(connection, _LOCK, [list(names)])


def of_transaction(connection: Connection, transaction: int) -> list[GridPartRow]:
    """Return the parts that a transaction changed last."""
    return _rows(connection, _OF_TRANSACTION, [transaction])


def to_end(connection: Connection) -> list[GridPartRow]:
    """Return the parts whose end was requested and that go on, as far as is known."""
    return _rows(connection, _TO_END, [])


def movable(connection: Connection) -> list[WaitingGridPart]:
    """Return the parts that a reallocation pass may move, in order of submission; ``walltime`` is at speed 1."""
    rows = connection.execute(_MOVABLE).fetchall()
    parts = []
    for row in rows:
        fields = list(row)
        fields[-1] = tuple(row[-1])
        parts.append(WaitingGridPart(*fields))
    return parts


def clusters_in_use(connection: Connection) -> list[str]:
    """Return the clusters that have parts which are not over."""
    return [row[0] for row in connection.execute(_LIVE_CLUSTERS)]


def move(
    connection: Connection,
    name: str,
    state: GridPartState,
    message: str | None = None,
    *,
    started: float | None = None,
    ended: float | None = None,
    status: int | None = None,
    hosts: Sequence[str] = (),
    cluster_job: str = "",
) -> None:
    """Bring a part to a state, with the facts from its cluster. A forbidden move is an error."""
    values = {
        "name": name,
        "state": state.value,
        "message": message,
        "started": started,
        "ended": ended,
        "status": status,
        "hosts": list(hosts),
        "job": cluster_job,
    }
    connection.execute(_MOVE, values)


def note_hosts(connection: Connection, hosts: Mapping[str, Sequence[str]]) -> None:
    """Note the hosts that parts have, by name, one a processor's host."""
    pairs = [(name, host) for name, some in hosts.items() for host in some]
    connection.execute(_NOTE_HOSTS, [[name for name, _ in pairs], [host for _, host in pairs], list(hosts)])


def ask_end(connection: Connection, names: Sequence[str], reason: str) -> list[str]:
    """Ask for the end of parts; return the parts for which the request is new.

    The watcher has their clusters end them.
    """
    return [row[0] for row in connection.execute(_ASK_END, [reason, list(names)])]


def set_aside(connection: Connection, names: Sequence[str]) -> None:
    """Give parts of parallel jobs components of their own: another part stands, or may stand, for theirs."""
    for name in names:
        connection.execute(_SET_ASIDE, {"name": name})


def number(connection: Connection, numbers: Mapping[str, int]) -> None:
    """Assign parts, by name, to components, by number."""
    connection.execute(_NUMBER, [list(numbers), list(numbers.values())])


def _rows(connection: Connection, query: str, values: Sequence[Any]) -> list[GridPartRow]:
    parts = []
    for row in connection.execute(query, values).fetchall():
        fields = list(row)
        fields[5], fields[9] = GridPartState(row[5]), tuple(row[9])
        parts.append(GridPartRow(*fields))
    return parts
