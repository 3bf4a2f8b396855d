"""Generated workloads, written as SWF: the Lublin-Feitelson model and the ESP2 job mix."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TextIO

from oarpy.model.errors import UsageError
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.reports.output_files import write_file
from oarpy.simulation.traces.swf import write_swf
from oarpy.simulation.traces.trace import TraceJob
from oarpy.simulation.workloads.esp2 import all_at_once, job_mix, multimode
from oarpy.simulation.workloads.lublin import ALL_JOBS, BATCH, INTERACTIVE, LublinModel, generate, generate_both

_MODELS: dict[str, LublinModel] = {
    "lublin": ALL_JOBS,
    "lublin-batch": BATCH,
    "lublin-interactive": INTERACTIVE,
}
_OVERESTIMATE = 3.0
_Jobs = tuple[TraceJob, ...]
_MIXES: dict[str, Callable[[int, int], _Jobs]] = {
    "esp2": lambda procs, seed: all_at_once(job_mix(Machine(procs))),
    "esp2-light": lambda procs, seed: all_at_once(job_mix(Machine(procs), light=True)),
    "esp2-multimode": lambda procs, seed: multimode(job_mix(Machine(procs)), seed)[0],
}
KINDS = (*_MODELS, "lublin-both", *_MIXES)


def generated(kind: str, procs: int, count: int, seed: int) -> tuple[TraceJob, ...]:
    """Return the workload ``kind`` for ``procs`` processors; ``count`` is ignored by the ESP2 mixes, which are fixed.

    Lublin jobs get estimates uniform between 1 and 3 times their run time.
    """
    if count < 1:
        raise UsageError(f"{count} jobs is not a workload", hint="a number above 0")
    if kind in _MIXES:
        return _MIXES[kind](procs, seed)
    if kind == "lublin-both":
        return generate_both(procs, count, seed, overestimate=_OVERESTIMATE)
    if kind not in _MODELS:
        raise UsageError(f"unknown workload '{kind}'", hint="use one of " + ", ".join(KINDS))
    return generate(_MODELS[kind].fitted(procs), count, seed, overestimate=_OVERESTIMATE)


def run_generate(
    kind: str,
    procs: int,
    *,
    jobs: int = 10_000,
    seed: int = 1,
    output: Path | None = None,
    stdout: TextIO | None = None,
) -> int:
    """Write the workload ``kind`` as SWF to ``output``, else to the standard output. Returns the exit status, 0."""
    workload = generated(kind, procs, jobs, seed)
    comments = [f"Computer: none, generated ({kind}, seed {seed})", f"MaxJobs: {len(workload)}", f"MaxProcs: {procs}"]
    if output is None:
        write_swf(workload, stdout or sys.stdout, comments=comments)
        return 0
    write_file(output, partial(write_swf, workload, comments=comments))
    return 0
