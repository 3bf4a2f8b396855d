"""Jobs whose components start together: the values of which their tries, claims and starts are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from oarpy.grid.broker.acts import Evict
from oarpy.grid.broker.coallocated.common_starts import ClaimTimes
from oarpy.grid.broker.transactions import part_name
from oarpy.grid.calls.parts import GridPart, PartKind, PartRequest
from oarpy.grid.core.broker_state import BrokerState, CoAllocatedJob, DeadlineRules, GridCluster, PlannedTry
from oarpy.grid.core.exchanges import ClaimParts, TryDue
from oarpy.store.grid.broker_jobs import GridComponentRow, GridJobRow
from oarpy.store.grid.clusters import GridClusterRow


def rules_of(job: GridJobRow, general: DeadlineRules, times: ClaimTimes, *, evicting: bool) -> DeadlineRules:
    """Return the rules that say when room is looked for, for this job.

    ``evicting``: a cluster lets local jobs give way.
    """
    return DeadlineRules(
        general.lp if job.lp is None else job.lp,
        general.tries if job.tries is None else job.tries,
        general.wait if job.wait is None else job.wait,
        general.evict_at,
        times.lead(evicting=evicting),
    )


def state_of(
    job: GridJobRow, components: Sequence[GridComponentRow], clusters: Sequence[GridClusterRow], rules: DeadlineRules
) -> BrokerState:
    """Return the state of one job for the core; the caller adds which of its tries is due."""
    known = tuple(
        GridCluster(cluster.name, cluster.procs or 0, cluster.speed, "evict" in cluster.abilities)
        for cluster in clusters
    )
    return BrokerState(known, rules, coallocated={job.id: core_job(job, components)})


def core_job(job: GridJobRow, components: Sequence[GridComponentRow]) -> CoAllocatedJob:
    """Return a job as the core knows it."""
    return CoAllocatedJob(job.id, job.submitted, components[0].procs, len(components), job.deadline or 0)


def planned(number: int, due_at: float, last: bool, rules: DeadlineRules) -> PlannedTry:
    """Return the ``number``-th try of a job, from 0 on, as the core knows it; numbers end with Mp."""
    return PlannedTry(min(number, rules.tries), due_at, last)


def request_of(job: GridJobRow, component: GridComponentRow, walltime: float) -> PartRequest:
    """Return the request of a part for a component; ``walltime`` in seconds on that cluster."""
    return PartRequest(
        job.user,
        component.resources,
        component.procs,
        walltime,
        job.queue,
        component.properties,
        job.project,
        component.types,
    )


def part_of(
    job: GridJobRow, component: GridComponentRow, kind: PartKind, walltime: float, transaction: str
) -> GridPart:
    """Return the part of a component. Its name tells the parts of several transactions apart."""
    return GridPart(
        part_name(job.id, component.number, transaction),
        kind,
        request_of(job, component, walltime),
        job.program,
        job.directory,
        component.name or job.job_name,
        job.deadline,
        {"OAR_GRID_JOB_ID": str(job.id), "OAR_GRID_COMPONENT": str(component.number)},
    )


def evictions_of(claim: ClaimParts, due: TryDue, request: PartRequest) -> list[Evict]:
    """Return by cluster how many processors local jobs have to leave for the components that the core placed there."""
    needs = Counter(claim.clusters)
    missing = {name: count * request.procs - due.idle[name] for name, count in needs.items()}
    return [Evict(name, request, procs) for name, procs in missing.items() if procs > 0]
