"""A grid job as its user sees it: with its components, and the present part of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oarpy.client.session import Session
from oarpy.model.errors import NotFound
from oarpy.model.states import STARTABLE_PARTS, GridPartState
from oarpy.store.database import Connection
from oarpy.store.grid import bags, broker_jobs, broker_parts, metajobs, programs
from oarpy.store.grid.bags import GridBagRow, TaskRow
from oarpy.store.grid.broker_jobs import GridComponentRow, GridJobRow
from oarpy.store.grid.broker_parts import GridPartRow
from oarpy.store.grid.metajobs import MetajobRow
from oarpy.store.grid.programs import GridProgramRow

_NOT_SHOWN = frozenset({GridPartState.ABORTING, GridPartState.GONE, GridPartState.DELETING})


@dataclass(frozen=True, slots=True)
class GridJobView:
    """A job with its components; ``parts`` has, in the same order, the present part of each, None: no part."""

    job: GridJobRow
    components: tuple[GridComponentRow, ...]
    parts: tuple[GridPartRow | None, ...]
    metajob: MetajobRow | None = None
    """The further request of a job of this kind, and its promise."""
    bag: GridBagRow | None = None
    tasks: tuple[TaskRow, ...] = ()
    """The request and the promise of a bag, and its tasks that clusters have or had."""
    program: GridProgramRow | None = None
    """The program of a metajob whose processes are mapped."""

    @property
    def clusters(self) -> tuple[str, ...]:
        """Return where its parts are, each cluster once."""
        return tuple(dict.fromkeys(part.cluster for part in self.parts if part))

    @property
    def start(self) -> float | None:
        """Return when it started, or is to start, in epoch seconds; None if that is open."""
        return self.job.deadline if self.job.started is None else self.job.started

    @property
    def walltime(self) -> float:
        """Return for how long it runs at most, in seconds.

        Over several clusters that follows from its place: from the overhead, or from where its processes are
        mapped. Else, and until it has a place, it is what was asked for.
        """
        placed = [part.walltime for part in self.parts if part]
        return max(placed) if self.metajob is not None and placed else self.job.walltime

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts of all its parts, each once."""
        return tuple(dict.fromkeys(host for part in self.parts if part for host in part.hosts))


def views(connection: Connection, jobs: Sequence[GridJobRow]) -> list[GridJobView]:
    """Return jobs with their components, parts and metajobs."""
    ids = [job.id for job in jobs]
    components = broker_jobs.components(connection, ids)
    asking = metajobs.of_jobs(connection, [job.id for job in jobs if job.kind == "metajob"])
    its_programs = programs.of_jobs(connection, list(asking))
    of_bags = bags.of_jobs(connection, [job.id for job in jobs if job.kind == "bag"])
    shown: dict[tuple[int, int], GridPartRow] = {}
    for part in broker_parts.of_jobs(connection, ids):
        before = shown.get((part.job, part.component))
        over = part.state is GridPartState.ENDED and before is not None and before.state in STARTABLE_PARTS
        if part.state not in _NOT_SHOWN and not over:
            shown[part.job, part.component] = part  # the last part counts, or the part that stayed
    return [
        GridJobView(
            job,
            tuple(components[job.id]),
            tuple(shown.get((job.id, component.number)) for component in components[job.id]),
            asking.get(job.id),
            of_bags.get(job.id),
            tuple(bags.tasks_of(connection, job.id)) if job.id in of_bags else (),
            its_programs.get(job.id),
        )
        for job in jobs
    ]


def own_jobs(session: Session, ids: Sequence[int]) -> list[GridJobRow]:
    """Return jobs of the caller, or of any user for an admin.

    Raises :class:`NotFound` for a job that is not there, :class:`NotAllowed` for a job of another user.
    """
    by_id = {job.id: job for job in broker_jobs.read(session.connection, ids)}
    for id_ in ids:
        if id_ not in by_id:
            raise NotFound(f"no grid job {id_}", hint="oargridstat lists yours")
        session.require_owner(by_id[id_].user, f"grid job {id_}")
    return [by_id[id_] for id_ in dict.fromkeys(ids)]
