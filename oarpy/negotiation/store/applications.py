"""The rows of applications: made by a subscription, changed by requests and answers, written by passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from oarpy.store.database import Connection

# Partial indexes hold only applications that are not over: if there are none, they are empty.
ANY_THERE = "EXISTS (SELECT FROM applications WHERE state <> 'Finished') OR EXISTS (SELECT FROM ghosts)"
_ADD = """
    INSERT INTO applications (job_id, filter, level, exact, if_lost, token_hash, launcher, lost_since)
    VALUES (%(job)s, %(filter)s, %(level)s, %(exact)s, %(if_lost)s, %(token_hash)s, %(launcher)s, now())
"""

# A request counts from the moment at which it is written: the first one ranks the application.
_ASK = """
    UPDATE applications SET state = 'RequestSent', tag = %(tag)s, hosts = %(hosts)s,
        walltime = %(walltime)s * interval '1 second', requests = requests + 1,
        first_asked_at = coalesce(first_asked_at, clock_timestamp()),
        answered = greatest(answered, coalesce(%(serial)s::bigint, serial))
    WHERE job_id = %(job)s AND state IN ('Submitted', 'RequestSent', 'Waiting')
    RETURNING requests
"""

_KEEP = """
    UPDATE applications a SET answered = greatest(a.answered, k.serial)
    FROM unnest(%(jobs)s::bigint[], %(serials)s::bigint[]) AS k(job_id, serial)
    WHERE a.job_id = k.job_id AND a.state IN ('Submitted', 'RequestSent', 'Waiting') AND a.serial >= k.serial {locked}
    RETURNING a.job_id
"""
# Rows that a pass is writing are left out: a wait for several of these could block a pass in turn.
_KEEP_UNLOCKED = _KEEP.format(
    locked="AND a.job_id IN (SELECT job_id FROM applications WHERE job_id = ANY(%(jobs)s) FOR UPDATE SKIP LOCKED)"
)
_KEEP_ONE = _KEEP.format(locked="")

_PRESENT = "UPDATE applications SET lost_since = NULL WHERE job_id = ANY(%s) AND lost_since IS NOT NULL"
_LOST = "UPDATE applications SET lost_since = now() WHERE job_id = ANY(%s) AND lost_since IS NULL"
# No launcher could speak while the negotiator was away: patience begins anew.
_ALL_LOST = "UPDATE applications SET lost_since = now() WHERE state <> 'Finished'"

# Whoever speaks for it or wants it killed makes its end known, long before its job is over.
_SEND_FINISH = """
    UPDATE applications SET state = 'FinishSent', ended = coalesce(ended, %s)
    WHERE job_id = ANY(%s) AND state IN ('Submitted', 'RequestSent', 'Waiting', 'Started')
"""
# Stored facts decide how jobs end, never texts that contain names given by users. A job that runs no program and was
# not killed has reached its walltime.
_NOTE_ENDS = """
    UPDATE applications a SET state = 'FinishSent', ended = coalesce(a.ended, e.reason)
    FROM (
        SELECT o.job_id, CASE
                WHEN j.final_state = 'Terminated' OR j.state = 'Terminated' THEN
                    CASE WHEN k.job_id IS NULL AND EXISTS (
                        SELECT FROM unnest(j.types) AS t(word) WHERE t.word = 'noop' OR t.word LIKE 'noop=%%')
                    THEN 'walltime' ELSE 'done' END
                WHEN k.job_id IS NOT NULL THEN 'deleted'
                WHEN EXISTS (SELECT FROM event_logs l WHERE l.job_id = o.job_id AND l.type = 'WALLTIME') THEN 'walltime'
                ELSE 'error' END AS reason
        FROM applications o JOIN jobs j USING (job_id) LEFT JOIN kill_requests k USING (job_id)
        WHERE o.state IN ('Submitted', 'RequestSent', 'Waiting', 'Started')
          AND (%(jobs)s::bigint[] IS NULL OR o.job_id = ANY(%(jobs)s))
          AND (j.state IN ('toError', 'Terminated', 'Error')
               OR j.state = 'Finishing' AND j.final_state IS DISTINCT FROM 'Waiting'
               OR k.state = 'decided' OR k.state = 'asked' AND k.not_before IS NULL)
        {locked}) AS e
    WHERE a.job_id = e.job_id
"""
# Rows that a pass is writing are left for the next look: see above.
_NOTE_ENDS_UNLOCKED = _NOTE_ENDS.replace("{locked}", "FOR UPDATE OF o SKIP LOCKED")
_NOTE_ENDS_LOCKED = _NOTE_ENDS.replace("{locked}", "ORDER BY o.job_id FOR UPDATE OF o")

# A job that never began cannot end well, so one that is done early waits until it runs.
_DONE = """
    SELECT a.job_id, j.state NOT IN ('toLaunch', 'Launching') FROM applications a JOIN jobs j USING (job_id)
    WHERE a.state = 'FinishSent' AND a.ended = 'done' AND is_live(j.state) AND j.state <> 'Finishing'
      AND NOT EXISTS (SELECT FROM kill_requests k WHERE k.job_id = a.job_id)
    ORDER BY a.job_id
"""

# Applications that never asked, and those without a launcher for too long.
_OVERDUE = """
    SELECT job_id, 'lost' FROM applications
    WHERE state = 'Submitted' AND ended IS NULL
      AND subscribed_at < now() - %(first_request)s * interval '1 second'
    UNION
    SELECT job_id, 'lost' FROM applications
    WHERE state NOT IN ('FinishSent', 'Ghost', 'Finished') AND ended IS NULL AND if_lost = 'end'
      AND lost_since < now() - %(patience)s * interval '1 second'
"""

# A job that was given hosts and lost them before it ran there is placed again.
_PLACED = """
    coalesce((SELECT max(lower(l.during)) FROM job_state_logs l WHERE l.job_id = j.job_id AND l.state = 'toLaunch'),
             j.submitted_at)"""

_ROWS = f"""
    SELECT a.job_id, a.state, j.user_name, j.state, extract(epoch FROM a.subscribed_at)::float8,
           extract(epoch FROM a.first_asked_at)::float8, a.filter, a.level, a.exact, a.if_lost, a.token_hash, a.tag,
           a.hosts, extract(epoch FROM a.walltime)::float8, a.requests, a.serial, a.view, a.answered, a.told,
           a.ended, a.lost_since::text,
           CASE WHEN a.state = 'Started' THEN extract(epoch FROM coalesce(j.started_at, {_PLACED}))::float8 END,
           CASE WHEN a.state = 'Started' THEN extract(epoch FROM {_PLACED})::float8 END, a.free_groups, a.informed
    FROM applications a JOIN jobs j USING (job_id)
"""  # noqa: S608 - a text of this file
_LIVE = f"{_ROWS} WHERE a.state <> 'Finished' ORDER BY a.job_id"
_SOME = f"{_ROWS} WHERE a.job_id = ANY(%s) ORDER BY a.job_id"

# Every UPDATE changes a row's xmin. Only started applications grow and shrink.
_VERSIONS = f"""
    SELECT a.job_id, concat_ws(' ', a.xmin, j.state, j.started_at, k.state, k.not_before, CASE
        WHEN a.state = 'Started' THEN (
            SELECT concat_ws(' ', {_PLACED},
                             (SELECT string_agg(e.xmin::text, ',') FROM extensions e WHERE e.job_id = a.job_id),
                             (SELECT string_agg(r.xmin::text, ',') FROM resizes r WHERE r.job_id = a.job_id),
                             (SELECT string_agg(h.resource_id || ' ' || h.reclaim_at, ',') FROM assigned_resources h
                              WHERE h.job_id = a.job_id AND h.reclaim_at IS NOT NULL))) END)
    FROM applications a JOIN jobs j USING (job_id) LEFT JOIN kill_requests k USING (job_id) WHERE a.job_id = ANY(%s)
"""  # noqa: S608 - a text of this file

# New hosts are named once their nodes are ready; hosts of a withdrawn grant are never named.
_NAMES = """
    SELECT a.job_id, r.network_address, array_agg(r.resource_id)
    FROM assigned_resources a JOIN resources r USING (resource_id)
    WHERE a.job_id = ANY(%s) AND upper_inf(a.during)
      AND NOT EXISTS (SELECT FROM extensions e WHERE e.extension_id = a.extension_id AND e.state <> 'Granted')
    GROUP BY a.job_id, r.network_address ORDER BY a.job_id, min(r.resource_id)
"""

_SHOW = """
    UPDATE applications a SET view = s.view::jsonb, serial = s.serial, free_groups = s.groups::jsonb,
        informed = coalesce(s.informed::jsonb, a.informed)
    FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[])
        AS s(job_id, serial, view, groups, informed)
    WHERE a.job_id = s.job_id AND a.serial < s.serial
"""
_SHOW_FIRST = """
    UPDATE applications SET view = %s, free_groups = %s, informed = %s, serial = 1
    WHERE job_id = %s AND serial = 0 RETURNING serial
"""

# A request that came while the pass decided was not dealt with.
_PLACE = """
    UPDATE applications a SET state = 'Waiting' FROM unnest(%s::bigint[], %s::integer[]) AS p(job_id, requests)
    WHERE a.job_id = p.job_id AND a.requests = p.requests AND a.state = 'RequestSent'
"""
_START = "UPDATE applications SET state = 'Started' WHERE job_id = ANY(%s) AND state = 'Waiting'"
_ESTIMATE = """
    UPDATE applications a SET told = s.told::jsonb
    FROM unnest(%s::bigint[], %s::text[]) AS s(job_id, told) WHERE a.job_id = s.job_id
"""
# Every end takes the same way, also where nothing is kept back.
_GHOST = "UPDATE applications SET state = 'Ghost' WHERE job_id = ANY(%s) AND state = 'FinishSent'"
_FINISHED = "UPDATE applications SET state = 'Finished' WHERE job_id = ANY(%s) AND state = 'Ghost'"


@dataclass(frozen=True, slots=True)
class ApplicationRow:
    """An application with its job. Instants are epoch seconds, ``walltime`` is in seconds.

    ``placed`` is when the started job was given its hosts.

    ``view`` maps clusters to the number of the view in which they changed last, and their profile. ``groups`` does so
    for hosts that are free throughout. ``informed`` has by cluster the views that named it because of its facts, and
    because of its links, with marks of these.
    """

    job: int
    state: str
    user: str
    job_state: str
    subscribed: float
    first_asked: float | None
    filter: Mapping[str, Any]
    level: str
    exact: bool
    if_lost: str
    token_hash: str
    tag: str | int | None
    hosts: Mapping[str, int] | None
    walltime: float | None
    requests: int
    serial: int
    view: Mapping[str, tuple[int, list[float]]]
    answered: int
    told: Mapping[str, Any] | None
    ended: str | None
    lost_since: str | None
    started: float | None
    placed: float | None
    groups: Mapping[str, tuple[int, list[Any]]]
    informed: Mapping[str, tuple[int, int, str, str]]


@dataclass(frozen=True, slots=True)
class NewApplication:
    """The part of a subscription that describes the application."""

    filter: Mapping[str, object]
    level: str
    exact: bool
    if_lost: str
    token_hash: str
    launcher: str | None = None


def add(connection: Connection, job: int, new: NewApplication) -> None:
    """Make an application of a job that was just submitted; it has no launcher yet."""
    connection.execute(
        _ADD,
        {
            "job": job,
            "filter": Jsonb(dict(new.filter)),
            "level": new.level,
            "exact": new.exact,
            "if_lost": new.if_lost,
            "token_hash": new.token_hash,
            "launcher": new.launcher,
        },
    )


def ask(
    connection: Connection, job: int, tag: str | int, hosts: Mapping[str, int], walltime: float, serial: int | None
) -> bool:
    """Store a request, in place of the one before; return whether it came in time."""
    values = {"job": job, "tag": Jsonb(tag), "hosts": Jsonb(dict(hosts)), "walltime": walltime, "serial": serial}
    return connection.execute(_ASK, values).fetchone() is not None


def keep(connection: Connection, serials: Mapping[int, int]) -> set[int]:
    """Store for jobs which views were answered; return the jobs whose answer was in time and to a sent view."""
    values = {"jobs": list(serials), "serials": list(serials.values())}
    noted = {job for (job,) in connection.execute(_KEEP_UNLOCKED, values)}
    for job in serials.keys() - noted:
        cursor = connection.execute(_KEEP_ONE, {"jobs": [job], "serials": [serials[job]]})
        noted |= {number for (number,) in cursor}
    return noted


def note_present(connection: Connection, jobs: Sequence[int]) -> None:
    """Note that these applications have a launcher."""
    connection.execute(_PRESENT, [list(jobs)])


def note_lost(connection: Connection, jobs: Sequence[int]) -> None:
    """Note that these applications have no launcher any more."""
    connection.execute(_LOST, [list(jobs)])


def note_all_lost(connection: Connection) -> None:
    """Note that no application has a launcher: all connections were lost."""
    connection.execute(_ALL_LOST)


def send_finish(connection: Connection, jobs: Sequence[int], reason: str) -> None:
    """Store that these applications end, and the reason if none is known yet."""
    connection.execute(_SEND_FINISH, [reason, list(jobs)])


def note_ends(connection: Connection, jobs: Sequence[int] | None = None) -> None:
    """Note the end of these applications, or of all, whose jobs are over or nearly so, or are to be killed."""
    connection.execute(_NOTE_ENDS_UNLOCKED, {"jobs": None if jobs is None else list(jobs)})


def done(connection: Connection) -> tuple[list[int], bool]:
    """Return the jobs that run although their applications are done, and whether others are still to begin."""
    rows = connection.execute(_DONE).fetchall()
    return [job for job, runs in rows if runs], any(not runs for _, runs in rows)


def overdue(connection: Connection, first_request: float, patience: float) -> list[int]:
    """Return the applications that never asked, or whose launcher is lost, for longer than these seconds."""
    rows = connection.execute(_OVERDUE, {"first_request": first_request, "patience": patience}).fetchall()
    return sorted({job for job, _ in rows})


def live(connection: Connection) -> list[ApplicationRow]:
    """Return the applications that are not Finished, ascending."""
    return [ApplicationRow(*row) for row in connection.execute(_LIVE).fetchall()]


def named(connection: Connection, jobs: Sequence[int]) -> dict[int, ApplicationRow]:
    """Return the applications among these jobs."""
    return {row[0]: ApplicationRow(*row) for row in connection.execute(_SOME, [list(jobs)]).fetchall()}


def versions(connection: Connection, jobs: Sequence[int]) -> dict[int, str]:
    """Return for each application a text that changes with its row, and with its job's start."""
    return dict(connection.execute(_VERSIONS, [list(jobs)]).fetchall())


def held_hosts(connection: Connection, jobs: Sequence[int]) -> dict[int, dict[str, list[int]]]:
    """Return the names of the hosts that these jobs hold, with their resources."""
    hosts: dict[int, dict[str, list[int]]] = {}
    for job, name, resources in connection.execute(_NAMES, [list(jobs)]).fetchall():
        hosts.setdefault(job, {})[name] = resources
    return hosts


def show_first(
    connection: Connection,
    job: int,
    view: Mapping[str, object],
    groups: Mapping[str, object],
    informed: Mapping[str, object],
) -> None:
    """Store the first view of an application, with its facts about clusters."""
    connection.execute(_SHOW_FIRST, [Jsonb(dict(view)), Jsonb(dict(groups)), Jsonb(dict(informed)), job])


def show(connection: Connection, views: Sequence[tuple[int, int, str, str, str | None]]) -> None:
    """Store views: job, number, profiles as JSON, groups, and facts about clusters (None: as before)."""
    if views:
        connection.execute(_SHOW, [list(values) for values in zip(*views, strict=True)])


def place(connection: Connection, requests: Mapping[int, int]) -> None:
    """Note that a pass has given places to these applications, each for the request of that number."""
    connection.execute(_PLACE, [list(requests), list(requests.values())])


def start(connection: Connection, jobs: Sequence[int]) -> None:
    """Note that these applications have started."""
    connection.execute(_START, [list(jobs)])


def estimate(connection: Connection, estimates: Sequence[tuple[int, str]]) -> None:
    """Store the estimates of starts sent to applications: job, estimate as JSON."""
    if estimates:
        jobs, texts = zip(*estimates, strict=True)
        connection.execute(_ESTIMATE, [list(jobs), list(texts)])


def finish(connection: Connection, jobs: Sequence[int]) -> None:
    """Note that the jobs of applications are over. Their hosts may be kept back from here on."""
    if jobs:
        connection.execute(_NOTE_ENDS_LOCKED, {"jobs": list(jobs)})
        connection.execute(_GHOST, [list(jobs)])


def finished(connection: Connection, jobs: Sequence[int]) -> None:
    """End the applications of which no hosts are kept back any more."""
    connection.execute(_FINISHED, [list(jobs)])
