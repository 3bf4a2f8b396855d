"""The systems ``windows`` and ``flexco`` once more, from their definitions: every instant is looked at anew.

Shares no code with oarpy; admissions, common starts and early ends are asked of the naive answers.
"""

from __future__ import annotations

import math
import random
from typing import Any

from tests.prop.questions import naive_answers

Json = dict[str, Any]


class NaiveWorld:
    """Jobs are told by places; ``begun`` has what runs: start, planned end, real end, processors by cluster."""

    def __init__(self, file: Json) -> None:
        self.file, self.jobs = file, file["jobs"]
        self.clusters = {one["name"]: one for one in file["clusters"]}
        self.start: dict[int, float] = {}
        self.begun: dict[int, tuple[float, float, float, dict[str, int]]] = {}
        self.ended: list[int] = []
        self.refused: set[int] = set()
        self.arrived: set[int] = set()
        self.moves = dict.fromkeys(range(len(self.jobs)), 0)

    def run(self) -> None:
        """Run to the end."""
        now = -math.inf
        while True:
            coming = [
                (end, 0, place, number)
                for place, number in enumerate(self.begun)
                if number not in self.ended
                for end in [self.begun[number][2]]
            ]
            coming += [
                (job.get("submit", 0), 1, number, number)
                for number, job in enumerate(self.jobs)
                if number not in self.arrived
            ]
            coming += [(start, 2, number, number) for number, start in self.start.items() if number not in self.begun]
            if not coming:
                return
            now, kind, _, number = min(coming)
            if kind == 0:
                self.ended.append(number)
                if now < self.begun[number][1]:
                    self.early_end(number, now)
            elif kind == 1:
                self.arrived.add(number)
                self.arrive(number, now)
            else:
                self.begun[number] = (now, *self.lengths(number, now))

    def waiting(self) -> list[int]:
        """Return who waits, in file order."""
        return [number for number in sorted(self.start) if number not in self.begun]

    def holds(self, cluster: str, now: float) -> list[tuple[int, float, float, int]]:
        """Return what running jobs hold on a cluster."""
        return [
            (number, start, end, parts[cluster])
            for number, (start, end, _, parts) in self.begun.items()
            if number not in self.ended and cluster in parts and end > now
        ]

    def arrive(self, number: int, now: float) -> None:
        """Place a job."""
        raise NotImplementedError

    def early_end(self, number: int, now: float) -> None:
        """Plan anew."""
        raise NotImplementedError

    def lengths(self, number: int, now: float) -> tuple[float, float, dict[str, int]]:
        """Return planned end, real end and processors of a job that begins."""
        raise NotImplementedError

    def walltime(self, number: int) -> float:
        """Return the walltime."""
        return float(self.jobs[number].get("walltime", self.jobs[number]["run"]))

    def length(self, number: int) -> float:
        """Return the real run time."""
        return float(min(self.jobs[number]["run"], self.walltime(number)))


class NaiveWindows(NaiveWorld):
    """Reservations with windows."""

    def __init__(self, file: Json) -> None:
        super().__init__(file)
        self.rules = file.get("windows", {})
        self.dice = random.Random(self.rules.get("seed", 1))
        self.window: dict[int, tuple[float | None, float]] = {}
        self.phi: dict[int, float] = {}
        self.run()

    def cluster(self, number: int) -> str:
        return str(self.jobs[number].get("cluster", next(iter(self.clusters))))

    def time(self, number: int) -> float:
        return self.walltime(number) / float(self.clusters[self.cluster(number)].get("speed", 1))

    def lengths(self, number: int, now: float) -> tuple[float, float, dict[str, int]]:
        name = self.cluster(number)
        real = self.length(number) / self.clusters[name].get("speed", 1)
        return now + self.time(number), now + real, {name: self.jobs[number]["procs"]}

    def on(self, name: str) -> list[int]:
        return [number for number in self.waiting() if self.cluster(number) == name]

    def fix(self, name: str, now: float) -> None:
        if self.rules.get("fix") is not None:
            for number in self.on(name):
                submit, start = self.jobs[number].get("submit", 0), self.start[number]
                if now >= submit + self.rules["fix"] / 100 * (start - submit):
                    self.window[number] = start, start + self.time(number)

    def entry(self, number: int) -> Json:
        ready, deadline = self.window.get(number, (self.jobs[number].get("ready"), self.jobs[number]["deadline"]))
        return {
            "id": number,
            "procs": self.jobs[number]["procs"],
            "time": self.time(number),
            "submitted": self.jobs[number].get("submit", 0),
            "ready": ready,
            "deadline": deadline,
        }

    def shuffled(self, numbers: list[int]) -> Json:
        """Return the question's order: what is drawn at random here becomes the time of submission of an edf order."""
        order = self.rules.get("order", "edf")
        if order != "shuffle":
            return {"criterion": order}
        by_submission = sorted(numbers, key=lambda number: (self.jobs[number].get("submit", 0), number))
        drawn = {number: self.dice.random() for number in by_submission}
        return {"criterion": "fifo", "drawn": drawn}

    def arrive(self, number: int, now: float) -> None:
        name = self.cluster(number)
        self.fix(name, now)
        others = self.on(name)
        order = self.shuffled([*others, number])
        drawn = order.pop("drawn", None)
        jobs = [{**self.entry(other), "start": self.start[other]} for other in others]
        question = {
            "ask": "admit",
            "procs": self.clusters[name]["procs"],
            "now": now,
            **order,
            "running": [
                {"id": -1 - place, "procs": procs, "start": start, "time": end - start}
                for place, (_, start, end, procs) in enumerate(self.holds(name, now))
            ],
            "waiting": jobs,
            "new": self.entry(number),
        }
        for job in [*jobs, question["new"]] if drawn else []:
            job["submitted"] = drawn[job["id"]]
        accept = self.jobs[number].get("accept")
        limit = -1 if accept is None else accept
        question |= {"accept": limit, "limit": limit, "farther": self.rules.get("farther", False)}
        found = naive_answers.answer(question)
        if not found["accepted"]:
            self.refused.add(number)
            return
        schedule = {int(key): start for key, start in found["schedule"].items()}
        self.take(schedule)
        start, job = found["start"], question["new"]
        lo = max(now if job["ready"] is None else job["ready"], now)
        late = start + job["time"] - job["deadline"]
        if start < lo or late > 0:
            self.phi[number] = ((lo - start) if start < lo else late) / job["time"]
            self.window[number] = start, start + job["time"]

    def take(self, schedule: dict[int, float]) -> None:
        for number, start in schedule.items():
            self.moves[number] += self.start.get(number, start) != start
            self.start[number] = start

    def early_end(self, number: int, now: float) -> None:
        name = self.cluster(number)
        self.fix(name, now)
        jobs = {other: self.entry(other) for other in self.on(name)}
        order = self.shuffled(list(jobs))
        for other, drawn in order.pop("drawn", {}).items():
            jobs[other]["submitted"] = drawn
        lo = {other: max(_or(job["ready"], now), now) for other, job in jobs.items()}
        held = [(start, end, procs) for _, start, end, procs in self.holds(name, now)]
        schedule: dict[int, float] = {}
        for other in naive_answers._queue(order, jobs, lo):
            job = jobs[other]
            hi = job["deadline"] - job["time"]
            place = naive_answers._earliest(
                held, self.clusters[name]["procs"], job["procs"], job["time"], lo[other], hi
            )
            if place is None:
                return
            held.append((place, place + job["time"], job["procs"]))
            schedule[other] = place
        self.take(schedule)

    def courses(self) -> list[Json]:
        """Return what became of all jobs."""
        return [
            {
                "id": job["id"],
                "state": "Refused" if number in self.refused else "Terminated",
                "cluster": self.cluster(number),
                "start": self.start.get(number),
                "end": self.begun[number][2] if number in self.begun else None,
                "phi": self.phi.get(number),
                "moves": self.moves[number],
            }
            for number, job in enumerate(self.jobs)
        ]


class NaiveFlexco(NaiveWorld):
    """Local jobs and metajobs."""

    def __init__(self, file: Json) -> None:
        super().__init__(file)
        self.parts: dict[int, dict[str, int]] = {}
        self.first: dict[int, str] = {}
        self.promised: dict[int, Json] = {}
        self.run()

    def planned_end(self, number: int) -> float:
        return self.start[number] + self.long(number, self.walltime(number))

    def long(self, number: int, time: float) -> float:
        speeds = [self.clusters[name].get("speed", 1) for name in self.parts[number]]
        overhead = self.jobs[number].get("overhead", 0) if len(speeds) > 1 else 0
        return float(time * (1 + overhead) / min(speeds))

    def lengths(self, number: int, now: float) -> tuple[float, float, dict[str, int]]:
        return self.planned_end(number), now + self.long(number, self.length(number)), self.parts[number]

    def request(self, number: int) -> Json:
        job = self.jobs[number]
        if "cluster" in job:
            return {"procs": job["procs"], "time": self.walltime(number), "at_most": self.alone(job["cluster"])}
        keys = {key: job[key] for key in ("overhead", "ready", "at_most") if key in job}
        return {"procs": job["procs"], "time": self.walltime(number), **keys}

    def alone(self, cluster: str) -> dict[str, int]:
        return {name: 0 for name in self.clusters if name != cluster}

    def arrive(self, number: int, now: float) -> None:
        names = list(self.clusters)
        if "cluster" not in self.jobs[number]:
            self.first[number] = names[len(self.first) % len(names)]
        providers = []
        for name, one in self.clusters.items():
            holds = [[start, end, procs] for _, start, end, procs in self.holds(name, now)]
            holds += [
                [self.start[other], self.planned_end(other), self.parts[other][name]]
                for other in self.waiting()
                if name in self.parts[other]
            ]
            providers.append({**one, "holds": holds})
        question = {"ask": "coallocate", "now": now, "providers": providers, "job": self.request(number)}
        found = naive_answers.answer({**question, "first": self.first.get(number)})
        self.start[number], self.parts[number] = found["start"], found["parts"]
        self.promised[number] = found

    def early_end(self, number: int, now: float) -> None:
        for name in self.clusters:
            if name in self.begun[number][3]:
                self.compress(name, now)

    def compress(self, where: str, now: float) -> None:
        providers = [
            {
                **one,
                "running": [[start, end, procs] for _, start, end, procs in self.holds(name, now)],
                "local": [
                    {
                        "id": other,
                        "start": self.start[other],
                        "time": self.planned_end(other) - self.start[other],
                        "procs": self.jobs[other]["procs"],
                    }
                    for other in self.waiting()
                    if self.jobs[other].get("cluster") == name
                ],
            }
            for name, one in self.clusters.items()
        ]
        metajobs = [
            {"id": other, "start": self.start[other], "parts": self.parts[other], "first": self.first[other]}
            | self.request(other)
            for other in self.waiting()
            if "cluster" not in self.jobs[other]
        ]
        operation = self.file.get("flexco", {}).get("operation", "rigid")
        question = {"ask": "compress", "now": now, "provider": where, "operation": operation}
        found = naive_answers.answer({**question, "providers": providers, "metajobs": metajobs})
        for key, start in found["local"].items():
            self.moves[int(key)] += start != self.start[int(key)]
            self.start[int(key)] = start
        for key, place in found["metajobs"].items():
            other = int(key)
            self.moves[other] += place["start"] != self.start[other] or place["parts"] != self.parts[other]
            self.start[other], self.parts[other] = place["start"], place["parts"]

    def courses(self) -> list[Json]:
        """Return what became of all jobs."""
        return [
            {
                "id": job["id"],
                "state": "Terminated",
                "parts": self.parts[number],
                "planned": self.promised[number],
                "start": self.start[number],
                "end": self.begun[number][2],
                "moves": self.moves[number],
            }
            for number, job in enumerate(self.jobs)
        ]


def _or(value: float | None, other: float) -> float:
    return other if value is None else value
