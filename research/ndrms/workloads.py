"""The platform of the source, and its applications, drawn from a log.

    W0   jobs of the log, rigid, or moldable with probability p_mo
    W1   W0, and one complex application in the middle of it
    W2   W0, each job complex with probability p_cem instead

Where the source is silent: a complex application does the work of the job that it replaces (in W1: the mean of all
jobs) in :data:`ITERATIONS` iterations. Random numbers do not depend on the shares: with a greater share, more jobs are
of that kind, and those that were before still are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Literal

from oarpy.model.errors import UsageError
from oarpy.negotiation.launchers import ApplicationLauncher, Complex, Moldable
from oarpy.negotiation.profiles import Time
from oarpy.negotiation.run_times import AmdahlTime, Cluster, IterativeTime
from oarpy.simulation.traces.swf import records, size_and_run

LOG = "LLNL-Atlas-2006-2.1-cln.swf.gz"
TICKS = 1000
"""Units of time in a second."""
JOBS = 200
HOSTS = 128
"""Hosts of each cluster."""
PROCESSORS_PER_NODE = 8
KINDS = ((0.8, 32), (0.9, 96), (0.99, 256), (0.999, 650))
"""Parallel share and most hosts of moldable jobs, each of a quarter of them."""
MARGINS = (1.1, 2.0)
ITERATIONS = 100
"""The iterations of a complex application."""
CITY, COUNTRY, ABROAD = 5, 10, 50
"""Latencies in milliseconds: two clusters are in a city, two cities in a country."""

Sizes = Literal["processors", "nodes"]


@dataclass(frozen=True, slots=True)
class LoggedJob:
    """A job of the log: processors, and run time in seconds."""

    processors: int
    run: int

    def hosts(self, sizes: Sizes) -> int:
        """Return how many hosts it takes, at most those of a cluster."""
        wanted = self.processors if sizes == "processors" else -(-self.processors // PROCESSORS_PER_NODE)
        return min(wanted, HOSTS)


@dataclass(frozen=True, slots=True)
class DrawnApplication:
    """An application of a workload.

    On n hosts of a cluster, ``least`` to ``most``, it runs as AMDAHL's law says with the share ``parallel`` and
    ``single`` milliseconds on one host. A complex one does ``work`` host-milliseconds on any hosts.
    """

    least: int
    most: int
    parallel: float
    single: float
    margin: float
    work: int | None = None

    def launcher(self, clusters: Sequence[Cluster]) -> ApplicationLauncher:
        """Return the launcher that speaks for it."""
        if self.work is None:
            return Moldable(clusters, self.time, self.least, self.most, self.margin)
        latencies = {
            frozenset((cluster.name, other.name)): latency(index, index + behind)
            for index, cluster in enumerate(clusters)
            for behind, other in enumerate(clusters[index:])
            if behind
        }
        return Complex(IterativeTime(self.work, ITERATIONS, clusters, latencies, whole), self.margin)

    @property
    def time(self) -> AmdahlTime:
        """The run time on a number of hosts of one cluster."""
        return AmdahlTime(self.parallel, self.single, whole)


def whole(duration: Time) -> int:
    """Return the duration in whole milliseconds, not shorter."""
    return math.ceil(duration)


def platform(count: int) -> tuple[Cluster, ...]:
    """Return the first ``count`` clusters; each is a tenth of the first one's speed faster than the one before."""
    return tuple(Cluster(f"c{index + 1}", HOSTS, 1 + index / 10) for index in range(count))


def latency(first: int, other: int) -> int:
    """Return the milliseconds between two clusters, counted from 0."""
    if first // 2 == other // 2:
        return CITY
    return COUNTRY if first // 4 == other // 4 else ABROAD


def read_log(folder: Path) -> list[LoggedJob]:
    """Return the jobs of the log below ``folder`` that have a size and a run time.

    Raises :class:`UsageError` when it is not there, or cannot be read.
    """
    path = next(iter(sorted(folder.rglob(LOG))), None)
    if path is None:
        raise UsageError(f"no {LOG} below '{folder}'", hint="--traces DIR, with that log of the archive")
    pairs = (size_and_run(values) for _, values in records(path))
    return [LoggedJob(int(size), int(run)) for size, run in pairs if size > 0 and run > 0]


def sequence(log: Sequence[LoggedJob], draw: int, *, p_mo: float, p_cem: float, sizes: Sizes) -> list[DrawnApplication]:
    """Return the applications of ``log``, in order: W0, or W2 where ``p_cem`` is above 0."""
    random = Random(draw)
    return [_drawn(job, random, p_mo, p_cem, sizes) for job in log]


def with_complex(
    applications: Sequence[DrawnApplication], log: Sequence[LoggedJob], place: int, draw: int, sizes: Sizes
) -> list[DrawnApplication]:
    """Return W1: ``applications`` of ``log``, and a complex one that comes as number ``place`` (from 1)."""
    work = sum(job.hosts(sizes) * job.run for job in log) // len(log)
    complex_application = _complex(work, Random(-draw).uniform(*MARGINS))
    return [*islice(applications, place - 1), complex_application, *islice(applications, place - 1, None)]


def _drawn(job: LoggedJob, random: Random, p_mo: float, p_cem: float, sizes: Sizes) -> DrawnApplication:
    """Return the application of a job; each takes as many random numbers, of whatever kind it is."""
    moldable, is_complex = random.random() < p_mo, random.random() < p_cem
    parallel, most = random.choice(KINDS)
    margin = random.uniform(*MARGINS)
    hosts = job.hosts(sizes)
    if is_complex:
        return _complex(hosts * job.run, margin)
    if moldable:
        single = job.run * TICKS / (1 - parallel + parallel / hosts)
        return DrawnApplication(1, min(most, HOSTS), parallel, single, margin)
    return DrawnApplication(hosts, hosts, 1.0, job.run * TICKS * hosts, margin)


def _complex(work: int, margin: float) -> DrawnApplication:
    return DrawnApplication(1, HOSTS, 1.0, 0.0, margin, work * TICKS)
