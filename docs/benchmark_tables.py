"""The tables of ``docs/benchmarks.md``, made from the JSON files that benchmarks leave in their folder ``results``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "research" / "benchmarks" / "results"

FRAME = """# Benchmarks

This page has figures of the planner, of the answers made with it, and of the simulator. The tables come from
`research/benchmarks/results/*.json`: run a benchmark, then `make docs`. The other measurements are on the page on
[performance](performance.md).

## Planning

`oarpy bench planning` plans a whole queue by conservative backfilling on an empty platform of nodes with 64 cores, in
one process on one core. Sizes are log-uniform: 1 to 256 cores (*flat*), 1 to 16 nodes with 1 to 64 cores each
(*hierarchical*), or half of each (*mixed*). Walltimes are log-uniform, 5 minutes to 24 hours. All come from a fixed
seed.

*Quotas* are flat jobs with quotas on users, *calendars* with other quotas by day than by night; *reservations* are
flat jobs beside 200 accepted reservations. *Consumables* are hierarchical jobs that ask for memory on each node,
log-uniform 1 to 256 GiB of 512. *Timesharing* are flat jobs, half of which share with jobs of their user. *Best* are
flat jobs under a quota, half of which ask for four cores of each node that has them free. *One more* is a pass after
the first jobs of the queue have started and another job has come.

Seconds are processor time, the best of some runs. Behind them is the same in units of the reference loop, which tells
how fast the machine is. The loop is 2,000,000 ANDs of neighbours in a list of 20,001 random 10,240-bit integers in
plain Python; it took {loop:.3f} s in that run.

{planning}
### Growth

The time of a plan grows like the number of jobs to this power, from 3,000 jobs to the largest queue:

{growth}
## Why a job waits

`oarpy bench why` runs `oarstat --why` of the last of {why_waiting} jobs that wait for 160 nodes of 64 cores: a
process that starts, asks, prints and ends. *Through the gateway* is how users ask, beside a meta-scheduler whose last
pass was a moment ago. *No places* means that what that pass foresaw is gone, so that all jobs are planned anew for
the answer. Processor time is that of command, gateway and database together. The load of the machine was
{why_load:.1f} on {why_cores} cores, which the wall-clock shows. The reference loop took {why_loop:.3f} s of processor
time.

{why}
## Simulation

`oarpy bench simulation --traces FOLDER --json research/benchmarks/results/simulation.json` replays traces of the
Parallel Workloads Archive. Jobs come in the order of submission, with the walltimes that their users asked for.
*Conservative* gives the starts of the planner of production. Waits are seconds; jobs/s are jobs of the trace a second
of wall-clock. The reference loop took {simulation_loop:.3f} s of wall-clock in that run.

{simulation}
## ESP2

`oarpy bench esp2` runs 230 jobs on 34 processors, in virtual time. *Efficiency* is the work of the jobs over what the
processors could have done until the last one ended. The columns tell how jobs are submitted, and how their sizes,
which are fractions of the machine, are rounded.

{esp2}"""
"""The page without its tables."""

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """One measurement of the planner: seconds, and the same in units of the reference loop."""

    kind: str
    jobs: int
    cores: int
    seconds: float
    loops: float


def page(results: Path = RESULTS) -> str:
    """Return the page with the tables of what was measured last."""
    planning, why, simulation, esp2 = (
        _read(results / f"{name}.json") for name in ("planning", "why", "simulation", "esp2")
    )
    plans = [Plan(**{name: one[name] for name in Plan.__slots__}) for one in planning["measurements"]]
    return FRAME.format(
        loop=planning["reference_loop_seconds"],
        planning="\n".join(_planning(plans, cores) for cores in sorted({one.cores for one in plans})),
        growth=_growth(plans),
        why_waiting=why["waiting"],
        why_load=why["load"],
        why_cores=why["cores"],
        why_loop=why["ands_ms"] / 1000,
        why=_why(why),
        simulation_loop=simulation["machine_seconds"],
        simulation=_simulation(simulation["traces"]),
        esp2=_esp2(esp2),
    )


def table(head: Row, rows: Iterable[Row]) -> str:
    """Return a table; all columns but the first are numbers."""
    lines = [head, ("---", *("---:" for _ in head[1:])), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _planning(plans: Sequence[Plan], cores: int) -> str:
    """One row a kind, one column for each number of jobs in whole queues; passes after one event have one of theirs."""
    own = [one for one in plans if one.cores == cores]
    sizes = sorted({one.jobs for one in own if "," not in one.kind})
    whole = {(one.kind, one.jobs): one for one in own}
    rows = [
        (kind, *(_seconds(whole.get((kind, jobs))) for jobs in sizes))
        for kind in dict.fromkeys(one.kind for one in own if "," not in one.kind)
    ]
    text = table((f"{cores:,} cores", *(f"{jobs:,} jobs" for jobs in sizes)), rows)
    events = [(one.kind, f"{one.jobs:,}", _seconds(one)) for one in own if "," in one.kind]
    return text + (f"\n{table((f'{cores:,} cores', 'waiting jobs', 'seconds'), events)}" if events else "")


def _seconds(one: Plan | None) -> str:
    return "" if one is None else f"{one.seconds:.3f} ({one.loops:.2f} x)"


def _growth(plans: Sequence[Plan]) -> str:
    rows = []
    for kind in dict.fromkeys(one.kind for one in plans if "," not in one.kind):
        exponents = []
        for cores in sorted({one.cores for one in plans}):
            own = [one for one in plans if (one.kind, one.cores) == (kind, cores) and one.jobs >= 3_000]
            exponents.append(f"{_exponent(own):.2f}" if len(own) > 1 else "")
        rows.append((kind, *exponents))
    return table(("kind", *(f"{cores:,} cores" for cores in sorted({one.cores for one in plans}))), rows)


def _exponent(plans: Sequence[Plan]) -> float:
    first, last = plans[0], plans[-1]
    return math.log(last.seconds / first.seconds) / math.log(last.jobs / first.jobs)


def _why(report: dict[str, Any]) -> str:
    """One row a way of asking: medians, and the least."""
    rows = [
        (way, *(f"{times[len(times) // 2]:.0f} ({times[0]:.0f})" for times in (report["processor_ms"][way], wall)))
        for way, wall in report["wall_ms"].items()
    ]
    return table(("median (least), milliseconds", "processor time", "wall-clock"), rows)


def _simulation(traces: dict[str, Any]) -> str:
    if not traces:
        return "The traces were not there when this was run.\n"
    rows = []
    for name, results in traces.items():
        for one in results:
            metrics = one["metrics"]
            rows.append(
                (
                    f"{name.partition('.swf')[0]}, {one['policy']}",
                    f"{metrics['jobs']:,}",
                    f"{metrics['mean_wait']:,.0f}",
                    f"{metrics['mean_bounded_slowdown']:,.1f}",
                    f"{metrics['utilisation']:.4f}",
                    f"{one['seconds']:.1f}",
                    f"{metrics['jobs'] / one['seconds']:,.0f}",
                )
            )
    head = ("trace and policy", "jobs", "mean wait", "mean bounded slowdown", "utilisation", "seconds", "jobs/s")
    return table(head, rows)


def _esp2(report: dict[str, Any]) -> str:
    """One row a policy and order, one column for each way of submission and of rounding sizes."""
    found = {(_ordering(one), _variant(one)): f"{one['efficiency']:.4f}" for one in report["results"]}
    variants = list(dict.fromkeys(variant for _, variant in found))
    rows = [
        (name, *(found.get((name, variant), "") for variant in variants))
        for name in dict.fromkeys(name for name, _ in found)
    ]
    published = [(name, f"{value:.4f}") for name, value in report["published"].items()]
    return f"{table(('policy, order', *variants), rows)}\n{table(('published', 'efficiency'), published)}"


def _ordering(one: dict[str, Any]) -> str:
    return f"{one['policy']}, {one['order']}"


def _variant(one: dict[str, Any]) -> str:
    return f"{one['submission']}; {one['rounding']}"
