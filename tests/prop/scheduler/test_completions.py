"""When jobs would end, asked step by step, equals what plans made anew say, whatever waits and holds."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from oarpy.model.setting_values import PolicyName
from oarpy.scheduler.decide import decide
from oarpy.scheduler.forecast.completions import Completions
from oarpy.scheduler.plan import plan
from oarpy.scheduler.snapshot import Snapshot, WaitingJob
from tests.harness.examples import examples
from tests.prop.scheduler.test_replan import EVENTS, Cluster


def end_by_plan(snapshot: Snapshot, number: int) -> float:
    """Return the end of a waiting job in a plan of everything."""
    end = decide(snapshot).plan.by_job()[number].end
    return inf if end is None else end


def naive_end(snapshot: Snapshot, asked: int | WaitingJob, gone: set[int], joined: list[WaitingJob]) -> float:
    """Return the end of a job by one plan with those that joined, and without those that left."""
    waiting = [job for job in snapshot.waiting if job.id not in gone] + joined
    if isinstance(asked, WaitingJob):
        return end_by_plan(replace(snapshot, waiting=(*waiting, asked)), asked.id)
    jobs = tuple(structs.replace(job, held=False) if job.id == asked else job for job in waiting)
    if asked in {job.id for job in jobs}:
        return end_by_plan(replace(snapshot, waiting=jobs), asked)
    ends = [job.end for job in snapshot.holding if job.id == asked]
    return max(ends[0] if ends else snapshot.now, snapshot.now)


def moved_on(data: st.DataObject, rich: bool) -> Cluster:
    """Return a cluster on which things have happened."""
    cluster: Cluster = data.draw(st.composite(Cluster)(rich))
    for _ in range(data.draw(st.integers(0, 6))):
        cluster.happen(data.draw(st.sampled_from(EVENTS)), plan(cluster.snapshot))
    return cluster


def further_jobs(cluster: Cluster, count: int) -> list[WaitingJob]:
    """Return jobs that are not there, with numbers above all others, on which nobody depends yet."""
    before = cluster.snapshot
    cluster.count += 100
    for _ in range(count):
        cluster.submit()
    found = [job for job in cluster.snapshot.waiting if job.id > 100]
    cluster.snapshot = before
    return [structs.replace(job, depends_on=tuple(one for one in job.depends_on if one.job < 100)) for job in found]


@given(st.data(), st.booleans(), st.sampled_from(["conservative", "conservative", "fcfs"]))
@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_ends_asked_one_after_the_other_are_those_of_whole_plans(
    data: st.DataObject, rich: bool, policy: PolicyName
) -> None:
    cluster = moved_on(data, rich)
    snapshot = replace(cluster.snapshot, policy=policy)
    jobs = further_jobs(cluster, 6)
    known = {job.id for job in snapshot.waiting} | {job.id for job in snapshot.holding}
    numbers = sorted(known | {99})
    completions = Completions(snapshot)
    gone: set[int] = set()
    joined: list[WaitingJob] = []
    for _ in range(data.draw(st.integers(1, 4))):
        asked: list[int | WaitingJob] = [*numbers, *(job for job in jobs if job not in joined)]
        found = completions.ends(asked, gone, joined)
        assert found == [naive_end(snapshot, one, gone, joined) for one in asked]
        step = data.draw(st.sampled_from(["leave", "join", "join", "back"]))
        if step == "leave":
            gone.add(data.draw(st.sampled_from(numbers)))
        elif step == "join":
            joined = [*joined, data.draw(st.sampled_from([job for job in jobs if job not in joined]))]
        else:
            gone, joined = set(), joined[:-1]


@given(st.data(), st.sampled_from(["easy", "first_fit"]))
@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_where_no_start_is_foreseen_rounds_are_played_forward(data: st.DataObject, policy: PolicyName) -> None:
    """A job that starts now ends with its walltime, and one that the first round leaves ends after the next end."""
    cluster = moved_on(data, rich=False)
    snapshot = replace(cluster.snapshot, policy=policy)
    (job,) = further_jobs(cluster, 1)
    waiting = [one.id for one in snapshot.waiting if not one.held]
    found = dict(zip([*waiting, job.id], Completions(snapshot).ends([*waiting, job]), strict=True))
    placed = decide(replace(snapshot, waiting=(*snapshot.waiting, job))).plan.by_job()
    alone = decide(snapshot).plan.by_job()
    for number, end in found.items():
        now = (placed if number == job.id else alone)[number]
        starts = now.start == snapshot.now
        assert end == now.end if starts else end > snapshot.now
