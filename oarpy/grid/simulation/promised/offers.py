"""The system ``offers``: local jobs and bags with deadlines, on clusters that plan by deadlines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from msgspec import UNSET

from oarpy.grid.core.bags.composition import ClusterOffer, Strengths, compose
from oarpy.grid.simulation.promised.fields import ClusterEntry, OffersJobEntry, OffersRules
from oarpy.grid.simulation.promised.world import PlannedPlace, PromisedScenario, PromisedWorld, Run, mean, percent
from oarpy.profiles.profile import Profile
from oarpy.scheduler.bags.offers import DeadlineJob, DeadlinePlans
from oarpy.scheduler.bags.tasks import TaskGroup, Tasks, hold_planned, last_end


class OffersWorld(PromisedWorld[ClusterEntry, OffersJobEntry]):
    """Clusters make offers; a local job gets its promise by the same search as a bag."""

    def __init__(self, scenario: PromisedScenario[ClusterEntry, OffersJobEntry]) -> None:
        super().__init__(scenario)
        self._rules: OffersRules = scenario.rules
        self._parts: dict[str, dict[int, DeadlineJob]] = {name: {} for name in self.clusters}
        """The work that waits on each cluster: jobs, and parts of bags."""
        self._promise: dict[int, float] = {}
        self._counts: dict[int, dict[str, int]] = {}

    def arrive(self, number: int, now: float) -> None:
        """Promise a completion, and plan the job or the parts of the bag."""
        job = self.jobs[number]
        if job.cluster is not UNSET:
            tasks = self._tasks(number, job.cluster, 1)
            plans = self._plans(job.cluster, now)
            (offer,) = plans.offers(tasks, job.deadline, (100,))
            self._promise[number] = offer.end
            self._counts[number] = {job.cluster: 1}
            self._take_in(job.cluster, plans, DeadlineJob(number, tasks, offer.end, submitted=job.submit), 1)
        elif self._rules.policy == "slots":
            self._fill_slots(number, now)
        else:
            self._compose(number, now)

    def _compose(self, number: int, now: float) -> None:
        """Share a bag out by the offers of clusters."""
        job = self.jobs[number]
        offers: list[ClusterOffer] = []
        plans = {name: self._plans(name, now) for name, cluster in self.clusters.items() if cluster.procs >= job.size}
        for name, here in plans.items():
            tasks = self._tasks(number, name, job.count)
            offered = here.offers(tasks, job.deadline, self._rules.shares)
            offers += [ClusterOffer(name, offer.tasks, offer.end) for offer in offered]
        assert self._rules.policy != "slots"
        strengths = Strengths(
            {name: cluster.procs * Fraction(str(cluster.speed)) for name, cluster in self.clusters.items()},
            {name: self._pending(name, now) for name in self.clusters},
        )
        found_parts = compose(self._rules.policy, job.count, job.deadline, offers, strengths)
        assert found_parts.end is not None  # the reader has seen to it that shares suffice
        self._promise[number] = float(found_parts.end)
        by_name = {part.provider: part for part in found_parts.parts}
        self._counts[number] = {name: by_name[name].tasks for name in self.names if name in by_name}
        for name, count in self._counts[number].items():
            end = by_name[name].end
            most = max(offer.tasks for offer in offers if offer.provider == name and offer.end == end)
            new = DeadlineJob(number, self._tasks(number, name, count), float(end), submitted=job.submit)
            self._take_in(name, plans[name], new, most)

    def _take_in(self, name: str, plans: DeadlinePlans, new: DeadlineJob, offered: int) -> None:
        """Plan an awarded job: all jobs again by deadlines, or beside the base plan, whichever keeps its deadline.

        If neither does, there is a place for as many tasks as were ``offered``; the tasks that start last are left out.
        """
        number, tasks = new.id, new.tasks
        plan = plans.anew(new)
        if plan is None:
            (beside,) = plans.beside(tasks, [tasks.count])
            whole = replace(new, tasks=replace(tasks, count=offered))
            plan = {**plans.base(), number: beside}
            if last_end(beside, tasks.time) > new.deadline and (anew := plans.anew(whole)) is not None:
                plan = {**anew, number: _first(anew[number], tasks.count)}
        assert isinstance(number, int)
        self._parts[name][number] = new
        self._apply(name, plan, number)

    def _fill_slots(self, number: int, now: float) -> None:
        """Place tasks one after the other, each on the cluster where it ends first."""
        job = self.jobs[number]
        profiles = {
            name: self._full_profile(name, now) for name, cluster in self.clusters.items() if cluster.procs >= job.size
        }
        tasks = {name: self._tasks(number, name, 1) for name in profiles}
        starts = {name: profiles[name].earliest(job.size, tasks[name].time, now) for name in profiles}
        placed: dict[str, dict[float, int]] = {}
        for _ in range(job.count):
            name = min(starts, key=lambda name: starts[name] + tasks[name].time)
            start = starts[name]
            placed.setdefault(name, {}).setdefault(start, 0)
            placed[name][start] += 1
            profiles[name].hold(job.size, start, start + tasks[name].time)
            starts[name] = profiles[name].earliest(job.size, tasks[name].time, start)
        ends = {name: max(counts) + tasks[name].time for name, counts in placed.items()}
        self._promise[number] = max(job.deadline, *ends.values())
        self._counts[number] = {name: sum(placed[name].values()) for name in self.names if name in placed}
        for name, count in self._counts[number].items():
            self._parts[name][number] = DeadlineJob(
                number, self._tasks(number, name, count), max(job.deadline, ends[name]), submitted=job.submit
            )
            groups = [TaskGroup(start, here) for start, here in sorted(placed[name].items())]
            self._apply(name, {number: groups}, number)

    def begin(self, number: int, cluster: str, now: float) -> bool:
        """Begin the tasks of a part whose start is now."""
        part = self._parts[cluster].get(number)
        here = sum(group.tasks for group in part.planned if group.start == now) if part is not None else 0
        if part is None or not here:
            return False
        left = [group for group in part.planned if group.start != now]
        if left:
            tasks = replace(part.tasks, count=part.tasks.count - here)
            self._parts[cluster][number] = replace(part, tasks=tasks, planned=left)
        else:
            del self._parts[cluster][number]
        job, speed = self.jobs[number], self.clusters[cluster].speed
        held = {cluster: here * job.size}
        self.start(Run(number, held, now, now + part.tasks.time, now + job.length / speed, here))
        return True

    def ended_early(self, run: Run, now: float) -> None:
        """Plan the cluster by deadlines, if no job is late then."""
        (name,) = run.held
        self._apply(name, self._plans(name, now).base(), None)

    def _apply(self, name: str, plan: Mapping[Any, Sequence[TaskGroup]], new: int | None) -> None:
        parts = self._parts[name]
        for number, groups in plan.items():
            part = parts[number]
            if list(part.planned) != list(groups):
                parts[number] = replace(part, planned=groups)
                for group in groups:
                    self.note_begin(number, name, group.start)
                if number != new:
                    self.moved(number)

    def _plans(self, name: str, now: float) -> DeadlinePlans:
        profile = Profile(self.clusters[name].procs, now, self.held_until(name, now))
        return DeadlinePlans(profile, self._parts[name].values(), now, listed=True)

    def _full_profile(self, name: str, now: float) -> Profile:
        profile = Profile(self.clusters[name].procs, now, self.held_until(name, now))
        for part in self._parts[name].values():
            hold_planned(profile, part.planned, part.tasks)
        return profile

    def _tasks(self, number: int, name: str, count: int) -> Tasks:
        job = self.jobs[number]
        return Tasks(count, job.size, job.planned / self.clusters[name].speed)

    def _pending(self, name: str, now: float) -> float:
        """Return the processor seconds that are still to be done on a cluster, as planned."""
        running = sum((end - now) * procs for end, procs in self.held_until(name, now))
        return running + sum(
            part.tasks.count * part.tasks.procs * part.tasks.time for part in self._parts[name].values()
        )

    def planned(self, cluster: str) -> Iterator[PlannedPlace]:
        """Yield the places of tasks that wait on a cluster; tasks that begin together share one place."""
        for number, part in self._parts[cluster].items():
            for group in part.planned:
                end = group.start + part.tasks.time
                yield PlannedPlace(number, group.start, end, group.tasks * part.tasks.procs)

    def tables(self) -> dict[str, Any]:
        """Return the clusters of the unfinished tasks of bags, and the promised dates."""
        open_bags = [number for number in self._counts if self.courses[number].left]
        return {
            "bags": [
                {"job": self.jobs[number].id, "parts": self._counts[number], "promise": self._promise[number]}
                for number in open_bags
            ]
        }

    def entry(self, number: int, planned: Sequence[PlannedPlace]) -> dict[str, Any]:
        """Return the course of a job."""
        spans = [*self.spans(number), *((place.start, place.end) for place in planned)]
        return {
            "id": self.jobs[number].id,
            "state": self.courses[number].state,
            "parts": self._counts.get(number),
            "deadline": self.jobs[number].deadline,
            "promise": self._promise.get(number),
            "start": min((start for start, _ in spans), default=None),
            "end": max((end for _, end in spans), default=None),
        }

    def metrics(self) -> dict[str, Any]:
        """Return delays of local jobs, of bags and of all."""
        local = [number for number, job in enumerate(self.jobs) if job.cluster is not UNSET]
        bags = [number for number, job in enumerate(self.jobs) if job.cluster is UNSET]
        return {
            "local": self._delays(local),
            "external": self._delays(bags),
            "all": self._delays(range(len(self.jobs))),
            "clusters_per_bag": mean(len(self._counts[number]) for number in bags),
            "utilisation": self.utilisation(),
        }

    def _delays(self, numbers: Sequence[int]) -> dict[str, float | None]:
        def work(number: int) -> float:
            job = self.jobs[number]
            return job.count * job.size * job.length

        def excess(number: int) -> float:
            job = self.jobs[number]
            late = (self._promise[number] - job.submit) / (job.deadline - job.submit) - 1
            return job.count * job.size * late * 100

        delayed = [number for number in numbers if self._promise[number] > self.jobs[number].deadline]
        return {
            "delayed": percent(len(delayed), len(numbers)),
            "work_delayed": percent(sum(map(work, delayed)), sum(map(work, numbers))),
            "tw_delay": sum(map(excess, delayed)),
        }


def _first(groups: Sequence[TaskGroup], count: int) -> list[TaskGroup]:
    """Return the first tasks of a plan."""
    kept = []
    for group in sorted(groups):
        here = min(group.tasks, count)
        count -= here
        if here:
            kept.append(TaskGroup(group.start, here))
    return kept
