"""The members of large arrays that a pass need not read when it decides only the starts of now.

The jobs of a family differ only in their ids, so they wait in the order of their ids. At most as many of them can start
in a pass as there are resources::

    ids of a family    1 2 3 4 5 6 7 8 9
                       <----->|<------->
                        head      tail          three resources: four are read

A pass over the heads makes the same decisions as a pass over all jobs, if it stops before the last job of each head:
until then it looked at the same jobs in the same order. Otherwise it is repeated with all jobs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from operator import attrgetter

from oarpy.model.runs import runs
from oarpy.scheduler.order.queue_orders import QUEUE_ORDERS
from oarpy.scheduler.passes.starts_only import starts_suffice
from oarpy.scheduler.plan import Plan
from oarpy.scheduler.snapshot import PassShare, Snapshot, WaitingJob

LEAST = 100
"""The number of jobs in tails from which leaving them out saves time."""


@dataclass(slots=True)
class _Family:
    """Equal jobs: their ids, ascending, also as runs (first and last id of each); ``head`` of them are read."""

    ids: list[int]
    runs: list[tuple[int, int]]
    head: int

    @property
    def last_of_head(self) -> int:
        """The job behind which the others are left out."""
        return self.ids[self.head - 1]

    def has(self, job: int) -> bool:
        """Tell whether ``job`` is one of them."""
        place = bisect_left(self.ids, job)
        return place < len(self.ids) and self.ids[place] == job

    def tail(self) -> Iterable[tuple[int, int]]:
        """Return the runs of the tail."""
        first = self.ids[self.head]
        for begin, end in self.runs:
            if end >= first:
                yield max(begin, first), end


class ArrayTails:
    """The jobs that the next passes may leave out, by the last pass that read all jobs."""

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        """The snapshot in which families are still to be searched."""
        self._started: list[int] = []
        """The jobs that have started since."""
        self._families: list[_Family] = []
        self._useless = False

    def renew(self, snapshot: Snapshot, *, whole: bool) -> None:
        """Use ``snapshot``, which has all jobs; ``whole`` tells whether the whole queue was planned."""
        self._useless = self._useless and not whole
        self._snapshot, self._families, self._started = None if self._useless else snapshot, [], []

    def give_up(self) -> None:
        """Leave nothing out until the whole queue is planned again."""
        self._snapshot, self._families, self._useless = None, [], True

    def started(self, jobs: Collection[int]) -> None:
        """Read one more job of a family for each of its jobs that started."""
        if self._snapshot is not None:
            self._started += jobs
            return
        for family in self._families:
            family.head += sum(family.has(job) for job in jobs)
        self._families = [family for family in self._families if family.head < len(family.ids)]

    @property
    def jobs(self) -> int:
        """The number of jobs left out."""
        return sum(len(family.ids) - family.head for family in self._families)

    def runs(self) -> list[tuple[int, int]]:
        """Return the jobs that are left out: runs of ids, ascending, each with its first and last one."""
        self._look_for_families()
        return sorted(run for family in self._families for run in family.tail())

    def are_behind(self, plan: Plan) -> bool:
        """Tell whether ``plan`` stopped before the tails."""
        return all(family.last_of_head in plan.unseen for family in self._families)

    def _look_for_families(self) -> None:
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is None:
            return
        most = snapshot.platform.everything.bit_count() + 1
        self._families = [_Family(ids, runs(ids), most) for ids in _families(snapshot.waiting) if len(ids) > most]
        self.started(self._started)
        if self.jobs < LEAST:
            self._families = []


def can_be_decided(snapshot: Snapshot) -> bool:
    """Tell whether starts alone can be decided over ``snapshot``, without the jobs behind its jobs.

    The snapshot must be small enough for a pass to look at all of it.
    """
    return (
        snapshot.ration == PassShare()
        and snapshot.step is None
        and snapshot.promising is None
        and snapshot.rules.power is None
        and not snapshot.parts
        and all(queue.order in QUEUE_ORDERS for queue in snapshot.queues)
        and not _any_change_places(snapshot)
        and starts_suffice(snapshot)
    )


def _any_change_places(snapshot: Snapshot) -> bool:
    """Tell whether jobs of a user may swap places, so that a job of a tail could come forward."""
    users = {job.user for job in snapshot.waiting}
    return len({(job.user, job.nice) for job in snapshot.waiting}) > len(users)


_what_is_equal = attrgetter(
    *(name for name in WaitingJob.__struct_fields__ if name not in ("id", "alternatives", "depends_on", "dates"))
)
"""The fields that the jobs of a family have in common besides their alternatives.

They depend on no job, and their dates follow from their types.
"""


def _families(jobs: Iterable[WaitingJob]) -> Iterable[list[int]]:
    families = defaultdict(list)
    for job in jobs:
        if not (job.depends_on or job.held or job.fault) and job.reservation is None:
            # the jobs of an array share their alternatives: one value for all of them
            families[id(job.alternatives), _what_is_equal(job)].append(job.id)
    return families.values()
