"""The system ``bags``: bags without deadlines. The broker knows their completions and sends them to all clusters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from msgspec import UNSET

from oarpy.grid.core.bags.composition import ClusterOffer, Strengths, compose
from oarpy.grid.simulation.promised.fields import BagsJobEntry, BagsRules, EstimatingClusterEntry
from oarpy.grid.simulation.promised.world import PlannedPlace, PromisedScenario, PromisedWorld, Run, mean
from oarpy.profiles.profile import CountedHold, Profile
from oarpy.scheduler.bags.advancing import PlannedTasks, advance
from oarpy.scheduler.bags.offers import offers_beside
from oarpy.scheduler.bags.tasks import Tasks, place


class BagsWorld(PromisedWorld[EstimatingClusterEntry, BagsJobEntry]):
    """Every job is placed beside all that is held; an early end lets others come forward, as their bags need it."""

    def __init__(self, scenario: PromisedScenario[EstimatingClusterEntry, BagsJobEntry]) -> None:
        self._profiled = any(cluster.estimates == "predicted" for cluster in scenario.clusters)
        super().__init__(scenario)
        self._rules: BagsRules = scenario.rules
        self._profiles = {name: Profile(cluster.procs) for name, cluster in self.clusters.items()}
        self._waiting: dict[str, dict[tuple[int, float], PlannedTasks]] = {name: {} for name in self.clusters}
        """The tasks that wait on each cluster, by their job and their start."""
        self._here: dict[int, dict[str, float]] = {}
        """Completions of the parts of bags, as the broker knows them."""
        self._completions: dict[int, float] = {}
        self._promise: dict[int, float] = {}
        self._counts: dict[int, dict[str, int]] = {}

    def arrival(self, number: int) -> float:
        """Return when a job arrives; bags are profiled first where run times are predicted."""
        job = self.jobs[number]
        return job.submit + (job.profiling or 0) if self._profiled and job.cluster is UNSET else job.submit

    def arrive(self, number: int, now: float) -> None:
        """Place a job or the tasks of a bag beside all that is held."""
        job = self.jobs[number]
        for profile in self._profiles.values():
            profile.forget(now)
        if job.cluster is not UNSET:
            self._counts[number] = {job.cluster: 1}
        else:
            self._compose(number, now)
        ends = {name: self._place(number, name, count, now) for name, count in self._counts[number].items()}
        self._promise[number] = max(ends.values())
        if job.cluster is UNSET:
            self._here[number] = ends
            self._completions[number] = max(ends.values())

    def _compose(self, number: int, now: float) -> None:
        job = self.jobs[number]
        offers = [
            ClusterOffer(name, offer.tasks, offer.end)
            for name, cluster in self.clusters.items()
            if cluster.procs >= job.size
            for offer in offers_beside(
                self._profiles[name], Tasks(job.count, job.size, self._time(number, name)), self._rules.shares, now
            )
        ]
        power = {name: cluster.procs * Fraction(str(cluster.speed)) for name, cluster in self.clusters.items()}
        composition = compose(self._rules.policy, job.count, None, offers, Strengths(power))
        assert composition.parts  # the reader has seen to it that shares suffice
        by_name = {part.provider: part.tasks for part in composition.parts}
        self._counts[number] = {name: by_name[name] for name in self.names if name in by_name}

    def _place(self, number: int, name: str, count: int, now: float) -> float:
        """Place ``count`` tasks, and return the last end."""
        job, time = self.jobs[number], self._time(number, name)
        groups, _ = place(self._profiles[name], Tasks(count, job.size, time), now, listed=True)
        bag = number if job.cluster is UNSET else None
        for group in groups:
            self.note_begin(number, name, group.start)
            tasks = PlannedTasks(number, job.size, group.start, time, bag, group.tasks)
            self._waiting[name][number, group.start] = tasks
        return groups[-1].start + time

    def begin(self, number: int, cluster: str, now: float) -> bool:
        """Begin the tasks of a part whose start is now."""
        due = self._waiting[cluster].pop((number, now), None)
        if due is None:
            return False
        job, speed = self.jobs[number], self.clusters[cluster].speed
        held = {cluster: due.count * job.size}
        self.start(Run(number, held, now, due.end, now + job.length / speed, due.count))
        return True

    def ended_early(self, run: Run, now: float) -> None:
        """Let others come forward on the cluster, and send the new completions to all clusters."""
        ((name, procs),) = run.held.items()
        profile, before = self._profiles[name], self._waiting[name]
        profile.give_back(CountedHold(procs, now, run.planned_end))
        profile.forget(now)
        waiting = list(before.values())
        begun = self._begun(name, {tasks.bag for tasks in waiting if tasks.bag is not None})
        advanced = advance(profile, waiting, begun, self._completions, now, self._rules.coordinated)
        self._waiting[name] = _by_start(waiting)
        for number, start in self._waiting[name].keys() - before.keys():
            self.note_begin(number, name, start)
            self.moved(number)
        if self._rules.coordinated:
            for bag, end in advanced.changed.items():
                self._here[bag][name] = end
                self._completions[bag] = max(self._here[bag].values())

    def _begun(self, name: str, bags: Iterable[Any]) -> dict[int, float]:
        """Return the latest end of the tasks of each bag on a cluster that run, as planned, or are over."""
        latest: dict[int, float] = {}
        for bag in bags:
            ends = [
                run.planned_end if run in self.running[name] else run.end
                for run in self.courses[bag].runs
                if name in run.held
            ]
            if ends:
                latest[bag] = max(ends)
        return latest

    def _time(self, number: int, name: str) -> float:
        job, cluster = self.jobs[number], self.clusters[name]
        predicted = cluster.estimates == "predicted" and job.predicted is not UNSET
        return (job.predicted if predicted and job.predicted is not UNSET else job.planned) / cluster.speed

    def planned(self, cluster: str) -> Iterator[PlannedPlace]:
        """Yield the places of tasks that wait on a cluster; tasks that begin together share one place."""
        for (number, start), tasks in self._waiting[cluster].items():
            yield PlannedPlace(number, start, tasks.end, tasks.count * tasks.procs)

    def tables(self) -> dict[str, Any]:
        """Return the completions of bags as the broker knows them, on each cluster and over all."""
        return {
            "completions": [
                {"job": self.jobs[number].id, "clusters": self._here[number], "all": end}
                for number, end in self._completions.items()
                if self.courses[number].left
            ]
        }

    def entry(self, number: int, planned: Sequence[PlannedPlace]) -> dict[str, Any]:
        """Return the course of a job."""
        spans = [*self.spans(number), *((place.start, place.end) for place in planned)]
        starts, ends = [start for start, _ in spans], [end for _, end in spans]
        return {
            "id": self.jobs[number].id,
            "state": self.courses[number].state,
            "parts": self._counts.get(number),
            "promise": self._promise.get(number),
            "start": min(starts, default=None),
            "end": max(ends, default=None),
            "last_start": max(starts, default=None),
            "first_end": min(ends, default=None),
        }

    def metrics(self) -> dict[str, Any]:
        """Return responses, slowdowns, and the figures of bags on several clusters."""
        every = range(len(self.jobs))
        bags = [number for number in every if self.jobs[number].cluster is UNSET]
        single = [number for number in bags if len(self._counts[number]) == 1]
        multi = [number for number in bags if len(self._counts[number]) > 1]
        return {
            "response": mean(map(self._response, every)),
            "slowdown": mean(map(self._slowdown, every)),
            "response_single": mean(map(self._response, single)),
            "response_multi": mean(map(self._response, multi)),
            "slowdown_single": mean(map(self._slowdown, single)),
            "slowdown_multi": mean(map(self._slowdown, multi)),
            "stretch": mean(
                (self.last_end(number) - min(run.start for run in self.courses[number].runs)) / self._bounded(number)
                for number in multi
            ),
            "gap": mean(self.last_end(number) - min(run.end for run in self.courses[number].runs) for number in multi),
            "clusters_per_bag": mean(len(self._counts[number]) for number in bags),
            "broken": sum(self.last_end(number) > self._promise[number] for number in bags),
            "utilisation": self.utilisation(),
            "by_cluster": {name: self.utilisation([name]) for name in self.names},
        }

    def _response(self, number: int) -> float:
        return self.last_end(number) - self.jobs[number].submit

    def _slowdown(self, number: int) -> float:
        return self._response(number) / self._bounded(number)

    def _bounded(self, number: int) -> float:
        return max(self.jobs[number].length, self._rules.bound)


def _by_start(waiting: Iterable[PlannedTasks]) -> dict[tuple[int, float], PlannedTasks]:
    """Return what waits by job and start; tasks of a job that have the same start now are one group."""
    found: dict[tuple[int, float], PlannedTasks] = {}
    for tasks in waiting:
        assert isinstance(tasks.id, int)
        known = found.setdefault((tasks.id, tasks.start), tasks)
        if known is not tasks:
            known.count += tasks.count
    return found
