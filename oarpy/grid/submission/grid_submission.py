"""``oargridsub`` as a function: it checks and stores the typed options; the broker's modules go on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from oarpy.client.pass_answers import place_to_wait, wait_for
from oarpy.client.session import Session
from oarpy.client.submission.measuring import require_program, whole_path
from oarpy.grid.submission.grid_draft import BagLimits, GridDraft, draft
from oarpy.grid.submission.grid_options import GridOptions
from oarpy.grid.submission.mapped_processes import program_to_map
from oarpy.model.errors import AdmissionRefused, NotFound, Unreachable, UsageError
from oarpy.model.states import FINAL_GRID_JOBS, GridJobState
from oarpy.store.database import Connection
from oarpy.store.grid import bags, broker_jobs, clusters, metajobs, programs
from oarpy.store.grid.broker_jobs import GridJobRow, NewGridJob
from oarpy.store.grid.clusters import GridClusterRow
from oarpy.store.grid.metajobs import NewMetajob
from oarpy.store.notifications import is_led

_OPEN = frozenset({GridJobState.SUBMITTED, GridJobState.CLAIMING})
_REFUSED = frozenset({GridJobState.ERROR, GridJobState.MISSED})


@dataclass(frozen=True, slots=True)
class SubmittedGridJobs:
    """The ids of stored jobs; ``waits`` says that clusters have to answer before the jobs are known to be accepted."""

    ids: tuple[int, ...]
    waits: bool = False


def read_draft(session: Session, options: GridOptions) -> tuple[GridDraft, list[GridClusterRow]]:
    """Return the requested job and the clusters it may go to, in configured order.

    Raises :class:`UsageError`; :class:`NotFound` for an unknown cluster; :class:`AdmissionRefused` for a cluster that
    takes no jobs, or none of this user, or if there is no cluster. A job that names no cluster has all of them, even
    clusters that are not open to its user.
    """
    configuration, now = session.configuration, datetime.now().astimezone()
    limits = BagLimits(configuration.grid.bag_policy, configuration.scheduler.bag_tasks)
    drafted = draft(options, session.user, configuration.submission, now, configuration.grid.operation, limits)
    rows = usable(drafted.job, clusters.every(session.connection))
    if drafted.metajob is not None:
        _check_limits(drafted.metajob, rows)
    return drafted, rows


def _check_limits(metajob: NewMetajob, rows: list[GridClusterRow]) -> None:
    """Raise an error for limits of clusters that are not there, or that leave too little for the job."""
    limits = metajob.at_most or {}
    for name in limits:
        if name not in {row.name for row in rows}:
            raise NotFound(f"--at-most names no cluster '{name[:64]}'", hint="oargridctl clusters list has them")
    most = [limits.get(row.name, metajob.procs) for row in rows]
    if sum(most) < metajob.procs:
        raise UsageError(f"--at-most leaves {sum(most)} of {metajob.procs} processors", hint="raise the limits")


def usable(job: NewGridJob, known: list[GridClusterRow]) -> list[GridClusterRow]:
    """Return the known clusters that a job may go to; errors as :func:`read_draft`."""
    active = [cluster for cluster in known if cluster.active]
    if not active:
        hint = "an admin enables a broker (grid.enabled = true) and adds clusters: oargridctl clusters add"
        raise AdmissionRefused("no cluster takes grid jobs here", hint=hint)
    named = dict.fromkeys(component.cluster for component in job.components if component.cluster is not None)
    for name in named:
        if name not in {cluster.name for cluster in known}:
            hint = f"oargridctl clusters list has them: {', '.join(cluster.name for cluster in active[:10])}"
            raise NotFound(f"no cluster '{name[:64]}'", hint=hint)
        if name not in {cluster.name for cluster in active}:
            raise AdmissionRefused(f"cluster '{name}' takes no grid jobs now", hint="name another one, or try later")
    for cluster in active:
        if cluster.name in named and (closed := cluster.refusal_to(job.user)):
            raise AdmissionRefused(closed, hint="an admin of the broker says who may use it: oargridctl clusters list")
    return [cluster for cluster in active if not named or cluster.name in named]


def submit(session: Session, options: GridOptions) -> SubmittedGridJobs:
    """Store the requested jobs; errors as :func:`read_draft`, and when too many jobs of the user would wait."""
    drafted, _ = read_draft(session, options)
    asked = drafted.processes
    program = None if asked is None else program_to_map(session, asked, drafted.job.program)
    bag = drafted.bag
    if bag is not None and bag.profile:
        require_program("--profile", bag.profile)
        bag = replace(bag, profile=whole_path(bag.profile))
    if session.user in session.configuration.submission.refused_users:
        raise AdmissionRefused(f"'{session.user}' submits no grid jobs", hint="submission.refused_users names it")
    with session.connection.transaction():
        _check_waiting(session, drafted.copies)
        ids = broker_jobs.insert(session.connection, drafted.job, drafted.copies)
        if drafted.metajob is not None:
            metajobs.add(session.connection, ids[0], drafted.metajob)
        if program is not None:
            programs.add(session.connection, ids[0], program)
        if bag is not None:
            bags.add(session.connection, ids[0], bag)
    return SubmittedGridJobs(tuple(ids), waits=drafted.job.kind in ("named", "metajob", "bag"))


def absent_broker(session: Session) -> str:
    """Return the warning about jobs when no broker runs; empty when one runs."""
    if session.configuration.grid.enabled or is_led(session.connection, "mapper"):
        return ""
    return (
        "Warning: no broker runs here, and nothing happens to grid jobs until one does"
        " (an admin sets grid.enabled = true and restarts the server)"
    )


def _check_waiting(session: Session, more: int) -> None:
    """Raise :class:`AdmissionRefused` if ``more`` jobs of the user would exceed the limit of waiting jobs."""
    limit = session.configuration.grid.waiting_per_user
    if not limit or session.is_admin:
        return
    waiting = broker_jobs.count_waiting(session.connection, session.user)
    if waiting + more > limit:
        raise AdmissionRefused(
            f"{waiting} grid jobs of '{session.user}' wait, with {more} more they would be over {limit}",
            hint="submit fewer, or when some have started (grid.waiting_per_user)",
        )


def wait_for_answer(connection: Connection, job: int, timeout: float) -> GridJobRow:
    """Return the job once all its clusters have reserved its parts, or promised its tasks, or one of them has refused.

    Raises :class:`Unreachable` after ``timeout`` seconds, or if too many of the caller's commands wait: the job stays.
    """
    stays = f"the job stays: oargridstat {job} tells, oargriddel {job} gives it up"

    def answered() -> GridJobRow | None:
        (grid_job,) = broker_jobs.read(connection, [job])
        unpromised = (
            grid_job.kind == "bag"
            and grid_job.state not in FINAL_GRID_JOBS
            and bags.of_job(connection, job).promise is None
        )
        return None if grid_job.state in _OPEN or unpromised else grid_job

    with place_to_wait(stays):
        row = wait_for(connection, answered, timeout)
    if row is None:
        profiled = "" if not _is_profiled(connection, job) else ": its profile is taken first"
        raise Unreachable(f"not all clusters have answered within {timeout:g} s{profiled}", hint=stays)
    return row


def _is_profiled(connection: Connection, job: int) -> bool:
    """Tell whether clusters take the profile of a bag."""
    bag = bags.of_jobs(connection, [job]).get(job)
    return bag is not None and bool(bag.profile) and bag.profiled is None


def require_accepted(job: GridJobRow) -> None:
    """Raise :class:`AdmissionRefused` for a job that clusters have refused: nothing of it is left on any."""
    if job.state in _REFUSED:
        reason = " ".join(job.message.split()) or "a cluster refused it"
        raise AdmissionRefused(f"grid job {job.id} is refused: {reason}", hint="nothing of it is left on any cluster")
