"""How much of a long queue is planned in a pass: all of it once in a while, and in between what can start."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from oarpy.scheduler.memory import PERIOD, SHORT, Memory
from oarpy.scheduler.order.queue_orders import ORDERS
from oarpy.scheduler.plan import Plan, plan
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import HoldingJob, Snapshot
from oarpy.scheduler.verdicts import Verdict
from tests.harness.scheduling_cases import cluster, job

PLATFORM = cluster("n1:2 n2:2")
MATCHERS = Matchers(PLATFORM)


class Clock:
    """Goes when told."""

    def __init__(self) -> None:
        self.moment = 100.0

    def __call__(self) -> float:
        return self.moment


def queue(length: int) -> Snapshot:
    """Four jobs hold all cores until 1000, ``length`` others wait."""
    jobs = [job(number, "/core=1", 100) for number in range(1, length + 1)]
    alternatives = jobs[0].alternatives
    holding = tuple(HoldingJob(9000 + core, "eve", 0, 1000, (core,)) for core in range(1, 5))
    waiting = tuple(structs.replace(one, alternatives=alternatives) for one in jobs)
    return Snapshot(now=0, platform=PLATFORM, waiting=waiting, holding=holding)


def after_an_early_end(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, now=1, holding=snapshot.holding[1:])


def planned(passes: Memory, snapshot: Snapshot, *, whole: bool = False) -> Plan:
    return passes.plan(snapshot, ORDERS, MATCHERS, whole=whole)


def started(made: Plan) -> list[int]:
    return [one.job for one in made.placements if one.verdict is Verdict.STARTS]


def test_after_an_early_end_only_what_starts_is_looked_for() -> None:
    clock = Clock()
    passes, first = Memory(clock), queue(SHORT + 1)
    assert planned(passes, first).unseen == frozenset()
    clock.moment += PERIOD / 4
    made = planned(passes, after_an_early_end(first))
    assert started(made) == started(plan(after_an_early_end(first))) == [1]
    assert made.unseen == frozenset(range(2, SHORT + 2))
    assert passes.owed(made) == PERIOD * 3 / 4
    assert passes.next_start(made, 1) == 1000


def test_the_rest_is_planned_when_it_is_due() -> None:
    clock = Clock()
    passes, first = Memory(clock), queue(SHORT + 1)
    planned(passes, first)
    assert planned(passes, after_an_early_end(first)).unseen
    clock.moment += PERIOD
    made = planned(passes, after_an_early_end(first))
    assert made == plan(after_an_early_end(first))
    assert passes.owed(made) is None


def test_a_pass_that_reads_and_writes_for_long_is_followed_by_others_for_four_times_as_long() -> None:
    clock = Clock()
    passes, first = Memory(clock), queue(SHORT + 1)
    planned(passes, first)
    clock.moment += 2
    passes.lasted(2.0)
    clock.moment += 7.5
    made = planned(passes, after_an_early_end(first))
    assert made.unseen
    passes.lasted(3.0)  # that pass planned a part of the queue only
    assert passes.owed(made) == 0.5
    clock.moment += 0.5
    assert not planned(passes, after_an_early_end(first)).unseen


def test_a_pass_that_was_given_up_puts_nothing_off() -> None:
    passes, first = Memory(Clock()), queue(SHORT + 1)
    planned(passes, first)
    passes.forget()
    passes.lasted(3.0)
    assert not planned(passes, after_an_early_end(first)).unseen


def test_a_short_queue_is_always_planned_whole() -> None:
    passes, first = Memory(Clock()), queue(SHORT)
    planned(passes, first)
    assert planned(passes, after_an_early_end(first)) == plan(after_an_early_end(first))


def test_the_whole_queue_is_planned_when_that_is_asked_for_or_after_an_error() -> None:
    passes, first = Memory(Clock()), queue(SHORT + 1)
    planned(passes, first)
    assert not planned(passes, after_an_early_end(first), whole=True).unseen
    assert planned(passes, replace(first, holding=())).unseen
    passes.forget()
    assert not planned(passes, replace(first, holding=())).unseen


def test_one_more_job_has_its_prediction_at_once() -> None:
    passes, first = Memory(Clock()), queue(SHORT + 1)
    planned(passes, first)
    more = replace(first, waiting=(*first.waiting, job(900, "/core=4", 10)))
    assert planned(passes, more) == plan(more)


def idle(snapshot: Snapshot) -> Snapshot:
    return replace(snapshot, holding=())


def awaiting_jobs(*, compression: bool = False) -> tuple[Memory, Clock]:
    """Memory that have seen an empty queue."""
    clock = Clock()
    passes = Memory(clock, compression=compression)
    planned(passes, replace(queue(1), waiting=()))
    clock.moment += PERIOD
    return passes, clock


def test_of_many_jobs_that_come_together_some_start_before_the_others_have_predictions() -> None:
    (passes, clock), many = awaiting_jobs(), idle(queue(SHORT + 1))
    made = planned(passes, many)
    assert started(made) == started(plan(many)) == [1, 2, 3, 4]
    assert made.unseen == frozenset(range(5, SHORT + 2))
    assert passes.owed(made) == PERIOD
    clock.moment += PERIOD
    assert planned(passes, many) == plan(many)


def test_many_jobs_do_not_put_off_predictions_that_are_owed() -> None:
    (passes, clock), few, many = awaiting_jobs(), queue(SHORT + 1), idle(queue(2 * SHORT + 2))
    assert not planned(passes, few).unseen
    clock.moment += PERIOD / 4
    made = planned(passes, many)
    assert passes.owed(made) == PERIOD * 3 / 4


def test_new_jobs_are_planned_whole_when_they_are_few_or_none_starts_or_that_is_asked_for() -> None:
    many = queue(SHORT + 1)
    assert not planned(awaiting_jobs()[0], idle(queue(SHORT))).unseen
    assert planned(awaiting_jobs()[0], many) == plan(many)
    assert not planned(awaiting_jobs()[0], idle(many), whole=True).unseen
    assert not planned(awaiting_jobs(compression=True)[0], idle(many)).unseen


def test_the_first_pass_is_over_the_whole_queue() -> None:
    many = idle(queue(SHORT + 1))
    assert planned(Memory(Clock()), many) == plan(many)


def test_with_compression_all_is_planned_and_nobody_is_told_a_later_date() -> None:
    passes, first = Memory(Clock(), compression=True), queue(SHORT + 1)
    before = planned(passes, first).by_job()
    made = planned(passes, after_an_early_end(first))
    assert made.unseen == frozenset()
    assert all((one.start or 0) <= (before[one.job].start or 0) for one in made.placements)
