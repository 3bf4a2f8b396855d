"""The rows that a scheduling pass reads: live jobs, held resources, requests, dependencies, queues, resources."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, cast

from psycopg import sql

from oarpy.model.dependency import Dependency, Edge, Outcome, Shift
from oarpy.store.database import Connection
from oarpy.store.jobs.asked_columns import ASKED_COLUMNS
from oarpy.store.jobs.scope import JobScope, reached
from oarpy.store.rows import read

Kind = TypeVar("Kind")

# The same reading of an end as in the dependencies of a scheduling pass.
_OUTCOMES = """
    SELECT job_id, CASE WHEN state = 'Terminated' AND coalesce(exit_status, 0) = 0 THEN 'ok' ELSE 'notok' END,
           extract(epoch FROM coalesce(started_at, ended_at, now()))::bigint,
           extract(epoch FROM coalesce(ended_at, now()))::bigint
    FROM jobs
    WHERE job_id = ANY(%s)
      AND (state IN ('Terminated', 'Error', 'toError')
           OR state IN ('Waiting', 'Hold')
              AND EXISTS (SELECT FROM kill_requests k WHERE k.job_id = jobs.job_id AND k.state <> 'done'))
"""


@dataclass(frozen=True, slots=True)
class AnteriorRow:
    """How a job ended (``ok`` or ``notok``), and its start and end in epoch seconds."""

    outcome: Literal["ok", "notok"]
    span: tuple[int, int]


def outcomes(connection: Connection, job_ids: Iterable[int]) -> dict[int, AnteriorRow]:
    """Tell how each of these jobs ended that is over, or about to be without having run."""
    wanted = list(job_ids)
    if not wanted:
        return {}
    with reached(connection, JobScope(tuple(wanted), live=False)):
        rows = connection.execute(_OUTCOMES, [wanted]).fetchall()
    return {job: AnteriorRow(outcome, (began, over)) for job, outcome, began, over in rows}


PlatformRow = tuple[int, str, str, dict[str, object]]

# The counter moves with every change of resources or properties, so a cached platform is known to be current.
_PLATFORM_VERSION = "SELECT platform_version FROM site"
_SITE = "SELECT platform_version, EXISTS (SELECT FROM launch_gates), ARRAY[{}]::boolean[] FROM site"
# A job that holds its resources until its gate opens has them until its walltime from then on is over. Where a broker
# opens the gate, waiting does not move that end.
_GATED_ENDS = """
    SELECT g.job_id, extract(epoch FROM CASE
               WHEN g.lapses_at IS NULL THEN greatest(coalesce(g.opens_at, g.expected_at), now()) + g.walltime
               ELSE greatest(coalesce(g.opens_at, g.expected_at) + g.walltime, now() + interval '1 second')
           END)::float8
    FROM launch_gates g JOIN jobs j USING (job_id) WHERE j.state = 'toLaunch'
"""

_AMENDING = "SELECT job_id, instead_of FROM door_parts WHERE instead_of IS NOT NULL AND lapses_at IS NOT NULL"

_COLUMNS = "SELECT * FROM resources LIMIT 0"
_FINGERPRINT = """
    SELECT count(*), coalesce(sum(hash_record_extended(ROW(state = 'Dead', {}), 0)), 0) FROM resources
"""

# By name: if queues have equal priority, the policy of the first orders the jobs of all.
_QUEUES = """
    SELECT queue_name, priority, policy, active, gives_way_to FROM queues ORDER BY priority DESC, queue_name
"""


# Jobs that wait, in order of submission; the partial index holds live jobs alone. Every UPDATE changes a row's xmin.
_WAITING_VERSIONS = """
    SELECT job_id, xmin FROM jobs
    WHERE state IN ('Waiting', 'Hold')
    ORDER BY job_id
"""
# Looks up the live jobs between the runs, however many are in these or have ended: OFFSET keeps PostgreSQL from joining
# in another way.
_VERSIONS_BETWEEN = """
    SELECT j.job_id, j.xmin
    FROM unnest(%s::bigint[], %s::bigint[]) AS gap (first, last) CROSS JOIN LATERAL (
        SELECT job_id, xmin FROM jobs
        WHERE state IN ('Waiting', 'Hold') AND job_id BETWEEN gap.first AND gap.last ORDER BY job_id OFFSET 0) j
    ORDER BY j.job_id
"""
_LAST_ID = 2**63 - 1
# joined, as jobs would be looked for one by one in a long array
_WAITING = sql.SQL("""
    SELECT j.job_id AS id, j.xmin AS version, j.submission_id AS submission,
           extract(epoch FROM j.submitted_at)::float8 AS submitted, j.state = 'Hold' AS held, j.reservation_state,
           CASE WHEN j.throttle IS NULL THEN 0 ELSE j.array_id END AS array, {}
    FROM unnest(%s::bigint[]) AS wanted (job_id) JOIN jobs j USING (job_id)
    WHERE j.state IN ('Waiting', 'Hold')
""").format(ASKED_COLUMNS)
_DYING = "SELECT job_id FROM kill_requests WHERE state <> 'done'"

# Jobs that hold resources; a job that is not started yet holds from now on. Waiting jobs, of which there may be many,
# hold none.
_HOLDING = """
    SELECT j.job_id AS id, j.user_name AS user, j.project, j.queue_name AS queue, j.job_name AS name, j.types,
           extract(epoch FROM coalesce(j.started_at, now()))::float8 AS start,
           extract(epoch FROM j.walltime + j.suspended_time + coalesce(now() - j.suspended_at, interval '0'))::float8
               AS walltime,
           coalesce(array_agg(a.resource_id) FILTER (WHERE NOT a.suspended), '{}') AS resources,
           -- what has a date to end or be suspended is asked for no checkpoint any more; the function is dear for
           -- thousands of jobs, so it is asked only about those of queues and projects that give way
           CASE WHEN max(k.job_id) IS NOT NULL OR max(s.job_id) IS NOT NULL THEN 0
                WHEN j.queue_name = ANY (ARRAY(SELECT q.queue_name FROM queues q WHERE q.gives_way_to <> '{}'))
                     OR j.project = ANY (ARRAY(
                         WITH RECURSIVE giving (project) AS (
                             SELECT p.project FROM projects p WHERE p.gives_way_to <> '{}'
                             UNION
                             SELECT p.project FROM projects p JOIN giving g ON p.parent = g.project)
                         SELECT project FROM giving))
                THEN extract(epoch FROM time_to_leave(j))
                ELSE extract(epoch FROM j.checkpoint) END::float8 AS checkpoint,
           coalesce(array_agg(a.resource_id) FILTER (WHERE a.suspended), '{}') AS suspended,
           j.state = 'Resuming' AS resuming, CASE WHEN j.throttle IS NULL THEN 0 ELSE j.array_id END AS array,
           extract(epoch FROM coalesce(max(k.not_before), max(s.not_before)))::float8 AS leaves_at,
           coalesce(bool_or(k.requested_by = 'door'), false) AS evicted
    FROM jobs j JOIN assigned_resources a ON a.job_id = j.job_id AND (upper_inf(a.during) OR a.suspended)
        LEFT JOIN LATERAL (  -- looked up, however few PostgreSQL expects to be open
            SELECT k.job_id, k.not_before, k.requested_by FROM kill_requests k
            WHERE k.job_id = j.job_id AND k.state <> 'done' LIMIT 1) k ON true
        LEFT JOIN suspend_requests s ON s.job_id = j.job_id AND s.not_before IS NOT NULL
    WHERE j.state IN ('toAckReservation', 'toLaunch', 'Launching', 'Running', 'Suspended', 'Resuming', 'Finishing',
                      'toError')
    GROUP BY j.job_id
    ORDER BY j.job_id
"""

_RESERVED = """
    SELECT r.job_id, extract(epoch FROM j.reservation_start)::float8, extract(epoch FROM j.walltime)::float8,
           j.moldable_id, array_agg(r.resource_id)
    FROM reserved_resources r JOIN jobs j ON j.job_id = r.job_id
    GROUP BY r.job_id, j.job_id
"""

# Rows that keep others from resources though no pass reads them: their jobs do not hold, or do not wait, or the rows
# differ from their jobs. Looked for when a start was refused.
_STRAYS = """
    SELECT s.job_id AS id, j.user_name AS user, j.project, j.queue_name AS queue, s.begins AS start,
           coalesce(nullif(s.ends, 0), %(stay)s) AS walltime, array_agg(s.resource_id) AS resources
    FROM (
        SELECT job_id, resource_id, extract(epoch FROM now())::float8 AS begins,
               extract(epoch FROM upper(during) - now())::float8 AS ends
        FROM assigned_resources
        WHERE resource_id = ANY(%(resources)s) AND during && tstzrange(now(), NULL) AND NOT suspended
          AND NOT job_id = ANY(%(holding)s)
        UNION ALL
        SELECT job_id, resource_id, extract(epoch FROM lower(during))::float8,
               extract(epoch FROM upper(during) - lower(during))::float8
        FROM reserved_resources JOIN jobs USING (job_id)
        WHERE resource_id = ANY(%(resources)s) AND during && tstzrange(now(), NULL)
          AND NOT (job_id = ANY(%(reserved)s) AND lower(during) = reservation_start)
    ) AS s JOIN jobs j ON j.job_id = s.job_id
    GROUP BY s.job_id, j.job_id, s.begins, s.ends
"""
_STRAY_TIME = 60.0
"""Seconds for which a row without an end is expected to stay."""

# One row a group, its levels as two arrays, outermost first.
_REQUESTS = """
    SELECT m.submission_id, m.moldable_id, extract(epoch FROM m.walltime)::float8, g.filter,
           array_agg(d.level ORDER BY d.position), array_agg(d.count ORDER BY d.position),
           (SELECT array_agg(c.consumable ORDER BY c.position) FROM consumption_descriptions c
            WHERE c.moldable_id = m.moldable_id),
           (SELECT array_agg(c.amount ORDER BY c.position) FROM consumption_descriptions c
            WHERE c.moldable_id = m.moldable_id)
    FROM moldable_descriptions m
        JOIN resource_groups g USING (moldable_id)
        JOIN resource_descriptions d USING (group_id)
    WHERE m.submission_id = ANY(%s)
    GROUP BY m.submission_id, m.moldable_id, m.walltime, m.position, g.group_id, g.filter, g.position
    ORDER BY m.submission_id, m.position, g.position
"""

# A job that is about to end in error without having run counts as ended: the pass does not see it any more.
_DEPENDENCIES = """
    SELECT d.job_id, d.required_job_id, d.outcome,
           CASE WHEN r.state = 'Terminated' AND coalesce(r.exit_status, 0) = 0 THEN 'ok'
                WHEN r.state IN ('Terminated', 'Error', 'toError') THEN 'notok'
                WHEN r.state IN ('Waiting', 'Hold')
                    AND EXISTS (SELECT FROM kill_requests k WHERE k.job_id = r.job_id AND k.state <> 'done')
                    THEN 'notok' END,
           d.earliest_edge, extract(epoch FROM d.earliest_shift)::bigint,
           d.latest_edge, extract(epoch FROM d.latest_shift)::bigint,
           extract(epoch FROM coalesce(r.started_at, r.ended_at, now()))::bigint,
           extract(epoch FROM coalesce(r.ended_at, now()))::bigint
    FROM job_dependencies d JOIN jobs r ON r.job_id = d.required_job_id
    WHERE d.job_id = ANY(%s)
    ORDER BY d.job_id, d.required_job_id
"""


@dataclass(frozen=True, slots=True)
class ReservedRow:
    """The resources that an accepted reservation will hold.

    Fields whose rows are missing, because somebody removed them, are None.
    """

    id: int
    start: float | None
    walltime: float | None
    moldable: int | None
    resources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One resource group of one alternative of a submission; walltime in seconds.

    ``amounts`` are the amounts of the whole alternative, by consumable.
    """

    submission: int
    moldable: int
    walltime: float
    filter: str
    levels: tuple[tuple[str, int], ...]
    amounts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue: higher ``priority`` first; no job starts from a queue that is not ``active``.

    Its jobs give way to those of ``gives_way_to``.
    """

    name: str
    priority: int
    policy: str
    active: bool
    gives_way_to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DependencyRow:
    """``job`` waits for ``dependency``.

    ``ended`` is how the dependency ended (``ok``, ``notok``), None while it is live. Once it has ended, ``span`` is its
    start and end in epoch seconds.
    """

    job: int
    dependency: Dependency
    ended: str | None
    span: tuple[int, int]


def platform_version(connection: Connection) -> int:
    """Return the counter that changes with the platform."""
    row = connection.execute(_PLATFORM_VERSION).fetchone()
    assert row is not None
    return int(row[0])


def site(connection: Connection, conditions: Iterable[str] = ()) -> tuple[int, bool, list[bool]]:
    """Return the same counter, whether there are gates of launches, and which of some SQL conditions hold."""
    row = connection.execute(_SITE.format(", ".join(conditions))).fetchone()
    assert row is not None
    return int(row[0]), bool(row[1]), row[2]


def gated_ends(connection: Connection) -> dict[int, float]:
    """Return when (epoch seconds) jobs will be over that hold resources until they may be launched."""
    return dict(connection.execute(_GATED_ENDS).fetchall())


def amending(connection: Connection) -> dict[int, int]:
    """Return the reservations that will replace others, each with the one it replaces."""
    return dict(connection.execute(_AMENDING).fetchall())


def platform(connection: Connection) -> list[PlatformRow]:
    """Return (id, type, state, properties) of every resource; properties without a value are None."""
    # never prepared: a property that is added or deleted changes the columns, which a prepared statement does not bear
    cursor = connection.execute("SELECT * FROM resources ORDER BY resource_id", prepare=False)
    names = [column.name for column in cursor.description or ()]
    rows = []
    for values in cursor:
        properties = dict(zip(names, values, strict=True))
        rows.append((properties["resource_id"], properties["type"], properties["state"], properties))
    return rows


def property_kinds(connection: Connection) -> dict[str, str]:
    """Return the kind of every resource property by its name."""
    return dict(connection.execute("SELECT name, kind FROM resource_properties").fetchall())


def fingerprint(connection: Connection, without: Collection[str]) -> tuple[int, int]:
    """Return a value that differs when resources came, went, died or differ in a column that is not in ``without``."""
    names = [column.name for column in connection.execute(_COLUMNS, prepare=False).description or ()]
    columns = sql.SQL(", ").join(sql.Identifier(name) for name in names if name not in without)
    row = connection.execute(sql.SQL(_FINGERPRINT).format(columns), prepare=False).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def matching(connection: Connection, condition: str, values: Sequence[object]) -> list[int]:
    """Return the ids of the resources which meet a checked condition (see ``oarpy.admission.filters.filters``).

    ``condition`` was written by the filter compiler from a parsed tree: columns quoted, values as ``%s``.
    """
    query = sql.SQL("SELECT resource_id FROM resources WHERE {}").format(sql.SQL(condition))
    return [row[0] for row in connection.execute(query, list(values)).fetchall()]


RETURNED = {"state": sql.SQL("'Alive'::text"), "drain": sql.SQL("false")}
"""The state of a resource when it is back: the columns that change while it exists."""
_BACK = """
    SELECT resource_id
    FROM (SELECT {columns} FROM resources WHERE state IN ('Absent', 'Suspected') OR drain) AS resources
    WHERE {condition}
"""


def matching_when_back(
    connection: Connection, properties: Iterable[str], condition: str, values: Sequence[object]
) -> list[int]:
    """Return the resources that are away or drained and would meet a checked condition when they are back."""
    columns = (
        sql.SQL("{} AS {}").format(RETURNED.get(name, sql.Identifier(name)), sql.Identifier(name))
        for name in {"resource_id", *properties}
    )
    query = sql.SQL(_BACK).format(columns=sql.SQL(", ").join(columns), condition=sql.SQL(condition))
    return [row[0] for row in connection.execute(query, list(values), prepare=False).fetchall()]


def queues(connection: Connection) -> list[QueueRow]:
    """Return every queue, highest priority first, queues of equal priority by name."""
    return [
        QueueRow(name, priority, policy, active, tuple(others))
        for name, priority, policy, active, others in connection.execute(_QUEUES)
    ]


def waiting_versions(connection: Connection, without: Sequence[tuple[int, int]] = ()) -> list[tuple[int, int]]:
    """Return the jobs that wait or are held, ascending, each with a number that changes whenever its row does.

    ``without`` are runs of ids that are left out, ascending, each with its first and last id.
    """
    if not without:
        return connection.execute(_WAITING_VERSIONS, binary=True).fetchall()
    begins = [0, *(last + 1 for _, last in without)]
    ends = [*(first - 1 for first, _ in without), _LAST_ID]
    return connection.execute(_VERSIONS_BETWEEN, [begins, ends], binary=True).fetchall()


def waiting(connection: Connection, jobs: Sequence[int], kind: type[Kind]) -> list[Kind]:
    """Return the jobs among these that wait or are held.

    ``kind`` has a field for everything that passes read of a submission, and ``id``, ``version``, ``submission``,
    ``submitted`` (epoch seconds), ``held`` and ``reservation_state``.
    """
    return read(connection, _WAITING, kind, [list(jobs)])


def dying(connection: Connection) -> set[int]:
    """Return the jobs with a kill request that is not done."""
    return {job for (job,) in connection.execute(_DYING, binary=True).fetchall()}


def holding(connection: Connection, kind: type[Kind]) -> list[Kind]:
    """Return the jobs that hold resources.

    ``kind`` has the fields ``id``, ``user``, ``project``, ``queue``, ``name``, ``types``, ``start`` (epoch seconds),
    ``walltime``, ``resources``, ``resuming``, ``checkpoint`` (seconds, 0: it writes no state), and ``leaves_at``, the
    date of a job that writes it now, or was given a grace. For a part of a broker it has ``suspended``, the resources
    that it has given back, and ``evicted``.
    """
    return read(connection, _HOLDING, kind)


def strays(
    connection: Connection,
    resources: Collection[int],
    holding: Sequence[int],
    reserved: Sequence[int],
    kind: type[Kind],
) -> list[Kind]:
    """Return the jobs that keep others from ``resources``, without the jobs ``holding`` and the ``reserved`` ones.

    ``kind`` has the fields ``id``, ``user``, ``project``, ``queue``, ``start`` (epoch seconds), ``walltime`` and
    ``resources``.
    """
    about = {"resources": list(resources), "holding": list(holding), "reserved": list(reserved), "stay": _STRAY_TIME}
    return read(connection, _STRAYS, kind, about)


def reserved(connection: Connection) -> list[ReservedRow]:
    """Return the future resources of accepted reservations."""
    return [
        ReservedRow(job, start, walltime, moldable, tuple(resources))
        for job, start, walltime, moldable, resources in connection.execute(_RESERVED, binary=True).fetchall()
    ]


def requests(connection: Connection, submissions: Iterable[int]) -> list[GroupRow]:
    """Return the groups of the alternatives of these submissions, in order."""
    return [
        GroupRow(
            submission,
            moldable,
            walltime,
            condition,
            tuple(zip(levels, counts, strict=True)),
            tuple(zip(names or (), amounts or (), strict=True)),
        )
        for submission, moldable, walltime, condition, levels, counts, names, amounts in connection.execute(
            _REQUESTS, [list(submissions)], binary=True
        ).fetchall()
    ]


def dependencies(connection: Connection, jobs: Iterable[int]) -> list[DependencyRow]:
    """Return the dependencies of these jobs."""
    return [
        DependencyRow(job, stored_dependency(required, outcome, *shifts), ended, (began, over))
        for job, required, outcome, ended, *shifts, began, over in connection.execute(
            _DEPENDENCIES, [list(jobs)]
        ).fetchall()
    ]


def stored_dependency(
    required: int,
    outcome: str,
    earliest_edge: str | None,
    earliest_shift: int | None,
    latest_edge: str | None,
    latest_shift: int | None,
) -> Dependency:
    """Return a dependency as its row tells it; shifts in seconds."""
    return Dependency(
        required, cast(Outcome, outcome), _shift(earliest_edge, earliest_shift), _shift(latest_edge, latest_shift)
    )


def _shift(edge: str | None, seconds: int | None) -> Shift | None:
    return None if edge is None or seconds is None else Shift(cast(Edge, edge), seconds)
