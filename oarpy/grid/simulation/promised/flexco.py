"""The system ``flexco``: local jobs, and parallel jobs over clusters, which start earlier after early ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

from msgspec import UNSET

from oarpy.grid.core.coallocation.common_start import (
    CommonPlace,
    CoProvider,
    ParallelRequest,
    in_turn,
    instants_from,
    placed_by,
)
from oarpy.grid.core.coallocation.early_end import Metajob, PlannedClusters
from oarpy.grid.simulation.promised.fields import ClusterEntry, FlexcoJobEntry
from oarpy.grid.simulation.promised.world import PlannedPlace, PromisedScenario, PromisedWorld, Run, mean, percent
from oarpy.model.plugins import PluginFailed
from oarpy.profiles.planned import PlannedJob, plan_at
from oarpy.profiles.profile import CountedHold, Profile


class FlexcoWorld(PromisedWorld[ClusterEntry, FlexcoJobEntry]):
    """Every job is placed beside all that is held; an early end lets others come forward."""

    def __init__(self, scenario: PromisedScenario[ClusterEntry, FlexcoJobEntry]) -> None:
        super().__init__(scenario)
        self._profiles = {name: Profile(cluster.procs) for name, cluster in self.clusters.items()}
        self._providers = [
            CoProvider(name, cluster.speed, self._profiles[name]) for name, cluster in self.clusters.items()
        ]
        self._local: dict[str, list[PlannedJob[int, CountedHold]]] = {name: [] for name in self.clusters}
        self._metajobs: list[Metajob[CountedHold]] = []
        self._planned = PlannedClusters(self._providers, self._local, self._metajobs)
        self._turn = 0
        self._promised: dict[int, CommonPlace] = {}
        self._places: dict[int, CommonPlace] = {}
        """Where jobs run, or are planned."""

    def arrive(self, number: int, now: float) -> None:
        """Place a job beside all that is held."""
        job = self.jobs[number]
        for profile in self._profiles.values():
            profile.forget(now)
        if job.cluster is not UNSET:
            profile, time = self._profiles[job.cluster], job.planned / self.clusters[job.cluster].speed
            start = profile.earliest(job.size, time, now)
            self._local[job.cluster].append(plan_at(profile, number, job.size, start, time))
            place = CommonPlace(start, start + time, {job.cluster: job.size})
        else:
            place = self._place_metajob(number, now)
        self._promised[number] = place
        self._put(number, place)

    def _place_metajob(self, number: int, now: float) -> CommonPlace:
        job = self.jobs[number]
        first = self.names[self._turn % len(self.names)]
        self._turn += 1
        by_name = {provider.name: provider for provider in self._providers}
        providers = [by_name[name] for name in in_turn(self.names, first)]
        ready = -inf if job.ready is UNSET or job.ready is None else job.ready
        request = ParallelRequest(job.size, job.planned, job.overhead or 0, job.at_most or {})
        place = placed_by(
            self.scenario.rules.coallocation, providers, request, instants_from(providers, max(ready, now))
        )
        if place is None:  # for our own rules the reader has made sure that the job fits
            raise PluginFailed(f"plug-in '{self.scenario.rules.coallocation}' has no place for a job that fits")
        self._metajobs.append(Metajob(number, request, ready, first, place, self._planned.hold(place)))
        return place

    def begin(self, number: int, cluster: str, now: float) -> bool:
        """Begin a job whose start is now, on all its clusters."""
        place = self._places[number]
        if self.courses[number].state != "Waiting" or place.start != now:
            return False
        job = self.jobs[number]
        if job.cluster is not UNSET:
            self._local[job.cluster][:] = [planned for planned in self._local[job.cluster] if planned.id != number]
        else:
            self._metajobs[:] = [metajob for metajob in self._metajobs if metajob.id != number]
        speeds = [self.clusters[name].speed for name in place.parts]
        long = job.length if len(speeds) == 1 else job.length * (1 + (job.overhead or 0))
        self.start(Run(number, place.parts, now, place.end, now + long / min(speeds)))
        return True

    def ended_early(self, run: Run, now: float) -> None:
        """Start other jobs earlier on each cluster where the job ran."""
        for name, procs in run.held.items():
            self._profiles[name].give_back(CountedHold(procs, now, run.planned_end))
        for name in self.names:
            if name in run.held:
                self._profiles[name].forget(now)
        for name in self.names:
            if name in run.held:
                self._planned.after_early_end(name, self.scenario.rules.operation, now)
                self._take_in()

    def _take_in(self) -> None:
        """Note the jobs that have moved."""
        places = {metajob.id: metajob.place for metajob in self._metajobs}
        for name, jobs in self._local.items():
            places |= {job.id: CommonPlace(job.start, job.end, {name: job.request}) for job in jobs}
        for number, place in places.items():
            assert isinstance(number, int)
            if place != self._places[number]:
                self.moved(number)
                self._put(number, place)

    def _put(self, number: int, place: CommonPlace) -> None:
        self._places[number] = place
        self.note_begin(number, self.names[0], place.start)

    def planned(self, cluster: str) -> Iterator[PlannedPlace]:
        """Yield the places of the jobs that wait on a cluster."""
        for job in self._local[cluster]:
            assert isinstance(job.id, int)
            yield PlannedPlace(job.id, job.start, job.end, job.request)
        for metajob in self._metajobs:
            if cluster in metajob.place.parts:
                assert isinstance(metajob.id, int)
                place = metajob.place
                yield PlannedPlace(metajob.id, place.start, place.end, place.parts[cluster])

    def tables(self) -> dict[str, Any]:
        """Return which cluster is asked first next, and the metajobs that wait."""
        waiting = [self.jobs[metajob.id].id for metajob in self._metajobs if isinstance(metajob.id, int)]
        return {"first": self.names[self._turn % len(self.names)], "metajobs": waiting}

    def entry(self, number: int, _planned: Sequence[PlannedPlace]) -> dict[str, Any]:
        """Return the course of a job."""
        course, place, promised = self.courses[number], self._places.get(number), self._promised.get(number)
        end = None if place is None else place.end
        if course.state == "Terminated":
            end = self.last_end(number)
        return {
            "id": self.jobs[number].id,
            "state": course.state,
            "parts": None if place is None else dict(place.parts),
            "planned": None
            if promised is None
            else {"start": promised.start, "end": promised.end, "parts": dict(promised.parts)},
            "start": None if place is None else place.start,
            "end": end,
            "moves": course.moves,
        }

    def metrics(self) -> dict[str, Any]:
        """Return responses, and the figures of metajobs."""
        responses = [self.last_end(number) - job.submit for number, job in enumerate(self.jobs)]
        metajobs = [number for number, job in enumerate(self.jobs) if job.cluster is UNSET]
        multi = [number for number in metajobs if len(self._promised[number].parts) > 1]
        late = [number for number in multi if self._promised[number].start > self.jobs[number].submit]
        clusters = Counter(len(self._places[number].parts) for number in metajobs)
        return {
            "response": mean(responses),
            "local_response": mean(response for response, job in zip(responses, self.jobs, strict=True) if job.cluster),
            "external_response": mean(responses[number] for number in metajobs),
            "multi": len(multi),
            "collapsed": percent(sum(len(self._places[number].parts) == 1 for number in multi), len(multi)),
            "earlier": percent(
                sum(self._places[number].start < self._promised[number].start for number in late), len(late)
            ),
            "clusters": {str(size): clusters[size] for size in sorted(clusters)},
            "utilisation": self.utilisation(),
        }
