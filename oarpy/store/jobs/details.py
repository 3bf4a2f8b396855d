"""Everything known of jobs, for ``oarstat -f`` and ``oarstat -J``: a fixed number of queries, however many jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from psycopg.sql import SQL

from oarpy.model.dependency import Dependency
from oarpy.model.job_types import BAG
from oarpy.model.reasons import Reason, reason_of
from oarpy.model.request import Consumption, Group, Level, ResourceRequest
from oarpy.store.database import Connection
from oarpy.store.events import Event, job_events
from oarpy.store.jobs import bags, extensions, recurring, windows
from oarpy.store.jobs.bags import BagRow
from oarpy.store.jobs.extensions import ExtensionRow
from oarpy.store.jobs.kill_requests import OPEN_REQUEST, reason_of_kill
from oarpy.store.jobs.recurring import SeriesOfJob
from oarpy.store.jobs.scope import JobScope
from oarpy.store.jobs.windows import JobWindow
from oarpy.store.passes.first_prediction import TOLD_COLUMNS, ToldStart
from oarpy.store.passes.snapshot_rows import requests as stored_requests
from oarpy.store.passes.snapshot_rows import stored_dependency
from oarpy.store.platform.consumables import ConsumableHolding, of_jobs


@dataclass(frozen=True, slots=True)
class JobRow:
    """One row of ``jobs`` and its submission. Times are epoch seconds, ``walltime`` seconds."""

    job_id: int
    submission_id: int
    array_id: int
    array_index: int
    name: str
    user: str
    project: str
    queue: str
    kind: str
    types: Sequence[str]
    properties: str
    command: str
    directory: str
    stdout: str
    stderr: str
    reservation: str
    reservation_start: float | None
    resubmit_of: int | None
    state: str
    message: str
    walltime: int | None
    exit_status: int | None
    submitted: float
    started: float | None
    ended: float | None
    initial_request: str
    verdict: str
    reason: str
    reason_data: str | None
    """The reason as JSON; None where ``reason`` has all that is known."""
    predicted: float | None
    cpu_seconds: float | None
    memory_peak: int | None

    @property
    def why(self) -> Reason:
        """Why the job waits, as the last pass has it; or why it is being killed."""
        return reason_of(self.reason, self.reason_data)


@dataclass(frozen=True, slots=True)
class JobDetails:
    """A job with the rows that hang on it."""

    row: JobRow
    requests: tuple[ResourceRequest, ...]
    resource_ids: tuple[int, ...]
    hosts: tuple[str, ...]
    reserved_ids: tuple[int, ...]
    dependencies: tuple[Dependency, ...]
    events: tuple[Event, ...]
    amounts: tuple[ConsumableHolding, ...] = ()
    told: ToldStart | None = None
    extensions: tuple[ExtensionRow, ...] = ()
    window: JobWindow | None = None
    bag: BagRow | None = None
    series: SeriesOfJob | None = None


_JOBS = f"""
    SELECT j.job_id, j.submission_id, j.array_id, j.array_index, j.job_name, j.user_name, j.project, j.queue_name,
           j.kind, j.types, j.properties, j.command, j.launching_directory, j.stdout_path, j.stderr_path,
           coalesce(j.reservation_state, 'None'), extract(epoch FROM j.reservation_start)::float8, j.resubmit_of,
           j.state, j.message, extract(epoch FROM coalesce(gate.walltime, j.walltime))::bigint, j.exit_status,
           extract(epoch FROM j.submitted_at)::float8, extract(epoch FROM j.started_at)::float8,
           extract(epoch FROM j.ended_at)::float8, s.initial_request,
           coalesce(g.verdict, ''), coalesce({reason_of_kill("j", "k")}, g.reason, ''),
           CASE WHEN {reason_of_kill("j", "k")} IS NULL THEN g.reason_data::text END,
           extract(epoch FROM coalesce(g.start_time, gate.opens_at, gate.expected_at))::float8, j.cpu_seconds,
           j.memory_peak, {TOLD_COLUMNS}
    FROM jobs j JOIN submissions s ON s.submission_id = j.submission_id
                LEFT JOIN launch_gates gate ON gate.job_id = j.job_id AND j.state = 'toLaunch'
                LEFT JOIN gantt_predictions g ON g.job_id = j.job_id
                LEFT JOIN first_predictions f ON f.job_id = j.job_id
                LEFT JOIN LATERAL {OPEN_REQUEST} k ON true
    WHERE {{where}}
    ORDER BY j.job_id
"""  # noqa: S608 - columns named in the source

# The resources held now or until the job ended, with the nodes in their order; without resources that a running job
# gave back.
_ASSIGNED = """
    SELECT a.job_id, array_agg(a.resource_id ORDER BY a.resource_id),
           array_agg(DISTINCT r.network_address) FILTER (WHERE r.network_address IS NOT NULL)
    FROM assigned_resources a JOIN resources r ON r.resource_id = a.resource_id JOIN jobs j ON j.job_id = a.job_id
    WHERE a.job_id = ANY(%s) AND (upper_inf(a.during) OR a.suspended OR NOT is_live(j.state))
    GROUP BY a.job_id
"""

_RESERVED = """
    SELECT job_id, array_agg(resource_id ORDER BY resource_id) FROM reserved_resources
    WHERE job_id = ANY(%s) GROUP BY job_id
"""

_DEPENDENCIES = """
    SELECT job_id, required_job_id, outcome, earliest_edge, extract(epoch FROM earliest_shift)::bigint,
           latest_edge, extract(epoch FROM latest_shift)::bigint
    FROM job_dependencies WHERE job_id = ANY(%s) ORDER BY 1, 2
"""

_ENVIRONMENTS = """
    SELECT j.job_id, s.environment FROM jobs j JOIN submissions s ON s.submission_id = j.submission_id
    WHERE j.job_id = ANY(%s)
"""


def details(connection: Connection, scope: JobScope, notice: float = 0) -> tuple[JobDetails, ...]:
    """Return the jobs of ``scope`` in order of id with all that hangs on them.

    Reservations that begin within ``notice`` seconds count as fixed.
    """
    where, values = scope.where()
    cursor = connection.execute(SQL(_JOBS).format(where=where), values)
    rows, first_predictions = [], {}
    for row in cursor.fetchall():
        rows.append(JobRow(*row[:-5]))
        first_predictions[row[0]] = ToldStart.of(row[-5:])
    ids = [row.job_id for row in rows]
    assigned = {job: (tuple(some), tuple(hosts or ())) for job, some, hosts in connection.execute(_ASSIGNED, [ids])}
    reserved = {job: tuple(some) for job, some in connection.execute(_RESERVED, [ids])}
    required: dict[int, list[Dependency]] = defaultdict(list)
    for job, *dependency in connection.execute(_DEPENDENCIES, [ids]):
        required[job].append(stored_dependency(*dependency))
    requests = requests_of(connection, {row.submission_id for row in rows})
    events = job_events(connection, ids)
    amounts = of_jobs(connection, ids)
    asked_extensions: dict[int, list[ExtensionRow]] = defaultdict(list)
    for extension in extensions.of_jobs(connection, ids):
        asked_extensions[extension.job].append(extension)
    of_windows = windows.of_jobs(connection, ids, notice)
    of_series = recurring.of_jobs(connection, ids)
    of_bags = bags.of_tasks(connection, [row.job_id for row in rows if BAG in row.types])
    return tuple(
        JobDetails(
            row,
            requests.get(row.submission_id, ()),
            *assigned.get(row.job_id, ((), ())),
            reserved.get(row.job_id, ()),
            tuple(required[row.job_id]),
            events.get(row.job_id, ()),
            amounts.get(row.job_id, ()),
            first_predictions[row.job_id],
            tuple(asked_extensions[row.job_id]),
            of_windows.get(row.job_id),
            of_bags.get(row.job_id),
            of_series.get(row.job_id),
        )
        for row in rows
    )


def requests_of(connection: Connection, submissions: Iterable[int]) -> dict[int, tuple[ResourceRequest, ...]]:
    """Return the alternatives of each of these submissions."""
    of_submissions: dict[int, dict[int, ResourceRequest]] = defaultdict(dict)
    for row in stored_requests(connection, submissions):
        group = Group(tuple(Level(*level) for level in row.levels), row.filter)
        known = of_submissions[row.submission].get(row.moldable)
        if known is None:
            consumes = tuple(Consumption(*amount) for amount in row.amounts)
            of_submissions[row.submission][row.moldable] = ResourceRequest((group,), int(row.walltime), consumes)
        else:
            of_submissions[row.submission][row.moldable] = replace(known, groups=(*known.groups, group))
    return {submission: tuple(alternatives.values()) for submission, alternatives in of_submissions.items()}


def environments(connection: Connection, job_ids: Sequence[int]) -> dict[int, Mapping[str, str]]:
    """Return the environment each job was submitted in."""
    return dict(connection.execute(_ENVIRONMENTS, [list(job_ids)]).fetchall())
