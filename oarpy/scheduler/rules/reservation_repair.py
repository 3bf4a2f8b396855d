"""Other resources for accepted reservations that lost some of theirs: equal ones, at the same date.

Job 7 was promised cores 2 and 3, and core 3 is lost::

    core 4    . . . . . .        . . . 7 7 7
    core 3    . . . 7 7 7        x x x x x x
    core 2    1 1 . 7 7 7        1 1 . 7 7 7

A reservation without equal resources elsewhere keeps its own. Its fate is decided on its date
(:mod:`~oarpy.scheduler.rules.reservations`).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from oarpy.scheduler.gantt.demands import CompiledRequests, Demand
from oarpy.scheduler.gantt.gantt import Gantt
from oarpy.scheduler.gantt.search import Search
from oarpy.scheduler.job_roles import roles_of
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.rules.giving_way import Yielding, may_go
from oarpy.scheduler.snapshot import HoldingJob, Snapshot, WaitingJob


def shifted(snapshot: Snapshot, reservations: Sequence[WaitingJob]) -> dict[int, int]:
    """Return new resources, as sets, for the ``reservations`` that can still be served.

    Each of them is also in ``snapshot.holding``, with its present resources. Its ``reservation`` is the date, and its
    first alternative is the promise from then on. Resources count as equal if they serve that request. Other
    reservations and running jobs keep their resources. Best-effort jobs give way unless they are too young, or the
    reservation is best-effort too.
    """
    search, options = Search(snapshot.security_time), CompiledRequests(snapshot, Matchers(snapshot.platform))
    holding = {job.id: job for job in snapshot.holding}
    resources: dict[int, int] = {}
    for job in reservations:
        gantt = Gantt.around(snapshot, job, (other for other in holding.values() if other.id != job.id))
        roles = roles_of(job)
        demand = Demand(job, roles, options.alive(job)[:1], gantt.limits(job, roles))
        date = max(job.reservation or snapshot.now, snapshot.now)
        answer = search.at(gantt, demand, date)
        if date == snapshot.now:  # if idle resources suffice, no job goes for it
            able = may_go(snapshot, holding.values())
            yielding = Yielding(snapshot, gantt.stocks.capacities, gantt.blocks, able)
            for kept in yielding.kept_from(job, snapshot.security_time):
                if (beside := search.at(gantt.beside(kept), demand, date)).found:
                    answer = beside
                    break
        if answer.found is not None:
            resources[job.id] = answer.found.claim.bits
            holding[job.id] = moved(snapshot, holding[job.id], answer.found.claim.bits)
    return resources


def moved(snapshot: Snapshot, job: HoldingJob, bits: int) -> HoldingJob:
    """Return ``job`` on other resources."""
    return structs.replace(job, bits=bits, resources=tuple(snapshot.platform.ids_of(bits)))
