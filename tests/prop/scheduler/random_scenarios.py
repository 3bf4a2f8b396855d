"""Random small scenario files with all that the format has, mixed; numbers are whole."""

from __future__ import annotations

from random import Random
from typing import Any

Json = dict[str, Any]

REQUESTS = [
    *["/core=1"] * 4,
    *["/core=2"] * 3,
    "/core=3",
    "/resource_id=2",
    "/network_address=1",
    "/nodes=2",
    "/nodes=1/core=1",
    "/nodes=2/core=1",
    "/switch=1/nodes=1/core=2",
    "/switch=2/core=1",
    "/core=ALL",
    "/core=BEST",
    "/core=BESTHALF",
    "/nodes=BEST",
    "/nodes=BESTHALF/core=1",
    "{gpu = 1}/core=1",
    "/core=1+{type = 'licence'}/licence=1",
    "/core=1+/core=1",
    "/core=2+/nodes=1",
]
_ON_LEVELS = [
    *["/gpu=1/core=1"] * 3,
    "/gpu=1",
    "/gpu=2/core=1",
    "/gpu=BEST/core=1",
    "/gpu=BESTHALF",
    "/switch=1/gpu=1/core=1",
    "/nodes=1/gpu=1/core=1",
    "/gpu=1/core=1+/gpu=1/core=1",
    "/gpu=1/core=1+/core=1",
    "{gpu = 1}/core=1",
]
_TYPES = [
    *["besteffort"] * 4,
    "container",
    "container=c",
    "inner=c",
    "inner=1",
    "placeholder=p",
    "allowed=p",
    "timesharing=*,*",
    "timesharing=user,*",
    "timesharing=user,name",
    "no_quotas",
    "odd",
]
_POLICIES = ["conservative", "conservative", "easy", "fcfs"]


def random_scenario(random: Random) -> Json:
    """Return a scenario of a few resources and jobs; running best-effort jobs are frequent."""
    rows = _rows(random)
    ids = [row["id"] for row in rows]
    queues = _queues(random)
    names = ["default"] * 4 + ["besteffort", "fast" if queues else "default"]
    scenario: Json = {
        "security_time": random.choice([0, 0, 1, 2]),
        "policy": random.choice(_POLICIES),
        "resources": rows,
        "quotas": [_quota(random) for _ in range(random.choice([0, 0, 0, 1, 2, 3]))],
        "running": _running(random, ids, [*names, "besteffort", "besteffort"]),
        "jobs": [_waiting(random, number, names) for number in range(1, random.randint(2, 8))],
    }
    if queues:
        scenario["queues"] = queues
    if random.random() < 0.4:
        _make_exclusive(random, scenario)
    if random.random() < 0.3:
        _make_arrays(random, scenario)
    return scenario


def _make_arrays(random: Random, scenario: Json) -> None:
    """Let jobs be members of two arrays, of which so many run at once."""
    for array in (1, 2):
        scenario["quotas"].append(
            {"array": array, "set": f"array {array}", "jobs": random.choice([1, 1, 2])}
            | dict.fromkeys(("queue", "project", "type", "user"), "*")
            | dict.fromkeys(("resources", "resource_hours"), -1)
        )
    for job in scenario["jobs"] + scenario["running"]:
        job["array"] = random.choice([0, 1, 1, 2])


def _make_exclusive(random: Random, scenario: Json) -> None:
    """Let levels be exclusive, and jobs ask for them."""
    scenario["exclusive_levels"] = random.choice([["gpu"], ["gpu"], ["gpu", "switch"], ["nodes"], ["switch", "core"]])
    for job in scenario["jobs"]:
        for request in job["requests"]:
            if random.random() < 0.5:
                request["resources"] = random.choice(_ON_LEVELS)
    for job in scenario["running"]:
        job["levels"] = random.sample(["gpu", "nodes", "switch", "core"], random.randint(0, 2))
    if random.random() < 0.5:
        _share_blocks(random, scenario)


def _share_blocks(random: Random, scenario: Json) -> None:
    """Let jobs share blocks of exclusive levels by amounts."""
    level = random.choice(["gpu", "gpu", "switch"])
    blocks = {"0": 4, "1": 4, "2": 2} if level == "gpu" else {"s1": 4, "s2": 3}
    scenario["consumables"] = [{"name": "share", "level": level, "capacity": blocks}]
    for job in scenario["jobs"]:
        for request in job["requests"]:
            if random.random() < 0.5:
                request["resources"] += f",share={random.randint(1, 4)}"
    for job in scenario["running"]:
        if random.random() < 0.3:
            job["consumes"] = {"share": random.randint(1, 2)}


def _rows(random: Random) -> list[Json]:
    rows: list[Json] = []
    for number in range(1, random.randint(2, 9)):
        state = random.choice(["Alive"] * 7 + ["Absent", "Suspected", "Dead"])
        row: Json = {"id": number, "core": number, "state": state}
        if random.random() < 0.9:
            row["network_address"] = f"n{random.randint(1, 3)}"
        if random.random() < 0.5:
            row["switch"] = f"s{random.randint(1, 2)}"
        if random.random() < 0.6:
            row["gpu"] = random.choice([0, 1, 2])
        rows.append(row)
    rows += [{"id": 20 + number, "type": "licence", "licence": number} for number in range(random.randint(0, 2))]
    random.shuffle(rows)
    return rows


def _queues(random: Random) -> list[Json]:
    if random.random() < 0.5:
        return []
    queues = [
        {"name": name, "priority": random.randint(0, 2), "policy": random.choice(["fifo", "smallest", "largest"])}
        for name in ("default", "fast", "besteffort")
    ]
    random.shuffle(queues)
    return queues


def _types(random: Random) -> list[str]:
    return random.sample(_TYPES, random.choice([0, 0, 0, 1, 1, 2]))


def _quota(random: Random) -> Json:
    named = {"set": random.choice(["users", "default"])} if random.random() < 0.5 else {}
    return named | {
        "queue": random.choice(["*", "*", "/", "default"]),
        "project": random.choice(["*", "*", "/", "p"]),
        "type": random.choice(["*", "*", "*", "/", "odd"]),
        "user": random.choice(["*", "/", "ann"]),
        "resources": random.choice([-1, 1, 2, 4]),
        "jobs": random.choice([-1, -1, 0, 1, 2]),
        "resource_hours": random.choice([-1, -1, 4 / 3600, 10 / 3600]),
    }


def _running(random: Random, ids: list[int], queues: list[str]) -> list[Json]:
    """Jobs that hold resources; those that share nothing hold others, as jobs that were placed do."""
    left, jobs = list(ids), []
    random.shuffle(left)
    for number in range(100, 100 + random.randint(0, 5)):
        taken = [left.pop() for _ in range(min(len(left), random.randint(1, 3)))]
        if random.random() < 0.2:
            taken = random.sample(ids, random.randint(1, len(ids)))
        if taken:
            jobs.append(
                {
                    "id": number,
                    "user": random.choice(["ann", "bob"]),
                    "project": random.choice(["default", "p"]),
                    "queue": random.choice(queues),
                    "types": _types(random),
                    "start": random.randint(-4, 2),
                    "walltime": random.randint(1, 9),
                    "resources": taken,
                }
            )
    return jobs


def _waiting(random: Random, number: int, queues: list[str]) -> Json:
    job: Json = {
        "id": number,
        "user": random.choice(["ann", "bob"]),
        "project": random.choice(["default", "p"]),
        "queue": random.choice(queues),
        "name": random.choice(["", "x"]),
        "types": _types(random),
        "submitted": random.randint(0, 3),
        "requests": [
            {"resources": random.choice(REQUESTS), "walltime": random.randint(1, 6)}
            for _ in range(random.choice([1, 1, 2]))
        ],
    }
    if random.random() < 0.15 and not any(word.startswith("container") for word in job["types"]):
        job["depends_on"] = random.sample([1, 2, 3, 4, 100, "ok:1", "notok:101", 77], random.randint(1, 2))
    if random.random() < 0.15:
        job["reservation"] = random.randint(-8, 8)
    if random.random() < 0.1:
        job["properties"] = random.choice(["gpu = 1", "gpu = 0"])
    return job
