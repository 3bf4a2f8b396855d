"""Orders that queues may name: the scheduler's own, and windows of submission time."""

from __future__ import annotations

import pytest

from oarpy.cluster_state.order_plugins import SiteOrders
from oarpy.scheduler.order.queue_orders import Candidate
from oarpy.scheduler.snapshot import WaitingJob
from tests.harness.scheduling_cases import job

HOUR = 3600
JOBS = (
    job(1, "/core=2", HOUR, submitted=10),
    job(2, "/core=1", 2 * HOUR, submitted=20),
    job(3, "/core=2", 3 * HOUR, submitted=90),
    job(4, "/core=4", HOUR, submitted=130),
)


def ranked(policy: str) -> list[int]:
    order = SiteOrders()[policy]

    def size(one: WaitingJob) -> int:
        return one.alternatives[0].groups[0].levels[0].count

    return [one.id for one in sorted(JOBS, key=lambda one: order(Candidate(one, 200, size)))]


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        ("fifo", [1, 2, 3, 4]),
        ("smallest", [2, 1, 3, 4]),
        ("largest", [4, 1, 3, 2]),
        ("shortest", [1, 4, 2, 3]),
        ("longest", [3, 2, 1, 4]),
        ("widest", [4, 3, 1, 2]),
        ("widest/60", [1, 2, 3, 4]),
        ("widest/100", [3, 1, 2, 4]),
        ("slowdown", [1, 2, 4, 3]),
        ("slowdown/60", [1, 2, 3, 4]),
    ],
)
def test_jobs_in_their_order(policy: str, order: list[int]) -> None:
    assert ranked(policy) == order


@pytest.mark.parametrize("name", ["lottery", "lottery/60", "fifo/", "fifo/0", "fifo/-1", "fifo/1.5", "/60"])
def test_other_names_are_no_policy(name: str) -> None:
    assert name not in SiteOrders()
