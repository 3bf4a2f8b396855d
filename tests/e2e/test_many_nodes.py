"""Twenty agents on this machine: a job on all of them, and one that stops for good."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from research.benchmarks.nodes import ManyNodes, with_one_stopped
from research.benchmarks.server_processes import AGENT

pytestmark = pytest.mark.e2e

COUNT = 20


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ManyNodes]:
    cluster = ManyNodes(tmp_path / "cluster", COUNT)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def test_a_stopped_node_delays_no_other_and_is_the_only_one_suspected(cluster: ManyNodes) -> None:
    assert len(cluster.processes()[AGENT]) == COUNT
    cluster.start_of_job(COUNT)
    # Raises when a job of the others does not start, or when another node is suspected.
    with_one_stopped(cluster, "n7")
    assert len(cluster.processes()[AGENT]) == COUNT
    cluster.start_of_job(COUNT)
