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

from oarpy.negotiation.profiles import Visits
from oarpy.scheduler.decide import decide
from oarpy.scheduler.negotiation.applications import Application, CountedRequest, NegotiationRules
from oarpy.scheduler.negotiation.clusters import clusters_of
from oarpy.scheduler.negotiation.occupation import CountedOccupation
from oarpy.scheduler.snapshot import HoldingJob, NegotiatingJob, Negotiation, Snapshot
from tests.harness.scheduling_cases import cluster, job, running

_NOW = 1000


def starts(random: Random, *, apart: bool) -> list[tuple[float, float]]:
    """Return when each application starts by counts and on the cluster, by rank.

    ``apart`` has jobs that run and end on their own; without it, hosts are free from now on for ever.
    """
    size = random.randint(2, 8)
    platform = cluster(" ".join(f"n{host}:1" for host in range(1, size + 1)))
    holding: list[HoldingJob] = []
    hosts = list(range(1, size + 1))
    random.shuffle(hosts)
    while apart and hosts and random.random() < 0.8:
        taken = [hosts.pop() for _ in range(random.randint(1, len(hosts)))]
        names = ",".join(map(str, sorted(taken)))
        holding.append(running(len(holding) + 1, names, 0, _NOW + random.randint(1, 20)))
    asked = [
        NegotiatingJob(100 + rank, "RequestSent", rank, ("all",), {"all": hosts_wanted}, walltime, 1, 1, {"all": [0]})
        for rank, (hosts_wanted, walltime) in enumerate(
            (random.randint(1, size), random.randint(1, 20)) for _ in range(random.randint(1, 6))
        )
    ]
    snapshot = Snapshot(
        _NOW,
        platform,
        waiting=tuple(
            job(
                one.id, f"/network_address={one.hosts['all']}", int(one.walltime), types="negotiated", ranked=one.ranked
            )
            for one in asked
        ),
        holding=tuple(holding),
        negotiation=Negotiation(tuple(asked), clusters_of(platform)),
    )
    planned = {one.job: one.start for one in decide(snapshot).plan.placements}
    counted = _counted(asked, holding, size)
    return [(counted[one.id], planned[one.id] or 0) for one in asked]


def _counted(asked: Sequence[NegotiatingJob], holding: Sequence[HoldingJob], size: int) -> dict[int, float]:
    """Place applications by counts."""
    rules = NegotiationRules()
    held = [
        Application(
            one.id, ("all",), request=CountedRequest({"all": len(one.resources)}, one.walltime, 1), start=one.start
        )
        for one in holding
    ]
    occupation = CountedOccupation({"all": size}, held, (), rules, _NOW, Visits())
    applications = [Application(one.id, ("all",), request=CountedRequest(one.hosts, one.walltime, 1)) for one in asked]
    return {one.id: float(occupation.place(one)) for one in applications}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; return 0 when no first one starts earlier on the cluster."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    counted: Counter[str] = Counter()
    for number in range(options.seed, options.seed + options.count):
        found = starts(Random(number), apart=True)
        by_counts, planned = found[0]
        if planned < by_counts:
            sys.stdout.write(f"seed {number}: the first in line starts at {planned}, by counts at {by_counts}\n")
            return 1
        counted["first in line, same start" if planned == by_counts else "first in line, later on the cluster"] += 1
        for by_counts, planned in found[1:]:
            words = "same start" if planned == by_counts else "later" if planned > by_counts else "earlier"
            counted[
                f"behind others, {words} on the cluster" if words != "same start" else "behind others, same start"
            ] += 1
    sys.stdout.writelines(f"{number:>9} {what}\n" for what, number in sorted(counted.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
