"""Reader and writer of the Standard Workload Format (SWF 2), plain or gzip.

A line starting with ``;`` is a comment, every other line is one job of 18 numbers separated by blanks, -1 when unknown.
The conventions are those of the Parallel Workloads Archive. The size is the number of requested processors, or of
allocated ones if that is unknown. A record without a size, a run time or an estimate above 0 is a job that never ran:
it is left out.
"""

from __future__ import annotations

import gzip
import io
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from oarpy.model.errors import UsageError
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.traces.trace import Trace, TraceJob, in_submit_order

FIELDS = 18
_NUMBER, _SUBMIT, _RUN, _ALLOCATED, _REQUESTED, _ESTIMATE, _USER, _GROUP = 0, 1, 3, 4, 7, 8, 11, 12
_GZIP_MAGIC = b"\x1f\x8b"


def read_swf(path: Path, machine: Machine, limit: int | None = None) -> Trace:
    """Read the jobs of ``path`` that can run on ``machine``, at most the first ``limit`` of them.

    Where nodes are given whole, sizes are rounded up to whole nodes.

    Raises :class:`UsageError` for a file that cannot be read or a malformed line (naming it).
    """
    jobs: list[TraceJob] = []
    left_out = 0
    for where, values in records(path):
        if limit is not None and len(jobs) >= limit:
            break
        job = _job(values, machine, where)
        if job is None or job.procs > machine.procs:
            left_out += 1
        else:
            jobs.append(job)
    return Trace(path.name, in_submit_order(jobs), left_out)


def records(path: Path) -> Iterator[tuple[str, list[float]]]:
    """Yield the place and the numbers of each record of ``path``.

    Raises :class:`UsageError` for a file that cannot be read or a malformed line (naming it).
    """
    for number, line in enumerate(_lines(path), start=1):
        text = line.strip()
        if not text or text.startswith(";"):
            continue
        where, fields = f"{path}, line {number}", text.split()
        if len(fields) != FIELDS:
            raise UsageError(f"{where}: {len(fields)} fields instead of {FIELDS}", hint="not a record of an SWF file")
        yield where, [_number(field, where) for field in fields]


def size_and_run(values: Sequence[float]) -> tuple[float, float]:
    """Return the processors (requested, else allocated) and the run time in seconds of a record, -1 where unknown."""
    return (values[_REQUESTED] if values[_REQUESTED] > 0 else values[_ALLOCATED]), values[_RUN]


def write_swf(jobs: Iterable[TraceJob], out: TextIO, *, comments: Iterable[str] = ()) -> None:
    """Write ``jobs`` as SWF records (unknown fields are -1), after one header line for each of ``comments``."""
    for comment in comments:
        out.write(f"; {comment}\n")
    for job in jobs:
        known = {_NUMBER: job.number, _SUBMIT: job.submit, _RUN: job.run, _ALLOCATED: job.procs}
        known |= {_REQUESTED: job.procs, _ESTIMATE: job.estimate, 10: 1}
        out.write(" ".join(f"{known.get(field, -1):.15g}" for field in range(FIELDS)) + "\n")


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, plain or gzip. Raises :class:`UsageError` when it cannot be read."""
    try:
        # opened once and only looked into: a pipe gives its bytes a single time
        with path.open("rb") as raw:
            packed = raw.peek(2)[:2] == _GZIP_MAGIC
            with io.TextIOWrapper(gzip.open(raw) if packed else raw, encoding="latin-1") as lines:
                yield from lines
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"cannot read the trace '{path}': {reason}", hint="give a plain or gzip SWF file") from error


def _job(values: Sequence[float], machine: Machine, where: str) -> TraceJob | None:
    """Return the job of one record, None if it lacks a value that a replay needs."""
    size, run = size_and_run(values)
    estimate, submit = values[_ESTIMATE], values[_SUBMIT]
    if size <= 0 or run <= 0 or estimate <= 0 or submit < 0:
        return None
    if not float(size).is_integer() or not float(values[_NUMBER]).is_integer():
        raise UsageError(
            f"{where}: the job number and the processors must be whole", hint="not a record of an SWF file"
        )
    user, group = (f"{values[field]:g}" if values[field] >= 0 else "" for field in (_USER, _GROUP))
    return TraceJob(int(values[_NUMBER]), submit, min(run, estimate), estimate, machine.size(int(size)), user, group)


def _number(field: str, where: str) -> float:
    """Return one number of a record. Raises :class:`UsageError` naming the line."""
    try:
        return int(field)
    except ValueError:
        pass
    try:
        value = float(field)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{where}: '{field[:40]}' is not a number", hint="unknown values are written -1")
    return value
