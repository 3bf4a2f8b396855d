"""Speed and outcome of the simulator on real traces, and ESP2: ``oarpy bench simulation --traces FOLDER``.

It prints two tables and, with ``--json``, saves everything. The machine's own speed is measured in the same run. It is
the time of 2,000,000 ANDs of neighbours in a list of 20,001 random 10,240-bit integers, in a plain Python loop.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from oarpy.simulation.engines.engine import replay
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.policies import make_scheduler
from oarpy.simulation.reports.esp2_report import REPORTED_ORDERS, esp2_results, esp2_table
from oarpy.simulation.reports.metrics import measure
from oarpy.simulation.reports.report import PolicyResult, summary_table
from oarpy.simulation.traces.swf import read_swf

TRACES = (
    ("KTH-SP2-1996-2.swf.gz", 100),
    ("SDSC-SP2-1998-4.2-cln.swf.gz", 128),
    ("CTC-SP2-1996-3.1-cln.swf.gz", 338),
)


def machine_seconds() -> float:
    """Return how long the reference loop takes here."""
    draw = random.Random(1)
    values = [draw.getrandbits(10_240) for _ in range(20_001)]
    began = time.perf_counter()
    for _ in range(100):
        for place in range(20_000):
            values[place] & values[place + 1]
    return time.perf_counter() - began


def trace_results(folder: Path, name: str, procs: int, policies: list[str], limit: int | None) -> list[PolicyResult]:
    """Replay one trace with each policy and print its table."""
    machine = Machine(procs)
    trace = read_swf(folder / name, machine, limit)
    results = []
    for policy in policies:
        began = time.perf_counter()
        starts = replay(trace.jobs, make_scheduler(policy, "fifo", trace.jobs, machine))
        took = time.perf_counter() - began
        results.append(PolicyResult(policy, "fifo", measure(trace.jobs, starts, procs), took))
    sys.stdout.write(summary_table(trace, procs, results) + "\n")
    sys.stdout.flush()
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Simulator benchmark")
    parser.add_argument("--traces", type=Path, default=Path("../shared/traces/archive"), help="folder of the SWF files")
    parser.add_argument("--policies", default="fcfs,easy,conservative", help="separated by commas")
    parser.add_argument("--only", default="", help="replay only the traces whose name contains this")
    parser.add_argument("--jobs", type=int, help="replay only the first jobs of each trace")
    parser.add_argument("--json", type=Path, help="save the results here")
    options = parser.parse_args(arguments)
    reference = machine_seconds()
    sys.stdout.write(f"2,000,000 ANDs of 10,240 bits: {reference:.3f} s\n")
    policies = options.policies.split(",")
    tables = {}
    for name, procs in TRACES:
        if not (options.traces / name).exists():
            sys.stdout.write(f"{name}: skipped, it is not in {options.traces} (--traces FOLDER)\n")
        elif options.only in name:
            tables[name] = trace_results(options.traces, name, procs, policies, options.jobs)
    esp = esp2_results(policies, REPORTED_ORDERS)
    sys.stdout.write(esp2_table(esp) + "\n")
    if options.json is not None:
        saved = {
            "machine_seconds": reference,
            "traces": {name: [asdict(result) for result in results] for name, results in tables.items()},
            "esp2": [asdict(result) | {"efficiency": result.efficiency} for result in esp],
        }
        options.json.write_text(json.dumps(saved, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
