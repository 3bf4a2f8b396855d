"""Each field of a waiting job counts: a pass that goes on equals a full one, whatever value a job has or gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from msgspec import structs

from oarpy.model.dates import NO_DATES, JobDates
from oarpy.model.dependency import Dependency, Shift
from oarpy.model.request import parse_request
from oarpy.scheduler.order.queue_orders import ORDERS
from oarpy.scheduler.order.usage_shares import FactorRules, KarmaRules, Priorities, Usage
from oarpy.scheduler.passes.replanning import Planning
from oarpy.scheduler.plan import plan
from oarpy.scheduler.snapshot import Alternative, Queue, Snapshot, WaitingJob, conditions
from tests.harness.scheduling_cases import cluster, job, running

VALUES: Mapping[str, tuple[Any, ...]] = {
    "user": ("ann", "bob"),
    "project": ("default", "sea"),
    "queue": ("default", "low"),
    "name": ("", "a"),
    "types": ((), ("nice=2", "qos=1")),
    "submitted": (9, 0),
    "alternatives": (
        (Alternative(parse_request("/core=2").groups, 50),),
        (Alternative(parse_request("/core=1").groups, 10),),
    ),
    "properties": ("", "mem > 4"),
    "depends_on": ((), (Dependency(2),), (Dependency(1, "any", Shift("start", 15)),)),
    "reservation": (None, 60),
    "held": (False, True),
    "dates": (NO_DATES, JobDates(not_before=15)),
    "fault": ("", "it cannot be read"),
    "stopped": (False, True),
    "unasked": (False, True),
    "ranked": (None, 1),
    "part": (None, None),
    "nice": (0, 1, 2),
    "array": (0, 3),
}
"""Two values of each field, or more. A ``part`` is of a running job, and has its tests where jobs grow."""

PLATFORM = cluster("n1:4 n2:4")


def waiting_before(order: str) -> Snapshot:
    """Return a cluster whose jobs wait in a queue of ``order``, for one that runs; its users used something before."""
    used = Usage({"ann": 9.0, "bob": 1.0}, {"ann": 9.0, "bob": 1.0}, {"default": 9.0})
    factors = FactorRules(age=1, size=1, karma=1, qos=1, nice=1)
    jobs = (
        job(2, "/core=6", 20, submitted=1),
        job(3, "/core=3", 30, user="bob", submitted=2),
        job(4, "/core=5", 40, submitted=3),
    )
    return Snapshot(
        now=10,
        platform=PLATFORM,
        queues=(Queue("default", 3, order), Queue("low", 1, order)),
        holding=(running(1, "1-6", 0, 25),),
        waiting=jobs,
        filters={"mem > 4": 0b1111},
        priorities=Priorities(used, KarmaRules(), factors, 8),
    )


def plans_agree(before: Snapshot, after: Snapshot) -> bool:
    """Tell whether a plan of ``after`` that goes on from one of ``before`` is that made anew."""
    planning = Planning()
    assert planning.plan(before) == plan(before)
    return planning.plan(after) == plan(after)


def fresh(**values: Any) -> WaitingJob:
    """Return the job that comes last."""
    return structs.replace(job(9, "/core=2", 50, submitted=9), **values)


def test_every_field_has_values() -> None:
    """A field that is added, or goes, is added to this table or goes from it."""
    assert {"id", *VALUES} == set(WaitingJob.__struct_fields__)
    assert conditions([fresh(properties=VALUES["properties"][1])]) == {"mem > 4"}


@pytest.mark.parametrize("order", [*ORDERS, "fifo/5", "smallest/5"])
@pytest.mark.parametrize("name", VALUES)
def test_a_job_that_comes_with_either_value(name: str, order: str) -> None:
    before = waiting_before(order)
    for value in VALUES[name]:
        assert plans_agree(before, replace(before, waiting=(*before.waiting, fresh(**{name: value})))), (name, value)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", VALUES)
def test_a_job_that_waits_and_gets_the_other_value(name: str, order: str) -> None:
    before = waiting_before(order)
    for number, old in enumerate(before.waiting):
        ways = [structs.replace(old, **{name: value}) for value in VALUES[name]]
        lines = [(*before.waiting[:number], one, *before.waiting[number + 1 :]) for one in ways]
        for there, changed in permutations([replace(before, waiting=jobs) for jobs in lines], 2):
            assert plans_agree(there, changed), name


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", VALUES)
def test_the_clock_moves_on_for_a_job_with_either_value(name: str, order: str) -> None:
    before = waiting_before(order)
    for value in VALUES[name]:
        there = replace(before, waiting=(*before.waiting, fresh(**{name: value})))
        for now in (12, 15, 16):
            assert plans_agree(there, replace(there, now=now)), (name, value, now)


def test_a_job_that_comes_where_an_application_stands_before_the_last_one() -> None:
    """It is the largest, so it would be last, but it came before the application asked."""
    application = job(5, "/core=4", 10, submitted=1, ranked=4)
    others = job(6, "/core=4", 30, submitted=0), job(7, "/core=1", 30, submitted=6)
    before = replace(waiting_before("smallest"), waiting=(application, *others))
    assert plans_agree(before, replace(before, waiting=(*before.waiting, job(9, "/core=7", 50, submitted=2))))
