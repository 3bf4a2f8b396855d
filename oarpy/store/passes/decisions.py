"""The rows that a scheduling pass writes: starts, reservations, victims, predictions.

Statements are set-wise and run in the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from oarpy.model.reasons import Reason, local_instant, reason_json, sentence
from oarpy.store.database import Connection
from oarpy.store.events import NewEvent
from oarpy.store.events import log as log_events
from oarpy.store.jobs import suspensions
from oarpy.store.jobs.kill_requests import GAVE_WAY, NEEDED, ask_once
from oarpy.store.refusals import refusals_of, set_wise, set_wise_of_all

_LAST_INSTANT = 32_503_679_999.0
"""Epoch seconds: the end of the year 2999, after which the database has no instants."""


@dataclass(frozen=True, slots=True)
class StartRow:
    """A job to launch on ``resources`` (ids) for ``walltime`` seconds.

    ``guest`` tells that it may lie beside jobs that share, which are not ``exclusive``. ``summary`` takes the
    place of ``R=...,W=...`` in its message, unless it is empty.
    """

    job: int
    moldable: int
    walltime: float
    resources: Sequence[int]
    exclusive: bool = True
    guest: bool = False
    summary: str = ""


@dataclass(frozen=True, slots=True)
class AcceptedRow:
    """A reservation that is accepted: from ``start`` (epoch seconds), for ``walltime`` seconds."""

    job: int
    moldable: int
    start: float
    walltime: float
    resources: Sequence[int]
    exclusive: bool = True


@dataclass(frozen=True, slots=True)
class Move:
    """An accepted reservation that goes to other resources; ``start`` (epoch seconds) and ``walltime`` stay."""

    job: int
    start: float
    walltime: float
    resources: Sequence[int]
    exclusive: bool = True


@dataclass(frozen=True, slots=True)
class Prediction:
    """The verdict on a waiting job and, unless ``start`` is None, when and where it will run (epoch seconds)."""

    job: int
    verdict: str
    reason: Reason
    moldable: int | None
    start: float | None
    end: float | None
    resources: str
    """An ``int4multirange`` as text, ``{[1,4],[7,7]}``."""


# A job that was deleted or held since the pass read it, or has another request by now, does not move, so it gets no
# resources. The other jobs hold their resources from the statement's own time on: resources that were released while
# the pass began were held until after its now().
_START = """
    WITH started AS (
        UPDATE jobs j
        SET state = 'toLaunch', moldable_id = s.moldable_id, walltime = s.walltime * interval '1 second',
            reservation_state = CASE WHEN j.reservation_start IS NOT NULL THEN 'Scheduled' END,
            message = CASE WHEN s.summary = '' THEN j.message
                           ELSE regexp_replace(j.message, '^R=[0-9]+,W=[0-9:]+', s.summary) END
        FROM unnest(%(jobs)s::bigint[], %(moldables)s::bigint[], %(walltimes)s::float8[], %(summaries)s::text[])
            AS s(job_id, moldable_id, walltime, summary)
        WHERE j.job_id = s.job_id AND j.state = 'Waiting'
          AND NOT EXISTS (SELECT FROM kill_requests k WHERE k.job_id = j.job_id AND k.state <> 'done')
          AND EXISTS (SELECT FROM moldable_descriptions m
                      WHERE m.moldable_id = s.moldable_id AND m.submission_id = j.submission_id)
        RETURNING j.job_id
    ), given AS (
        INSERT INTO assigned_resources (job_id, resource_id, during, exclusive, guest)
        SELECT a.job_id, a.resource_id, tstzmultirange(tstzrange(statement_timestamp(), NULL)), a.exclusive,
               a.job_id = ANY(%(guests)s::bigint[])
        FROM unnest(%(owners)s::bigint[], %(resources)s::int[], %(exclusive)s::boolean[])
            AS a(job_id, resource_id, exclusive)
        WHERE a.job_id IN (SELECT job_id FROM started)
    )
    SELECT job_id FROM started
"""

_RESERVE_MOVE = """
    UPDATE jobs j SET state = 'toAckReservation'
    WHERE j.job_id = ANY(%s) AND j.state = 'Waiting'
      AND (j.reservation_state = 'toSchedule' OR (j.reservation_state IS NULL AND 'bag' = ANY(j.types)))
    RETURNING j.job_id
"""
_RESERVE_ACCEPT = """
    WITH accepted AS (
        UPDATE jobs j
        SET state = 'Waiting', reservation_state = 'Scheduled', moldable_id = s.moldable_id,
            reservation_start = to_timestamp(s.start_time), walltime = s.walltime * interval '1 second'
        FROM unnest(%(jobs)s::bigint[], %(moldables)s::bigint[], %(starts)s::float8[], %(walltimes)s::float8[])
            AS s(job_id, moldable_id, start_time, walltime)
        WHERE j.job_id = s.job_id AND j.state = 'toAckReservation'
        RETURNING j.job_id, j.reservation_start AS begins, j.reservation_start + j.walltime AS ends
    )
    INSERT INTO reserved_resources (job_id, resource_id, during, exclusive)
    SELECT a.job_id, a.resource_id, tstzrange(begins, ends + %(security)s * interval '1 second'), a.exclusive
    FROM unnest(%(owners)s::bigint[], %(resources)s::int[], %(exclusive)s::boolean[])
        AS a(job_id, resource_id, exclusive) JOIN accepted USING (job_id)
"""

_RESERVE_CLEAR = "DELETE FROM reserved_resources WHERE job_id = ANY(%s)"
_RESERVE_AGAIN = """
    INSERT INTO reserved_resources (job_id, resource_id, during, exclusive)
    SELECT a.job_id, a.resource_id,
           tstzrange(to_timestamp(s.start_time),
                     to_timestamp(s.start_time + s.walltime + %(security)s::float8)), a.exclusive
    FROM unnest(%(owners)s::bigint[], %(resources)s::int[], %(exclusive)s::boolean[])
            AS a(job_id, resource_id, exclusive)
        JOIN unnest(%(jobs)s::bigint[], %(starts)s::float8[], %(walltimes)s::float8[])
            AS s(job_id, start_time, walltime) USING (job_id)
"""

# A job that can never run, or a reservation that is refused: the reason is its message.
_REFUSE = """
    WITH refused AS (
        UPDATE jobs j SET state = 'toError', message = r.reason, reservation_offer = to_timestamp(r.offer)
        FROM unnest(%(jobs)s::bigint[], %(reasons)s::text[], %(data)s::text[], %(offers)s::float8[])
            AS r(job_id, reason, data, offer)
        WHERE j.job_id = r.job_id AND j.state IN ('Waiting', 'toAckReservation')
        RETURNING j.job_id, r.reason, r.data
    )
    INSERT INTO event_logs (type, job_id, description, reason_data)
    SELECT %(event)s, job_id, reason, data::jsonb FROM refused
"""

# A placed job gets a prediction, unless it has another request by now: the next pass will write one.
_PREDICT = """
    INSERT INTO gantt_predictions (job_id, verdict, reason, reason_data, moldable_id, start_time, end_time, resources)
    SELECT p.job_id, p.verdict, p.reason, p.data::jsonb, p.moldable_id, to_timestamp(p.start_time),
           to_timestamp(p.end_time), p.resources::int4multirange
    FROM unnest(%(jobs)s::bigint[], %(verdicts)s::text[], %(reasons)s::text[], %(data)s::text[],
                %(moldables)s::bigint[], %(starts)s::float8[], %(ends)s::float8[], %(resources)s::text[])
        AS p(job_id, verdict, reason, data, moldable_id, start_time, end_time, resources)
    JOIN jobs j ON j.job_id = p.job_id AND j.state IN ('Waiting', 'Hold', 'toAckReservation')
    WHERE p.moldable_id IS NULL OR EXISTS (SELECT FROM moldable_descriptions m WHERE m.moldable_id = p.moldable_id)
    ON CONFLICT (job_id) DO UPDATE SET verdict = excluded.verdict, reason = excluded.reason,
        reason_data = excluded.reason_data, moldable_id = excluded.moldable_id, start_time = excluded.start_time,
        end_time = excluded.end_time, resources = excluded.resources
"""

# A job may have ended while a prediction was written for it: that prediction was too late to go with the job.
_FORGET = """
    DELETE FROM gantt_predictions g USING jobs j
    WHERE j.job_id = g.job_id AND j.state NOT IN ('Waiting', 'Hold', 'toAckReservation')
      AND (%(jobs)s::bigint[] IS NULL OR g.job_id = ANY(%(jobs)s::bigint[]))
"""

# Once for each time that a job gets this verdict, however often its reason is put differently meanwhile.
_SET_ASIDE = """
    INSERT INTO event_logs (type, job_id, description, reason_data)
    SELECT 'SCHEDULER_SET_ASIDE', p.job_id, p.reason, p.data::jsonb
    FROM unnest(%s::bigint[], %s::text[], %s::text[]) AS p(job_id, reason, data)
    JOIN jobs j ON j.job_id = p.job_id AND j.state IN ('Waiting', 'Hold', 'toAckReservation')
    LEFT JOIN gantt_predictions g ON g.job_id = p.job_id
    WHERE g.verdict IS DISTINCT FROM 'never'
"""

_PASS = """
    UPDATE scheduling_passes SET pass = (pass + 1) %% 9007199254740992, at = now(), seconds = %(seconds)s,
        waiting = %(waiting)s,
        seconds_spent = least(seconds_spent + %(seconds)s, 9007199254740991),
        jobs_started = (jobs_started + %(started)s) %% 9007199254740992
    RETURNING pass
"""


@set_wise
def start(connection: Connection, starts: Sequence[StartRow]) -> list[int]:
    """Move jobs to toLaunch with their resources; return the ids of the jobs that really moved.

    Raises ``psycopg.errors.ExclusionViolation`` when an exclusive resource is still held.
    """
    if not starts:
        return []
    rows = connection.execute(
        _START,
        {
            "jobs": [start.job for start in starts],
            "moldables": [start.moldable for start in starts],
            "walltimes": [float(start.walltime) for start in starts],
            "summaries": [start.summary for start in starts],
            "guests": [start.job for start in starts if start.guest],
            **_assignments(starts),
        },
    )
    return [row[0] for row in rows]


@set_wise
def accept(connection: Connection, reservations: Sequence[AcceptedRow], security_time: float) -> None:
    """Accept reservations: each goes to toAckReservation and back to Waiting, Scheduled, with its future resources."""
    if not reservations:
        return
    connection.execute(_RESERVE_MOVE, [[reservation.job for reservation in reservations]])
    connection.execute(
        _RESERVE_ACCEPT,
        {
            "jobs": [reservation.job for reservation in reservations],
            "moldables": [reservation.moldable for reservation in reservations],
            "starts": [float(reservation.start) for reservation in reservations],
            "walltimes": [float(reservation.walltime) for reservation in reservations],
            "security": security_time,
            **_assignments(reservations),
        },
    )


@set_wise
def move(connection: Connection, moves: Sequence[Move], security_time: float) -> None:
    """Give accepted reservations other resources.

    Raises ``psycopg.errors.ExclusionViolation`` when another reservation has one of them at that time.
    """
    if not moves:
        return
    connection.execute(_RESERVE_CLEAR, [[move.job for move in moves]])
    connection.execute(
        _RESERVE_AGAIN,
        {
            "jobs": [move.job for move in moves],
            "starts": [float(move.start) for move in moves],
            "walltimes": [float(move.walltime) for move in moves],
            "security": security_time,
            **_assignments(moves),
        },
    )
    text = "some of its resources are not available, it got others: "
    log(
        connection,
        [
            (move.job, "GET_RESOURCES_BACK_FOR_RESERVATION", text + ", ".join(map(str, move.resources[:50])))
            for move in moves
        ],
    )


@set_wise_of_all
def log(connection: Connection, events: Sequence[tuple[int, str, str]]) -> None:
    """Note (job, type, description) in the events of jobs."""
    log_events(connection, (NewEvent(kind, text, job) for job, kind, text in events))


@set_wise
def refuse(
    connection: Connection,
    reasons: Sequence[tuple[int, Reason]],
    event: str,
    offers: Mapping[int, float] = MappingProxyType({}),
) -> None:
    """Move jobs to toError with a reason each, logged as ``event``.

    ``offers`` are the dates (epoch seconds) at which refused reservations could be had, by job.
    """
    if reasons:
        jobs, texts = [job for job, _ in reasons], [_text(reason) for _, reason in reasons]
        dates = [database_instant(offers.get(job)) for job in jobs]
        data = [reason_json(reason) for _, reason in reasons]
        connection.execute(_REFUSE, {"jobs": jobs, "reasons": texts, "data": data, "offers": dates, "event": event})


@set_wise
def kill(connection: Connection, jobs: Sequence[int], types: Sequence[str]) -> None:
    """Flag jobs that give way to be cancelled, which the canceller does, or suspended, which the launcher does.

    Suspension frees resources of these ``types``.
    """
    suspended = suspensions.ask_for_others(connection, jobs, types) if jobs else set()
    ends = [(job, GAVE_WAY) for job in jobs if job not in suspended]
    to_kill = ask_once(connection, ends, "metascheduler")
    log(connection, [(job, GAVE_WAY, NEEDED) for job in to_kill])


@set_wise_of_all
def predict(connection: Connection, predictions: Sequence[Prediction]) -> None:
    """Store verdicts and predictions, replacing the old ones of these jobs; a new ``never`` leaves an event."""
    withheld = refusals_of(connection).withheld()
    if aside := [
        prediction for prediction in predictions if prediction.verdict == "never" and prediction.job not in withheld
    ]:
        texts_and_data = (
            [_text(prediction.reason) for prediction in aside],
            [reason_json(prediction.reason) for prediction in aside],
        )
        connection.execute(_SET_ASIDE, [[prediction.job for prediction in aside], *texts_and_data])
    if predictions:
        connection.execute(
            _PREDICT,
            {
                "jobs": [prediction.job for prediction in predictions],
                "verdicts": [prediction.verdict for prediction in predictions],
                "reasons": [_text(prediction.reason) for prediction in predictions],
                "data": [reason_json(prediction.reason) for prediction in predictions],
                "moldables": [prediction.moldable for prediction in predictions],
                "starts": [database_instant(prediction.start) for prediction in predictions],
                "ends": [database_instant(prediction.end) for prediction in predictions],
                "resources": [prediction.resources for prediction in predictions],
            },
        )


def forget_predictions(connection: Connection, jobs: Collection[int] | None) -> None:
    """Remove the predictions of jobs that do not wait any more, among ``jobs`` or, with None, among all."""
    connection.execute(_FORGET, {"jobs": None if jobs is None else list(jobs)})


def record_pass(connection: Connection, seconds: float, waiting: int, started: int) -> int:
    """Note that a pass took ``seconds``, looked at ``waiting`` jobs and started some; return its number."""
    row = connection.execute(_PASS, {"seconds": seconds, "waiting": waiting, "started": started}).fetchone()
    return row[0] if row else 0


def _text(reason: Reason) -> str:
    """Return a reason as people here read it."""
    return sentence(reason, local_instant)


def database_instant(instant: float | None) -> float | None:
    """Return an instant as a float: the driver makes no array of whole numbers and others together.

    Behind enough jobs of years each a start is further away than the database has instants.
    """
    return None if instant is None else min(float(instant), _LAST_INSTANT)


def _assignments(
    given: Sequence[StartRow] | Sequence[AcceptedRow] | Sequence[Move],
) -> dict[str, list[int] | list[bool]]:
    return {
        "owners": [row.job for row in given for _ in row.resources],
        "resources": [resource for row in given for resource in row.resources],
        "exclusive": [row.exclusive for row in given for _ in row.resources],
    }
