"""``oarpy plan``: the scheduler on scenario files, without a database."""

from __future__ import annotations

import gc
import json
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TextIO

from oarpy.cluster_state.trace import decisions_json, placement_json
from oarpy.scheduler.decide import decide
from oarpy.scheduler.order.queue_orders import ORDERS, Order
from oarpy.scheduler.snapshot import Snapshot
from oarpy.simulation.scenarios.input_file import answer_files, text_of
from oarpy.simulation.scenarios.reader import read_scenario


def run_plan(
    paths: Sequence[str],
    timing: bool,
    out: TextIO,
    err: TextIO,
    *,
    orders: Mapping[str, Order] = ORDERS,
    decisions: bool = False,
) -> int:
    """Plan each file and write one JSON object per line to ``out``; return the exit status.

    A file that is no scenario gets one line on ``err`` and the status 2; the others are still planned. With ``timing``
    each object has the seconds of reading, planning and writing, with ``decisions`` all decisions. ``orders`` are the
    orders that queues may name.
    """

    def read(path: str) -> tuple[Snapshot, float]:
        started = perf_counter()
        return read_scenario(text_of(path), orders), perf_counter() - started

    def planned(content: tuple[Snapshot, float]) -> str:
        snapshot, seconds = content
        return _planned(snapshot, orders, seconds if timing else None, decisions)

    return answer_files(paths, out, err, read, planned)


def _planned(snapshot: Snapshot, orders: Mapping[str, Order], read: float | None, decisions: bool) -> str:
    """Plan one snapshot and return its line of output; ``read`` is the seconds of reading, None without timing."""
    gc.freeze()  # the values read stay until the end: the collector need not walk through them again and again
    try:
        started = perf_counter()
        decided = decide(snapshot, None, orders)
        seconds = perf_counter() - started
    finally:
        gc.unfreeze()
    started, show = perf_counter(), snapshot.show_instant
    text = json.dumps(
        {
            "seconds": seconds,
            "slots": decided.plan.slots,
            "kill": list(decided.victims),
            "jobs": [placement_json(placement, show) for placement in decided.plan.placements],
            **({"decisions": decisions_json(decided)} if decisions else {}),
        }
    )
    if read is None:
        return text
    times = {"read": read, "plan": seconds, "write": perf_counter() - started}
    return f'{text[:-1]}, "timing": {json.dumps(times)}}}'
