"""Three hundred jobs through one server leave no descriptor and no thread behind."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from research.benchmarks.soak import Soak

pytestmark = pytest.mark.e2e

DEADLINE = 30.0


def _growth(soak: Soak, before: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """What holds more (descriptors, threads) than before."""
    now = _held(soak)
    return {kind: now[kind] for kind, held in before.items() if now[kind][0] > held[0] or now[kind][1] > held[1]}


def _held(soak: Soak) -> dict[str, tuple[int, int]]:
    """Of each kind but the gateway, which holds two descriptors more for each worker that it starts when it is busy."""
    return {kind: (held.descriptors, held.threads) for kind, held in soak.held().items() if kind != "gateway"}


def test_descriptors_and_threads_do_not_grow_with_the_jobs(tmp_path: Path) -> None:
    soak = Soak(tmp_path / "cluster")
    try:
        soak.start()
        soak.run(100)
        before = _held(soak)
        assert {"supervisor", "launcher", "metascheduler", "agent"} <= before.keys()
        soak.run(200)
        # What belongs to the last jobs may be held a moment longer than they are live.
        until = time.monotonic() + DEADLINE
        while grown := _growth(soak, before):
            assert time.monotonic() < until, f"(descriptors, threads) were {before}, and grew: {grown}"
            time.sleep(0.05)
    finally:
        soak.stop()
