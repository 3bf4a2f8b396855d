"""Random scenarios of ``oarpy grid simulate`` with planned starts, in which jobs meet often."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Json = dict[str, Any]
_TIMES = [1, 2, 3, 4, 5, 6, 8, 10, 2.5, 0.75]


def random_scenario(system: str, seed: int) -> Json:
    """Return a scenario of a system; a seed gives the same one each time."""
    dice = Random(f"{system} {seed}")
    clusters: list[Json] = [{"name": name, "procs": dice.randint(1, 6)} for name in "ABC"[: dice.randint(1, 3)]]
    for one in clusters:
        if dice.random() < 0.3:
            one["speed"] = dice.choice([1, 2, 0.5])
    file: Json = {"system": system, "engine": "counting", "clusters": clusters, "jobs": []}
    for number in range(dice.randint(1, 14)):
        job: Json = {"id": dice.choice([number, f"j{number}"]), "run": dice.choice(_TIMES)}
        if dice.random() < 0.7:
            job["submit"] = dice.choice([0, 0, 1, 2, 5, 8, 13, 20])
        if dice.random() < 0.6:
            job["walltime"] = job["run"] * dice.choice([1, 2, 4, 0.5])
        _JOBS[system](dice, job, clusters)
        file["jobs"].append(job)
    file[system] = _RULES[system](dice)
    return file


def _local(dice: Random, job: Json, clusters: list[Json]) -> Json:
    one = dice.choice(clusters)
    job |= {"cluster": one["name"], "procs": dice.randint(1, one["procs"])}
    return one


def _window(dice: Random, job: Json, clusters: list[Json]) -> None:
    one = _local(dice, job, clusters)
    time, lo = job.get("walltime", job["run"]) / one.get("speed", 1), job.get("submit", 0)
    if dice.random() < 0.6:
        job["ready"] = lo + dice.choice([-2, 0, 3, 10])
        lo = max(lo, job["ready"])
    job["deadline"] = lo + time + dice.choice([0, 0, 2, 5, 10, 30])
    if dice.random() < 0.5:
        job["accept"] = dice.choice([0.5, 1, 3])


def _parallel(dice: Random, job: Json, clusters: list[Json]) -> None:
    if dice.random() < 0.5:
        _local(dice, job, clusters)
        return
    at_most = {one["name"]: dice.randint(0, one["procs"]) for one in clusters if dice.random() < 0.3}
    room = sum(min(one["procs"], at_most.get(one["name"], 99)) for one in clusters)
    if room:
        job["at_most"] = at_most
    job["procs"] = dice.randint(1, room or sum(one["procs"] for one in clusters))
    if dice.random() < 0.6:
        job["overhead"] = dice.choice([0.25, 0.5])
    if dice.random() < 0.2:
        job["ready"] = job.get("submit", 0) + dice.randint(-3, 20)


def _window_rules(dice: Random) -> Json:
    rules: Json = {"order": dice.choice(["shuffle", "fifo", "bjf", "lff", "edf"]), "seed": dice.randint(0, 9)}
    rules |= {"fix": dice.choice([None, 0, 25, 50, 100]), "farther": dice.random() < 0.3}
    return rules


def _flexco_rules(dice: Random) -> Json:
    return {"operation": dice.choice(["rigid", "shift", "remap", "remap"])}


def _bag(dice: Random, job: Json, clusters: list[Json]) -> None:
    if dice.random() < 0.4:
        _local(dice, job, clusters)
        return
    job["tasks"] = dice.randint(1, 12)
    if dice.random() < 0.3:
        job["procs"] = dice.randint(1, max(one["procs"] for one in clusters))


def _dated_bag(dice: Random, job: Json, clusters: list[Json]) -> None:
    _bag(dice, job, clusters)
    job["deadline"] = job.get("submit", 0) + dice.randint(1, 60)


def _undated_bag(dice: Random, job: Json, clusters: list[Json]) -> None:
    _bag(dice, job, clusters)
    for one in clusters:
        one.setdefault("estimates", dice.choice(["walltime", "predicted"]))
    if "cluster" not in job and dice.random() < 0.6:
        job["predicted"] = min(job["run"], job.get("walltime", job["run"])) * dice.choice([1, 1.5, 2])
        job["profiling"] = dice.choice([0, 1, 3])


def _shares(dice: Random) -> Json:
    return {"shares": sorted({100, dice.randint(1, 99), dice.randint(1, 99)})} if dice.random() < 0.3 else {}


def _offers_rules(dice: Random) -> Json:
    return {"policy": dice.choice(["plb", "nolb", "dplb", "dplbv2", "slots"]), **_shares(dice)}


def _bags_rules(dice: Random) -> Json:
    rules = {"policy": dice.choice(["plb", "nolb", "dplb"]), "coordinated": dice.random() < 0.7}
    return {**rules, **_shares(dice)}


_JOBS: dict[str, Callable[[Random, Json, list[Json]], None]] = {
    "windows": _window,
    "flexco": _parallel,
    "offers": _dated_bag,
    "bags": _undated_bag,
}
_RULES: dict[str, Callable[[Random], Json]] = {
    "windows": _window_rules,
    "flexco": _flexco_rules,
    "offers": _offers_rules,
    "bags": _bags_rules,
}


def random_queues(seed: int) -> Json:
    """Return a scenario of the system ``queues``, with jobs of all kinds."""
    dice = Random(f"queues {seed}")
    clusters: list[Json] = [
        {
            "name": name,
            "procs": dice.randint(1, 6),
            "speed": dice.choice([1, 1, 2]),
            "policy": dice.choice(["fcfs", "conservative", "easy"]),
        }
        for name in "ABC"[: dice.randint(1, 3)]
    ]
    most = max(one["procs"] for one in clusters)
    jobs: list[Json] = []
    for number in range(dice.randint(1, 14)):
        run, submit = dice.choice(_TIMES), dice.choice([0, 0, 1, 2, 5, 8, 13, 20])
        job: Json = {"id": dice.choice([number, f"j{number}"]), "run": run, "submit": submit}
        job |= {"walltime": run * dice.choice([1, 2, 4]), "procs": dice.randint(1, most)}
        kind = dice.random()
        if kind < 0.4:
            _local(dice, job, clusters)
        elif kind < 0.6:
            job |= {"procs": 1, "components": dice.randint(1, 3), "deadline": submit + dice.choice([0, 3, 9])}
        jobs.append(job)
    return {
        "engine": dice.choice(["counting", "production"]),
        "clusters": clusters,
        "jobs": jobs,
        "deadlines": {"lp": 0.5, "tries": 2, "wait": 6},
        "reallocation": {
            "algorithm": dice.choice([0, 1, 2]),
            "period": 3,
            "threshold": 0,
            "heuristic": dice.choice(["mct", "minmin"]),
        },
    }
