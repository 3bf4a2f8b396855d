"""``oarpy plan``: the scheduler on scenario files, without a database."""

from __future__ import annotations

import gc
import json
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TextIO

from oarpy.model.errors import UsageError
from oarpy.scheduler.decide import decide
from oarpy.scheduler.plan import Placement
from oarpy.scheduler.snapshot import Snapshot
from oarpy.simulation.scenario_reader import read_scenario

_NOT_A_SCENARIO = 2


def run_plan(paths: Sequence[str], timing: bool, out: TextIO, err: TextIO) -> int:
    """Plan each file and write one JSON object per line to ``out``; return the exit status.

    A file that is not a scenario gets one line on ``err`` and the status 2; the others are still planned. With
    ``timing`` each object tells the seconds of reading, planning and writing.
    """
    status = 0
    for path in paths:
        started = perf_counter()
        try:
            snapshot = read_scenario(_read(path))
        except UsageError as error:
            err.write(f"{path}: {error}\n")
            status = _NOT_A_SCENARIO
            continue
        read = perf_counter() - started
        out.write(_planned(snapshot, read if timing else None) + "\n")
        out.flush()
    return status


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError("not UTF-8 text") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"cannot be read: {reason}") from None


def _planned(snapshot: Snapshot, read: float | None) -> str:
    gc.freeze()  # what was read stays until the end: the collector need not walk through it again and again
    try:
        started = perf_counter()
        decided = decide(snapshot)
        seconds = perf_counter() - started
    finally:
        gc.unfreeze()
    started = perf_counter()
    text = json.dumps(
        {
            "seconds": seconds,
            "slots": decided.plan.slots,
            "kill": list(decided.victims),
            "jobs": [_job(placement) for placement in decided.plan.placements],
        }
    )
    if read is None:
        return text
    times = {"read": read, "plan": seconds, "write": perf_counter() - started}
    return f'{text[:-1]}, "timing": {json.dumps(times)}}}'


def _job(placement: Placement) -> dict[str, object]:
    return {
        "id": placement.job,
        "alternative": placement.alternative,
        "start": _instant(placement.start),
        "end": _instant(placement.end),
        "resources": placement.resources,
        "verdict": placement.verdict.value,
        "reason": placement.reason,
    }


def _instant(value: float | None) -> float | None:
    """Write whole numbers without a fraction."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
