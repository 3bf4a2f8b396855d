"""A naive simulation of several clusters: everything is planned from nothing after each event, on plain lists.

It is written from the description of the format alone, and shares no code with the product.
"""

from __future__ import annotations

from math import floor, inf
from random import Random
from typing import Any

Entry = dict[str, Any]


class NaiveCluster:
    """A cluster: ``queue`` has the indexes of jobs, ``held`` what they hold: processors and predicted ends."""

    def __init__(self, entry: Entry) -> None:
        self.name, self.procs = entry["name"], entry["procs"]
        self.speed, self.evict = entry.get("speed", 1), entry.get("evict", True)
        self.policy = entry.get("policy", "conservative")
        self.queue: list[int] = []
        self.held: dict[int, tuple[int, float]] = {}

    @property
    def idle(self) -> int:
        return int(self.procs) - sum(procs for procs, _ in self.held.values())

    def planned(self, queue: list[tuple[int, int, float]], now: float) -> dict[int, float]:
        """5.1: the start of each of the queue (job, processors, walltime here)."""
        spans = [(now, end, procs) for procs, end in self.held.values() if end > now]
        least, starts = now, {}
        for job, procs, length in queue:
            candidates = sorted({least, *(end for _, end, _ in spans if end > least)})
            start = next(t for t in candidates if self._fits(spans, t, t + length, procs))
            spans.append((start, start + length, procs))
            starts[job] = start
            if self.policy == "fcfs":
                least = start
        return starts

    def _fits(self, spans: list[tuple[float, float, int]], begin: float, end: float, procs: int) -> bool:
        instants = [begin, *(one for one, _, _ in spans if begin < one < end)]
        return all(
            procs + sum(count for one, other, count in spans if one <= instant < other) <= self.procs
            for instant in instants
        )

    def easy(self, queue: list[tuple[int, int, float]], held: list[tuple[int, float]], now: float) -> list[int]:
        """5.2: who starts."""
        idle = self.procs - sum(procs for procs, _ in held)
        started, held, queue = [], list(held), list(queue)
        while queue and queue[0][1] <= idle:
            job, procs, length = queue.pop(0)
            started.append(job)
            held.append((procs, now + length))
            idle -= procs
        if not queue:
            return started
        _, needed, _ = queue.pop(0)
        shadow = min(end for _, end in held if idle + sum(procs for procs, other in held if other <= end) >= needed)
        extra = idle + sum(procs for procs, end in held if end <= shadow) - needed
        for job, procs, length in queue:
            if procs <= idle and (now + length <= shadow or procs <= extra):
                started.append(job)
                idle -= procs
                if now + length > shadow:
                    extra -= procs
        return started

    def played(self, queue: list[tuple[int, int, float]], wanted: int, now: float) -> float:
        """5.3: when one of the queue starts under EASY, played forward."""
        held, queue = list(self.held.values()), list(queue)
        while True:
            for job in self.easy(queue, held, now):
                one = next(one for one in queue if one[0] == job)
                queue.remove(one)
                held.append((one[1], now + one[2]))
                if job == wanted:
                    return now
            now = max(now, min(end for _, end in held))
            held = [(procs, end) for procs, end in held if end > now]


class NaiveGrid:
    """The whole simulation of a file, with ``algorithm`` in place of the file's."""

    def __init__(self, file: Entry, algorithm: int | None = None) -> None:
        self.clusters = [NaiveCluster(entry) for entry in file["clusters"]]
        self.by_name = {cluster.name: cluster for cluster in self.clusters}
        self.jobs: list[Entry] = file["jobs"]
        self.deadlines = {"lp": 0.7, "tries": 10, "wait": None, "evict_at": "deadline", **file.get("deadlines", {})}
        defaults = {"mapping": "mct", "algorithm": 0, "heuristic": "mct", "period": 3600, "threshold": 60}
        self.rules = {**defaults, "age_limit": None, "seed": 1, **file.get("reallocation", {})}
        if algorithm is not None:
            self.rules["algorithm"] = algorithm
        self.chance, self.last_turn = Random(self.rules["seed"]), -1
        self.out: list[Entry] = [
            {"state": "", "clusters": [], "claimed": None, "start": None, "end": None, "tries": [], "killed": []}
            for _ in self.jobs
        ]
        self.moves: list[tuple[float, int, str, str, float, float]] = []
        self.due: list[tuple[Any, ...]] = []
        self.started = 0

    def run(self) -> None:
        """Handle what is due, one after the other, until all jobs are over."""
        self.due = [(job.get("submit", 0), 1, index) for index, job in enumerate(self.jobs)]
        if self.rules["algorithm"]:
            self.due.append((min(job.get("submit", 0) for job in self.jobs) + self.rules["period"], 4))
        while not all(one["state"] for one in self.out):
            event = min(self.due)
            self.due.remove(event)
            now, kind = event[0], event[1]
            [self.end, self.arrive, self.begin, self.attempt, self.reallocate][kind](now, *event[2:])

    # Events

    def end(self, now: float, _order: int, job: int) -> None:
        if self.out[job]["state"]:
            return
        self.finish(now, job, "Terminated")
        self.plan(now)

    def finish(self, now: float, job: int, state: str) -> None:
        self.out[job].update(state=state, end=now)
        for cluster in self.clusters:
            cluster.held.pop(job, None)

    def arrive(self, now: float, job: int) -> None:
        entry = self.jobs[job]
        if "components" in entry:
            submit, deadline, wait = entry.get("submit", 0), entry["deadline"], self.deadlines["wait"]
            begin = submit if wait is None else max(submit, deadline - wait)
            first = begin + self.deadlines["lp"] * (deadline - begin)
            self.due.append((min(first, deadline), 3, deadline, job, 0))
            return
        if "cluster" in entry:
            self.by_name[entry["cluster"]].queue.append(job)
        else:
            self.mapped(now, job).queue.append(job)
        self.plan(now)

    def mapped(self, now: float, job: int) -> NaiveCluster:
        fitting = [place for place, one in enumerate(self.clusters) if one.procs >= self.jobs[job]["procs"]]
        if self.rules["mapping"] == "random":
            return self.clusters[fitting[floor(len(fitting) * self.chance.random())]]
        if self.rules["mapping"] == "round_robin":
            count = len(self.clusters)
            turns = [(self.last_turn + 1 + step) % count for step in range(count)]
            self.last_turn = next(place for place in turns if place in fitting)
            return self.clusters[self.last_turn]
        return min(self.clusters, key=lambda cluster: self.ect(cluster, job, now))

    def begin(self, now: float, job: int) -> None:
        speed = min(self.by_name[name].speed for name in self.out[job]["clusters"])
        self.start(now, job, speed)

    def start(self, now: float, job: int, speed: float) -> None:
        entry = self.jobs[job]
        self.out[job]["start"] = now
        length = min(entry["run"], entry.get("walltime", entry["run"])) / speed
        self.due.append((now + length, 0, self.started, job))
        self.started += 1

    def plan(self, now: float) -> None:
        for cluster in self.clusters:
            queue = self.queue(cluster)
            if cluster.policy == "easy":
                started = cluster.easy(queue, list(cluster.held.values()), now)
            else:
                started = [job for job, start in cluster.planned(queue, now).items() if start == now]
            for job in started:
                cluster.queue.remove(job)
                length = next(length for one, _, length in queue if one == job)
                cluster.held[job] = (self.jobs[job]["procs"], now + length)
                self.out[job]["clusters"] = [cluster.name]
                self.start(now, job, cluster.speed)

    def queue(self, cluster: NaiveCluster) -> list[tuple[int, int, float]]:
        return [self.asked(cluster, job) for job in cluster.queue]

    def asked(self, cluster: NaiveCluster, job: int) -> tuple[int, int, float]:
        entry = self.jobs[job]
        return job, entry["procs"], entry.get("walltime", entry["run"]) / cluster.speed

    def ect(self, cluster: NaiveCluster, job: int, now: float) -> float:
        one = self.asked(cluster, job)
        if one[1] > cluster.procs:
            return inf
        queue = self.queue(cluster) + ([] if job in cluster.queue else [one])
        if cluster.policy == "easy":
            return cluster.played(queue, job, now) + one[2]
        return cluster.planned(queue, now)[job] + one[2]

    # Co-allocated jobs

    def attempt(self, now: float, deadline: float, job: int, number: int) -> None:
        entry, course, rules = self.jobs[job], self.out[job], self.deadlines
        course["tries"].append(now)
        last = now == deadline or (rules["evict_at"] == "last_try" and number == rules["tries"])
        room = self.room(entry, last)
        if room is not None:
            self.claim(now, job, *room)
        elif last:
            course["state"] = "Missed"
        elif number < rules["tries"]:
            at = now + rules["lp"] * (deadline - now)
            self.due.append((min(at, deadline), 3, deadline, job, number + 1))
        else:
            self.due.append((deadline, 3, deadline, job, number))

    def room(self, entry: Entry, last: bool) -> tuple[list[str], list[int]] | None:
        idle = {cluster.name: cluster.idle for cluster in self.clusters}
        gone: list[int] = []
        names: list[str] = []
        for _ in range(entry["components"]):
            name = max(self.by_name, key=lambda one: idle[one])
            if idle[name] < entry["procs"]:
                choices = [self.victims(one, idle[one.name], entry["procs"], gone) for one in self.clusters]
                fewest = [
                    (len(choice), -idle[one.name], place)
                    for place, (one, choice) in enumerate(zip(self.clusters, choices, strict=True))
                    if choice is not None
                ]
                if not last or not fewest:
                    return None
                place = min(fewest)[2]
                name = self.clusters[place].name
                chosen = choices[place] or []
                gone += chosen
                idle[name] += sum(self.jobs[one]["procs"] for one in chosen)
            idle[name] -= entry["procs"]
            names.append(name)
        order = [one.name for one in self.clusters]
        return names, sorted(gone, key=lambda one: order.index(self.jobs[one]["cluster"]))

    def victims(self, cluster: NaiveCluster, idle: int, procs: int, gone: list[int]) -> list[int] | None:
        local = [job for job in cluster.held if "cluster" in self.jobs[job] and job not in gone]
        local.sort(key=lambda job: (self.out[job]["start"], job), reverse=True)
        chosen = []
        while idle < procs and local and cluster.evict:
            chosen.append(local.pop(0))
            idle += self.jobs[chosen[-1]]["procs"]
        return chosen if idle >= procs and cluster.evict else None

    def claim(self, now: float, job: int, names: list[str], gone: list[int]) -> None:
        entry = self.jobs[job]
        for victim in gone:
            self.finish(now, victim, "Killed")
        self.out[job].update(clusters=names, claimed=now, killed=gone)
        speed = min(self.by_name[name].speed for name in names)
        end = entry["deadline"] + entry.get("walltime", entry["run"]) / speed
        for name in set(names):
            self.by_name[name].held[job] = (names.count(name) * entry["procs"], end)
        self.due.append((entry["deadline"], 2, job))
        self.plan(now)

    # Passes

    def reallocate(self, now: float) -> None:
        waits = {job: cluster for cluster in self.clusters for job in cluster.queue if self.is_mapped(job)}
        left = sorted(waits, key=lambda job: (self.jobs[job].get("submit", 0), job))
        limit = self.rules["age_limit"]
        left = [job for job in left if limit is None or now - self.jobs[job].get("submit", 0) <= limit]
        if self.rules["algorithm"] == 1:
            self.without_cancellation(now, left, waits)
        else:
            self.with_cancellation(now, left, waits)
        self.plan(now)
        self.due.append((now + self.rules["period"], 4))

    def is_mapped(self, job: int) -> bool:
        return "cluster" not in self.jobs[job] and "components" not in self.jobs[job]

    def without_cancellation(self, now: float, left: list[int], waits: dict[int, NaiveCluster]) -> None:
        while left:
            ects = {job: [self.ect(cluster, job, now) for cluster in self.clusters] for job in left}
            others = {
                job: [inf if cluster is waits[job] else ects[job][place] for place, cluster in enumerate(self.clusters)]
                for job in left
            }
            current = {job: ects[job][self.clusters.index(waits[job])] for job in left}
            job = self.choice(left, ects, current, {one: min(others[one]) for one in left})
            new = min(others[job])
            if new + self.rules["threshold"] < current[job]:
                target = self.clusters[others[job].index(new)]
                waits[job].queue.remove(job)
                target.queue.append(job)
                self.moves.append((now, job, waits[job].name, target.name, current[job], new))
            left.remove(job)

    def with_cancellation(self, now: float, left: list[int], waits: dict[int, NaiveCluster]) -> None:
        current = {job: self.ect(waits[job], job, now) for job in left}
        for job in left:
            waits[job].queue.remove(job)
        while left:
            ects = {job: [self.ect(cluster, job, now) for cluster in self.clusters] for job in left}
            job = self.choice(left, ects, current, {one: min(ects[one]) for one in left})
            new = min(ects[job])
            here = self.clusters.index(waits[job])
            target = self.clusters[here if ects[job][here] == new else ects[job].index(new)]
            target.queue.append(job)
            if target is not waits[job]:
                self.moves.append((now, job, waits[job].name, target.name, current[job], new))
            left.remove(job)

    def choice(
        self, left: list[int], ects: dict[int, list[float]], current: dict[int, float], new: dict[int, float]
    ) -> int:
        def key(job: int) -> float:
            ordered: list[float] = sorted(ects[job])
            gain = current[job] - new[job]
            second = 0 if len(ordered) == 1 else inf if ordered[1] == inf else ordered[1] - ordered[0]
            return {
                "mct": 0.0,
                "minmin": -ordered[0],
                "maxmin": ordered[0],
                "maxgain": gain,
                "maxrelgain": gain / int(self.jobs[job]["procs"]),
                "sufferage": second,
            }[self.rules["heuristic"]]

        return max(left, key=key)
