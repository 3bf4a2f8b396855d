"""ESP2 beside the published efficiencies: ``oarpy bench esp2 [--real]``.

In virtual time it runs every policy and order, with both roundings of sizes. With ``--real`` it also runs the light mix
on 34 local slots: all 230 jobs, ``sleep`` as the program, run times divided. The same workload in virtual time stands
beside it, so that the difference is what the system itself costs.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg

from oarpy.local_cluster.sandbox import Sandbox, Settings, local_nodes, running_sandbox
from oarpy.simulation.engines.engine import replay
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.policies import POLICIES, make_scheduler
from oarpy.simulation.reports.esp2_report import PROCS, PUBLISHED, REPORTED_ORDERS, esp2_results, esp2_table
from oarpy.simulation.traces.trace import TraceJob
from oarpy.simulation.workloads.esp2 import efficiency, job_mix, work

from .results import save

_LIVE = "SELECT count(*) FROM jobs WHERE state NOT IN ('Terminated', 'Error')"
_ELAPSED = """
    SELECT extract(epoch FROM max(j.ended_at) - min(lower(l.during)))::float8,
           count(*) FILTER (WHERE j.state = 'Terminated' AND j.exit_status = 0)
    FROM jobs j JOIN job_state_logs l ON l.job_id = j.job_id AND l.state = 'Waiting' AND l.previous_state = 'Hold'
"""


@dataclass(frozen=True, slots=True)
class RealRun:
    """A run on this machine: times in seconds, of the light variant divided by ``divided_by``."""

    order: str
    divided_by: float
    bound: float
    elapsed: float
    virtual_elapsed: float

    def line(self) -> str:
        """Return the run for people."""
        really, virtual = self.bound / self.elapsed, self.bound / self.virtual_elapsed
        return (
            f"really run, conservative, {self.order}, light run times / {self.divided_by:g}: bound {self.bound:.1f} s,"
            f" elapsed {self.elapsed:.1f} s, efficiency {really:.4f};"
            f" in virtual time {self.virtual_elapsed:.1f} s, {virtual:.4f}; the system itself cost"
            f" {self.elapsed - self.virtual_elapsed:.1f} s"
        )


def scaled(divided_by: float) -> tuple[TraceJob, ...]:
    """Return the light mix, all at 0, with its run times divided; walltimes are whole seconds."""
    jobs = []
    for number, job in enumerate(job_mix(Machine(PROCS), light=True), start=1):
        run = job.seconds / divided_by
        jobs.append(TraceJob(number, 0, run, math.ceil(1.5 * run) + 2, job.procs))
    return tuple(jobs)


def run_really(sandbox: Sandbox, order: str, divided_by: float) -> RealRun:
    """Submit the mix held, release it at once, wait for the last end."""
    jobs = scaled(divided_by)
    sandbox.run("oarqueue", "--change", f"default,3,{order}")
    ids = []
    for job in jobs:
        request = f"/resource_id={job.procs},walltime=0:0:{int(job.estimate)}"
        ids += sandbox.job_ids("--hold", "-l", request, f"sleep {job.run:.3f}")
    sandbox.run("oarresume", *map(str, ids))
    with psycopg.connect(sandbox.dsn(), autocommit=True) as connection:
        while (live := connection.execute(_LIVE).fetchone()) is not None and live[0]:
            time.sleep(0.05)
        row = connection.execute(_ELAPSED).fetchone()
    assert row is not None
    if row[1] != len(jobs):
        raise SystemExit(f"{row[1]} of {len(jobs)} jobs ended well")
    starts = replay(jobs, make_scheduler("conservative", order, jobs, Machine(PROCS)))
    bound = work(jobs) / PROCS
    return RealRun(order, divided_by, bound, row[0], bound / efficiency(jobs, starts, PROCS))


def _really(order: str, divided_by: float) -> RealRun:
    settings: Settings = {"log": {"level": "warning"}, "scheduler": {"security_time": 0}}
    nodes = local_nodes(f"/host=n[1-{PROCS // 2}]/cpu={{1}}/core={{2}}")
    with (
        tempfile.TemporaryDirectory(prefix="oarpy-bench-") as folder,
        running_sandbox(Path(folder), settings, nodes) as sandbox,
    ):
        return run_really(sandbox, order, divided_by)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description="ESP2, in virtual time and for real")
    parser.add_argument("--real", action="store_true", help="run the light variant on this machine too")
    parser.add_argument("--divide", type=float, default=5.0, help="by what its run times are divided")
    parser.add_argument("--order", default="fifo", help="of the real run, such as widest/3600")
    options = parser.parse_args(arguments)
    results = esp2_results(POLICIES, REPORTED_ORDERS)
    sys.stdout.write(esp2_table(results) + "\n")
    sys.stdout.flush()
    report: dict[str, object] = {
        "published": dict(PUBLISHED),
        "results": [asdict(result) | {"efficiency": result.efficiency} for result in results],
    }
    if options.real:
        real = _really(options.order, options.divide)
        sys.stdout.write(real.line() + "\n")
        report["real"] = asdict(real)
    save("esp2", report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
