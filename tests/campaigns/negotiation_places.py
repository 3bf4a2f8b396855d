"""Where counted hosts and a cluster of real hosts place the same applications differently.

``python -m tests.campaigns.negotiation_places --count 2000 --seed 1`` makes random clusters on which jobs run and
applications wait, places these by counts and by the planner, and prints how many starts are the same. Counts cannot say
that one host is free throughout, so the first in line never starts earlier on the cluster than by counts.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from random import Random

from oarpy.negotiation.core.applications import Application, CountedRequest, NegotiationRules
from oarpy.negotiation.core.cluster_pass import Negotiation
from oarpy.negotiation.core.clusters import clusters_of
from oarpy.negotiation.core.line import NegotiatingJob
from oarpy.negotiation.core.occupation import CountedOccupation, KnownPlaces
from oarpy.negotiation.profiles import Visits
from oarpy.scheduler.decide import decide
from oarpy.scheduler.snapshot import HoldingJob, Snapshot
from tests.harness.scheduling_cases import cluster, job, running

_NOW = 1000


def starts(random: Random) -> list[tuple[float, float]]:
    """Return when each application of a random cluster starts by counts and on the cluster, by rank."""
    size = random.randint(2, 8)
    platform = cluster(" ".join(f"n{host}:1" for host in range(1, size + 1)))
    holding: list[HoldingJob] = []
    hosts = list(range(1, size + 1))
    random.shuffle(hosts)
    while hosts and random.random() < 0.8:
        names = ",".join(str(hosts.pop()) for _ in range(random.randint(1, len(hosts))))
        holding.append(running(len(holding) + 1, names, 0, _NOW + random.randint(1, 20)))
    wanted = [(random.randint(1, size), random.randint(1, 20)) for _ in range(random.randint(1, 6))]
    asked = [
        NegotiatingJob(100 + rank, "RequestSent", rank, ("all",), {"all": number}, walltime, 1, 1, {"all": [0]})
        for rank, (number, walltime) in enumerate(wanted)
    ]
    jobs = [
        job(one.id, f"/network_address={number}", walltime, ranked=one.ranked)
        for one, (number, walltime) in zip(asked, wanted, strict=True)
    ]
    negotiation = Negotiation(tuple(asked), clusters_of(platform))
    snapshot = Snapshot(_NOW, platform, waiting=tuple(jobs), holding=tuple(holding), step=negotiation)
    planned = {one.job: one.start for one in decide(snapshot).plan.placements}
    counted = _counted(asked, holding, size)
    return [(counted[one.id], planned[one.id] or 0) for one in asked]


def _counted(asked: Sequence[NegotiatingJob], holding: Sequence[HoldingJob], size: int) -> dict[int, float]:
    """Place applications by counts."""
    held = [_application(one.id, len(one.resources), one.walltime, one.start) for one in holding]
    known = KnownPlaces(("all",))
    occupation = CountedOccupation({"all": size}, held, (), NegotiationRules(), _NOW, Visits(), known)
    return {one.id: float(occupation.place(_application(one.id, one.hosts["all"], one.walltime))) for one in asked}


def _application(number: int, hosts: int, walltime: float, start: float | None = None) -> Application:
    return Application(number, ("all",), request=CountedRequest({"all": hosts}, walltime, 1), start=start)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; return 0 when no first one starts earlier on the cluster."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    counted: Counter[str] = Counter()
    for number in range(options.seed, options.seed + options.count):
        for rank, (by_counts, planned) in enumerate(starts(Random(number))):
            place = "behind others" if rank else "first in line"
            words = "same start" if planned == by_counts else "later" if planned > by_counts else "earlier"
            counted[f"{place}, {words} on the cluster"] += 1
    sys.stdout.writelines(f"{number:>9} {what}\n" for what, number in sorted(counted.items()))
    return 1 if counted["first in line, earlier on the cluster"] else 0


if __name__ == "__main__":
    sys.exit(main())
