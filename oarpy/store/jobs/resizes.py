"""Resizes: the messages to nodes of running jobs about hosts that come or go.

::

    grant      a pass gives hosts --> resize --> nodes are told --> confirm: granted
    release    resize --> nodes are told, processes there ended --> confirm: hosts are free
    take       the same, when the notice of hosts that others need is over

A grant that a node cannot follow becomes a take, and its extension is requested again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from oarpy.store import notifications
from oarpy.store.database import Connection
from oarpy.store.events import NewEvent, log

ResizeKind: TypeAlias = Literal["grant", "release", "take"]

_OPENED = """
    SELECT s.resize_id, s.job_id, s.kind, s.resource_ids, s.extension_id, NOT is_live(j.state),
           s.kind = 'grant' AND EXISTS (
               SELECT FROM resources r WHERE r.resource_id = ANY(s.resource_ids) AND r.state <> 'Alive')
    FROM resizes s JOIN jobs j USING (job_id)
    WHERE s.done_at IS NULL ORDER BY s.resize_id
"""

# An order that is on its way already is not given again: an order for a job waits for any other order for the job.
_LOCK_JOB = "SELECT FROM jobs WHERE job_id = %s FOR NO KEY UPDATE"
_ORDER = """
    INSERT INTO resizes (job_id, kind, resource_ids)
    SELECT a.job_id, %(kind)s, array_agg(a.resource_id ORDER BY a.resource_id)
    FROM assigned_resources a JOIN jobs j USING (job_id)
    WHERE a.job_id = %(job)s AND j.state = 'Running' AND a.resource_id = ANY(%(resources)s) AND upper_inf(a.during)
      AND NOT EXISTS (SELECT FROM resizes r WHERE r.job_id = a.job_id AND r.done_at IS NULL AND r.kind <> 'grant'
                        AND a.resource_id = ANY(r.resource_ids))
    GROUP BY a.job_id
    RETURNING resize_id
"""

# The first host is from the start of the job: hosts from the start never go.
_JOB = """
    SELECT j.job_id, j.user_name, j.state, j.types,
           extract(epoch FROM coalesce(expected_end(j), now() + j.walltime, now()) - now())::float8,
           (SELECT min(r.network_address) FROM assigned_resources a JOIN resources r USING (resource_id)
            WHERE a.job_id = j.job_id AND a.extension_id IS NULL AND r.type = 'default'
              AND (upper_inf(a.during) OR a.suspended))
    FROM jobs j WHERE j.job_id = %s
"""
_IS_OPEN = "SELECT FROM resizes WHERE resize_id = %s AND done_at IS NULL"
_LOCK = "SELECT FROM resizes WHERE resize_id = ANY(%s) AND done_at IS NULL FOR UPDATE"
# The resources of an ended job were closed by its end.
_CLOSE = """
    UPDATE assigned_resources a SET during = held_until(a.during, statement_timestamp()), reclaim_at = NULL
    FROM resizes r JOIN jobs j USING (job_id)
    WHERE r.resize_id = ANY(%s) AND r.done_at IS NULL AND r.kind <> 'grant' AND j.state = 'Running'
      AND a.job_id = r.job_id AND a.resource_id = ANY(r.resource_ids) AND upper_inf(a.during)
"""
_DONE = "UPDATE resizes SET done_at = statement_timestamp() WHERE resize_id = ANY(%s) AND done_at IS NULL"
_GRANTED = """
    UPDATE extensions e SET state = 'Granted' FROM resizes r
    WHERE r.resize_id = ANY(%s) AND e.extension_id = r.extension_id AND e.state = 'Granting'
"""
_EMPTIED = """
    UPDATE extensions e SET state = 'Over'
    WHERE e.state = 'Granted' AND e.job_id IN (SELECT job_id FROM resizes WHERE resize_id = ANY(%s))
      AND NOT EXISTS (SELECT FROM assigned_resources a WHERE a.job_id = e.job_id AND a.extension_id = e.extension_id
                        AND (upper_inf(a.during) OR a.suspended))
"""


# The extension is over with the hosts that it got; a copy of it keeps its rank, unless a newer one has taken its place.
_TAKE_BACK = """
    WITH taken AS (
        UPDATE resizes SET kind = 'take'
        WHERE resize_id = %(resize)s AND kind = 'grant' AND done_at IS NULL
    ), over AS (
        UPDATE extensions e SET state = 'Over',
            told = CASE WHEN %(again)s THEN e.told ELSE jsonb_build_object('refused', %(why)s::text) END
        WHERE e.extension_id = %(extension)s AND e.state = 'Granting'
        RETURNING e.job_id, e.kind, e.tag, e.hosts, e.asked_at
    )
    INSERT INTO extensions (job_id, kind, tag, hosts, asked_at)
    SELECT job_id, kind, tag, hosts, asked_at FROM over WHERE %(again)s
    ON CONFLICT (job_id, kind) WHERE state = 'Waiting' DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class ResizeRow:
    """An order to the nodes of a job: ``resources`` (ids) come, or go.

    ``over``: the job is over. ``away``: some of the coming resources are not Alive (any more).
    """

    id: int
    job: int
    kind: ResizeKind
    resources: tuple[int, ...]
    extension: int | None
    over: bool
    away: bool


@dataclass(frozen=True, slots=True)
class ResizableJob:
    """A job, the seconds that it has left, and its first host: None while it holds none."""

    job: int
    user: str
    state: str
    types: Sequence[str]
    seconds_left: float
    first_host: str | None


def job(connection: Connection, number: int) -> ResizableJob | None:
    """Return a job, None if it does not exist."""
    row = connection.execute(_JOB, [number]).fetchone()
    return None if row is None else ResizableJob(*row)


def is_open(connection: Connection, number: int) -> bool:
    """Tell whether some node has still to confirm a resize."""
    return connection.execute(_IS_OPEN, [number]).fetchone() is not None


def opened(connection: Connection) -> list[ResizeRow]:
    """Return the resizes that nodes have not confirmed, the first asked first."""
    return [
        ResizeRow(number, job, kind, tuple(resources), *rest)
        for number, job, kind, resources, *rest in connection.execute(_OPENED).fetchall()
    ]


def order(connection: Connection, number: int, kind: ResizeKind, resources: Sequence[int]) -> int | None:
    """Order that a running job loses resources; return the resize, None if it holds none of them or loses them yet."""
    with connection.transaction():
        connection.execute(_LOCK_JOB, [number])
        row = connection.execute(_ORDER, {"job": number, "kind": kind, "resources": list(resources)}).fetchone()
    return None if row is None else int(row[0])


def confirm(connection: Connection, resizes: Sequence[int]) -> None:
    """Note that nodes have carried out resizes, or that the jobs are over.

    Hosts that went are free from now on, hosts that came are granted. The call may be repeated; the caller owns the
    transaction.
    """
    numbers = [list(resizes)]
    if not connection.execute(_LOCK, numbers).fetchall():
        return
    for statement in (_CLOSE, _DONE, _GRANTED, _EMPTIED):
        connection.execute(statement, numbers)
    for module in ("metascheduler", "negotiator"):
        notifications.tell(connection, module)


def take_back(connection: Connection, resize: ResizeRow, why: str, *, again: bool) -> None:
    """Give up a grant that a node cannot follow, ``again``: the extension waits for other hosts."""
    connection.execute(_TAKE_BACK, {"resize": resize.id, "extension": resize.extension, "again": again, "why": why})
    log(connection, [NewEvent("EXTENSION_FAILED", why, resize.job)])
    notifications.tell(connection, "negotiator")
