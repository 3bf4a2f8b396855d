"""The share of starts that fall into the predicted intervals: ``oarpy bench predictions --traces FOLDER``.

Logs of real machines are replayed with the production planner. Each job that has to wait is told an interval when it is
first planned, learnt from the starts before (``oarpy.scheduler.forecast``). ``bound`` is the planned wait: from the
first plan to the start that it foresees by walltimes. Without ``--whole`` the first 5,000 jobs of a log are replayed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path

from oarpy.scheduler.forecast.start_intervals import LEVEL
from oarpy.simulation.engines.engine import replay
from oarpy.simulation.engines.first_plans import ForeseeingScheduler, NotingPlanner
from oarpy.simulation.engines.flat_conservative import FlatConservative
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.production import Compressed, FullPasses
from oarpy.simulation.reports.forecast_accuracy import ForecastAccuracy, accuracy, planned_starts, start_intervals
from oarpy.simulation.traces.swf import read_swf
from oarpy.simulation.traces.trace import TraceJob

from .results import save
from .simulation import TRACES

_REDUCED = 5000
_POLICIES: Mapping[str, Callable[[Sequence[TraceJob], str, Machine], ForeseeingScheduler]] = {
    "conservative": FlatConservative,
    "compressed": Compressed,
    "easy": partial(FullPasses, policy="easy"),
}
_HEAD = (
    "log, policy",
    "waited",
    "told",
    "in it",
    "worst tenth",
    "width",
    "bound",
    "width/bound",
    "narrower",
    "after bound",
)


def trace_accuracy(path: Path, procs: int, policy: str, limit: int | None) -> ForecastAccuracy:
    """Replay the first jobs of a log and return how its intervals held."""
    machine = Machine(procs)
    jobs = read_swf(path, machine, limit).jobs
    planner = NotingPlanner(_POLICIES[policy](jobs, "fifo", machine))
    starts = replay(jobs, planner)
    return accuracy(start_intervals(planned_starts(planner.plans, starts)))


def row(name: str, figures: ForecastAccuracy) -> str:
    """Return a row of the table; widths and bounds are medians."""
    cells = (
        name,
        f"{figures.waited}",
        f"{figures.told}",
        f"{figures.coverage:.1%}",
        f"{figures.worst_tenth:.1%}",
        _hours(figures.median_width),
        _hours(figures.median_bound),
        f"{figures.relative_width:.2f}",
        f"{figures.narrower:.1%}",
        f"{figures.after_bound:.1%}",
    )
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="oarpy bench predictions", description="Intervals of starts on real logs")
    parser.add_argument("--traces", type=Path, default=Path("../shared/traces/archive"), help="folder of the SWF files")
    parser.add_argument("--only", default="", help="replay only the logs whose name contains this")
    parser.add_argument("--policy", choices=sorted(_POLICIES), help="replay with this one alone")
    parser.add_argument("--jobs", type=int, default=_REDUCED, help="first jobs of each log (default: %(default)s)")
    parser.add_argument("--whole", action="store_true", help="all jobs: half an hour and more for each policy")
    options = parser.parse_args(arguments)
    sys.stdout.write(f"{LEVEL:.0%} intervals; width/bound is the sum of widths over the sum of bounds\n")
    sys.stdout.write(f"| {' | '.join(_HEAD)} |\n|{'---|' * len(_HEAD)}\n")
    limit, logs = None if options.whole else options.jobs, {}
    for policy, (name, procs) in product([options.policy] if options.policy else _POLICIES, TRACES):
        if not (options.traces / name).exists():
            sys.stdout.write(f"{name}: skipped, it is not in {options.traces} (--traces FOLDER)\n")
        elif options.only in name:
            began = time.perf_counter()
            figures = trace_accuracy(options.traces / name, procs, policy, limit)
            title = f"{name.partition('.')[0]}, {policy}"
            logs[title] = {**asdict(figures), "seconds": time.perf_counter() - began}
            sys.stdout.write(row(title, figures) + "\n")
            sys.stdout.flush()
    save("predictions", {"level": LEVEL, "jobs": limit, "logs": logs})
    return 0


def _hours(seconds: float) -> str:
    return f"{int(seconds) // 3600}:{int(seconds) % 3600 // 60:02}"


if __name__ == "__main__":
    raise SystemExit(main())
