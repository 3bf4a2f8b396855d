"""The rows that a submission reads and writes: queues, live jobs, blocks of resources.

One transaction stores all its jobs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any

from psycopg.types.json import Json, Jsonb

from oarpy.model.dependency import Dependency
from oarpy.model.request import ResourceRequest
from oarpy.model.submission import COLUMNS, FIELDS, Submission
from oarpy.store.database import Connection
from oarpy.store.jobs import bags, rates, scripts, windows
from oarpy.store.jobs.copied_columns import COPIED, COPIES
from oarpy.store.jobs.scope import JobScope, reached
from oarpy.store.past.moving import recall
from oarpy.store.past.reading import first_found, is_in_past

_QUEUES = "SELECT queue_name, priority, active FROM queues"

_PROPERTIES = "SELECT name, kind FROM resource_properties"

_RESOURCE_TYPES = "SELECT DISTINCT type FROM resources"

_JOB_COLUMNS = "job_id, user_name, queue_name, project, job_name, state, types, reservation_start IS NOT NULL"

_LIVE_JOB = f"SELECT {_JOB_COLUMNS} FROM jobs WHERE job_id = %s AND is_live(state)"  # noqa: S608

_LIVE_JOBS_OF_TYPE = f"""
    SELECT {_JOB_COLUMNS} FROM jobs WHERE is_live(state) AND types @> ARRAY[%s]::text[]
"""  # noqa: S608

# The private key is for the job's nodes. It goes when the job is over, and never to the past: no reference to jobs.
_KEEP_KEYS = """
    INSERT INTO job_keys (job_id, public_key, private_key)
    SELECT * FROM unnest(%s::bigint[], %s::text[], %s::text[])
"""
_JOB_WITH_KEY = """
    SELECT min(k.job_id) FROM job_keys k JOIN jobs j USING (job_id)
    WHERE k.public_key = %s AND is_live(j.state)
"""
_CLAIM_KEY = "SELECT pg_advisory_xact_lock(hashtextextended('oarpy key ' || %s, 0))"
_DROP_KEYS = """
    DELETE FROM job_keys k WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.job_id = k.job_id AND is_live(j.state))
"""

# Every condition is optional: NULL stands for "any".
# Dates that brokers chose are no reservations of users. A bag counts as one reservation.
_COUNT_LIVE = """
    SELECT count(DISTINCT CASE WHEN %(reservation)s AND 'bag' = ANY(types) THEN array_id ELSE job_id END) FROM jobs
    WHERE is_live(state)
      AND (%(user)s::text IS NULL OR user_name = %(user)s)
      AND (%(queue)s::text IS NULL OR queue_name = %(queue)s)
      AND (%(project)s::text IS NULL OR project = %(project)s)
      AND (%(job_type)s::text IS NULL OR %(job_type)s = ANY(types))
      AND (%(states)s::text[] IS NULL OR state = ANY(%(states)s))
      AND (%(reservation)s::boolean IS NULL OR (reservation_start IS NOT NULL OR 'bag' = ANY(types)) = %(reservation)s)
      AND (%(reservation)s IS NOT TRUE OR NOT EXISTS (SELECT FROM door_parts p WHERE p.job_id = jobs.job_id))
"""

# Cores are rows of the resources; a job that was suspended has given some back.
_HELD = """
    SELECT count(DISTINCT a.job_id), count(*)
    FROM assigned_resources a JOIN jobs j USING (job_id)
    WHERE upper_inf(a.during) AND NOT a.suspended AND is_live(j.state)
      AND (%(user)s::text IS NULL OR j.user_name = %(user)s)
      AND (%(queue)s::text IS NULL OR j.queue_name = %(queue)s)
      AND (%(project)s::text IS NULL OR j.project = %(project)s)
"""

# As many as the limit are enough to know that it is reached.
_COUNT_WAITING = """
    SELECT count(*), (SELECT max(job_id) FROM jobs) FROM (
        SELECT FROM jobs WHERE user_name = %(user)s AND state IN ('Waiting', 'Hold') LIMIT %(most)s
    ) AS waiting
"""

_EXISTING = "SELECT job_id FROM jobs WHERE job_id = ANY(%s)"

_MEMBERS = "SELECT array_index, max(job_id) FROM jobs WHERE array_id = %s GROUP BY array_index"

# Each of these statements stores its rows for any number of submissions. Ids that are drawn in one statement ascend in
# the order of the submissions: so rows that come back in the order of ids belong to them in their order.
_INSERT_SUBMISSIONS = """
    INSERT INTO submissions (initial_request, environment, request, submitted_from, admitted_filters, kind, script)
    SELECT initial_request, (%(environments)s::jsonb[])[(%(places)s::int[])[ordinality]], request, submitted_from,
        admitted_filters, kind, script
    FROM json_populate_recordset(NULL::submissions, %(rows)s::json) WITH ORDINALITY ORDER BY ordinality
    RETURNING submission_id
"""

# One statement stores all alternatives, groups and levels, keyed by their submissions and positions. The snapshot of
# the statement does not see its own rows, so the ids travel through RETURNING.
_INSERT_REQUESTS = """
    WITH m AS (
        INSERT INTO moldable_descriptions (submission_id, position, walltime)
        SELECT w.submission_id, w.position, w.seconds * interval '1 second'
        FROM unnest(%(submissions)s::bigint[], %(positions)s::int[], %(walltimes)s::bigint[])
            AS w (submission_id, position, seconds)
        RETURNING moldable_id, submission_id, position
    ), g AS (
        INSERT INTO resource_groups (moldable_id, position, filter)
        SELECT m.moldable_id, w.group_position, w.filter
        FROM unnest(%(group_submissions)s::bigint[], %(group_moldables)s::int[], %(group_positions)s::int[],
                    %(filters)s::text[]) AS w (submission_id, moldable_position, group_position, filter)
            JOIN m ON m.submission_id = w.submission_id AND m.position = w.moldable_position
        RETURNING group_id, moldable_id, position
    )
    INSERT INTO resource_descriptions (group_id, position, level, count)
    SELECT g.group_id, w.position, w.level, w.count
    FROM unnest(%(level_submissions)s::bigint[], %(level_moldables)s::int[], %(level_groups)s::int[],
                %(level_positions)s::int[], %(levels)s::text[], %(counts)s::int[])
            AS w (submission_id, moldable_position, group_position, position, level, count)
        JOIN m ON m.submission_id = w.submission_id AND m.position = w.moldable_position
        JOIN g ON g.moldable_id = m.moldable_id AND g.position = w.group_position
"""

_INSERT_AMOUNTS = """
    INSERT INTO consumption_descriptions (moldable_id, consumable, position, amount)
    SELECT m.moldable_id, w.consumable, w.position, w.amount
    FROM unnest(%(submissions)s::bigint[], %(moldables)s::int[], %(names)s::text[], %(positions)s::int[],
                %(amounts)s::bigint[]) AS w (submission_id, moldable_position, consumable, position, amount)
        JOIN moldable_descriptions m ON m.submission_id = w.submission_id AND m.position = w.moldable_position
"""

# One row a member: ids are drawn first, because the array is named after the lowest of them.
_INSERT_JOBS = f"""
    WITH asked AS MATERIALIZED (
        SELECT * FROM json_populate_recordset(NULL::jobs, %(rows)s::json) WITH ORDINALITY
    ), drawn AS MATERIALIZED (
        SELECT nextval(pg_get_serial_sequence('jobs', 'job_id')) AS job_id, place, member
        FROM (SELECT place, member FROM unnest(%(sizes)s::int[]) WITH ORDINALITY AS w (size, place),
                  generate_series(1, size) AS member ORDER BY place, member) AS ordered
    ), members AS (
        SELECT job_id, place, member, min(job_id) OVER (PARTITION BY place) AS array_id FROM drawn
    )
    INSERT INTO jobs (job_id, array_id, array_index, command, submission_id, reservation_state, state, message,
        {", ".join(COLUMNS)})
    SELECT m.job_id, m.array_id, m.member,
        CASE WHEN coalesce(p.arguments, '') = '' THEN asked.command ELSE asked.command || ' ' || p.arguments END,
        asked.submission_id, asked.reservation_state, asked.state, asked.message,
        {", ".join(f"asked.{column}" for column in COLUMNS)}
    FROM members m
        JOIN asked ON asked.ordinality = m.place
        LEFT JOIN unnest(%(parameter_places)s::int[], %(parameter_members)s::int[], %(parameters)s::text[])
            AS p (place, member, arguments) ON p.place = m.place AND p.member = m.member
    ORDER BY m.job_id
    RETURNING job_id
"""  # noqa: S608

_INSERT_DEPENDENCIES = """
    INSERT INTO job_dependencies (job_id, required_job_id, outcome, earliest_edge, earliest_shift, latest_edge,
        latest_shift)
    SELECT d.job, d.required, d.outcome, d.earliest_edge, d.earliest_shift * interval '1 second', d.latest_edge,
        d.latest_shift * interval '1 second'
    FROM unnest(%(jobs)s::bigint[], %(required)s::bigint[], %(outcomes)s::text[], %(earliest_edges)s::text[],
                %(earliest_shifts)s::bigint[], %(latest_edges)s::text[], %(latest_shifts)s::bigint[])
             AS d (job, required, outcome, earliest_edge, earliest_shift, latest_edge, latest_shift)
"""

_FINISHED_JOB = """
    SELECT user_name, queue_name, project, types, jobs.kind, state, s.request, s.asked_units
    FROM jobs JOIN submissions s USING (submission_id) WHERE job_id = %s
"""

# The copy shares the submission (request, environment) with the job it repeats, and its place in an array of several.
# Of the old job's message only the request is copied, if the message still begins with it, and not how the old job
# ended.
_COPY_JOB = f"""
    WITH drawn AS MATERIALIZED (SELECT nextval(pg_get_serial_sequence('jobs', 'job_id')) AS job_id)
    INSERT INTO jobs (job_id, submission_id, array_id, array_index, resubmit_of, {COPIED}, message)
    SELECT drawn.job_id, submission_id,
        CASE WHEN EXISTS (SELECT FROM jobs o WHERE o.array_id = jobs.array_id AND o.job_id <> jobs.job_id)
             THEN jobs.array_id ELSE drawn.job_id END,
        array_index, jobs.job_id, {COPIES},
        CASE WHEN message ~ '^R=[0-9]+,W=' THEN split_part(message, '; ', 1)
             ELSE 'resubmission of ' || jobs.job_id END
    FROM jobs, drawn WHERE jobs.job_id = %s
    RETURNING job_id
"""  # noqa: S608

# Dependants of the old job wait for its copy from now on.
_REPOINT_DEPENDANTS = """
    UPDATE job_dependencies d SET required_job_id = %(new)s
    FROM jobs j
    WHERE d.required_job_id = %(old)s AND j.job_id = d.job_id
      AND j.state IN ('Hold', 'Waiting')
"""

# A reservation is answered in its own row; when it is refused the message says why.
_RESERVATION_ANSWERS = """
    SELECT job_id, state, reservation_state, message, extract(epoch FROM reservation_offer)::float8
    FROM jobs WHERE job_id = ANY(%s) ORDER BY job_id
"""


@dataclass(frozen=True, slots=True)
class SubmissionQueue:
    """A queue; higher ``priority`` is served first."""

    name: str
    priority: int
    active: bool


@dataclass(frozen=True, slots=True)
class LiveJobRow:
    """A job that is not over; ``reservation`` tells an advance reservation."""

    id: int
    user: str
    queue: str
    project: str
    name: str
    state: str
    types: tuple[str, ...]
    reservation: bool


@dataclass(frozen=True, slots=True)
class EndedJobRow:
    """The facts that decide whether a job may be submitted again; ``request`` is its request before the rules.

    ``asked_units`` are the billing units, in hours, that it asked for, None where nobody counted.
    """

    user: str
    queue: str
    project: str
    types: Sequence[str]
    kind: str
    state: str
    request: Mapping[str, object]
    asked_units: float | None


@dataclass(frozen=True, slots=True)
class ReservationRow:
    """How far an advance reservation is answered; ``offer`` is when a refused one could be had (epoch seconds)."""

    id: int
    state: str
    reservation_state: str | None
    message: str
    offer: float | None


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The SSH key of a job, each half as OpenSSH writes it; ``own``: its user gave it."""

    public: str
    private: str
    own: bool


def keep_keys(connection: Connection, jobs: Sequence[int], pairs: Sequence[KeyPair]) -> None:
    """Give each of the jobs its key."""
    columns = [list(jobs), [pair.public for pair in pairs], [pair.private for pair in pairs]]
    connection.execute(_KEEP_KEYS, columns)


def job_with_key(connection: Connection, public: str) -> int | None:
    """Return the live job that has this key, or None; until the transaction ends, other callers wait."""
    connection.execute(_CLAIM_KEY, [public])
    row = connection.execute(_JOB_WITH_KEY, [public]).fetchone()
    return None if row is None else row[0]


def drop_keys(connection: Connection) -> None:
    """Forget the keys of jobs that are over."""
    connection.execute(_DROP_KEYS)


def queues(connection: Connection) -> dict[str, SubmissionQueue]:
    """Return every queue by its name."""
    return {name: SubmissionQueue(name, priority, active) for name, priority, active in connection.execute(_QUEUES)}


def properties(connection: Connection) -> dict[str, str]:
    """Return the SQL type of every resource property by its name."""
    return dict(connection.execute(_PROPERTIES).fetchall())


def resource_types(connection: Connection) -> set[str]:
    """Return the types that resources have."""
    return {name for (name,) in connection.execute(_RESOURCE_TYPES)}


def live_job(connection: Connection, job_id: int) -> LiveJobRow | None:
    """Return a job that is not over, None when no live job has that id."""
    row = connection.execute(_LIVE_JOB, [job_id]).fetchone()
    return None if row is None else _live_job(row)


def live_jobs_of_type(connection: Connection, job_type: str) -> list[LiveJobRow]:
    """Return the jobs that are not over and have exactly this type."""
    return [_live_job(row) for row in connection.execute(_LIVE_JOBS_OF_TYPE, [job_type])]


def _live_job(row: tuple[Any, ...]) -> LiveJobRow:
    job, user, queue, project, name, state, types, reservation = row
    return LiveJobRow(job, user, queue, project, name, state, tuple(types), reservation)


def count_live(
    connection: Connection,
    *,
    user: str | None,
    queue: str | None,
    project: str | None,
    job_type: str | None,
    states: Sequence[str] | None,
    reservation: bool | None,
) -> int:
    """Count the jobs that are not over and meet every condition that is not None."""
    row = connection.execute(
        _COUNT_LIVE,
        {
            "user": user,
            "queue": queue,
            "project": project,
            "job_type": job_type,
            "states": states if states is None else list(states),
            "reservation": reservation,
        },
    ).fetchone()
    assert row is not None
    return int(row[0])


def count_waiting(connection: Connection, user: str, most: int) -> tuple[int, int]:
    """Return how many jobs of ``user`` wait, or ``most`` if they are more, and the highest id of any job."""
    row = connection.execute(_COUNT_WAITING, {"user": user, "most": most}).fetchone()
    assert row is not None
    return row[0], row[1] or 0


def held(connection: Connection, *, user: str | None, queue: str | None, project: str | None) -> tuple[int, int]:
    """Return how many jobs that meet every condition hold resources, and how many resources they hold."""
    row = connection.execute(_HELD, {"user": user, "queue": queue, "project": project}).fetchone()
    assert row is not None
    return row[0], row[1]


def existing_jobs(connection: Connection, job_ids: Iterable[int]) -> set[int]:
    """Return the ids that are jobs, live or over."""
    wanted = tuple(job_ids)
    if not wanted:
        return set()
    with reached(connection, JobScope(wanted, live=False)):
        return {row[0] for row in connection.execute(_EXISTING, [list(wanted)])}


def of_array(connection: Connection, array: int) -> dict[int, int]:
    """Return the jobs of an array, live or over, by their numbers in it; if a job was repeated, the last repetition."""
    with reached(connection, JobScope((), array_ids=(array,), live=False)):
        return dict(connection.execute(_MEMBERS, [array]).fetchall())


def _bring_back(connection: Connection, job_ids: Iterable[int]) -> None:
    """Make live rows of the past jobs among these: a job that is submitted is to refer to them."""
    wanted = list(job_ids)
    if is_in_past(connection, wanted, ()):
        recall(connection, wanted)


@dataclass(frozen=True, slots=True)
class NewSubmission:
    """A submission to store; each alternative says its walltime.

    ``asked`` is the submission before the rules, for the record; None leaves none. The use of jobs of a ``kind`` is
    counted.
    """

    submission: Submission
    message: str = ""
    asked: Submission | None = None
    kind: int | None = None


def insert(
    connection: Connection,
    submission: Submission,
    *,
    message: str = "",
    asked: Submission | None = None,
    kind: int | None = None,
) -> list[int]:
    """Write a submission with all its jobs; return their ids, ascending. The first is the array's id.

    The values are the fields of a :class:`NewSubmission`.
    """
    (job_ids,) = insert_all(connection, [NewSubmission(submission, message, asked, kind)])
    return job_ids


def insert_all(connection: Connection, new: Sequence[NewSubmission]) -> list[list[int]]:
    """Write several submissions, in as many statements as one takes; return the ids of the jobs of each, ascending."""
    submissions = [submission.submission for submission in new]
    scripts.keep(connection, [submission.script for submission in submissions])
    numbers = _drawn(connection, _INSERT_SUBMISSIONS, _submission_parameters(new))
    requests = [(number, submission.alternatives) for number, submission in zip(numbers, submissions, strict=True)]
    insert_requests(connection, requests)
    job_ids = _drawn(connection, _INSERT_JOBS, _job_parameters(numbers, new))
    ends = list(accumulate(submission.array_size for submission in submissions))
    jobs = [job_ids[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    awaited = [dependency for each in submissions for dependency in each.required.values()]
    if awaited:
        _bring_back(connection, dict.fromkeys(dependency.job for dependency in awaited))
        members = {
            dependency.job: of_array(connection, dependency.job)
            for dependency in awaited
            if dependency.outcome == "corr"
        }
        required = [
            (job, dependency.of_member(members.get(dependency.job, {}), index))
            for ids, each in zip(jobs, submissions, strict=True)
            for dependency in each.required.values()
            for index, job in enumerate(ids, 1)
        ]
        connection.execute(_INSERT_DEPENDENCIES, _dependency_parameters(required))
    windows.insert(
        connection,
        [
            (job, window)
            for ids, each in zip(jobs, submissions, strict=True)
            if (window := each.window) is not None
            for job in ids
        ],
    )
    bags.insert(connection, [(ids[0], each) for ids, each in zip(jobs, submissions, strict=True) if each.bag])
    return jobs


def _drawn(connection: Connection, statement: str, parameters: Mapping[str, object]) -> list[int]:
    """Return the ids that a statement drew, ascending."""
    return sorted(number for (number,) in connection.execute(statement, parameters))


def insert_requests(connection: Connection, submissions: Sequence[tuple[int, Sequence[ResourceRequest]]]) -> None:
    """Write the requests of these submissions, by id."""
    alternatives = [
        (number, place, request) for number, requests in submissions for place, request in enumerate(requests)
    ]
    # for many rows, the plan of a statement that was prepared for one row would compare each with each
    connection.execute(
        _INSERT_REQUESTS, _request_parameters(alternatives), prepare=None if len(submissions) == 1 else False
    )
    if any(request.consumes for _, _, request in alternatives):
        connection.execute(_INSERT_AMOUNTS, _amount_parameters(alternatives))


# An application makes another request: the request before goes, the job's message tells of the new one.
_FORGET_REQUEST = """
    DELETE FROM moldable_descriptions m USING jobs j
    WHERE j.job_id = %s AND j.state IN ('Waiting', 'Hold') AND m.submission_id = j.submission_id
"""
_NEW_MESSAGE = "UPDATE jobs SET message = %s WHERE job_id = %s AND state IN ('Waiting', 'Hold') RETURNING submission_id"
_NEW_FILTERS = "UPDATE submissions SET admitted_filters = %s WHERE submission_id = %s"
_RECORD = "SELECT s.request, j.queue_name FROM jobs j JOIN submissions s USING (submission_id) WHERE job_id = %s"


def record_of(connection: Connection, job_id: int) -> dict[str, object]:
    """Return the request before the rules, and the queue that they gave the job."""
    row = connection.execute(_RECORD, [job_id]).fetchone()
    assert row is not None
    return {**row[0], "queue": row[1]}


def replace_request(connection: Connection, job_id: int, submission: Submission, message: str) -> bool:
    """Replace the request of a waiting job; return whether the job still waits."""
    connection.execute(_FORGET_REQUEST, [job_id])
    row = connection.execute(_NEW_MESSAGE, [message, job_id]).fetchone()
    if row is None:
        return False
    connection.execute(_NEW_FILTERS, [filters_of(submission), row[0]])
    insert_requests(connection, [(row[0], submission.alternatives)])
    return True


def filters_of(submission: Submission) -> list[str]:
    """Return the job's own filter, and the different filters of groups."""
    groups = (group.filter for request in submission.alternatives for group in request.groups)
    return [submission.properties, *dict.fromkeys(groups)]


def _dependency_parameters(required: Sequence[tuple[int, Dependency]]) -> dict[str, object]:
    earliest = [dependency.earliest for _, dependency in required]
    latest = [dependency.latest for _, dependency in required]
    return {
        "jobs": [job for job, _ in required],
        "required": [dependency.job for _, dependency in required],
        "outcomes": [dependency.outcome for _, dependency in required],
        "earliest_edges": [shift and shift.edge for shift in earliest],
        "earliest_shifts": [shift and shift.seconds for shift in earliest],
        "latest_edges": [shift and shift.edge for shift in latest],
        "latest_shifts": [shift and shift.seconds for shift in latest],
    }


def _request_parameters(alternatives: Sequence[tuple[int, int, ResourceRequest]]) -> dict[str, object]:
    groups = [
        (number, place, position, group)
        for number, place, request in alternatives
        for position, group in enumerate(request.groups)
    ]
    levels = [
        (number, place, position, depth, level.name, level.count)
        for number, place, position, group in groups
        for depth, level in enumerate(group.levels)
    ]
    return {
        "submissions": [number for number, _, _ in alternatives],
        "positions": [place for _, place, _ in alternatives],
        "walltimes": [request.walltime or 0 for _, _, request in alternatives],
        "group_submissions": [group[0] for group in groups],
        "group_moldables": [group[1] for group in groups],
        "group_positions": [group[2] for group in groups],
        "filters": [group[3].filter for group in groups],
        "level_submissions": [level[0] for level in levels],
        "level_moldables": [level[1] for level in levels],
        "level_groups": [level[2] for level in levels],
        "level_positions": [level[3] for level in levels],
        "levels": [level[4] for level in levels],
        "counts": [level[5] for level in levels],
    }


def _amount_parameters(alternatives: Sequence[tuple[int, int, ResourceRequest]]) -> dict[str, object]:
    amounts = [
        (number, place, position, amount)
        for number, place, request in alternatives
        for position, amount in enumerate(request.consumes)
    ]
    return {
        "submissions": [amount[0] for amount in amounts],
        "moldables": [amount[1] for amount in amounts],
        "positions": [amount[2] for amount in amounts],
        "names": [amount.name for _, _, _, amount in amounts],
        "amounts": [amount.amount for _, _, _, amount in amounts],
    }


def _submission_parameters(new: Sequence[NewSubmission]) -> dict[str, object]:
    """Return the rows; an environment that several have in common is sent once."""
    environments = {id(submission.submission.environment): submission.submission.environment for submission in new}
    places = {key: place for place, key in enumerate(environments, 1)}
    rows = [
        {
            "initial_request": submission.submission.initial_request,
            "request": {} if submission.asked is None else recorded(submission.asked),
            "submitted_from": submission.submission.submitted_from,
            "admitted_filters": filters_of(submission.submission),
            "kind": submission.kind,
            "script": scripts.digest(submission.submission.script),
        }
        for submission in new
    ]
    return {
        "rows": Json(rows),
        "environments": [Jsonb(dict(environment)) for environment in environments.values()],
        "places": [places[id(submission.submission.environment)] for submission in new],
    }


def recorded(submission: Submission) -> dict[str, object]:
    """Return the part of a submission that is kept to run rules again on it."""
    return {name: value for name, value in submission.to_record().items() if FIELDS[name].recorded}


def _job_parameters(numbers: Sequence[int], new: Sequence[NewSubmission]) -> dict[str, object]:
    rows = [
        {
            "submission_id": number,
            "command": submission.submission.command,
            "reservation_state": None if submission.submission.reservation is None else "toSchedule",
            "state": "Hold" if submission.submission.hold else "Waiting",
            "message": submission.message,
            **submission.submission.columns(),
        }
        for number, submission in zip(numbers, new, strict=True)
    ]
    parameters = [
        (place, member, arguments)
        for place, submission in enumerate(new, 1)
        for member, arguments in enumerate(submission.submission.array_parameters, 1)
    ]
    return {
        "rows": Json(rows, row_text),
        "sizes": [submission.submission.array_size for submission in new],
        "parameter_places": [place for place, _, _ in parameters],
        "parameter_members": [member for _, member, _ in parameters],
        "parameters": [arguments for _, _, arguments in parameters],
    }


def row_text(rows: object) -> str:
    """Return JSON in which dates and durations are texts that the database reads as such."""
    return json.dumps(rows, default=lambda value: value.isoformat() if isinstance(value, datetime) else str(value))


def ended_job(connection: Connection, job_id: int) -> EndedJobRow | None:
    """Return the owner, state and request of a job, None if there is no such job."""
    row = first_found(connection, lambda: connection.execute(_FINISHED_JOB, [job_id]).fetchone())
    return None if row is None else EndedJobRow(*row)


def copy_job(connection: Connection, job_id: int) -> int:
    """Submit a job again: a new Waiting job with the same request.

    Dependants of the old job now wait for the new one.
    """
    _bring_back(connection, [job_id])
    row = connection.execute(_COPY_JOB, [job_id]).fetchone()
    assert row is not None
    new: int = row[0]
    connection.execute(_REPOINT_DEPENDANTS, {"new": new, "old": job_id})
    rates.map_again(connection, [(job_id, new)])
    return new


def reservation_answers(connection: Connection, job_ids: Sequence[int]) -> list[ReservationRow]:
    """Return how far these reservations are answered."""
    return [ReservationRow(*row) for row in connection.execute(_RESERVATION_ANSWERS, [list(job_ids)])]
