"""Extensions of running jobs have their turns among the jobs that wait; others take revocable hosts back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from oarpy.model.setting_values import PolicyName
from oarpy.scheduler.decide import Decisions, decide
from oarpy.scheduler.memory import Memory
from oarpy.scheduler.plan import plan
from oarpy.scheduler.snapshot import HoldingJob, JobPart, PartId, QuotaRule, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict
from tests.harness.scheduling_cases import cluster, job, running

FOUR = cluster("n1:1 n2:1 n3:1 n4:1")
NOW, END = 10, 110
"""Job 1, which runs on the first host, ends at the latter."""


def extension(number: int, hosts: int, asked: float = 5, *, revocable: bool = False, **rest: Any) -> WaitingJob:
    """Return an extension of job 1."""
    return structs.replace(
        job(PartId.of_extension(number), f"/network_address={hosts}", END - NOW, submitted=asked, **rest),
        ranked=asked,
        part=JobPart(1, END, revocable=revocable),
    )


def held(resource: int, *, notice: float = 30, since: int = 2) -> HoldingJob:
    """Return a host that job 1 holds until somebody needs it."""
    one = running(PartId.of_host(resource), str(resource), since, END - since)
    return structs.replace(one, checkpoint=notice, part=JobPart(1, END, revocable=True))


def decided(*jobs: WaitingJob | HoldingJob, now: float = NOW, **rest: Any) -> Decisions:
    """Decide with job 1 on the first of four hosts of one core."""
    asking = [one for one in jobs if isinstance(one, WaitingJob)]
    waiting, parts = (tuple(one for one in asking if (one.part is not None) is apart) for apart in (False, True))
    holding = (running(1, "1", 0, END), *(one for one in jobs if isinstance(one, HoldingJob)))
    return decide(Snapshot(now, FOUR, waiting=waiting, parts=parts, holding=holding, **rest), Memory(lambda: 0))


def test_it_is_granted_at_once_where_hosts_are_free_until_its_job_ends() -> None:
    made = decided(extension(1, 2), running(2, "2", 0, 50))
    (grown,) = made.grown
    assert (grown.job, FOUR.ids_of(grown.bits), grown.walltime) == (-2, [3, 4], END - NOW)
    assert made.starts == ()


@pytest.mark.parametrize("policy", ["conservative", "easy", "fcfs", "first_fit"])
def test_it_waits_for_the_first_instant_from_which_hosts_are_free_to_the_end(policy: PolicyName) -> None:
    """It need not be free for as long as the job still lasts now, but from then on."""
    late = running(4, "4", 0, 20)
    made = decided(extension(1, 2), running(2, "2-3", 0, 70), late, policy=policy)
    place = made.plan.by_job()[-2]
    assert (place.start, place.end, place.resources) == (70, END, [2, 3])
    assert made.grown == ()
    assert made.wake_at == 70


def test_it_has_no_place_where_hosts_are_not_free_before_its_job_ends() -> None:
    made = decided(extension(1, 2), running(2, "2-4", 0, 300))
    place = made.plan.by_job()[-2]
    assert (place.start, place.verdict) == (None, Verdict.RESOURCES_BUSY)


def test_who_asked_before_is_served_before_whatever_the_order_says() -> None:
    before, behind = job(2, "/network_address=2", 20, submitted=3), job(3, "/network_address=2", 5, submitted=6)
    made = decided(before, behind, extension(1, 2))
    starts = {one.job: one.start for one in made.plan.placements}
    assert starts == {2: 10, -2: 30, 3: 110}


def test_quotas_count_its_hosts_and_no_further_job() -> None:
    for quota, expected in ((QuotaRule(user="/", jobs=1), 1), (QuotaRule(user="/", resources=2), 0)):
        made = decided(extension(1, 2), quotas=(quota,))
        assert len(made.grown) == expected
    assert made.plan.by_job()[-2].verdict is Verdict.QUOTA


def test_a_batch_job_takes_back_the_hosts_that_it_needs_when_their_notice_is_over() -> None:
    made = decided(held(2), held(3), held(4), job(5, "/network_address=2", 10))
    assert made.starts == ()
    assert made.victims == ()
    assert [at for _, at in made.reclaimed] == [NOW + 30] * 2
    place = made.plan.by_job()[5]
    assert (place.start, str(place.reason).partition(" to ")[0]) == (NOW + 30, "revocable hosts are taken back")
    assert "make room: 1;" in str(place.reason)


def test_nobody_takes_hosts_where_others_are_free() -> None:
    made = decided(held(2), job(5, "/network_address=2", 10))
    assert [one.job for one in made.starts] == [5]
    assert made.reclaimed == ()


def test_a_revocable_one_takes_what_nobody_wants_and_nothing_from_another_one() -> None:
    made = decided(held(2), extension(1, 1, revocable=True), job(5, "/network_address=1", 10, submitted=7))
    assert [one.job for one in made.starts] == [5]
    assert [FOUR.ids_of(one.bits) for one in made.grown] == [[4]]
    none_left = decided(held(2), held(3), held(4), extension(1, 1, revocable=True))
    assert (none_left.grown, none_left.reclaimed) == ((), ())


def test_a_firm_one_takes_hosts_back_too() -> None:
    made = decided(held(2), held(3), held(4), extension(1, 1))
    assert len(made.reclaimed) == 1
    assert made.plan.by_job()[-2].start == NOW + 30


def test_plans_without_extensions_are_the_same_as_with_nothing_else_than_they() -> None:
    jobs = (job(2, "/network_address=3", 20), job(3, "/network_address=2", 5))
    snapshot = Snapshot(NOW, FOUR, waiting=jobs, holding=(running(1, "1", 0, END),))
    assert decided(*jobs).plan == plan(snapshot)


def test_numbers_of_parts_are_none_that_a_job_may_have() -> None:
    """Decisions are kept by number: a part with that of a job would take its place."""
    assert (PartId.of_extension(1), PartId.of_host(1)) == (-2, -3)
    for number in (0, 7):
        with pytest.raises(ValueError, match="no number of a part"):
            PartId(number)


def test_parts_are_planned_with_the_jobs_that_wait_and_told_after_them() -> None:
    """Whatever is added to the jobs that wait, a part stays what it is."""
    made = decided(job(2, "/network_address=1", 20), extension(1, 1))
    assert [(one.job, isinstance(one.job, PartId)) for one in made.plan.placements] == [(2, False), (-2, True)]
    assert ([one.job for one in made.starts], [one.job for one in made.grown]) == ([2], [-2])
