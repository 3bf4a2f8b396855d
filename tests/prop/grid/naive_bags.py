"""The systems ``offers`` and ``bags`` once more, from their definitions: task by task, every instant looked at anew.

Shares no code with oarpy; offers, compositions and early ends are asked of the naive answers.
"""

from __future__ import annotations

import math
from typing import Any

from tests.prop.questions import naive_answers

Json = dict[str, Any]


class Task:
    """One task of a job."""

    def __init__(self, job: int, number: int, cluster: str, start: float) -> None:
        self.job, self.number, self.cluster, self.start = job, number, cluster, start
        self.state, self.end = "waiting", math.inf


class NaiveTasks:
    """What both systems have in common."""

    def __init__(self, file: Json) -> None:
        self.file, self.jobs = file, file["jobs"]
        self.clusters = {one["name"]: one for one in file["clusters"]}
        self.names = list(self.clusters)
        self.rules = file.get(file["system"], {})
        self.tasks: list[Task] = []
        self.promise: dict[int, float] = {}
        self.arrived: set[int] = set()
        self.began: list[list[Task]] = []
        self.run()

    def run(self) -> None:
        """Run to the end; tasks of a job with one start on one cluster are one event."""
        while True:
            coming: list[Any] = [
                (group[0].end, 0, place, place) for place, group in enumerate(self.began) if group[0].state == "running"
            ]
            coming += [
                (self.arrival(number), 1, number, 0) for number in range(len(self.jobs)) if number not in self.arrived
            ]
            coming += [
                (task.start, 2, task.job, self.names.index(task.cluster))
                for task in self.tasks
                if task.state == "waiting"
            ]
            if not coming:
                return
            now, kind, what, where = min(coming)
            if kind == 0:
                group = self.began[what]
                for task in group:
                    task.state = "over"
                if now < group[0].start + self.planned(group[0].job, group[0].cluster):
                    self.early_end(group[0].cluster, now)
            elif kind == 1:
                self.arrived.add(what)
                self.arrive(what, now)
            else:
                group = [
                    task
                    for task in self.tasks
                    if (task.state, task.start, task.job) == ("waiting", now, what)
                    and task.cluster == self.names[where]
                ]
                for task in group:
                    task.state, task.end = "running", now + self.length(what, task.cluster)
                self.began.append(group)

    def arrival(self, number: int) -> float:
        """Return when a job arrives."""
        return float(self.jobs[number].get("submit", 0))

    def speed(self, name: str) -> float:
        return float(self.clusters[name].get("speed", 1))

    def planned(self, number: int, name: str) -> float:
        job = self.jobs[number]
        return float(job.get("walltime", job["run"]) / self.speed(name))

    def length(self, number: int, name: str) -> float:
        job = self.jobs[number]
        return float(min(job["run"], job.get("walltime", job["run"])) / self.speed(name))

    def size(self, number: int) -> int:
        return int(self.jobs[number].get("procs", 1))

    def on(self, name: str, state: str) -> list[Task]:
        return [task for task in self.tasks if task.cluster == name and task.state == state]

    def holds(self, name: str, now: float, states: tuple[str, ...] = ("running", "waiting")) -> list[Any]:
        found = [
            (task.start, task.start + self.planned(task.job, name), self.size(task.job))
            for state in states
            for task in self.on(name, state)
        ]
        return [hold for hold in found if hold[1] > now]

    def earliest(self, number: int, name: str, held: list[Any], lo: float) -> float:
        procs = self.clusters[name]["procs"]
        start = naive_answers._earliest(held, procs, self.size(number), self.planned(number, name), lo)
        assert start is not None
        return start

    def one_by_one(self, number: int, name: str, held: list[Any], count: int, now: float) -> list[float]:
        """Place tasks one after the other."""
        starts = []
        for _ in range(count):
            starts.append(self.earliest(number, name, held, now))
            held.append((starts[-1], starts[-1] + self.planned(number, name), self.size(number)))
        return starts

    def compose(self, number: int, offers: list[Json], **more: Any) -> Json:
        power = {name: one["procs"] * self.speed(name) for name, one in self.clusters.items()}
        question = {"ask": "compose", "tasks": self.jobs[number]["tasks"], "offers": offers, "power": power}
        return naive_answers.answer({"policy": self.rules.get("policy", "plb"), **question, **more})

    def parts(self, number: int) -> Json:
        mine = [task for task in self.tasks if task.job == number]
        counts = {name: sum(task.cluster == name for task in mine) for name in self.names}
        return {name: count for name, count in counts.items() if count}

    def arrive(self, number: int, now: float) -> None:
        """Place a job."""
        raise NotImplementedError

    def early_end(self, name: str, now: float) -> None:
        """Plan anew."""
        raise NotImplementedError

    def courses(self) -> list[Json]:
        """Return what became of all jobs."""
        raise NotImplementedError


class NaiveBags(NaiveTasks):
    """Bags without deadlines."""

    def __init__(self, file: Json) -> None:
        self.here: dict[int, dict[str, float]] = {}
        self.completion: dict[int, float] = {}
        super().__init__(file)

    def arrival(self, number: int) -> float:
        job = self.jobs[number]
        profiled = any(one.get("estimates") == "predicted" for one in self.clusters.values())
        return float(job.get("submit", 0) + (job.get("profiling", 0) if profiled and "cluster" not in job else 0))

    def planned(self, number: int, name: str) -> float:
        job = self.jobs[number]
        walltime = job.get("walltime", job["run"])
        by_prediction = self.clusters[name].get("estimates") == "predicted" and "cluster" not in job
        return float((job.get("predicted", walltime) if by_prediction else walltime) / self.speed(name))

    def arrive(self, number: int, now: float) -> None:
        job = self.jobs[number]
        if "cluster" in job:
            counts = {job["cluster"]: 1}
        else:
            offers = []
            for name, one in self.clusters.items():
                waiting = [
                    {"id": place, "procs": procs, "time": end - start, "start": start}
                    for place, (start, end, procs) in enumerate(self.holds(name, now, ("waiting",)))
                ]
                running = [
                    {"id": -1 - place, "procs": procs, "start": start, "time": end - start}
                    for place, (start, end, procs) in enumerate(self.holds(name, now, ("running",)))
                ]
                bag = {"tasks": job["tasks"], "time": self.planned(number, name), "procs": self.size(number)}
                question = {"ask": "offers", "procs": one["procs"], "now": now, "running": running, "bag": bag}
                if "shares" in self.rules:
                    question["shares"] = self.rules["shares"]
                found = naive_answers.answer({**question, "waiting": waiting})
                offers += [{"provider": name, **offer} for offer in found["offers"]]
            parts = self.compose(number, offers)["parts"]
            counts = {part["provider"]: part["tasks"] for part in parts}
        for name in self.names:
            if name in counts:
                starts = self.one_by_one(number, name, self.holds(name, now), counts[name], now)
                first = sum(task.job == number for task in self.tasks)
                self.tasks += [Task(number, first + place, name, start) for place, start in enumerate(starts)]
        mine = [task for task in self.tasks if task.job == number]
        for task in mine:
            ends = self.here.setdefault(number, {})
            end = task.start + self.planned(number, task.cluster)
            ends[task.cluster] = max(ends.get(task.cluster, end), end)
        self.completion[number] = self.promise[number] = max(self.here[number].values())

    def early_end(self, name: str, now: float) -> None:
        coordinated = self.rules.get("coordinated", True)
        waiting = self.on(name, "waiting")
        ids = {id(task): task.job * 1000 + task.number for task in waiting}

        def bag(task: Task) -> str | None:
            return None if "cluster" in self.jobs[task.job] else str(task.job)

        running: list[Any] = []
        for state in ("running", "over"):
            for task in self.on(name, state):
                end = task.end if state == "over" else task.start + self.planned(task.job, name)
                if bag(task) is not None or state == "running":
                    running.append([task.start, end, self.size(task.job), bag(task)])
        entries = [
            {"id": ids[id(task)], "start": task.start, "time": self.planned(task.job, name)}
            | {"procs": self.size(task.job), "bag": bag(task)}
            for task in waiting
        ]
        question = {"ask": "advance", "procs": self.clusters[name]["procs"], "now": now, "running": running}
        bags = {str(number): end for number, end in self.completion.items()}
        found = naive_answers.answer({**question, "waiting": entries, "bags": bags, "coordinated": coordinated})
        for task in waiting:
            task.start = found["starts"][str(ids[id(task)])]
        if coordinated:
            for key, end in found["changed"].items():
                self.here[int(key)][name] = end
                self.completion[int(key)] = max(self.here[int(key)].values())

    def courses(self) -> list[Json]:
        found = []
        for number, job in enumerate(self.jobs):
            mine = [task for task in self.tasks if task.job == number]
            starts, ends = [task.start for task in mine], [task.end for task in mine]
            entry = {"id": job["id"], "state": "Terminated", "parts": self.parts(number)}
            entry |= {"promise": self.promise[number], "start": min(starts), "end": max(ends)}
            found.append({**entry, "last_start": max(starts), "first_end": min(ends)})
        return found


class NaiveOffers(NaiveTasks):
    """Bags with deadlines."""

    def __init__(self, file: Json) -> None:
        self.deadline: dict[tuple[int, str], float] = {}
        super().__init__(file)

    def waiting(self, name: str) -> dict[int, list[float]]:
        """Return who waits on a cluster, with the starts of tasks, rising."""
        found: dict[int, list[float]] = {}
        for task in self.on(name, "waiting"):
            found.setdefault(task.job, []).append(task.start)
        return {number: sorted(starts) for number, starts in found.items()}

    def edf(self, name: str, now: float, new: tuple[int, int, float] | None) -> tuple[bool, dict[int, list[float]]]:
        """Return whether all end by their deadlines in the EDF plan, and the starts; ``new``: job, tasks, deadline."""
        order = [
            (self.deadline[number, name], 0, self.jobs[number].get("submit", 0), number, len(starts))
            for number, starts in self.waiting(name).items()
        ]
        if new is not None:
            order.append((new[2], 1, 0, new[0], new[1]))
        held, met, plan = self.holds(name, now, ("running",)), True, {}
        for deadline, _, _, number, count in sorted(order):
            plan[number] = self.one_by_one(number, name, held, count, now)
            met = plan[number][-1] + self.planned(number, name) <= deadline and met
        return met, plan

    def base(self, name: str, now: float) -> dict[int, list[float]]:
        met, plan = self.edf(name, now, None)
        return plan if met else self.waiting(name)

    def beside(self, name: str, now: float, number: int, count: int) -> list[float]:
        held = self.holds(name, now, ("running",))
        for other, starts in self.base(name, now).items():
            held += [(start, start + self.planned(other, name), self.size(other)) for start in starts]
        return self.one_by_one(number, name, held, count, now)

    def offer(self, name: str, now: float, number: int, count: int) -> float:
        """Return by when so many tasks can be promised."""
        deadline = self.jobs[number]["deadline"]
        last = self.beside(name, now, number, count)[-1] + self.planned(number, name)

        def feasible(by: float) -> bool:
            return last <= by or self.edf(name, now, (number, count, by))[0]

        if feasible(deadline):
            return float(deadline)
        lo, hi = deadline, last
        while hi - lo > 1:
            mid = math.floor((lo + hi) / 2)
            if mid <= lo:
                break
            lo, hi = (lo, mid) if feasible(mid) else (mid, hi)
        return float(hi)

    def take_in(self, name: str, now: float, number: int, count: int, deadline: float, offered: int) -> None:
        met, plan = self.edf(name, now, (number, count, deadline))
        if not met:
            plan = {**self.base(name, now), number: self.beside(name, now, number, count)}
            if plan[number][-1] + self.planned(number, name) > deadline:
                met, plan = self.edf(name, now, (number, offered, deadline))
                if not met:
                    plan = {**self.base(name, now), number: self.beside(name, now, number, offered)}
                plan[number] = sorted(plan[number])[:count]
        self.deadline[number, name] = deadline
        self.tasks += [Task(number, place, name, 0) for place in range(count)]
        self.apply(name, plan)

    def apply(self, name: str, plan: dict[int, list[float]]) -> None:
        for number, starts in plan.items():
            mine = [task for task in self.on(name, "waiting") if task.job == number]
            for task, start in zip(mine, sorted(starts), strict=True):
                task.start = start

    def arrive(self, number: int, now: float) -> None:
        job = self.jobs[number]
        if "cluster" in job:
            end = self.promise[number] = self.offer(job["cluster"], now, number, 1)
            self.take_in(job["cluster"], now, number, 1, end, 1)
            return
        if self.rules.get("policy") == "slots":
            self.slots(number, now)
            return
        offers = []
        for name, one in self.clusters.items():
            if one["procs"] >= self.size(number):
                sizes = naive_answers._sizes({**self.rules, "bag": job})
                found = [(n, self.offer(name, now, number, n)) for n in sizes]
                offers += [
                    {"provider": name, "tasks": n, "end": end}
                    for n, end in found
                    if not any(m > n and other <= end for m, other in found)
                ]
        pending = {}
        for name in self.names:
            running = sum((end - now) * procs for _, end, procs in self.holds(name, now, ("running",)))
            waits = self.on(name, "waiting")
            pending[name] = running + sum(self.size(one.job) * self.planned(one.job, name) for one in waits)
        composed = self.compose(number, offers, deadline=job["deadline"], pending=pending)
        self.promise[number] = composed["end"]
        for name in self.names:
            for part in composed["parts"]:
                if part["provider"] == name:
                    offered = [one for one in offers if (one["provider"], one["end"]) == (name, part["end"])]
                    self.take_in(name, now, number, part["tasks"], part["end"], offered[0]["tasks"])

    def slots(self, number: int, now: float) -> None:
        job = self.jobs[number]
        for place in range(job["tasks"]):
            ends = []
            for at, name in enumerate(self.names):
                if self.clusters[name]["procs"] >= self.size(number):
                    start = self.earliest(number, name, self.holds(name, now), now)
                    ends.append((start + self.planned(number, name), at, start))
            _, at, start = min(ends)
            self.tasks.append(Task(number, place, self.names[at], start))
        last: dict[str, float] = {}
        for task in self.tasks:
            if task.job == number:
                end = task.start + self.planned(number, task.cluster)
                last[task.cluster] = max(last.get(task.cluster, end), end)
        for name, end in last.items():
            self.deadline[number, name] = max(job["deadline"], end)
        self.promise[number] = max(job["deadline"], *last.values())

    def early_end(self, name: str, now: float) -> None:
        self.apply(name, self.base(name, now))

    def courses(self) -> list[Json]:
        found = []
        for number, job in enumerate(self.jobs):
            mine = [task for task in self.tasks if task.job == number]
            entry = {"id": job["id"], "state": "Terminated", "parts": self.parts(number), "deadline": job["deadline"]}
            entry |= {"promise": self.promise[number], "start": min(task.start for task in mine)}
            found.append({**entry, "end": max(task.end for task in mine)})
        return found
