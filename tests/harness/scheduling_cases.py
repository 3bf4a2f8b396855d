"""Clusters and jobs as values, for tests that look into a plan; what can be drawn is a case of ``tests/cases``.

``cluster("n1:2 n2:2")`` has cores 1 and 2 on n1, 3 and 4 on n2. ``job(2, "/nodes=1", 60)`` asks for a node for 60 s;
``job(2, "/nodes=2", 30, "/nodes=1", 50)`` is moldable.
"""

from __future__ import annotations

from typing import Any

from oarpy.model.dependency import Dependency
from oarpy.model.request import parse_request
from oarpy.scheduler.plan import Placement, Plan, plan
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.snapshot import Alternative, HoldingJob, Snapshot, WaitingJob


def cluster(hosts: str, states: dict[int, str] | None = None, **properties: dict[int, object]) -> Platform:
    """Return hosts written ``name:cores``; ``states`` and further properties are given by core."""
    rows: list[Resource] = []
    for host in hosts.split():
        name, _, cores = host.partition(":")
        for _ in range(int(cores)):
            number = len(rows) + 1
            own = {key: values[number] for key, values in properties.items() if number in values}
            state = (states or {}).get(number, "Alive")
            rows.append(Resource(number, "default", state, {"network_address": name, "core": number, **own}))
    return Platform.build(rows)


def job(number: int, *ways: str | int, after: tuple[Any, ...] = (), types: str = "", **rest: Any) -> WaitingJob:
    """Return a waiting job from pairs of request and walltime; ``types`` are words, ``after`` anteriors."""
    pairs = zip(ways[::2], ways[1::2], strict=True)
    requests = [(parse_request(str(text)), int(walltime)) for text, walltime in pairs]
    alternatives = tuple(Alternative(request.groups, walltime, request.consumes) for request, walltime in requests)
    depends = tuple(one if isinstance(one, Dependency) else Dependency(one) for one in after)
    rest.setdefault("user", "ann")
    return WaitingJob(number, types=tuple(types.split()), alternatives=alternatives, depends_on=depends, **rest)


def running(number: int, resources: str, start: int, walltime: int, types: str = "", **rest: Any) -> HoldingJob:
    """Return a job that holds resources, given as ``1-4,7``."""
    ids: list[int] = []
    for part in resources.split(","):
        first, _, last = part.partition("-")
        ids += range(int(first), int(last or first) + 1)
    rest.setdefault("user", "ann")
    return HoldingJob(number, start=start, walltime=walltime, resources=tuple(ids), types=tuple(types.split()), **rest)


def planned(platform: Platform, *jobs: WaitingJob | HoldingJob, **rest: Any) -> Plan:
    """Plan jobs at time 0 without security time unless told otherwise."""
    rest.setdefault("now", 0)
    return plan(
        Snapshot(
            platform=platform,
            waiting=tuple(one for one in jobs if isinstance(one, WaitingJob)),
            holding=tuple(one for one in jobs if isinstance(one, HoldingJob)),
            **rest,
        )
    )


def placed(platform: Platform, *jobs: WaitingJob | HoldingJob, **rest: Any) -> dict[int, Placement]:
    """Return the placements by job."""
    return dict(planned(platform, *jobs, **rest).by_job())


def starts(platform: Platform, *jobs: WaitingJob | HoldingJob, **rest: Any) -> dict[int, float | None]:
    """Return the predicted starts."""
    return {number: one.start for number, one in placed(platform, *jobs, **rest).items()}


def verdicts(platform: Platform, *jobs: WaitingJob | HoldingJob, **rest: Any) -> dict[int, str]:
    """Return the verdicts."""
    return {number: str(one.verdict) for number, one in placed(platform, *jobs, **rest).items()}
