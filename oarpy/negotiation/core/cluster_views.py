"""The view that an application on a cluster of real hosts gets of a Gantt, in its own unit of counting.

::

    Gantt at its turn --.                     .--> a profile for each cluster (hosts, or blocks of a level)
    started behind it --+--> free resources --+--> groups of hosts that are free throughout
    sums of quotas -------> resources left -------> the profile of ``*``
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from oarpy.negotiation.core.applications import ApplicationView
from oarpy.negotiation.core.clusters import QUOTAS, HostCluster, counted_at
from oarpy.negotiation.core.host_counts import HostCounts, Slots, profile_of, shortened
from oarpy.negotiation.core.line import NegotiatingJob
from oarpy.negotiation.free_groups import FreeGroups
from oarpy.negotiation.profiles import BusyHosts
from oarpy.scheduler.gantt.gantt import Gantt
from oarpy.scheduler.job_roles import roles_of
from oarpy.scheduler.order.quotas import Amount, Ledger, Limits
from oarpy.scheduler.resources.platform import Platform
from oarpy.scheduler.snapshot import WaitingJob


@dataclass(frozen=True, slots=True)
class GanttLook:
    """The resources that a job may have, and its quota limits, by a Gantt at its turn; the sums are a copy."""

    slots: Slots
    limits: Limits | None
    sums: Ledger | None

    @classmethod
    def at(cls, gantt: Gantt, job: WaitingJob) -> GanttLook:
        """Look at a Gantt for a job."""
        roles = roles_of(job)
        limits = gantt.limits(job, roles)
        return cls(gantt.free_slots(roles), limits, gantt.ledger.watched(limits) if limits else None)

    def without(self, held: Sequence[Held], now: float) -> GanttLook:
        """Return the look when these are held too, from ``now`` on."""
        if not held:
            return self
        if self.sums is not None:
            for hold in held:
                if hold.amount.resources:
                    self.sums.count(hold.job, now, hold.until, hold.amount)
        return GanttLook(_without(self.slots, held), self.limits, self.sums)


@dataclass(frozen=True, slots=True)
class Held:
    """The resources that a job holds from now ``until`` an instant; ``amount`` counts for quotas."""

    job: WaitingJob
    until: float
    bits: int
    amount: Amount


def _without(slots: Slots, held: Sequence[Held]) -> Slots:
    """Return slots in which the held resources are not free, from the first slot on."""
    begins, free = slots
    ends = sorted(held, key=lambda hold: hold.until, reverse=True)
    later = iter(sorted({*begins, *(hold.until for hold in held if begins[0] < hold.until < inf)}, reverse=True))
    bits, place, rank = 0, len(begins) - 1, 0
    narrowed: list[tuple[float, int]] = []
    for begin in later:
        while rank < len(ends) and ends[rank].until > begin:
            bits |= ends[rank].bits
            rank += 1
        while begins[place] > begin:
            place -= 1
        narrowed.append((begin, free[place] & ~bits))
    narrowed.reverse()
    return [begin for begin, _ in narrowed], [some for _, some in narrowed]


class ClusterViews:
    """Makes views of the clusters of one platform; a profile has at most ``steps`` steps."""

    def __init__(self, platform: Platform, clusters: Iterable[HostCluster], steps: int) -> None:
        self._platform, self._clusters, self._steps = platform, tuple(clusters), steps
        self._levels: dict[str, _Counted] = {}

    def view(self, job: NegotiatingJob, look: GanttLook, now: float) -> ApplicationView:
        """Return the view of an application from ``now`` on."""
        counted = self._counted(job.level)
        names = [name for name in job.clusters if name in counted.sizes]
        profiles = {name: profile for name, profile in counted.counts.profiles(look.slots).items() if name in names}
        if look.limits is not None and look.sums is not None:
            profiles[QUOTAS] = counted.quotas(names, look.sums.room(look.limits, now))
        elif QUOTAS in job.shown:
            profiles[QUOTAS] = BusyHosts()
        shown = {
            name: shortened(profiles[name].since(now), self._steps) for name in (*names, QUOTAS) if name in profiles
        }
        groups: dict[str, FreeGroups] = {}
        if job.exact:
            all_groups = counted.counts.groups(look.slots, self._steps)
            groups = {name: all_groups[name] for name in names}
        return ApplicationView(shown, groups)

    def _counted(self, level: str) -> _Counted:
        if level not in self._levels:
            try:
                clusters = counted_at(self._platform, self._clusters, level)
            except ValueError:  # a level that is gone
                clusters = ()
            self._levels[level] = _Counted.of(self._platform, clusters)
        return self._levels[level]


@dataclass(frozen=True, slots=True)
class _Counted:
    """Clusters by the blocks of one level: the number of blocks, and the quota resources of the largest block."""

    counts: HostCounts
    sizes: Mapping[str, int]
    weights: Mapping[str, int]

    @classmethod
    def of(cls, platform: Platform, clusters: Sequence[HostCluster]) -> _Counted:
        weights = {
            cluster.name: max((bits & platform.default_type).bit_count() for bits in cluster.sets)
            for cluster in clusters
        }
        return cls(
            HostCounts(len(platform.ids), clusters), {cluster.name: cluster.size for cluster in clusters}, weights
        )

    def quotas(self, names: Sequence[str], room: Sequence[tuple[float, float]]) -> BusyHosts:
        """Return the profile of quotas that leave ``room`` resources over time, as whole hosts, rounded down."""
        total = sum(self.sizes[name] for name in names)
        weight = max((self.weights[name] for name in names), default=1)
        busy = [0 if left == inf else total - min(total, int(left // weight)) for _, left in room]
        return profile_of([begin for begin, _ in room], busy)
