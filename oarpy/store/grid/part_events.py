"""The events of parts for brokers, and of plans made since offers were. An event gets its number when it is first sent.

So numbers grow without gaps that fill later, whichever transaction ends first.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from oarpy.store.database import Connection

_MOST = 5_000
"""Events that are sent at once."""

# A later caller sees all numbers that an earlier caller gives, and waits for the first of them.
_TAKE = "SELECT FROM door_events WHERE broker = %s AND number IS NULL ORDER BY event_id FOR UPDATE"
_NUMBER = """
    UPDATE door_events e SET number = n.number
    FROM (SELECT event_id, row_number() OVER (ORDER BY at, event_id) + coalesce(
              (SELECT max(number) FROM door_events WHERE broker = %(broker)s), 0) AS number
          FROM door_events WHERE broker = %(broker)s AND number IS NULL) n
    WHERE e.event_id = n.event_id
"""
_EVENTS = """
    SELECT number, part, kind, extract(epoch FROM at)::float8, job_id, hosts, exit_status, reason, task,
           extract(epoch FROM completion)::float8, plan
    FROM door_events WHERE broker = %s AND number > %s ORDER BY number LIMIT %s
"""

# A waiting part with a date gets the event that a job ended early, if some of its processors idle now: after the pass
# that gave the place to others, and rarely.
_IDLE = """
    INSERT INTO door_events (broker, part, kind, job_id)
    SELECT p.broker, p.part, 'idle', p.job_id
    FROM door_parts p JOIN jobs j USING (job_id) CROSS JOIN scheduling_passes s
         CROSS JOIN LATERAL (SELECT max(e.at) AS at FROM door_events e
                             WHERE e.job_id = p.job_id AND e.kind = 'idle') last
    WHERE p.broker = %s AND p.kind = 'reserved' AND p.state = 'Committed' AND j.state = 'Waiting'
      AND p.begin_at > clock_timestamp()
      AND (last.at IS NULL OR last.at < clock_timestamp() - %s * interval '1 second')
      AND EXISTS (SELECT FROM jobs o
                  WHERE o.ended_at > coalesce(last.at, p.made_at) AND o.ended_at < s.at
                    AND o.started_at + o.walltime > o.ended_at + interval '1 second'
                    AND EXISTS (SELECT FROM assigned_resources a JOIN resources r USING (resource_id)
                                WHERE a.job_id = o.job_id AND r.type = 'default' AND r.state = 'Alive'
                                  AND NOT EXISTS (SELECT FROM assigned_resources b
                                                  WHERE b.resource_id = a.resource_id AND upper_inf(b.during))))
"""
# Of bags: the first task that began; those that are over, and not to be run again; a change of the plan; the end.
_BAGS_STARTED = """
    INSERT INTO door_events (broker, part, kind, at, job_id, hosts)
    SELECT p.broker, p.part, 'started', s.at, p.job_id, '{}'
    FROM door_parts p CROSS JOIN LATERAL (
        SELECT min(j.started_at) AS at FROM jobs j WHERE j.array_id = p.job_id AND 'bag' = ANY(j.types)) s
    WHERE p.broker = %s AND p.kind = 'bag' AND p.state = 'Committed' AND s.at IS NOT NULL
      AND NOT EXISTS (SELECT FROM door_events e WHERE e.job_id = p.job_id AND e.kind = 'started')
"""
_TASKS_OVER = """
    INSERT INTO door_events (broker, part, kind, at, job_id, exit_status, reason, task)
    SELECT p.broker, p.part, 'task', j.ended_at, j.job_id, j.exit_status,
           CASE WHEN j.state = 'Error' THEN j.message ELSE '' END, p.tasks[j.array_index]
    FROM door_parts p JOIN jobs j ON j.array_id = p.job_id AND 'bag' = ANY(j.types)
    WHERE p.broker = %s AND p.kind = 'bag' AND p.state = 'Committed' AND j.state IN ('Terminated', 'Error')
      AND NOT EXISTS (SELECT FROM door_events e WHERE e.job_id = p.job_id AND e.kind = 'ended')
      AND NOT EXISTS (SELECT FROM jobs r WHERE r.resubmit_of = j.job_id)
      AND NOT EXISTS (SELECT FROM door_events e WHERE e.job_id = j.job_id AND e.kind = 'task')
    ORDER BY j.ended_at, j.job_id
"""
_BAGS_PLANNED = """
    INSERT INTO door_events (broker, part, kind, job_id, completion)
    SELECT p.broker, p.part, 'completion', p.job_id, b.expected
    FROM door_parts p JOIN bags b ON b.bag_id = p.job_id CROSS JOIN LATERAL (
        SELECT max(e.event_id) AS event_id FROM door_events e WHERE e.job_id = p.job_id AND e.kind = 'completion') l
        LEFT JOIN door_events e ON e.event_id = l.event_id
    WHERE p.broker = %s AND p.kind = 'bag' AND p.state = 'Committed' AND b.ended IS NULL AND b.expected IS NOT NULL
      AND (e.completion IS NULL OR e.completion <> b.expected)
"""
_BAGS_ENDED = """
    INSERT INTO door_events (broker, part, kind, at, job_id, exit_status)
    SELECT p.broker, p.part, 'ended', b.ended, p.job_id, coalesce((
               SELECT max(j.exit_status) FROM jobs j WHERE j.array_id = p.job_id AND 'bag' = ANY(j.types)), 0)
    FROM door_parts p JOIN bags b ON b.bag_id = p.job_id
    WHERE p.broker = %s AND p.kind = 'bag' AND p.state = 'Committed' AND b.ended IS NOT NULL
      AND NOT EXISTS (SELECT FROM door_events e WHERE e.job_id = p.job_id AND e.kind = 'ended')
"""
# Brokers with open offers hear of a newer plan, once a second at most.
_PLAN_CHANGED = """
    WITH changed AS (
        UPDATE door_offers o SET plan = s.pass, told_at = clock_timestamp() FROM scheduling_passes s
        WHERE o.broker = %s AND o.until > clock_timestamp() AND o.plan <> s.pass
          AND (o.told_at IS NULL OR o.told_at <= clock_timestamp() - interval '1 second')
        RETURNING o.broker, o.plan
    )
    INSERT INTO door_events (broker, part, kind, plan) SELECT broker, '', 'changed', plan FROM changed
"""
# While older offers are open, a newer plan than theirs is still to be told.
_OFFERED = """
    INSERT INTO door_offers AS o (broker, plan, until) VALUES (%s, %s, to_timestamp(%s))
    ON CONFLICT (broker) DO UPDATE SET until = greatest(o.until, excluded.until),
        plan = CASE WHEN o.until > clock_timestamp() THEN o.plan ELSE excluded.plan END
"""
# What was told of a bag is known from its events: those of a bag that goes on stay, then its begin and its end.
_PRUNE = """
    DELETE FROM door_events e WHERE at < %s AND number IS NOT NULL AND number < (
        SELECT max(number) FROM door_events o WHERE o.broker = e.broker)
      AND NOT EXISTS (
        SELECT FROM door_parts p JOIN bags b ON b.bag_id = p.job_id
        WHERE p.broker = e.broker AND p.part = e.part AND p.kind = 'bag'
          AND (b.ended IS NULL OR e.kind IN ('started', 'ended')))
"""


@dataclass(frozen=True, slots=True)
class PartEventRow:
    """An event; ``at`` in epoch seconds, ``exit_status`` as ``wait`` tells it.

    ``task`` is of a task that is over, ``completion`` (epoch seconds) of a bag that is planned. An event with the
    number of a ``plan`` is about no part.
    """

    number: int
    part: str
    kind: str
    at: float
    job: int | None
    hosts: tuple[str, ...]
    exit_status: int | None
    reason: str
    task: int | None
    completion: float | None
    plan: int | None


def events(connection: Connection, broker: str, after: int) -> list[PartEventRow]:
    """Return the events of a broker's parts after this number; the first events if there are many."""
    connection.execute(_TAKE, [broker])
    connection.execute(_NUMBER, {"broker": broker})
    rows = connection.execute(_EVENTS, [broker, after, _MOST]).fetchall()
    return [
        PartEventRow(number, name, kind, at, job, tuple(hosts), *rest)
        for number, name, kind, at, job, hosts, *rest in rows
    ]


def note_idle(connection: Connection, broker: str, interval: float) -> None:
    """Note for parts that wait for their date that processors idle since a job ended early.

    For each it is noted every ``interval`` seconds at most.
    """
    connection.execute(_IDLE, [broker, interval])


def note_bags(connection: Connection, broker: str) -> None:
    """Note what happened to bags and their tasks since that was noted last."""
    for statement in (_BAGS_STARTED, _TASKS_OVER, _BAGS_PLANNED, _BAGS_ENDED):
        connection.execute(statement, [broker])


def note_offers(connection: Connection, broker: str, plan: int, until: float) -> None:
    """Note that a broker got offers on a plan that hold until an instant (epoch seconds)."""
    connection.execute(_OFFERED, [broker, plan, until])


def note_plan(connection: Connection, broker: str) -> None:
    """Note that there is a newer plan than that of the open offers of a broker."""
    connection.execute(_PLAN_CHANGED, [broker])


def prune(connection: Connection, before: datetime) -> None:
    """Forget events that were sent and happened before; the last one stays, as numbers go on from it."""
    connection.execute(_PRUNE, [before])
