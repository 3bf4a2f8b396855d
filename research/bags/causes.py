"""What the gain by coordination hangs on: the same bags with one thing changed, with coordination and without.

``python -m research.bags.causes [DAYS]`` prints a row a change (default: 5 days, seed 1, walltimes 1.5 times longer).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

from oarpy.grid.simulation.promised.systems import read_world
from research.bags.coordination import scenario
from research.runs.experiment import Parameters

Jobs: TypeAlias = list[dict[str, Any]]
_DAY = 86400


def _half_the_load(jobs: Jobs, days: int) -> Jobs:
    return [{**job, "submit": job["submit"] * 2} for job in jobs]


def _even_gaps(jobs: Jobs, days: int) -> Jobs:
    return [{**job, "submit": place * days * _DAY // len(jobs)} for place, job in enumerate(jobs)]


def _equal_run_times(jobs: Jobs, days: int) -> Jobs:
    """Return jobs of the same work in all, whose tasks all run for as long."""
    run = sum(job["tasks"] * job["run"] for job in jobs) / sum(job["tasks"] for job in jobs)
    return [{**job, "run": run, "walltime": run * job["walltime"] / job["run"]} for job in jobs]


CHANGES: dict[str, Callable[[Jobs, int], Jobs]] = {
    "nothing": lambda jobs, days: jobs,
    "half the load": _half_the_load,
    "even gaps": _even_gaps,
    "equal run times": _equal_run_times,
}


def response(file: dict[str, Any]) -> float:
    """Return the mean response of the bags of a file, in seconds."""
    world = read_world(json.dumps(file), "bags")
    for _ in world.events():
        pass
    return float(world.metrics()["response"])


def row(change: str, days: int) -> tuple[float, float, float]:
    """Return the mean response without and with coordination, and by how many percent the second is lower."""
    found = []
    for coordinated in (False, True):
        run: Parameters = {
            "days": days,
            "seed": 1,
            "estimates": "walltime",
            "more": 1.5,
            "accuracy": 1,
            "policy": "plb",
            "speed": 1,
            "coordinated": coordinated,
        }
        file = scenario(run)
        jobs = CHANGES[change](file["jobs"], days)
        found.append(response({**file, "jobs": jobs}))
    base, coordinated_response = found
    return base, coordinated_response, 100 * (1 - coordinated_response / base)


def main(days: int) -> None:
    """Print a row a change."""
    for change in CHANGES:
        base, coordinated, gain = row(change, days)
        sys.stdout.write(f"| {change} | {base:,.0f} s | {coordinated:,.0f} s | {gain:.1f} % |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
