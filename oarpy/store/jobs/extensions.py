"""The rows of extensions: requests for hosts of running jobs, with what passes give and take back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from oarpy.store.database import Connection
from oarpy.store.refusals import set_wise

# A partial index has the extensions that are not over: without any, it is empty.
ANY_THERE = "EXISTS (SELECT FROM extensions WHERE state IN ('Waiting', 'Granting', 'Granted'))"
_EXTENSION = """
    SELECT e.extension_id, e.job_id, e.kind, e.tag, e.hosts, extract(epoch FROM e.asked_at)::float8, e.state, e.told
"""
# Amounts are of the alternative that the job runs by.
_WITH_JOB = """
           , coalesce((SELECT a.level FROM applications a WHERE a.job_id = e.job_id), 'host'),
           j.state, j.user_name, j.project, j.queue_name, j.job_name, j.types, j.properties,
           ARRAY(SELECT c.consumable FROM consumption_descriptions c WHERE c.moldable_id = j.moldable_id
                 ORDER BY c.position),
           ARRAY(SELECT c.amount FROM consumption_descriptions c WHERE c.moldable_id = j.moldable_id
                 ORDER BY c.position)
    FROM extensions e JOIN jobs j USING (job_id)
    WHERE e.state IN ('Waiting', 'Granting', 'Granted') ORDER BY e.extension_id
"""
_LIVE = f"{_EXTENSION}{_WITH_JOB}"
_ONE = f"{_EXTENSION} FROM extensions e WHERE e.extension_id = %s"
_OF_JOBS = f"{_EXTENSION} FROM extensions e WHERE e.job_id = ANY(%s) AND e.state <> 'Withdrawn' ORDER BY 1"

# Hosts of revocable extensions, including hosts on their way out: they hold others back only until they are gone.
_REVOCABLE = """
    SELECT a.extension_id, a.job_id, array_agg(a.resource_id ORDER BY a.resource_id),
           extract(epoch FROM max(lower(range_of.last)))::float8, extract(epoch FROM min(a.reclaim_at))::float8,
           bool_or(EXISTS (SELECT FROM resizes s WHERE s.job_id = a.job_id AND s.done_at IS NULL AND s.kind <> 'grant'
                             AND a.resource_id = ANY(s.resource_ids)))
    FROM extensions e JOIN assigned_resources a ON a.job_id = e.job_id AND a.extension_id = e.extension_id
        JOIN resources r USING (resource_id)
        CROSS JOIN LATERAL (SELECT part AS last FROM unnest(a.during) AS part ORDER BY part DESC LIMIT 1) AS range_of
    WHERE e.state IN ('Granting', 'Granted') AND e.kind = 'revocable' AND upper_inf(a.during)
    GROUP BY a.extension_id, a.job_id, r.network_address ORDER BY min(a.resource_id)
"""

_WITHDRAW = "UPDATE extensions SET state = 'Withdrawn' WHERE job_id = %s AND kind = %s AND state = 'Waiting'"
_LOCK = """
    SELECT FROM jobs WHERE job_id = %s AND state IN ('toLaunch', 'Launching', 'Running', 'Suspended', 'Resuming')
    FOR NO KEY UPDATE
"""
_HOSTS = """
    SELECT r.network_address FROM assigned_resources a JOIN resources r USING (resource_id)
    WHERE (a.job_id, a.extension_id) = (SELECT e.job_id, e.extension_id FROM extensions e WHERE e.extension_id = %s)
      AND upper_inf(a.during)
    GROUP BY r.network_address ORDER BY min(r.resource_id)
"""
_ASK = "INSERT INTO extensions (job_id, kind, tag, hosts) VALUES (%s, %s, %s, %s) RETURNING extension_id"

_OVER = """
    UPDATE extensions e SET state = 'Over' FROM jobs j
    WHERE e.job_id = j.job_id AND j.state IN ('Terminated', 'Error')
      AND e.state IN ('Waiting', 'Granting', 'Granted')
    RETURNING e.extension_id
"""
_ESTIMATE = """
    UPDATE extensions e SET told = s.told::jsonb
    FROM unnest(%s::bigint[], %s::text[]) AS s(extension_id, told)
    WHERE e.extension_id = s.extension_id AND e.state = 'Waiting'
"""

# A session that ends a job waits for the pass that gives it hosts, or is seen by the pass.
_LOCK_GROWING = """
    SELECT FROM jobs WHERE job_id IN (SELECT e.job_id FROM extensions e WHERE e.extension_id = ANY(%s))
    ORDER BY job_id FOR NO KEY UPDATE
"""
# A job that has ended, or is to end, gets nothing any more.
_GRANTING = """
    UPDATE extensions e SET state = 'Granting' FROM jobs j
    WHERE e.extension_id = ANY(%s) AND e.state = 'Waiting' AND j.job_id = e.job_id AND j.state = 'Running'
      AND NOT EXISTS (SELECT FROM kill_requests k WHERE k.job_id = j.job_id AND k.state <> 'done')
    RETURNING e.extension_id
"""
_ORDER = """
    INSERT INTO resizes (job_id, kind, resource_ids, extension_id)
    SELECT e.job_id, 'grant', array_agg(g.resource_id ORDER BY g.resource_id), e.extension_id
    FROM unnest(%s::bigint[], %s::int[]) AS g(extension_id, resource_id) JOIN extensions e USING (extension_id)
    GROUP BY e.extension_id
"""
# A host that the job had before is a further time at which it holds it.
_GIVE = """
    INSERT INTO assigned_resources AS a (job_id, resource_id, during, extension_id)
    SELECT e.job_id, g.resource_id, tstzmultirange(tstzrange(statement_timestamp(), NULL)), e.extension_id
    FROM unnest(%s::bigint[], %s::int[]) AS g(extension_id, resource_id) JOIN extensions e USING (extension_id)
    ON CONFLICT (job_id, resource_id) DO UPDATE SET during = a.during + excluded.during,
        extension_id = excluded.extension_id, reclaim_at = NULL
"""

_RECLAIM = """
    UPDATE assigned_resources a SET reclaim_at = to_timestamp(s.at)
    FROM unnest(%s::bigint[], %s::int[], %s::float8[]) AS s(job_id, resource_id, at)
    WHERE a.job_id = s.job_id AND a.resource_id = s.resource_id AND upper_inf(a.during) AND a.reclaim_at IS NULL
"""
# Two orders for one host would be two if neither saw the other.
_LOCK_LOSING = """
    SELECT FROM jobs WHERE job_id IN (
        SELECT a.job_id FROM assigned_resources a WHERE a.reclaim_at <= to_timestamp(%s) AND upper_inf(a.during))
    ORDER BY job_id FOR NO KEY UPDATE
"""
_TAKE = """
    INSERT INTO resizes (job_id, kind, resource_ids)
    SELECT a.job_id, 'take', array_agg(a.resource_id ORDER BY a.resource_id)
    FROM assigned_resources a JOIN jobs j USING (job_id)
    WHERE a.reclaim_at <= to_timestamp(%s) AND upper_inf(a.during) AND j.state = 'Running'
      AND NOT EXISTS (SELECT FROM resizes r WHERE r.job_id = a.job_id AND r.done_at IS NULL AND r.kind <> 'grant'
                        AND a.resource_id = ANY(r.resource_ids))
    GROUP BY a.job_id
"""


@dataclass(frozen=True, slots=True)
class ExtensionRow:
    """Hosts that are requested for a job, by cluster; under an empty name for hosts of any cluster.

    ``asked`` is in epoch seconds, ``told`` the last estimate.
    """

    id: int
    job: int
    kind: str
    tag: str | int | None
    hosts: Mapping[str, int]
    asked: float
    state: str
    told: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class LiveExtension:
    """An extension that is not over, with the facts of its job.

    ``level`` is the level that counts as its hosts, ``amounts`` are the amounts of the job, by consumable.
    """

    row: ExtensionRow
    level: str
    job_state: str
    user: str
    project: str
    queue: str
    name: str
    types: tuple[str, ...]
    properties: str
    amounts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class RevocableHost:
    """A host of a revocable extension: its resources (ids), since when the job has it, when it will be taken.

    Instants are epoch seconds. ``leaving``: its nodes know already that it goes.
    """

    extension: int
    job: int
    resources: tuple[int, ...]
    since: float
    reclaim_at: float | None
    leaving: bool = False


def live(connection: Connection) -> list[LiveExtension]:
    """Return the extensions that wait, are granted, or still hold resources."""
    extensions = []
    for row in connection.execute(_LIVE).fetchall():
        level, state, user, project, queue, name, types, properties, names, amounts = row[8:]
        job = level, state, user, project, queue, name, tuple(types), properties
        extensions.append(LiveExtension(ExtensionRow(*row[:8]), *job, tuple(zip(names, amounts, strict=True))))
    return extensions


def of_jobs(connection: Connection, jobs: Sequence[int]) -> list[ExtensionRow]:
    """Return all extensions of these jobs that were not withdrawn, the oldest request first."""
    return [ExtensionRow(*row) for row in connection.execute(_OF_JOBS, [list(jobs)]).fetchall()]


def one(connection: Connection, number: int) -> ExtensionRow:
    """Return an extension by its number."""
    row = connection.execute(_ONE, [number]).fetchone()
    assert row is not None
    return ExtensionRow(*row)


def hosts_of(connection: Connection, number: int) -> list[str]:
    """Return the names of the hosts that a job holds by an extension."""
    return [name for (name,) in connection.execute(_HOSTS, [number]).fetchall()]


def revocable(connection: Connection) -> list[RevocableHost]:
    """Return the hosts that jobs hold until another job needs them, by lowest resource."""
    return [
        RevocableHost(extension, job, tuple(resources), *rest)
        for extension, job, resources, *rest in connection.execute(_REVOCABLE).fetchall()
    ]


def lock(connection: Connection, job: int) -> bool:
    """Keep a job from ending before the end of the transaction; False when it does not run."""
    return connection.execute(_LOCK, [job]).fetchone() is not None


def ask(connection: Connection, job: int, kind: str, tag: str | int | None, hosts: Mapping[str, int]) -> int | None:
    """Ask for hosts in place of the pending request of that kind; return its number, None when ``hosts`` is empty."""
    connection.execute(_WITHDRAW, [job, kind])
    if not hosts:
        return None
    row = connection.execute(_ASK, [job, kind, Jsonb(tag), Jsonb(dict(hosts))]).fetchone()
    assert row is not None
    return int(row[0])


def end(connection: Connection) -> list[int]:
    """Let the extensions of ended jobs be over; return which."""
    return [number for (number,) in connection.execute(_OVER).fetchall()]


def estimate(connection: Connection, estimates: Sequence[tuple[int, str]]) -> None:
    """Keep estimates of waiting extensions: number, estimate as JSON."""
    if estimates:
        numbers, texts = zip(*estimates, strict=True)
        connection.execute(_ESTIMATE, [list(numbers), list(texts)])


@dataclass(frozen=True, slots=True)
class Grant:
    """Resources (ids) that an extension gets; ``job`` is its number in passes, below 0."""

    job: int
    extension: int
    resources: Sequence[int]


@set_wise
def grant(connection: Connection, grants: Sequence[Grant]) -> list[int]:
    """Give extensions their resources, and order messages to nodes; return the extensions that really got them.

    Raises ``psycopg.errors.ExclusionViolation`` when an exclusive resource is still held.
    """
    if not grants:
        return []
    numbers = [grant.extension for grant in grants]
    connection.execute(_LOCK_GROWING, [numbers])
    moved = [number for (number,) in connection.execute(_GRANTING, [numbers]).fetchall()]
    given = [
        (grant.extension, resource) for grant in grants if grant.extension in moved for resource in grant.resources
    ]
    if given:
        owners, resources = map(list, zip(*given, strict=True))
        connection.execute(_ORDER, [owners, resources])
        connection.execute(_GIVE, [owners, resources])
    return moved


def reclaim(connection: Connection, hosts: Sequence[tuple[int, Sequence[int], float]]) -> None:
    """Note that these resources of jobs will be taken: job, ids, instant (epoch seconds). A date that is set stays."""
    rows = [(job, resource, float(at)) for job, resources, at in hosts for resource in resources]
    if rows:
        connection.execute(_RECLAIM, [list(column) for column in zip(*rows, strict=True)])


def take(connection: Connection, now: float) -> None:
    """Order that resources are taken from jobs whose notice is over at ``now`` (epoch seconds)."""
    connection.execute(_LOCK_LOSING, [now])
    connection.execute(_TAKE, [now])
