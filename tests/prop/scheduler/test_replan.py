"""A plan made from the last one equals a plan made anew, whatever happened in between."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from oarpy.model.dates import JobDates
from oarpy.model.dependency import Dependency, Outcome
from oarpy.model.request import parse_request
from oarpy.scheduler.order.usage_shares import KarmaRules, Priorities, Usage
from oarpy.scheduler.passes.replanning import Planning
from oarpy.scheduler.plan import Plan, plan
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.snapshot import Alternative, HoldingJob, Queue, QuotaRule, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict
from oarpy.simulation.scenarios.reader import read_scenario
from tests.harness.examples import examples
from tests.prop.scheduler.test_reference import scenarios

PLATFORM = Platform.build(
    Resource(n + 1, properties={"network_address": n // 4, "cpu": n // 2, "core": n}) for n in range(16)
)
REQUESTS = [
    "/core=1",
    "/core=3",
    "/core=6",
    "/nodes=1",
    "/nodes=2",
    "/nodes=3/core=2",
    "/core=BEST",
    "/core=BESTHALF",
    "/nodes=BESTHALF/core=1",
    "/core=2+/nodes=1",
]
EVENTS = [
    "submit",
    "submit",
    "submit",
    "start",
    "start",
    "wait",
    "wait",
    "next",
    "end",
    "hold",
    "delete",
    "usage",
    "suspend",
    "reserve",
    "reserve",
]
QUEUES = (Queue("fast", 5), Queue("default", 3, "smallest"), Queue("shares", 3, "fairshare"), Queue("besteffort", 0))


def anew(planning: Planning, snapshot: Snapshot) -> Plan:
    """Plan in both ways, which must agree in every field."""
    made, full = planning.plan(snapshot), plan(snapshot)
    assert made == full
    return made


class Cluster:
    """A cluster whose state is moved on by events; ``rich`` adds what calls for full passes."""

    def __init__(self, draw: st.DrawFn, rich: bool) -> None:
        self.draw, self.rich, self.count = draw, rich, 0
        policy = draw(st.sampled_from(["fifo", "smallest", "largest", "fairshare", "slowdown"]))
        self.snapshot = Snapshot(
            now=0,
            platform=PLATFORM,
            queues=QUEUES if rich else (Queue("default", 3, policy), Queue("besteffort", 0)),
            security_time=draw(st.integers(0, 2)),
            quotas=(QuotaRule(user="/", resources=9),) if rich and draw(st.booleans()) else (),
        )
        for _ in range(draw(st.integers(1, 8))):
            self.submit()

    def submit(self) -> None:
        """Add a job."""
        draw = self.draw
        self.count += 1
        ways = tuple(
            Alternative(parse_request(draw(st.sampled_from(REQUESTS))).groups, draw(st.integers(1, 40)))
            for _ in range(draw(st.sampled_from([1, 1, 1, 2])))
        )
        job = WaitingJob(
            self.count, draw(st.sampled_from(["ann", "bob"])), submitted=self.snapshot.now, alternatives=ways
        )
        if draw(st.integers(0, 4)) == 0:
            outcomes: list[Outcome] = ["any", "ok", "notok"]
            outcome = draw(st.sampled_from(outcomes))
            job = structs.replace(job, depends_on=(Dependency(draw(st.integers(1, self.count + 1)), outcome),))
        if self.rich:
            kinds = st.sampled_from([(), (), (), ("timesharing=*,*",), ("container=c",), ("inner=c",), ("besteffort",)])
            job = structs.replace(
                job, queue=draw(st.sampled_from(["default", "fast", "shares", "odd"])), types=draw(kinds)
            )
            job = structs.replace(
                job, dates=draw(st.sampled_from([JobDates()] * 3 + [JobDates(not_before=5, end_by=20)]))
            )
            if draw(st.integers(0, 6)) == 0:
                job = structs.replace(job, reservation=self.snapshot.now + draw(st.integers(0, 6)))
        self.snapshot = replace(self.snapshot, waiting=(*self.snapshot.waiting, job))

    def start(self, made: Plan) -> None:
        """Let what starts start; sometimes later than planned, or not all of it."""
        late = self.draw(st.sampled_from([0, 0, 0, 1]))
        waiting, holding = list(self.snapshot.waiting), list(self.snapshot.holding)
        known = {job.id: job for job in waiting}
        for one in made.placements:
            if one.verdict is Verdict.STARTS and one.start is not None and one.end is not None and one.job in known:
                if self.draw(st.integers(0, 7)) == 0:
                    continue
                job = known[one.job]
                waiting.remove(job)
                holding.append(
                    HoldingJob(
                        job.id,
                        job.user,
                        one.start + late,
                        one.end - one.start,
                        tuple(one.resources),
                        queue=job.queue,
                        types=job.types,
                    )
                )
        now = self.snapshot.now + late
        self.snapshot = replace(self.snapshot, now=now, waiting=tuple(waiting), holding=tuple(holding))

    def pass_time(self, seconds: float) -> None:
        """Let time go by; jobs whose time is over end."""
        now = self.snapshot.now + seconds
        self.snapshot = replace(
            self.snapshot, now=now, holding=tuple(job for job in self.snapshot.holding if job.end > now)
        )

    def end_refused(self, made: Plan) -> None:
        """Let the reservations go that a plan refuses, or sometimes leave them."""
        places = made.by_job()
        refused = [job for job in self.snapshot.waiting if job.reservation is not None and places[job.id].start is None]
        if refused and self.draw(st.sampled_from([True] * 7 + [False])):
            left = tuple(job for job in self.snapshot.waiting if job not in refused or job.held)
            self.snapshot = replace(self.snapshot, waiting=left)

    def happen(self, event: str, made: Plan) -> None:
        """Move on by one event, after the end of refused reservations."""
        self.end_refused(made)
        waiting, holding = self.snapshot.waiting, self.snapshot.holding
        place = self.draw(st.integers(0, 9))
        if event == "submit":
            self.submit()
        elif event == "reserve":
            self.submit()
            *before, last = self.snapshot.waiting
            asking = structs.replace(last, reservation=self.snapshot.now + self.draw(st.integers(0, 6)))
            self.snapshot = replace(self.snapshot, waiting=(*before, asking))
        elif event == "start":
            self.start(made)
        elif event == "wait":
            self.pass_time(self.draw(st.sampled_from([1, 1, 2, 5])))
        elif event == "next":
            starts = [one.start for one in made.placements if one.start is not None and one.start > self.snapshot.now]
            if starts:
                self.pass_time(min(starts) - self.snapshot.now)
        elif event == "end" and holding:
            gone = holding[place % len(holding)]
            self.snapshot = replace(
                self.snapshot,
                holding=tuple(job for job in holding if job is not gone),
                outcomes={**self.snapshot.outcomes, gone.id: self.draw(st.sampled_from(["ok", "notok"]))},
            )
        elif event == "suspend" and holding:
            stopped = holding[place % len(holding)]
            given = stopped.given_back or PLATFORM.bits_of(stopped.resources)
            resumes = self.draw(st.sampled_from([None, self.snapshot.now + 1, self.snapshot.now + 3]))
            still = structs.replace(stopped, resources=(), given_back=given, resumes=resumes)
            self.snapshot = replace(self.snapshot, holding=tuple(still if one is stopped else one for one in holding))
        elif event in ("hold", "delete") and waiting:
            job = waiting[place % len(waiting)]
            others = tuple(other for other in waiting if other is not job)
            if event == "hold":
                others = tuple(structs.replace(one, held=not one.held) if one is job else one for one in waiting)
            self.snapshot = replace(self.snapshot, waiting=others)
        elif event == "usage":
            used = Usage({"ann": float(place), "bob": 4.5}, {"ann": 1.0, "bob": 1.0}, {"default": 1.0})
            self.snapshot = replace(self.snapshot, priorities=Priorities(used, KarmaRules(), resources=16))


@given(st.data(), st.booleans())
@settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_a_plan_made_from_the_last_one_equals_one_made_anew(data: st.DataObject, rich: bool) -> None:
    cluster = data.draw(st.composite(Cluster)(rich))
    planning = Planning()
    made = anew(planning, cluster.snapshot)
    for _ in range(data.draw(st.integers(1, 10))):
        cluster.happen(data.draw(st.sampled_from(EVENTS)), made)
        made = anew(planning, cluster.snapshot)


@given(scenarios(), st.data())
@settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_jobs_of_every_kind_that_come_later(scenario: dict[str, Any], data: st.DataObject) -> None:
    whole = read_scenario(json.dumps(scenario))
    planning, first, now = Planning(), 0, whole.now
    # first in, first out: each job of a queue comes behind those before it
    whole = replace(
        whole,
        policy="conservative",
        queues=tuple(replace(queue, order="fifo", priority=0) for queue in whole.queues),
        waiting=tuple(structs.replace(job, submitted=rank) for rank, job in enumerate(whole.waiting)),
    )
    while first < len(whole.waiting):
        first += data.draw(st.integers(1, 3))
        now += data.draw(st.sampled_from([0, 0, 0, 0, 0, 1]))
        anew(planning, replace(whole, now=now, waiting=whole.waiting[:first]))
