"""Steps a second inside one job of four nodes: ``oarpy bench steps [--quick]``.

A step is one call of ``oarsrun -n 1 /bin/true``, which is a process, as ``srun`` is; ``xargs`` in the job has 16 of
them under way. Beside it stands, in the same run and way, what the machine itself can do: starts of ``/bin/true``, and
of the node's Python before it does anything. One call with many ranks tells what starting costs without that Python.
The four nodes are this machine: its processors do what four machines would share.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from oarpy.local_cluster.sandbox import Sandbox, local_nodes, running_sandbox
from research.benchmarks.results import save

STEPS, RANKS, AT_A_TIME = 2000, 2000, 16
DEADLINE = 1200.0
PUBLISHED = 152
"""Steps a second of ``srun`` on Frontier."""

_SCRIPT = """
set -e
step="$OARPY_NODE/bin/oarsrun"
python=$(sed -n '1s/^#!//p' "$step")
stamp() { date +%s.%N >> stamps; }
stamp; "$step" -n 16 /bin/true; stamp  # the nodes are connected
stamp; seq COUNT | xargs -P AT_A_TIME -I @ "$step" -n 1 /bin/true; stamp
stamp; seq COUNT | xargs -P AT_A_TIME -I @ /bin/true; stamp
stamp; seq COUNT | xargs -P AT_A_TIME -I @ $python -c pass; stamp
stamp; "$step" -n RANKS --overcommit /bin/true; stamp
"""
NAMES = ("connecting four nodes", "steps", "starts of /bin/true alone", "starts of Python alone", "ranks of one step")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a line for each figure, and save the result."""
    parser = argparse.ArgumentParser(prog="oarpy bench steps", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200 steps, and not to be compared")
    quick = parser.parse_args(arguments).quick
    counts = (1, *[STEPS // 10 if quick else STEPS] * 3, RANKS // 10 if quick else RANKS)
    nodes = local_nodes("/host=n[1-4]/cpu={1}/core={4}")
    with (
        tempfile.TemporaryDirectory(prefix="oarpy-steps-") as folder,
        running_sandbox(Path(folder), {}, nodes) as cluster,
    ):
        seconds = measured(cluster, counts)
    measures = zip(NAMES, counts, seconds, strict=True)
    rates = {name: round(count / taken, 1) for name, count, taken in measures if count > 1}
    sys.stdout.write(f"{NAMES[0]:<36} {seconds[0]:>10.2f} s\n")
    for name, rate in rates.items():
        sys.stdout.write(f"{name:<36} {rate:>10,.1f} /s\n")
    sys.stdout.write(f"{'srun on Frontier, as published':<36} {PUBLISHED:>10,.1f} /s\n")
    if not quick:
        save("steps", {"steps": STEPS, "at_a_time": AT_A_TIME, "connecting_s": round(seconds[0], 2), "a_second": rates})
    return 0


def measured(cluster: Sandbox, counts: Sequence[int]) -> list[float]:
    """Run the job to its end; return the seconds of each part."""
    values = {"COUNT": counts[1], "RANKS": counts[4], "AT_A_TIME": AT_A_TIME}
    script = _SCRIPT
    for name, value in values.items():
        script = script.replace(name, str(value))
    work = cluster.directory / "work"
    program = work / "steps.sh"
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)
    (job,) = cluster.job_ids("-l", "/nodes=4/core=4,walltime=1:0:0", "-d", str(work), str(program))
    cluster.wait_for([job], ["Terminated"], DEADLINE)
    stamps = [float(line) for line in (work / "stamps").read_text().split()]
    if len(stamps) != 2 * len(NAMES):
        raise RuntimeError((work / f"OAR.{job}.stderr").read_text())
    return [end - begin for begin, end in zip(stamps[::2], stamps[1::2], strict=True)]


if __name__ == "__main__":
    raise SystemExit(main())
