"""Every job of a decided snapshot has a verdict with a reason."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from oarpy.model.dates import JobDates
from oarpy.model.dependency import Dependency
from oarpy.model.reasons import reason_json, reason_of
from oarpy.model.setting_values import PolicyName
from oarpy.scheduler.decide import decide
from oarpy.scheduler.memory import Memory
from oarpy.scheduler.resources.platform import Platform
from oarpy.scheduler.snapshot import HoldingJob, Outage, PassShare, QuotaRule, Reservation, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict
from tests.harness.examples import examples
from tests.harness.scheduling_cases import cluster, job

REQUESTS = ("/core=1", "/core=3", "/nodes=1", "/nodes=3", "/nodes=9", "/core=BEST", "/core=1+/nodes=1", "/switch=1")
FILTERS = ("", "", "mem > 4", "mem > 9", "nosuch = 1")
POLICIES: tuple[PolicyName, ...] = ("conservative", "easy", "fcfs", "first_fit")
_STATES = st.sampled_from(["Alive", "Alive", "Alive", "Absent", "Suspected", "Dead"])


@st.composite
def jobs(draw: st.DrawFn, number: int) -> WaitingJob:
    """Return a job of any kind, such as rows changed by hand may describe too."""
    ways = draw(st.lists(st.sampled_from(REQUESTS), max_size=2))
    types = draw(
        st.sampled_from(["", "", "besteffort", "inner=5", "container=5", "deploy", "timesharing=*,*", "exclusive"])
    )
    bounds = draw(st.sampled_from([(-50, 90), (5, 90), (-50, -1), (0, 9)]))
    asked = job(
        number,
        *(word for way in ways for word in (way, draw(st.sampled_from([5, 20, 60])))),
        types=types,
        after=draw(st.sampled_from([(), (), (1,), (number,), (100,), (Dependency(9, "ok"),)])),
        properties=draw(st.sampled_from(FILTERS)),
        queue=draw(st.sampled_from(["default", "default", "besteffort", "closed", "nosuch"])),
        held=draw(st.booleans()) and draw(st.booleans()),
        fault=draw(st.sampled_from(["", "", "", "its dates cannot be read"])),
    )
    if draw(st.booleans()):
        asked = structs.replace(asked, dates=JobDates(bounds[0], bounds[1], bounds[1] + 20))
    if draw(st.integers(0, 3)) == 0:
        asked = structs.replace(asked, reservation=float(draw(st.sampled_from([-30, 0, 10, 40]))))
    return asked


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Return some jobs of any kind on four nodes of two cores in any state."""
    platform = cluster("n1:2 n2:2 n3:2 n4:2", {number: draw(_STATES) for number in range(1, 9)})
    waiting = tuple(draw(jobs(number)) for number in range(1, draw(st.integers(1, 8)) + 1))
    holding = [
        HoldingJob(100 + node, "eve", -10, draw(st.integers(1, 60)), (2 * node + 1,), types=types, checkpoint=length)
        for node in range(draw(st.integers(0, 3)))
        for types, length in [draw(st.sampled_from([((), 0.0), (("besteffort",), 0.0), (("besteffort",), 15.0)]))]
    ]
    reservations: tuple[Reservation, ...] = ()
    if draw(st.booleans()):
        reservations = (Reservation(job(50, "/core=2", 20, reservation=15.0), 15, 20, (7, 8)),)
        holding.append(HoldingJob(50, "ann", 15, 20, (7, 8)))
    limited = QuotaRule(user="/", resources=draw(st.integers(0, 4)))
    return Snapshot(
        now=0,
        platform=platform,
        waiting=waiting,
        holding=tuple(holding),
        reservations=reservations,
        quotas=(limited,) if draw(st.booleans()) else (),
        policy=draw(st.sampled_from(POLICIES)),
        ration=PassShare(draw(st.sampled_from([0, 0, 2])), draw(st.sampled_from([0, 0, 1]))),
        filters=_admitted(platform),
        filter_errors={"nosuch = 1": "unknown property 'nosuch'"},
        outages=draw(st.sampled_from([(), (Outage(30, 3),), (Outage(-5, 15, 40, "maintenance of n1"),)])),
        asleep=platform.bits_of([3, 4]) & platform.alive if draw(st.booleans()) else 0,
    )


def _admitted(platform: Platform) -> dict[str, int]:
    return {"mem > 4": platform.bits_of([1, 2, 3]), "mem > 9": 0}


@given(snapshots())
@settings(max_examples=examples(300), deadline=None)
def test_every_job_has_a_verdict_and_a_reason(snapshot: Snapshot) -> None:
    for memory in (None, Memory(lambda: 0.0)):
        decided = decide(snapshot, memory)
        told = {one.job: one for one in decided.plan.placements}
        assert set(told) == {one.id for one in snapshot.waiting}
        for one in told.values():
            assert isinstance(one.verdict, Verdict)
            assert str(one.reason).strip()
            assert "could not be planned" not in str(one.reason)
        assert all(str(refusal.reason).strip() for refusal in decided.refused)
        assert all(str(reason).strip() for reason in decided.awaiting.values())


@given(snapshots())
@settings(max_examples=examples(200), deadline=None)
def test_a_reason_that_was_stored_says_the_same(snapshot: Snapshot) -> None:
    decided = decide(snapshot)
    placed, refused = [one.reason for one in decided.plan.placements], [one.reason for one in decided.refused]
    for reason in (*placed, *refused, *decided.awaiting.values()):
        again = reason_of("", reason_json(reason))
        assert (again, str(again)) == (reason, str(reason))


@given(snapshots())
@settings(max_examples=examples(200), deadline=None)
def test_who_asks_for_no_reasons_gets_the_same_places(snapshot: Snapshot) -> None:
    explained, plain = decide(snapshot).plan, decide(replace(snapshot, explained=False)).plan
    for one, other in zip(explained.placements, plain.placements, strict=True):
        assert (one.job, one.start, one.end, one.bits) == (other.job, other.start, other.end, other.bits)
        assert (one.verdict is Verdict.STARTS) == (other.verdict is Verdict.STARTS)
