"""Dask computes on workers that are jobs, and their number follows the work."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.harness.waiting import DEADLINE
from tests.integrations.conftest import Site

pytestmark = pytest.mark.e2e

ADAPTS = """
import time
from dask.distributed import wait

def until(holds):
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end, cluster
        time.sleep(0.1)

print("scaled", len(client.scheduler_info()["workers"]))
until(lambda: not client.scheduler_info()["workers"])
print("empty")
futures = client.map(lambda number: time.sleep(1) or number * number, range(6), pure=False)
print(sorted(client.gather(futures)))
del futures
until(lambda: not client.scheduler_info()["workers"])
print("empty again")
client.close()
cluster.close()
"""


def test_workers_compute_and_adapt(site: Site, snippets: Callable[[str], list[str]]) -> None:
    """The guide's cluster grows to two workers, shrinks to none, grows with the work and shrinks after it."""
    opened, scaled = snippets("Dask")
    body = "\n".join([opened, scaled, ADAPTS]).replace("\n", "\n    ")
    printed = site.script(f"if __name__ == '__main__':\n    {body}\n", DASK_DISTRIBUTED__SCHEDULER__IDLE_TIMEOUT="300s")
    lines = [
        line for line in printed.splitlines() if line in ("45", "scaled 2", "empty", "empty again") or "16" in line
    ]
    assert lines == ["45", "scaled 2", "empty", "[0, 1, 4, 9, 16, 25]", "empty again"], printed
    jobs = [int(job) for job in json.loads(site.cluster.run("oarstat", "--sql", "project = 'dask'", "-J").stdout)]
    assert len(jobs) > 2
    site.cluster.wait_for(jobs, ["Terminated", "Error"], DEADLINE)
