"""Orders that queues may name: the scheduler's own, and windows of submission time."""

from __future__ import annotations

import pytest
from msgspec import structs

from oarpy.cluster_state.order_plugins import SiteOrders
from oarpy.scheduler.order.queue_orders import Candidate
from oarpy.scheduler.order.usage_shares import NOTHING_DUE, Priorities, Usage
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


def test_the_order_of_projects_goes_down_the_tree() -> None:
    """Physics used 3/4 of all and its share is 1/2, art the rest; inside physics, flood used less than is its due."""
    tree = {"physics": ("", 1.0), "art": ("", 1.0), "fire": ("physics", 1.0), "flood": ("physics", 3.0)}
    usage = Usage({"ann": 60, "bob": 40}, {}, {"fire": 30, "flood": 30, "physics": 15, "art": 25}, tree)
    assert usage.ratios == {
        "physics": (1.5, 0),
        "art": (0.5, 0),
        "fire": (1.5, 2),
        "flood": (1.5, pytest.approx(2 / 3)),
    }
    asked = [("fire", "bob"), ("flood", "ann"), ("flood", "bob"), ("art", "ann"), ("physics", "ann"), ("snow", "bob")]
    jobs = [
        structs.replace(job(number, "/core=1", HOUR), project=project, user=user)
        for number, (project, user) in enumerate(asked, 1)
    ]
    known = Priorities(usage)
    order = SiteOrders()["projects"]
    ordered = sorted(jobs, key=lambda one: order(Candidate(one, 200, lambda _: 1, known)))
    assert [one.id for one in ordered] == [4, 5, 3, 2, 1, 6], (
        "art, physics itself, flood (bob used less), fire, no project"
    )
    idle = Priorities(Usage(tree=tree | {"poor": ("", 0.0)}))
    found = [idle.usage.ratios["poor"], order(Candidate(jobs[3], 200, lambda _: 1, idle))[:2]]
    assert found == [(NOTHING_DUE, 0), (0, 0)]
