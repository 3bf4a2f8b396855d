"""What is said to start a job does: the relaxed job is submitted in its place, and ``plan`` asked."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from oarpy.scheduler.explain.counterfactuals import (
    Counterfactuals,
    counterfactuals,
    with_amount,
    with_count,
    with_group,
    with_walltime,
)
from oarpy.scheduler.gantt.gantt import Claim
from oarpy.scheduler.order.queue_orders import ORDERS, Candidate, Order
from oarpy.scheduler.plan import Placement, plan
from oarpy.scheduler.rules.energy import Waking
from oarpy.scheduler.snapshot import Snapshot, WaitingJob
from oarpy.simulation.scenarios.reader import admitted, read_scenario
from tests.harness.examples import examples
from tests.prop.scheduler.test_reference import scenarios


class Resubmission:
    """Plans the snapshot with another request of one job, which keeps the rank that its own request gave it."""

    def __init__(self, snapshot: Snapshot, job: WaitingJob, waking: Waking) -> None:
        self.snapshot, self.job, self.waking = snapshot, job, waking

    def start(self, relaxed: WaitingJob) -> float | None:
        waiting = tuple(relaxed if one.id == relaxed.id else one for one in self.snapshot.waiting)
        # the rank is that of the original request, which must be known for that
        filters, errors = admitted(self.snapshot.platform, (*waiting, self.job))
        changed = replace(self.snapshot, waiting=waiting, filters=filters, filter_errors=errors)
        return when_awake(plan(changed, self._orders()).by_job()[relaxed.id], snapshot=changed, waking=self.waking)

    def _orders(self) -> Mapping[str, Order]:
        def pinned(order: Order) -> Order:
            def rank(candidate: Candidate) -> tuple[float, ...]:
                same = candidate.job.id == self.job.id
                return order(candidate._replace(job=self.job) if same else candidate)

            return rank

        return {name: pinned(order) for name, order in ORDERS.items()}


def when_awake(placement: Placement, *, snapshot: Snapshot, waking: Waking) -> float | None:
    """Return when a job starts that was placed on nodes of which some may have to wake."""
    if placement.start == snapshot.now and placement.bits & waking.asleep:
        return placement.start + waking.seconds
    return placement.start


def with_known_filters(snapshot: Snapshot) -> Snapshot:
    """Look up what the relaxed jobs ask for, as the reader of a real pass does."""
    alone = [structs.replace(job, properties="") for job in snapshot.waiting]
    bare = [
        structs.replace(
            job,
            alternatives=tuple(
                replace(way, groups=tuple(replace(group, filter="") for group in way.groups))
                for way in job.alternatives
            ),
        )
        for job in snapshot.waiting
    ]
    filters, _ = admitted(snapshot.platform, (*snapshot.waiting, *alone, *bare))
    return replace(snapshot, filters=filters)


@given(scenarios(), st.data())
@settings(
    max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_relaxed_jobs_start_as_said(scenario: dict[str, Any], data: st.DataObject) -> None:
    snapshot = with_known_filters(read_scenario(json.dumps(scenario)))
    job = data.draw(st.sampled_from(snapshot.waiting))
    if data.draw(st.integers(0, 9)) == 0:
        job = structs.replace(job, held=True)
        snapshot = replace(snapshot, waiting=tuple(job if one.id == job.id else one for one in snapshot.waiting))
    asleep = data.draw(st.one_of(st.just(0), st.integers(0, snapshot.platform.everything)))
    waking = Waking(asleep, data.draw(st.sampled_from([7, 40])))
    answer = counterfactuals(snapshot, job.id, waking=waking)
    placements = plan(snapshot).by_job()
    check_the_prediction(answer, placements[job.id], when_awake(placements[job.id], snapshot=snapshot, waking=waking))
    foreseen = {
        number: Claim(one.start, one.end - one.start, one.bits)
        for number, one in placements.items()
        if one.start is not None and one.end is not None
    }
    assert counterfactuals(snapshot, job.id, foreseen=foreseen, waking=waking) == answer
    again = Resubmission(snapshot, job, waking)
    if job.reservation is not None:
        assert (answer.fewer, answer.shorter, answer.unfiltered) == (None, None, ())
    elif job.held:
        assert again.start(structs.replace(job, held=False)) == answer.resumed
    elif answer.start != snapshot.now:
        single = structs.replace(job, alternatives=(job.alternatives[answer.alternative or 0],))
        check_the_count(answer, again, single)
        check_the_walltimes(answer, again, single)
        check_the_filters(answer, again, single)
        check_the_amounts(answer, again, single)


def check_the_prediction(answer: Counterfactuals, placement: Placement, start: float | None) -> None:
    assert (answer.verdict, answer.reason) == (placement.verdict, placement.reason)
    assert (answer.start, answer.alternative) == (start, placement.alternative)
    assert answer.resources == len(placement.resources)


def check_the_count(answer: Counterfactuals, again: Resubmission, job: WaitingJob) -> None:
    levels = job.alternatives[0].groups[0].levels
    depth = next((place for place, level in enumerate(levels) if level.count > 1), None)
    now = again.snapshot.now
    if depth is None:
        assert answer.fewer is None
    elif answer.fewer is None:
        assert again.start(with_count(job, 0, depth, 1)) != now
    else:
        assert answer.fewer.level == levels[depth].name
        assert again.start(with_count(job, 0, depth, answer.fewer.count)) == now
        assert again.start(with_count(job, 0, depth, answer.fewer.count + 1)) != now


def check_the_walltimes(answer: Counterfactuals, again: Resubmission, job: WaitingJob) -> None:
    def start(walltime: float) -> float:
        found = again.start(with_walltime(job, walltime))
        return math.inf if found is None else found

    now, predicted = again.snapshot.now, math.inf if answer.start is None else answer.start
    asked = job.alternatives[0].walltime
    if answer.shorter_now is None:
        assert asked < 2 or start(1) != now
    else:
        assert answer.shorter_now.walltime < asked
        assert start(answer.shorter_now.walltime) == now
        assert start(answer.shorter_now.walltime + 1) != now
    if answer.shorter is None:
        assert asked < 2 or start(1) >= predicted
    else:
        assert start(answer.shorter.walltime) == answer.shorter.start < predicted
        assert start(answer.shorter.walltime + 1) >= predicted


def check_the_amounts(answer: Counterfactuals, again: Resubmission, job: WaitingJob) -> None:
    said = {one.name: one.amount for one in answer.leaner}
    now = again.snapshot.now
    for rank, asked in enumerate(job.alternatives[0].consumes):
        if asked.name in said:
            assert again.start(with_amount(job, rank, said[asked.name])) == now
            assert again.start(with_amount(job, rank, said[asked.name] + 1)) != now
        else:
            assert asked.amount < 2 or again.start(with_amount(job, rank, 1)) != now


def check_the_filters(answer: Counterfactuals, again: Resubmission, job: WaitingJob) -> None:
    predicted = math.inf if answer.start is None else answer.start
    said = {one.group: one.start for one in answer.unfiltered}
    relaxed: dict[int | None, WaitingJob] = {None: structs.replace(job, properties="")} if job.properties else {}
    for rank, group in enumerate(job.alternatives[0].groups):
        if group.filter:
            relaxed[rank] = with_group(job, rank, replace(group, filter=""))
    assert said.keys() <= relaxed.keys()
    for place, other in relaxed.items():
        found = again.start(other)
        assert found == said[place] if place in said else found is None or found >= predicted
