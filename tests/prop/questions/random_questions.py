"""Random questions of ``oarpy decide``: few processors, short times, many equal instants, so that much is in the way.

Times are multiples of a quarter, and speeds are 1, 2 or 0.5: sums and quotients are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Json = dict[str, Any]
_NAMES = ["A", "B", "C", "D"]


def random_question(ask: str, seed: int) -> Json:
    """Return a question of a kind; a seed gives the same one each time."""
    dice = Random(f"{ask} {seed}")
    return {"ask": ask, **_QUESTIONS[ask](dice)}


def asks() -> list[str]:
    """Return the kinds of questions."""
    return list(_QUESTIONS)


class _Machine:
    """What is held on a machine, so that a state is possible."""

    def __init__(self, procs: int) -> None:
        self.procs = procs
        self.held: list[tuple[float, float, int]] = []

    def fits(self, start: float, end: float, procs: int) -> bool:
        instants = [start] + [one[0] for one in self.held if start < one[0] < end]
        most = max(sum(n for a, b, n in self.held if a <= at < b) for at in instants)
        return most + procs <= self.procs

    def hold(self, start: float, end: float, procs: int) -> bool:
        if self.fits(start, end, procs):
            self.held.append((start, end, procs))
            return True
        return False


def _maybe(dice: Random, file: Json, chance: float = 0.5, **values: Any) -> None:
    """Give keys, each with a chance."""
    for key, value in values.items():
        if dice.random() < chance:
            file[key] = value


def _time(dice: Random) -> float:
    return dice.choice([1, 2, 3, 4, 5, 6, 8, 10, 2.5, 0.75])


def _ids(dice: Random, count: int) -> list[int | str]:
    numbers: list[int | str] = [*range(-2, 30), *(f"job{n}" for n in range(10))]
    return dice.sample(numbers, count)


def _running(dice: Random, machine: _Machine, now: float, ids: list[int | str]) -> list[Json]:
    found = []
    for _ in range(dice.randint(0, 3)):
        start, time, procs = now - dice.randint(0, 8), _time(dice), dice.randint(1, machine.procs)
        if start + time <= now or machine.hold(start, start + time, procs):
            found.append({"id": ids.pop(), "procs": procs, "start": start, "time": time})
    return found


def _admit(dice: Random) -> Json:
    now = dice.choice([0, 0, 7, -3.5])
    machine, ids = _Machine(dice.randint(1, 6)), _ids(dice, 20)
    file: Json = {"procs": machine.procs, "now": now, "running": _running(dice, machine, now, ids), "waiting": []}
    for _ in range(dice.randint(0, 8)):
        job: Json = {"id": ids.pop(), "procs": dice.randint(1, machine.procs), "time": _time(dice)}
        job["start"] = now + dice.randint(0, 30)
        job["deadline"] = job["start"] + job["time"] + dice.choice([0, 0, 1, 5, 20])
        _maybe(dice, job, ready=job["start"] - dice.choice([0, 0, 3, 10]), submitted=dice.randint(-3, 3))
        if machine.hold(job["start"], job["start"] + job["time"], job["procs"]):
            file["waiting"].append(job)
    new: Json = {"id": ids.pop(), "procs": dice.randint(1, machine.procs), "time": _time(dice)}
    ready = now + dice.randint(-3, 20)
    _maybe(dice, new, 0.7, ready=ready, submitted=dice.randint(-3, 3))
    new["deadline"] = max(new.get("ready", now), now) + new["time"] + dice.choice([0, 0, 1, 3, 10])
    criterion = dice.choice(["shuffle", "fifo", "bjf", "lff", "edf"])
    _maybe(dice, file, criterion=criterion, seed=dice.randint(0, 5), farther=True)
    _maybe(dice, file, 0.2, limit=dice.choice([0.5, 1, 2.5]), accept=dice.choice([0.5, 1, 3]))
    _maybe(dice, file, 0.2, take=dice.choice([now + dice.randint(0, 40), new["deadline"]]))
    return {**file, "new": new}


def _providers(dice: Random) -> list[Json]:
    found = []
    for name in _NAMES[: dice.randint(1, 4)]:
        one: Json = {"name": name, "procs": dice.randint(1, 6)}
        _maybe(dice, one, 0.4, speed=dice.choice([1, 2, 0.5]))
        found.append(one)
    return found


def _at_most(dice: Random, providers: list[Json]) -> Json:
    return {one["name"]: dice.randint(0, 5) for one in providers if dice.random() < 0.5}


def _coallocate(dice: Random) -> Json:
    now, providers = dice.choice([0, 5]), _providers(dice)
    for one in providers:
        machine, holds = _Machine(one["procs"]), []
        for _ in range(dice.randint(0, 6)):
            start = dice.randint(-5, 25)
            end, procs = start + _time(dice), dice.randint(1, one["procs"])
            if end <= now or machine.hold(max(start, now), end, procs):
                holds.append([start, end, procs])
        one["holds"] = holds
    total = sum(one["procs"] for one in providers)
    job: Json = {"procs": dice.randint(1, total + dice.choice([0, 0, 1])), "time": _time(dice)}
    _maybe(dice, job, overhead=dice.choice([0.25, 0.5]), ready=dice.randint(-3, 20))
    _maybe(dice, job, 0.3, end_by=dice.randint(5, 40), at_most=_at_most(dice, providers))
    file: Json = {"now": now, "providers": providers, "job": job}
    _maybe(dice, file, first=dice.choice(providers)["name"])
    return file


def _compress(dice: Random) -> Json:
    now, providers, ids = dice.choice([0, 5]), _providers(dice), _ids(dice, 40)
    machines = {one["name"]: _Machine(one["procs"]) for one in providers}
    for one in providers:
        machine, one["running"], one["local"] = machines[one["name"]], [], []
        for _ in range(dice.randint(0, 2)):
            start, procs = now - dice.randint(0, 3), dice.randint(1, one["procs"])
            end = start + _time(dice)
            if end <= now or machine.hold(start, end, procs):
                one["running"].append([start, end, procs])
        for _ in range(dice.randint(0, 5)):
            start, time, procs = now + dice.randint(0, 40), _time(dice), dice.randint(1, one["procs"])
            if machine.hold(start, start + time, procs):
                one["local"].append({"id": ids.pop(), "start": start, "time": time, "procs": procs})
    metajobs = []
    for _ in range(dice.randint(0, 5)):
        some = dice.sample(providers, dice.randint(1, len(providers)))
        parts = {one["name"]: dice.randint(1, one["procs"]) for one in some}
        job: Json = {"start": now + dice.randint(0, 40), "procs": sum(parts.values()), "time": _time(dice)}
        _maybe(dice, job, overhead=dice.choice([0.25, 0.5]), first=dice.choice(providers)["name"])
        _maybe(dice, job, 0.2, ready=now + dice.randint(-3, 20), at_most=_at_most(dice, providers))
        long = job["time"] if len(parts) == 1 else job["time"] * (1 + job.get("overhead", 0))
        end = job["start"] + long / min(one.get("speed", 1) for one in some)
        if all(machines[name].fits(job["start"], end, procs) for name, procs in parts.items()):
            for name, procs in parts.items():
                machines[name].hold(job["start"], end, procs)
            metajobs.append({"id": ids.pop(), **job, "parts": parts})
    file: Json = {"now": now, "provider": dice.choice(providers)["name"], "providers": providers, "metajobs": metajobs}
    _maybe(dice, file, 0.8, operation=dice.choice(["rigid", "shift", "remap", "remap"]))
    return file


def _map(dice: Random) -> Json:
    kinds, sizes = [f"r{n}" for n in range(dice.randint(1, 4))], _NAMES[: dice.randint(1, 4)]
    rates = {kind: {size: dice.choice([0.5, 1, 2, 4]) for size in sizes} for kind in kinds}
    resources = {kind: dice.randint(0, 6) for kind in kinds}
    resources[dice.choice(kinds)] += 1
    file: Json = {"model": dice.choice(["sync", "async"]), "iterations": dice.choice([1, 100])}
    file |= {"processes": dice.randint(1, 60), "resources": resources, "throughput": rates}
    _maybe(dice, file, transfer=dice.choice([0, 0.25, 3]))
    return file


def _offers(dice: Random) -> Json:
    now = dice.choice([0, 7])
    machine, ids = _Machine(dice.randint(1, 6)), _ids(dice, 20)
    bag: Json = {"tasks": dice.randint(1, 25), "time": _time(dice)}
    _maybe(dice, bag, 0.3, procs=dice.randint(1, machine.procs + 1))
    _maybe(dice, bag, 0.8, deadline=now + dice.randint(1, 60))
    file: Json = {"procs": machine.procs, "now": now, "bag": bag, "running": _running(dice, machine, now, ids)}
    file["waiting"], planned = [], dice.random() < 0.6 or "deadline" not in bag
    for _ in range(dice.randint(0, 7)):
        job: Json = {"id": ids.pop(), "procs": dice.randint(1, machine.procs), "time": _time(dice)}
        job["deadline"] = now + dice.randint(5, 50)
        _maybe(dice, job, 0.3, ready=now + dice.randint(-3, 20), submitted=dice.randint(-3, 3))
        if (planned and dice.random() < 0.97) or "deadline" not in bag:
            job["start"] = now + dice.randint(0, 40)
            if not machine.hold(job["start"], job["start"] + job["time"], job["procs"]):
                continue
        file["waiting"].append(job)
    _maybe(dice, file, 0.3, shares=dice.sample(range(1, 101), dice.randint(1, 6)))
    return file


def _compose(dice: Random) -> Json:
    file: Json = {"policy": dice.choice(["nolb", "plb", "dplb", "dplbv2"]), "tasks": dice.randint(1, 40), "offers": []}
    names = [f"p{n}" for n in range(dice.randint(0, 5))]
    for name in names:
        for _ in range(dice.randint(1, 4)):
            offer = {"provider": name, "tasks": dice.choice([1, 4, 4, 8, 8, 16]), "end": dice.randint(1, 8) * 10}
            file["offers"].append(offer)
    dice.shuffle(file["offers"])
    file["power"] = {name: dice.choice([1, 2, 0.1, 0.3, 100, 200]) for name in names}
    file["pending"] = {name: dice.choice([0, 3600, 0.1, 100000]) for name in names}
    _maybe(dice, file, 0.7, deadline=dice.choice([20, 40, 45.5, 60]))
    return file


def _advance(dice: Random) -> Json:
    now = dice.choice([0, 10])
    machine, ids, bags = _Machine(dice.randint(1, 6)), _ids(dice, 30), ["b", "c", "a"]
    file: Json = {"procs": machine.procs, "now": now, "running": [], "waiting": []}
    ends: dict[str, float] = {}

    def bag(end: float) -> str | None:
        name = dice.choice([None, None, *bags])
        if name is not None:
            ends[name] = max(ends.get(name, end), end)
        return name

    for _ in range(dice.randint(0, 4)):
        start, procs = now - dice.randint(0, 6), dice.randint(1, machine.procs)
        end = start + _time(dice)
        if end <= now or machine.hold(start, end, procs):
            name = bag(end)
            file["running"].append([start, end, procs] + ([name] if name else []))
    for _ in range(dice.randint(0, 12)):
        start, time, procs = now + dice.randint(0, 40), _time(dice), dice.randint(1, machine.procs)
        if machine.hold(start, start + time, procs):
            job: Json = {"id": ids.pop(), "start": start, "time": time, "procs": procs}
            name = bag(start + time)
            _maybe(dice, job, 0 if name is None else 1, bag=name)
            file["waiting"].append(job)
    file["bags"] = {name: end + dice.choice([0, 0, 0, 7]) for name, end in ends.items()}
    _maybe(dice, file, 0.3, coordinated=False)
    return file


def _predict(dice: Random) -> Json:
    predictor = dice.choice(["walltime", "last2", "similar", "similar", "profile", "rate"])
    file: Json = {"predictor": predictor}
    if predictor == "profile":
        low = [dice.randint(1, 9) for _ in range(dice.randint(1, 6))]
        file |= {"low": low, "base": dice.randrange(len(low)), "full": dice.randint(1, 90)}
        _maybe(dice, file, frames=dice.randint(1, 200))
        return file
    if predictor == "rate":
        counts = sorted(dice.sample(range(1, 100), dice.randint(1, 6)))
        file["measured"] = [[n, n / dice.choice([1, 2, 2.05, 2.1]) + dice.choice([0, 1])] for n in counts]
        _maybe(dice, file, steady=dice.choice([0.01, 0.2]))
        return file
    names = ["x", "x", "y"]
    file["history"] = [
        {
            "user": dice.choice(["ann", "ann", "bob"]),
            "name": dice.choice(names),
            "walltime": 100,
            "run": dice.randint(0, 120),
            "end": dice.randint(0, 60),
        }
        for _ in range(dice.choice([0, 2, 4, 10, 90]))
    ]
    file["job"] = {"user": "ann", "name": dice.choice(names), "walltime": dice.choice([50, 100])}
    _maybe(dice, file, 0.8, now=dice.randint(0, 60))
    return file


_QUESTIONS: dict[str, Callable[[Random], Json]] = {
    "admit": _admit,
    "coallocate": _coallocate,
    "compress": _compress,
    "map": _map,
    "offers": _offers,
    "compose": _compose,
    "advance": _advance,
    "predict": _predict,
}
