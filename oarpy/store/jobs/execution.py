"""The life of a job from toLaunch to its end, as the launcher and the canceller write it, set-wise.

::

    toLaunch --claim--> Launching --started--> Running --finish--> Finishing --close--> Terminated, Error
                                                                   '- requeueing: a node could not start it --> Waiting
       '- give_up, cancel --> toError              '-- end: nothing is left on its nodes ------^
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from oarpy.model.job_types import NOOP
from oarpy.store.database import Connection
from oarpy.store.events import NewEvent, log
from oarpy.store.jobs.kill_requests import words_of_kill
from oarpy.store.notifications import run_channel
from oarpy.store.refusals import refusals_of, set_wise
from oarpy.store.rows import read
from oarpy.wire.jobs import JobSpec


class HeldAmount(NamedTuple):
    """The amount of a consumable that a job holds on one block, which is a value of the property ``level``."""

    consumable: str
    level: str
    unit: str
    block: str
    amount: int


class HeldMap(NamedTuple):
    """Where the processes of a job are: by type of node ``(size, processes, seconds of one, how many a core has)``.

    Types are values of ``property``; without one all nodes are of one type. ``model`` is how they were mapped.
    """

    property: str
    model: str
    assigned: Mapping[str, Sequence[tuple[str, int, float, int]]]


@dataclass(frozen=True, slots=True)
class Launch:
    """The facts of a job to launch: ``spec`` for its nodes, as far as the job's row has it, and inputs for the rest.

    ``submission`` is the id of its submission, with a number that changes whenever the row of the submission does.
    ``held`` has the properties of its resources. ``part_hosts`` is None unless the job is the part of a broker: then it
    has the known hosts of all components, and ``part_map`` the processes of those on other clusters. ``bag_tasks`` is
    the number of tasks in its bag, None if it is no task; ``grid_task`` is its number over all clusters, None unless a
    broker has the bag. ``without_gpu``: GPUs go to jobs that ask for them, and this job did not. ``kept_script`` is the
    digest of its script.
    ``mapped`` has the places of its processes, if they are mapped.
    """

    spec: JobSpec
    state: str
    types: tuple[str, ...]
    submission: tuple[int, int]
    incarnation: str
    kind: str
    held: tuple[Mapping[str, object], ...]
    amounts: tuple[HeldAmount, ...]
    public_key: str
    part_hosts: tuple[str, ...] | None
    bag_tasks: int | None
    grid_task: int | None
    without_gpu: bool = False
    kept_script: str | None = None
    mapped: HeldMap | None = None
    part_map: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class LiveRow:
    """A job that is on nodes: its nodes (head first), how far it is, and whether it is to be killed.

    ``failed`` tells that it did not end by itself, and becomes Error.
    """

    id: int
    attempt: int
    state: str
    types: tuple[str, ...]
    nodes: tuple[str, ...]
    kill_reason: str | None
    ends_at: float | None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class SignalRow:
    """A signal to be sent to a job; ``elsewhere``: its first node has sent it already, and is left out."""

    request: int
    job: int
    attempt: int
    signal: int
    elsewhere: bool


@dataclass(frozen=True, slots=True)
class Agenda:
    """The work for the launcher: jobs to launch, to settle (killed or Finishing), signals, and walltimes to send.

    ``pauses``: some jobs are suspended, or are to be. ``resizes``: some jobs grow or shrink. ``launchers``: an
    application whose launcher the cluster runs has none. ``noop_end`` is when (epoch seconds) the first walltime of a
    running job without a program is over, None if no such job runs. ``due_in`` is the number of seconds, by the
    database's clock, until the first gate of a job to launch opens, or the first job that was given a grace is to be
    suspended; None if no job waits for a date.
    """

    launch: bool
    settle: bool
    signal: bool
    walltimes: bool
    pauses: bool
    resizes: bool
    launchers: bool
    noop_end: float | None
    due_in: float | None


@dataclass(frozen=True, slots=True)
class End:
    """How a job's program ended: raw wait status (None if unknown), instants in epoch seconds, and its final state."""

    job: int
    final_state: str
    exit_status: int | None
    started: float | None
    ended: float
    event: str
    message: str
    cpu_seconds: float | None = None
    memory_peak: int | None = None
    """Its use of its first node: seconds of CPU, the most bytes of memory; None when it was not measured."""


# Claim jobs to launch: from here on the launcher answers for them. The incarnation of the first node is kept: a node
# that lost its memory in between refuses to start the job a second time. Attempts that a database may have made before
# it was restored are not made again. A job that held its resources until its gate opened has its walltime now.
_SHUT = "EXISTS (SELECT FROM launch_gates g WHERE g.job_id = j.job_id AND (g.opens_at > now()) IS NOT FALSE)"
_CLAIM = f"""
    UPDATE jobs j SET state = 'Launching', incarnation = c.incarnation,
        walltime = coalesce((SELECT g.walltime FROM launch_gates g WHERE g.job_id = j.job_id), j.walltime),
        attempt = greatest(j.attempt + 1,
            (SELECT max(least(100 * g.generation, 30000)) FROM generations g WHERE j.job_id <= g.last_job)),
        message = CASE WHEN attempt > 0 THEN '' ELSE message END,  -- why it was not started before
        left_nothing = false
    FROM unnest(%s::bigint[], %s::text[]) AS c(job_id, incarnation)
    WHERE j.job_id = c.job_id AND j.state = 'toLaunch' AND NOT {_SHUT}
    RETURNING j.job_id
"""  # noqa: S608 - a text of this file

# The resources of a job (j): it holds them (a), or has lent them while it is suspended.
_HAS = "(upper_inf(a.during) OR a.suspended AND j.state IN ('Suspended', 'Resuming', 'Finishing'))"

_TO_LAUNCH = f"""
    SELECT j.job_id, array_agg(DISTINCT r.network_address) FILTER (WHERE r.type = 'default'), j.types,
           extract(epoch FROM j.walltime)::float8
    FROM jobs j
        LEFT JOIN assigned_resources a ON a.job_id = j.job_id AND {_HAS}
        LEFT JOIN resources r USING (resource_id)
    WHERE j.state = 'toLaunch' AND NOT {_SHUT}
    GROUP BY j.job_id
    ORDER BY j.job_id
"""  # noqa: S608 - a text of this file

# A column that has the name of a field of JobSpec becomes that field: nodes get everything that is selected here by
# such a name.
_LAUNCHES = f"""
    SELECT j.job_id AS job, j.attempt, j.array_id, j.array_index, j.user_name AS user, j.job_name AS name, j.project,
           j.command, j.launching_directory AS directory, j.stdout_path AS stdout, j.stderr_path AS stderr,
           greatest(trunc(extract(epoch FROM j.walltime)), 1)::bigint AS walltime,
           trunc(extract(epoch FROM j.checkpoint))::bigint AS checkpoint, j.checkpoint_signal,
           coalesce(k.private_key, '') AS private_key,
           s.script AS kept_script,
           j.state, j.types, ARRAY[j.submission_id, coalesce(s.xmin::text::bigint, 0)] AS submission, j.incarnation,
           j.kind, coalesce(k.public_key, '') AS public_key,
           CASE WHEN 'bag' = ANY(j.types)
                THEN (SELECT b.tasks FROM bags b WHERE b.bag_id = j.array_id) END AS bag_tasks,
           coalesce((SELECT jsonb_agg(to_jsonb(r) ORDER BY a.extension_id NULLS FIRST, r.network_address, r.resource_id)
                     FROM assigned_resources a JOIN resources r USING (resource_id)
                     WHERE a.job_id = j.job_id AND {_HAS}), '[]') AS held,
           coalesce((SELECT jsonb_agg(jsonb_build_array(c.name, c.level, c.unit, m.block, m.amount)
                                      ORDER BY c.name, m.block)
                     FROM assigned_amounts m JOIN consumables c ON c.name = m.consumable
                     WHERE m.job_id = j.job_id AND upper_inf(m.during)), '[]') AS amounts,
           (SELECT p.hosts FROM door_parts p WHERE p.job_id = j.job_id AND p.kind <> 'bag') AS part_hosts,
           (SELECT p.process_map FROM door_parts p WHERE p.job_id = j.job_id) AS part_map,
           CASE WHEN 'bag' = ANY(j.types)
                THEN (SELECT p.tasks[j.array_index] FROM door_parts p
                      WHERE p.job_id = j.array_id AND p.kind = 'bag') END AS grid_task,
           EXISTS (SELECT FROM exclusive_levels WHERE property = 'gpu') AND NOT EXISTS (
               SELECT FROM held_blocks b WHERE b.job_id = j.job_id AND b.property = 'gpu') AS without_gpu,
           (SELECT jsonb_build_array(m.node_property, m.model, m.assigned)
            FROM mapped_jobs m WHERE m.job_id = j.job_id AND m.assigned IS NOT NULL) AS mapped,
           coalesce((SELECT m.iterations FROM mapped_jobs m WHERE m.job_id = j.job_id), 0) AS iterations
    FROM jobs j LEFT JOIN submissions s USING (submission_id) LEFT JOIN job_keys k ON k.job_id = j.job_id
    WHERE j.job_id = ANY(%s)
    ORDER BY j.job_id
"""  # noqa: S608 - a text of this file

_ENVIRONMENTS = "SELECT submission_id, environment FROM submissions WHERE submission_id = ANY(%s)"

# Looking at jobs costs more than looking whether there are any; the signals of jobs that are over are settled too.
_AGENDA = """
    SELECT EXISTS (SELECT FROM jobs WHERE state = 'toLaunch'),
           EXISTS (SELECT FROM jobs WHERE state = 'Finishing')
               OR EXISTS (SELECT FROM kill_requests WHERE state = 'decided' AND state <> 'done'),
           EXISTS (SELECT FROM signal_requests WHERE NOT done),
           EXISTS (SELECT FROM walltime_changes WHERE NOT node_told),
           EXISTS (SELECT FROM suspend_requests WHERE not_before IS NULL OR not_before <= now()) OR EXISTS (
               SELECT FROM jobs WHERE state IN ('Suspended', 'Resuming')),
           EXISTS (SELECT FROM resizes WHERE done_at IS NULL),
           EXISTS (SELECT FROM applications
                   WHERE launcher IS NOT NULL AND lost_since IS NOT NULL AND ended IS NULL),
           (SELECT extract(epoch FROM min(expected_end(jobs)))::float8 FROM jobs
            WHERE state = 'Running' AND types && %s::text[]),
           extract(epoch FROM least(
               (SELECT min(g.opens_at) FROM launch_gates g JOIN jobs j USING (job_id)
                WHERE j.state = 'toLaunch' AND g.opens_at > now()),
               (SELECT min(not_before) FROM suspend_requests WHERE not_before > now())) - clock_timestamp())::float8
"""

# Jobs that meet a condition, with their nodes, first the nodes that they have had since their start. The condition is
# text, so that one plan serves for good; a condition that may be empty would have each call planned again.
_LIVE = f"""
    SELECT j.job_id, j.attempt, j.state, j.types,
           array_agg(DISTINCT r.network_address) FILTER (WHERE r.type = 'default' AND a.extension_id IS NULL)
           || array_agg(DISTINCT r.network_address) FILTER (WHERE r.type = 'default' AND a.extension_id IS NOT NULL),
           (SELECT k.reason FROM kill_requests k WHERE k.job_id = j.job_id AND k.state = 'decided'),
           CASE WHEN j.state <> 'Suspended' THEN extract(epoch FROM expected_end(j))::float8 END,
           j.final_state IS NOT DISTINCT FROM 'Error'
    FROM jobs j
        LEFT JOIN assigned_resources a ON a.job_id = j.job_id AND {_HAS}
        LEFT JOIN resources r USING (resource_id)
    WHERE j.state IN ('Launching', 'Running', 'Suspended', 'Resuming', 'Finishing')
      AND ({{condition}})
    GROUP BY j.job_id
"""  # noqa: S608 - a text of this file
_ALL_LIVE = _LIVE.format(condition="true")
_LIVE_AMONG = _LIVE.format(condition="j.job_id = ANY(%s)")
# The jobs about which the launcher has something to do.
_ATTENTION = _LIVE.format(
    condition="""
        j.state IN ('Launching', 'Finishing')
        OR j.job_id IN (SELECT job_id FROM kill_requests WHERE state = 'decided')
        OR (j.types && %s::text[] AND j.state = 'Running' AND expected_end(j) <= now())"""
)

# A node's clock may be behind: no job runs before it has its resources.
_HELD = "(SELECT lower(a.during) FROM assigned_resources a WHERE a.job_id = j.job_id LIMIT 1)"

# Passes give hosts to running jobs: passes must know the jobs that wait for some.
_STARTED = f"""
    WITH begun AS (
        UPDATE jobs j
        SET state = 'Running',
            started_at = greatest(least(to_timestamp(s.at), clock_timestamp()), j.submitted_at, {_HELD})
        FROM unnest(%s::bigint[], %s::float8[]) AS s(job_id, at)
        WHERE j.job_id = s.job_id AND j.state = 'Launching'
        RETURNING j.job_id
    )
    SELECT pg_notify(%s, '') WHERE EXISTS (SELECT FROM extensions JOIN begun USING (job_id) WHERE state = 'Waiting')
"""  # noqa: S608 - a text of this file

# A job that started and ended since the last look passes through Running too: no state is skipped.
_FINISH = f"""
    UPDATE jobs j
    SET state = 'Finishing', exit_status = e.exit_status,
        cpu_seconds = coalesce(e.cpu + j.cpu_seconds, e.cpu, j.cpu_seconds),
        memory_peak = greatest(e.memory, j.memory_peak),
        final_state = CASE WHEN e.final_state = 'Waiting' AND j.started_at IS NOT NULL THEN 'Error'
            ELSE e.final_state END, message = CASE
            WHEN e.message = '' THEN j.message ELSE e.message END,
        started_at = coalesce(j.started_at,
            CASE WHEN e.started IS NOT NULL
                THEN greatest(least(to_timestamp(e.started), clock_timestamp()), j.submitted_at, {_HELD}) END)
    FROM unnest(%(jobs)s::bigint[], %(finals)s::text[], %(statuses)s::int[], %(started)s::float8[],
                %(messages)s::text[], %(cpu)s::float8[], %(memory)s::bigint[])
            AS e(job_id, final_state, exit_status, started, message, cpu, memory)
    WHERE j.job_id = e.job_id AND j.state IN ('Launching', 'Running', 'Suspended', 'Resuming')
    RETURNING j.job_id
"""  # noqa: S608 - a text of this file

# Jobs that are known to have started and ended by themselves, with nothing to be done on their nodes: all at once.
_END = f"""
    UPDATE jobs j
    SET state = 'Terminated', final_state = 'Terminated', left_nothing = true, exit_status = e.exit_status,
        cpu_seconds = coalesce(e.cpu + j.cpu_seconds, e.cpu, j.cpu_seconds),
        memory_peak = greatest(e.memory, j.memory_peak),
        started_at = coalesce(j.started_at,
            greatest(least(to_timestamp(e.started), clock_timestamp()), j.submitted_at, {_HELD})),
        ended_at = greatest(least(to_timestamp(e.ended), clock_timestamp()), j.submitted_at, {_HELD},
            coalesce(j.started_at, least(to_timestamp(e.started), clock_timestamp())))
    FROM unnest(%s::bigint[], %s::int[], %s::float8[], %s::float8[], %s::float8[], %s::bigint[])
        AS e(job_id, exit_status, started, ended, cpu, memory)
    WHERE j.job_id = e.job_id AND j.state IN ('Launching', 'Running')
    RETURNING j.job_id
"""  # noqa: S608 - a text of this file

# A job that never started cannot be Terminated.
_CLOSE = """
    UPDATE jobs j
    SET state = CASE WHEN j.started_at IS NULL THEN 'Error' ELSE j.final_state END, left_nothing = true,
        ended_at = greatest(least(to_timestamp(e.ended), clock_timestamp()), j.submitted_at, j.started_at)
    FROM unnest(%s::bigint[], %s::float8[]) AS e(job_id, ended)
    WHERE j.job_id = e.job_id AND j.state = 'Finishing' AND j.final_state <> 'Waiting'
    RETURNING j.job_id
"""

_WORDS = words_of_kill("k")

# The canceller: waiting jobs end at once; jobs on their way to a node are decided, for the launcher to carry out. Each
# statement is about all jobs, or about some of them when the database refused one. Jobs and requests are looked up by
# arrays: nearly all requests are done, so PostgreSQL expects no others, and would compare each job with each request.
_CANCELLABLE = """
    SELECT job_id FROM kill_requests WHERE state <> 'done'
    UNION SELECT job_id FROM jobs WHERE state = 'toError'
"""
_CANCEL_WAITING = f"""
    UPDATE jobs j
    SET state = 'Error', ended_at = greatest(now(), submitted_at, started_at),
        message = 'killed: ' || (SELECT {_WORDS} FROM kill_requests k WHERE k.job_id = j.job_id)
    WHERE j.job_id = ANY (ARRAY(SELECT job_id FROM kill_requests WHERE state <> 'done'))
      AND j.state IN ('Waiting', 'Hold')
      AND (%(jobs)s::bigint[] IS NULL OR j.job_id = ANY(%(jobs)s))
    RETURNING j.job_id
"""  # noqa: S608 - constants
_CANCEL_UNLAUNCHED = f"""
    UPDATE jobs j
    SET state = 'toError', message = 'killed: ' || (SELECT {_WORDS} FROM kill_requests k WHERE k.job_id = j.job_id)
    WHERE j.job_id = ANY (ARRAY(SELECT job_id FROM kill_requests WHERE state <> 'done'))
      AND j.state IN ('toLaunch', 'toAckReservation')
      AND (%(jobs)s::bigint[] IS NULL OR j.job_id = ANY(%(jobs)s))
    RETURNING j.job_id
"""  # noqa: S608 - constants
_BURY = """
    UPDATE jobs SET state = 'Error', ended_at = greatest(now(), submitted_at, started_at)
    WHERE state = 'toError' AND (%(jobs)s::bigint[] IS NULL OR job_id = ANY(%(jobs)s))
    RETURNING job_id
"""
# A job that gives way is signalled once and left the time that it asked for to write a checkpoint, or that its queue
# or project gives. A user's own request for its end does not wait for that.
_CHECKPOINT_FIRST = """
    WITH postponed AS (
        UPDATE kill_requests k SET not_before = %(now)s + time_to_leave(j)
        FROM jobs j
        WHERE j.job_id = k.job_id AND k.state = 'asked' AND k.not_before IS NULL
          AND k.requested_by = 'metascheduler' AND time_to_leave(j) > interval '0' AND j.state = 'Running'
          AND (%(jobs)s::bigint[] IS NULL OR j.job_id = ANY(%(jobs)s))
        RETURNING j.job_id, j.checkpoint, j.checkpoint_signal, j AS job
    ), signalled AS (
        INSERT INTO signal_requests (job_id, signal, requested_by)
        SELECT p.job_id, CASE WHEN p.checkpoint > interval '0' THEN p.checkpoint_signal ELSE g.grace_signal END,
               'canceller'
        FROM postponed p LEFT JOIN LATERAL giving_way(p.job) g ON true
    )
    INSERT INTO event_logs (type, job_id, description)
    SELECT 'CHECKPOINT', job_id, 'asked for a checkpoint before it is killed' FROM postponed
    RETURNING job_id
"""
_DECIDE = """
    UPDATE kill_requests k SET state = 'decided'
    WHERE k.state = 'asked' AND (k.not_before IS NULL OR k.not_before <= %(now)s)
      AND k.job_id = ANY (ARRAY(SELECT job_id FROM jobs
          WHERE state IN ('Launching', 'Running', 'Suspended', 'Resuming', 'Finishing')))
      AND (%(jobs)s::bigint[] IS NULL OR k.job_id = ANY(%(jobs)s))
    RETURNING k.job_id
"""
_NEXT_KILL = """
    SELECT extract(epoch FROM min(not_before))::float8 FROM kill_requests WHERE state <> 'done' AND state = 'asked'
"""
_SETTLE = """
    UPDATE kill_requests k SET state = 'done'
    FROM jobs j WHERE j.job_id = k.job_id AND k.state <> 'done' AND j.state IN ('Terminated', 'Error')
"""

_GIVE_UP = """
    UPDATE jobs SET state = 'toError', message = %s
    WHERE job_id = ANY(%s) AND state = 'toLaunch'
"""

_SIGNALS = """
    SELECT s.request_id, s.job_id, j.attempt, s.signal, s.elsewhere
    FROM signal_requests s JOIN jobs j USING (job_id)
    WHERE NOT s.done AND j.state IN ('Running', 'Suspended', 'Resuming')
    ORDER BY s.request_id
"""
_SIGNAL_ELSEWHERE = """
    INSERT INTO signal_requests (job_id, signal, requested_at, requested_by, elsewhere)
    SELECT j.job_id, j.checkpoint_signal, to_timestamp(c.at), 'walltime', true
    FROM unnest(%s::bigint[], %s::float8[]) AS c(job_id, at) JOIN jobs j USING (job_id)
    WHERE is_live(j.state)
    ON CONFLICT (job_id, requested_at) WHERE elsewhere DO NOTHING
"""
_SIGNALS_DONE = """
    WITH sent AS (UPDATE signal_requests SET done = true WHERE request_id = ANY(%s) RETURNING job_id, signal)
    INSERT INTO event_logs (type, job_id, description)
    SELECT 'SIGNAL_' || signal, job_id, 'signal sent to the job' FROM sent
"""
_SIGNALS_STALE = """
    UPDATE signal_requests s SET done = true FROM jobs j
    WHERE j.job_id = s.job_id AND NOT s.done AND j.state IN ('Terminated', 'Error')
"""


def to_launch(connection: Connection) -> list[tuple[int, tuple[str, ...], tuple[str, ...], float]]:
    """Return (job, its nodes, its types, walltime in seconds) of every job in toLaunch that may be launched."""
    return [
        (job, tuple(nodes or ()), tuple(types), walltime)
        for job, nodes, types, walltime in connection.execute(_TO_LAUNCH, binary=True).fetchall()
    ]


def tries(attempt: int) -> int:
    """Return how often a job was launched, at its attempt of this number, since the database was restored last."""
    return attempt % 100 + (attempt >= 100)


@set_wise
def claim(connection: Connection, jobs: Sequence[tuple[int, str]]) -> list[int]:
    """Move (job, incarnation of its first node) from toLaunch to Launching; return the jobs that moved."""
    if not jobs:
        return []
    return [
        row[0] for row in connection.execute(_CLAIM, [[job for job, _ in jobs], [name for _, name in jobs]]).fetchall()
    ]


def launches(connection: Connection, jobs: Sequence[int], state: str = "Launching") -> list[Launch]:
    """Return the facts for the start of these jobs; jobs that are not in ``state`` (any more) are left out."""
    if not jobs:
        return []
    return [launch for launch in read(connection, _LAUNCHES, _launch, [list(jobs)]) if launch.state == state]


def _launch(*, amounts: Sequence[Sequence[Any]], mapped: Sequence[Any] | None, **columns: Any) -> Launch:
    specified = {name: columns.pop(name) for name in columns.keys() & JobSpec.CHECKS.keys()}
    return Launch(
        JobSpec.complete({**JobSpec.DEFAULTS, **specified}),
        amounts=tuple(HeldAmount(*amount) for amount in amounts),
        mapped=None if mapped is None else HeldMap(*mapped),
        **columns,
    )


def environments(
    connection: Connection, submissions: Collection[tuple[int, int]]
) -> dict[tuple[int, int], dict[str, str]]:
    """Return the environment that each submission was made in; it is named as in :class:`Launch`."""
    numbers = [number for number, _ in submissions]
    read: dict[int, dict[str, str]] = dict(connection.execute(_ENVIRONMENTS, [numbers]).fetchall())
    return {submission: read.get(submission[0], {}) for submission in submissions}


def live(connection: Connection, *, everything: bool) -> list[LiveRow]:
    """Return the jobs that the launcher answers for: all of them, or those that need an action."""
    return _live(connection, _ALL_LIVE) if everything else _live(connection, _ATTENTION, list(NOOP))


def live_among(connection: Connection, jobs: Sequence[int]) -> list[LiveRow]:
    """Return the jobs among ``jobs`` that are on nodes."""
    return _live(connection, _LIVE_AMONG, list(jobs))


def _live(connection: Connection, query: LiteralString, *values: object) -> list[LiveRow]:
    return [
        LiveRow(job, attempt, state, tuple(types), tuple(nodes or ()), *rest)
        for job, attempt, state, types, nodes, *rest in connection.execute(query, values, binary=True).fetchall()
    ]


def agenda(connection: Connection) -> Agenda:
    """Return the work that is to be done."""
    row = connection.execute(_AGENDA, [list(NOOP)]).fetchone()
    assert row is not None
    return Agenda(*row)


@set_wise
def give_up(connection: Connection, jobs: Sequence[int], reason: str) -> None:
    """Move jobs from toLaunch to toError: they cannot be launched."""
    if jobs:
        connection.execute(_GIVE_UP, [reason, list(jobs)])


@set_wise
def started(connection: Connection, starts: Sequence[tuple[int, float]]) -> None:
    """Record that jobs run since these instants (epoch seconds)."""
    if starts:
        jobs, instants = [job for job, _ in starts], [at for _, at in starts]
        connection.execute(_STARTED, [jobs, instants, run_channel("metascheduler")])


@set_wise
def finish(connection: Connection, ends: Sequence[End]) -> list[int]:
    """Move jobs to Finishing with how they ended; return the moved jobs. So each end counts once."""
    if not ends:
        return []
    rows = connection.execute(
        _FINISH,
        {
            "jobs": [end.job for end in ends],
            "finals": [end.final_state for end in ends],
            "statuses": [end.exit_status for end in ends],
            "started": [end.started for end in ends],
            "messages": [end.message for end in ends],
            "cpu": [end.cpu_seconds for end in ends],
            "memory": [end.memory_peak for end in ends],
        },
    )
    moved = {row[0] for row in rows}
    log(connection, (NewEvent(end.event, end.message, end.job) for end in ends if end.job in moved and end.event))
    return sorted(moved)


@set_wise
def end(connection: Connection, ends: Sequence[End]) -> list[int]:
    """Move jobs that started and ended by themselves to Terminated, whatever events they have.

    Return the moved jobs.
    """
    if not ends:
        return []
    names = ("job", "exit_status", "started", "ended", "cpu_seconds", "memory_peak")
    columns = [[getattr(end, name) for end in ends] for name in names]
    return [row[0] for row in connection.execute(_END, columns).fetchall()]


@set_wise
def close(connection: Connection, ends: Sequence[tuple[int, float]]) -> list[int]:
    """Give Finishing jobs their final state as of these instants (epoch seconds); return the moved jobs."""
    if not ends:
        return []
    return [row[0] for row in connection.execute(_CLOSE, [[job for job, _ in ends], [at for _, at in ends]]).fetchall()]


def cancel(connection: Connection, now: datetime) -> list[int]:
    """Carry out kill requests, as far as no node is needed; return the jobs whose requests moved.

    Best-effort jobs that the meta-scheduler wants gone and that have a checkpoint first get the time to write it.
    """
    if refusals_of(connection).any:
        moved = _cancel_some(connection, [row[0] for row in connection.execute(_CANCELLABLE)], now)
    else:
        moved = _cancel(connection, None, now)
    connection.execute(_SETTLE)
    return moved


@set_wise
def _cancel_some(connection: Connection, jobs: Sequence[int], now: datetime) -> list[int]:
    """Carry out the kill requests of these jobs."""
    return _cancel(connection, list(jobs), now)


def _cancel(connection: Connection, jobs: list[int] | None, now: datetime) -> list[int]:
    """Carry out the kill requests of ``jobs`` (None: of all); return the moved jobs, once for each step."""
    queries = (_CANCEL_WAITING, _CANCEL_UNLAUNCHED, _BURY, _CHECKPOINT_FIRST, _DECIDE)
    return [row[0] for query in queries for row in connection.execute(query, {"now": now, "jobs": jobs})]


def next_kill(connection: Connection) -> float | None:
    """Return when (epoch seconds) the first job that writes a checkpoint is to be killed, None when none does."""
    row = connection.execute(_NEXT_KILL).fetchone()
    return None if row is None or row[0] is None else float(row[0])


def signals(connection: Connection) -> list[SignalRow]:
    """Return the signals to be sent."""
    return [SignalRow(*row) for row in connection.execute(_SIGNALS).fetchall()]


@set_wise
def signal_elsewhere(connection: Connection, checkpoints: Sequence[tuple[int, float]]) -> None:
    """Have the checkpoint signal that first nodes sent (job, instant) sent by the other nodes too, each once."""
    if checkpoints:
        connection.execute(_SIGNAL_ELSEWHERE, [[job for job, _ in checkpoints], [at for _, at in checkpoints]])


@set_wise
def signals_done(connection: Connection, signals: Sequence[SignalRow]) -> None:
    """Record that these signals were handed to the nodes."""
    if signals:
        connection.execute(_SIGNALS_DONE, [[signal.request for signal in signals]])
    connection.execute(_SIGNALS_STALE)
