"""A job ended early on a cluster. First jobs of its own users come forward, then metajobs that have a part there.

*Shift*: a metajob keeps its parts and starts earlier on all its clusters. *Remap*: it is placed again, beside all other
jobs. Either is done only if the metajob ends earlier. When a metajob has moved, jobs of users come forward once more,
on the cluster and on all others that metajobs have left or joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Generic, Literal, TypeVar

from oarpy.grid.core.coallocation.common_start import (
    CommonPlace,
    CoProvider,
    ParallelRequest,
    common_place,
    in_turn,
    instants_from,
)
from oarpy.profiles.planned import JobId, PlannedJob, id_order, move_forward
from oarpy.profiles.profile import first_common_start
from oarpy.profiles.timeline import Processors

Hold = TypeVar("Hold")
Operation = Literal["rigid", "shift", "remap"]


@dataclass(slots=True)
class Metajob(Generic[Hold]):
    """A parallel job that waits for its start; ``first`` is the cluster that is asked first when it is placed again."""

    id: JobId
    request: ParallelRequest
    ready: float
    first: str
    place: CommonPlace
    holds: Mapping[str, Hold]


@dataclass(frozen=True, slots=True)
class PlannedClusters(Generic[Hold]):
    """Clusters in their order, and the waiting jobs: local jobs by cluster, and metajobs."""

    providers: Sequence[CoProvider[Hold]]
    local: Mapping[str, Sequence[PlannedJob[int, Hold]]]
    metajobs: Sequence[Metajob[Hold]]

    def timeline(self, name: str) -> Processors[Hold]:
        """Return the free processors of a cluster over time."""
        return next(provider.timeline for provider in self.providers if provider.name == name)

    def hold(self, place: CommonPlace) -> dict[str, Hold]:
        """Hold the parts of a metajob."""
        return {name: self.timeline(name).hold(procs, place.start, place.end) for name, procs in place.parts.items()}

    def give_back(self, metajob: Metajob[Hold]) -> None:
        """Free the parts of a metajob."""
        for name, hold in metajob.holds.items():
            self.timeline(name).give_back(hold)

    def after_early_end(self, where: str, operation: Operation, now: float) -> None:
        """Bring waiting jobs forward, after a job ended early on a cluster. No job ends later than before."""
        self._advance_local(where, now)
        touched: set[str] = set()
        moved = operation != "rigid"
        while moved and self.timeline(where).free(now):
            moved = False
            there = [metajob for metajob in self.metajobs if where in metajob.place.parts]
            for metajob in sorted(there, key=lambda metajob: (metajob.place.start, id_order(metajob.id))):
                old = metajob.place
                if self._advance_metajob(metajob, operation, now):
                    touched |= old.parts.keys() | metajob.place.parts.keys()
                    moved = True
        if touched:
            for name in dict.fromkeys(
                [where, *(provider.name for provider in self.providers if provider.name in touched)]
            ):
                self._advance_local(name, now)

    def _advance_local(self, name: str, now: float) -> None:
        queue = sorted(self.local[name], key=lambda job: (job.start, id_order(job.id)))
        move_forward(self.timeline(name), queue, now)

    def _advance_metajob(self, metajob: Metajob[Hold], operation: Operation, now: float) -> bool:
        """Give a metajob an earlier end, if there is one."""
        self.give_back(metajob)
        lo = max(metajob.ready, now)
        place = self._shifted(metajob, lo) if operation == "shift" else self._remapped(metajob, lo)
        better = place is not None and place.end < metajob.place.end
        if place is not None and better:
            metajob.place = place
        metajob.holds = self.hold(metajob.place)
        return better

    def _shifted(self, metajob: Metajob[Hold], lo: float) -> CommonPlace | None:
        """Return the earliest place of the same parts before the present start."""
        place = metajob.place
        time = place.end - place.start
        parts = [(self.timeline(name), procs) for name, procs in place.parts.items()]
        start = first_common_start(parts, time, lo, place.start)
        return CommonPlace(start, start + time, place.parts) if start < place.start else None

    def _remapped(self, metajob: Metajob[Hold], lo: float) -> CommonPlace | None:
        """Return the earliest place on all clusters, where it starts before its present end."""
        by_name = {provider.name: provider for provider in self.providers}
        providers = [by_name[name] for name in in_turn(list(by_name), metajob.first)]
        instants = takewhile(lambda instant: instant < metajob.place.end, instants_from(providers, lo))
        return common_place(providers, metajob.request, instants)
