"""Planning time against jobs, cores and kind of request: ``oarpy bench planning [--quick]``.

A pass is full conservative backfilling of a whole queue on an empty platform of nodes with 64 cores, on one core of
this machine. Sizes are log-uniform: 1 to 256 cores, or 1 to 16 nodes x 1 to 64 cores. Walltimes are log-uniform too, 5
minutes to 24 hours. All come from a fixed seed. Seconds are processor time, which is wall-clock time on a quiet
machine. The machine's own speed is measured in the same run (see ``machine_seconds``); ``x loop`` is the time of
planning in that unit. ``plan`` is a hash: equal for equal plans.

Rows ``gpus`` have nodes with four GPUs of 16 cores. Every other job asks for 1 to 16 whole GPUs, so it makes no
difference to the plan whether GPUs are an exclusive level (``exclusive gpus``) or not. In ``cores of gpus`` such a job
asks for 1 to 16 cores of each GPU.

Rows ``..., one more`` are a pass after one event: the first jobs of the queue have started, and the others were
planned. A second later one more job is there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from msgspec import structs

from oarpy.model.request import Consumption, Count, Group, Level
from oarpy.scheduler.passes.replanning import Planning
from oarpy.scheduler.plan import Plan, plan
from oarpy.scheduler.resources.consumables import Consumable
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.snapshot import Alternative, HoldingJob, QuotaRule, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict

CORES_PER_NODE = 64
KINDS = (
    "flat",
    "mixed",
    "hierarchical",
    "quotas",
    "best",
    "calendars",
    "reservations",
    "consumables",
    "timesharing",
    "gpus",
    "exclusive gpus",
    "cores of gpus",
    "cores of exclusive gpus",
)
CORES_PER_GPU = 16
ONE_MORE = ("flat", "mixed", "hierarchical")
"""Kinds for which a pass after one event is measured too."""
RESERVATIONS = 200
QUOTA = 256
"""Cores that a user may hold at once: what the largest flat job asks for, so that every user is held up by it."""
GIB = 2**30
MEMORY = 512 * GIB
"""Bytes of memory of a node."""
DAY, WEEK = 86_400, 7 * 86_400
KNOWN_WEEKS = 13
"""Weeks for which the periods of quotas are known."""
DEFAULT_RESULT = Path(__file__).parent / "results" / "planning.json"


@dataclass(frozen=True, slots=True)
class PlanningMeasurement:
    """One plan: ``seconds`` is the best of the repetitions, ``loops`` the same in units of the reference loop."""

    kind: str
    jobs: int
    cores: int
    seconds: float
    loops: float
    slots: int
    placed: int
    plan: str = ""
    """A digest that is equal for equal plans."""


def digest(planned: Plan) -> str:
    """Return a short hash of who starts when and where."""
    known = hashlib.sha256()
    for placement in planned.placements:
        known.update(
            f"{placement.job} {placement.start} {placement.end} {placement.alternative} {placement.bits:x}\n".encode()
        )
    return known.hexdigest()[:12]


def machine_seconds() -> float:
    """Return how long 2,000,000 ANDs of neighbours take in a list of 20,001 random 10,240-bit integers."""
    draw = random.Random(1)
    values = [draw.getrandbits(10_240) for _ in range(20_001)]
    began = time.process_time()
    for _ in range(100):
        for place in range(20_000):
            values[place] & values[place + 1]
    return time.process_time() - began


def cluster(cores: int) -> Platform:
    """Return nodes of 64 cores and four GPUs."""
    rows = (
        Resource(
            number + 1,
            properties={
                "network_address": f"node{number // CORES_PER_NODE + 1}",
                "gpu": number // CORES_PER_GPU + 1,
                "core": number + 1,
            },
        )
        for number in range(cores)
    )
    return Platform.build(rows, ("network_address", "gpu", "core"))


def snapshot(kind: str, jobs: int, platform: Platform, seed: int = 1) -> Snapshot:
    """Return a queue of ``jobs`` waiting jobs on an empty platform; quotas and reservations are added to flat jobs."""
    draw = random.Random(seed)
    shape = kind if kind in ("mixed", "hierarchical") else "hierarchical" if kind == "consumables" else "flat"
    waiting = tuple(_job(number, shape, draw, len(platform.ids)) for number in range(1, jobs + 1))
    state = Snapshot(now=0, platform=platform, waiting=waiting, security_time=60)
    if kind == "best":
        return replace(
            state,
            waiting=tuple(_greedy(job) if job.id % 2 else job for job in waiting),
            quotas=(QuotaRule(user="/", resources=QUOTA),),
        )
    if kind == "quotas":
        return replace(state, quotas=(QuotaRule(user="/", resources=QUOTA), QuotaRule(user="user0", jobs=20)))
    if kind == "calendars":
        return replace(state, quotas=_calendar(), quota_horizon=KNOWN_WEEKS * WEEK)
    if kind == "reservations":
        cores = len(platform.ids)
        return replace(
            state, holding=tuple(_reservation(jobs + number, draw, cores) for number in range(1, RESERVATIONS + 1))
        )
    if kind == "consumables":
        nodes = {str(block.value): MEMORY for block in platform.blocks("network_address")}
        return replace(
            state,
            waiting=tuple(_consuming(job, draw) for job in waiting),
            consumables=(Consumable("memory", "network_address", nodes),),
        )
    if kind == "timesharing":
        return replace(
            state,
            waiting=tuple(structs.replace(job, types=("timesharing=user,*",) if job.id % 2 else ()) for job in waiting),
        )
    if kind.endswith("gpus"):
        some_cores = kind.startswith("cores")
        return replace(
            state,
            waiting=tuple(_on_gpus(job, draw, some_cores=some_cores) if job.id % 2 else job for job in waiting),
            exclusive_levels=("gpu",) if "exclusive" in kind else (),
        )
    return state


def _on_gpus(job: WaitingJob, draw: random.Random, *, some_cores: bool) -> WaitingJob:
    """Let a job ask for GPUs, or for cores of each of them; both numbers are log-uniform 1 to 16."""
    levels: tuple[Level, ...] = (Level("gpu", _log_uniform(draw, 1, 16)),)
    if some_cores:
        levels = (*levels, Level("core", _log_uniform(draw, 1, CORES_PER_GPU)))
    return structs.replace(job, alternatives=tuple(replace(way, groups=(Group(levels),)) for way in job.alternatives))


def _consuming(job: WaitingJob, draw: random.Random) -> WaitingJob:
    """Let a job ask for memory on each of its nodes, log-uniform 1 to 256 GiB."""
    amount = Consumption("memory", _log_uniform(draw, 1, 256) * GIB)
    return structs.replace(job, alternatives=tuple(replace(way, consumes=(amount,)) for way in job.alternatives))


def _greedy(job: WaitingJob) -> WaitingJob:
    """Let a job ask for four cores of every node that has them free."""
    levels = (Level("network_address", Count.BEST), Level("core", 4))
    return structs.replace(job, alternatives=tuple(replace(way, groups=(Group(levels),)) for way in job.alternatives))


def _calendar() -> tuple[QuotaRule, ...]:
    """Return quotas by which a user may hold less from 8 to 19 on working days than at other times.

    The week begins at instant 0.
    """
    days = [week * WEEK + day * DAY for week in range(KNOWN_WEEKS) for day in range(5)]
    working = tuple((day + 8 * 3_600, day + 19 * 3_600) for day in days)
    edges = (0, *(edge for span in working for edge in span), KNOWN_WEEKS * WEEK)
    other = tuple(zip(edges[::2], edges[1::2], strict=True))
    return (
        QuotaRule(user="/", resources=QUOTA, valid=working, period="working hours"),
        QuotaRule(user="/", resources=4 * QUOTA, valid=other, period="other hours"),
    )


def _job(number: int, shape: str, draw: random.Random, cores: int) -> WaitingJob:
    walltime = _log_uniform(draw, 300, 86_400)
    if shape == "flat" or (shape == "mixed" and draw.random() < 0.5):
        levels: tuple[Level, ...] = (Level("core", _log_uniform(draw, 1, 256)),)
    else:
        nodes = _log_uniform(draw, 1, min(16, cores // CORES_PER_NODE))
        levels = (Level("network_address", nodes), Level("core", _log_uniform(draw, 1, CORES_PER_NODE)))
    return WaitingJob(number, f"user{number % 50}", alternatives=(Alternative((Group(levels),), walltime),))


def _reservation(number: int, draw: random.Random, cores: int) -> HoldingJob:
    """Return an accepted reservation in the next ten days on a run of cores; they may not overlap in time and place."""
    slot = number % RESERVATIONS
    width = min(256, cores // 4)
    first = draw.randrange(cores - width)
    return HoldingJob(number, "user0", 3600 + slot * 4000, 3600, tuple(range(first + 1, first + width + 1)))


def _log_uniform(draw: random.Random, low: int, high: int) -> int:
    return min(high, int(math.exp(draw.uniform(math.log(low), math.log(high + 1)))))


def measure(kind: str, jobs: int, platform: Platform, loop: float, repetitions: int) -> PlanningMeasurement:
    """Plan the queue some times and keep the best time."""
    state = snapshot(kind, jobs, platform)
    best = math.inf
    for _ in range(repetitions):
        began = time.process_time()
        planned = plan(state)
        best = min(best, time.process_time() - began)
    placed = sum(1 for placement in planned.placements if placement.start is not None)
    return PlanningMeasurement(kind, jobs, len(platform.ids), best, best / loop, planned.slots, placed, digest(planned))


def measure_one_more(kind: str, jobs: int, platform: Platform, loop: float, repetitions: int) -> PlanningMeasurement:
    """Plan a queue of ``jobs``, let jobs start, and measure passes after one more job each; keep the best time."""
    whole = snapshot(kind, jobs + repetitions, platform)
    planning, matchers = Planning(), Matchers(platform)
    first = planning.plan(replace(whole, waiting=whole.waiting[:jobs]), matchers=matchers)
    begun = {placement.job: placement for placement in first.placements if placement.verdict is Verdict.STARTS}
    holding = tuple(
        HoldingJob(
            placement.job, "", placement.start or 0, (placement.end or 0) - (placement.start or 0), bits=placement.bits
        )
        for placement in begun.values()
    )
    waiting = tuple(job for job in whole.waiting if job.id not in begun)
    count = jobs - len(begun)
    planning.plan(replace(whole, holding=holding, waiting=waiting[:count]), matchers=matchers)
    best = math.inf
    for more in range(1, repetitions + 1):
        state = replace(whole, now=more, holding=holding, waiting=waiting[: count + more])
        began = time.process_time()
        planned = planning.plan(state, matchers=matchers)
        best = min(best, time.process_time() - began)
    placed = sum(1 for placement in planned.placements if placement.start is not None)
    return PlanningMeasurement(f"{kind}, one more", count, len(platform.ids), best, best / loop, planned.slots, placed)


def table(measurements: Sequence[PlanningMeasurement]) -> str:
    """Return the measurements as text."""
    head = f"{'kind':<24}{'jobs':>8}{'cores':>8}{'seconds':>10}{'x loop':>9}{'slots':>8}{'placed':>8}  plan"
    lines = [
        f"{measurement.kind:<24}{measurement.jobs:>8}{measurement.cores:>8}{measurement.seconds:>10.3f}{measurement.loops:>9.2f}{measurement.slots:>8}"
        f"{measurement.placed:>8}  {measurement.plan}"
        for measurement in measurements
    ]
    return "\n".join([head, *lines])


def growth(measurements: Sequence[PlanningMeasurement]) -> list[str]:
    """Return, per kind and size of platform, the exponent of the growth between the first and the last queue."""
    lines = []
    for kind, cores in dict.fromkeys((measurement.kind, measurement.cores) for measurement in measurements):
        own = [
            measurement
            for measurement in measurements
            if (measurement.kind, measurement.cores) == (kind, cores) and measurement.jobs >= 3_000
        ]
        if len(own) > 1:
            exponent = math.log(own[-1].seconds / own[0].seconds) / math.log(own[-1].jobs / own[0].jobs)
            lines.append(f"{kind} on {cores} cores, {own[0].jobs} to {own[-1].jobs} jobs: time ~ jobs^{exponent:.2f}")
    return lines


def _show(measurement: PlanningMeasurement, measurements: list[PlanningMeasurement]) -> None:
    """Print a measurement, and keep it."""
    lines = table([measurement]).splitlines()
    measurements.append(measurement)
    sys.stdout.write("\n".join(lines if len(measurements) == 1 else lines[1:]) + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="1,000 and 3,000 jobs only")
    parser.add_argument("--kind", action="append", choices=KINDS, help="this kind only (repeatable)")
    parser.add_argument(
        "--cores", type=int, action="append", help="a machine of so many cores (repeatable; 1024, 10240)"
    )
    parser.add_argument("--jobs", type=int, action="append", help="a queue of so many jobs (repeatable)")
    parser.add_argument("--repetitions", type=int, default=3, help="plans of each queue; the best counts (3)")
    parser.add_argument("--json", type=Path, default=DEFAULT_RESULT, help="where the results are saved")
    chosen = parser.parse_args(arguments)
    loop = min(machine_seconds() for _ in range(3))
    sys.stdout.write(f"reference loop: {loop:.3f} s\n")
    sizes = chosen.jobs or ((1_000, 3_000) if chosen.quick else (1_000, 3_000, 10_000, 30_000))
    measurements: list[PlanningMeasurement] = []
    for cores in chosen.cores or (1_024, 10_240):
        platform = cluster(cores)
        for kind in chosen.kind or KINDS:
            for jobs in sizes:
                measurement = measure(kind, jobs, platform, loop, chosen.repetitions if jobs < 30_000 else 1)
                _show(measurement, measurements)
            if kind in ONE_MORE:
                _show(measure_one_more(kind, min(sizes[-1], 10_000), platform, loop, 3), measurements)
    sys.stdout.write("\n".join(growth(measurements)) + "\n")
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    saved = {"reference_loop_seconds": loop, "measurements": [asdict(measurement) for measurement in measurements]}
    chosen.json.write_text(json.dumps(saved, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
