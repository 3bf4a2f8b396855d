"""Bags on named resources in virtual time: whatever comes, nobody's promise breaks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import pytest
from msgspec import structs

from oarpy.model.request import parse_request
from oarpy.scheduler.bags.bag_pass import Bag, BagAnswers, BagStep
from oarpy.scheduler.decide import decide
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.rules.reservations import promised
from oarpy.scheduler.snapshot import Alternative, HoldingJob, Queue, Reservation, Snapshot, WaitingJob
from oarpy.scheduler.windows.reservation_windows import ReservationWindow, Windows
from tests.cases.notation import snapshot_of
from tests.harness.examples import examples

SEEDS = range(examples(60))
QUEUES = (Queue("high", 9), Queue("default", 3))


def platform(cores: int) -> Platform:
    rows = [Resource(number, properties={"core": number, "network_address": "n1"}) for number in range(1, cores + 1)]
    return Platform.build(rows, hierarchy=["core"])


@dataclass
class World:
    """A cluster in virtual time: who waits, who is accepted, who runs until when really."""

    rng: Random
    hasty: bool = False
    cores: int = 4
    now: int = 0
    waiting: list[WaitingJob] = field(default_factory=list)
    accepted: dict[int, Reservation] = field(default_factory=dict)
    running: dict[int, HoldingJob] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    bags: dict[int, Bag] = field(default_factory=dict)
    windows: dict[int, ReservationWindow] = field(default_factory=dict)
    last: int = 0

    def __post_init__(self) -> None:
        self.platform = platform(self.cores)

    def job(self, cores: int, walltime: int, queue: str = "default", *, bag: bool = False) -> WaitingJob:
        self.last += 1
        ways = (Alternative(parse_request(f"/core={cores}").groups, walltime),)
        types = ("bag",) if bag else ()
        return WaitingJob(self.last, "ann", alternatives=ways, queue=queue, types=types, submitted=self.now)

    def submit(self, *jobs: WaitingJob) -> None:
        self.waiting += jobs

    def submit_bag(self, tasks: int, cores: int, walltime: int, deadline: float | None = None) -> int:
        jobs = [self.job(cores, walltime, bag=True) for _ in range(tasks)]
        self.submit(*jobs)
        self.bags[jobs[0].id] = Bag(jobs[0].id, frozenset(job.id for job in jobs), deadline)
        return jobs[0].id

    def snapshot(self) -> Snapshot:
        held = [held for one in self.accepted.values() if (held := promised(one, self.now)) is not None]
        return Snapshot(
            self.now,
            self.platform,
            queues=QUEUES,
            holding=(*self.running.values(), *held),
            waiting=tuple(self.waiting),
            reservations=tuple(self.accepted.values()),
            promising=BagStep(list(self.bags.values()), thorough=not self.hasty or self.rng.random() < 0.3),
            windows=Windows(self.windows, notice=0) if self.windows else None,
        )

    def schedule(self) -> BagAnswers:
        """Run a pass, and carry out what it decides."""
        decided = decide(self.snapshot())
        answers = decided.promised
        assert isinstance(answers, BagAnswers)
        for moved in (*(one.reservation for one in decided.windows.moves), *answers.moves):
            assert moved.start >= self.now
            self.accepted[moved.job.id] = moved
        known = {job.id: job for job in self.waiting} | {one.job.id: one.job for one in self.accepted.values()}
        gone = {refusal.job for refusal in decided.refused}
        for start in decided.starts:
            job, ids = known[start.job], tuple(self.platform.ids_of(start.bits))
            self.running[job.id] = HoldingJob(job.id, job.user, self.now, start.walltime, ids, types=job.types)
            self.ends[job.id] = self.now + self.rng.randint(1, int(start.walltime))
            gone.add(job.id)
            self.accepted.pop(job.id, None)
        for one in decided.accepted:
            assert one.start is not None
            assert one.end is not None
            dated = structs.replace(known[one.job], reservation=one.start)
            self.accepted[one.job] = Reservation(dated, one.start, one.end - one.start, tuple(one.resources))
            gone.add(one.job)
        self.waiting = [job for job in self.waiting if job.id not in gone]
        for bag, promise in answers.promises.items():
            self.bags[bag] = replace(self.bags[bag], promise=promise)
        self._check()
        return answers

    def _check(self) -> None:
        for job, window in self.windows.items():
            one = self.accepted.get(job)
            assert one is None or (window.ready or 0) <= one.start <= one.end <= window.deadline
        holds = [(job.start, job.end, set(job.resources)) for job in self.running.values()]
        holds += [(one.start, one.end, set(one.resources)) for one in self.accepted.values()]
        for place, (start, end, resources) in enumerate(holds):
            for other_start, other_end, others in holds[place + 1 :]:
                assert not (start < other_end and other_start < end and resources & others)

    def end(self, job: int) -> None:
        self.running.pop(job, None)
        self.accepted.pop(job, None)
        self.waiting = [one for one in self.waiting if one.id != job]
        for number, bag in self.bags.items():
            if job in bag.tasks:
                self.bags[number] = replace(bag, tasks=bag.tasks - {job}, ended=self.now)

    def advance(self) -> None:
        """Go to the next second, in which jobs end."""
        self.now += 1
        for job, end in list(self.ends.items()):
            if end <= self.now:
                del self.ends[job]
                self.end(job)


def something_happens(world: World) -> None:
    rng = world.rng
    match rng.randrange(7):
        case 0:
            deadline = world.now + rng.randint(10, 60) if rng.random() < 0.5 else None
            world.submit_bag(rng.randint(1, 12), rng.choice((1, 1, 2)), rng.randint(1, 10), deadline)
        case 1 | 2:
            world.submit(world.job(rng.randint(1, world.cores), rng.randint(1, 20), rng.choice(("high", "default"))))
        case 3:
            date = world.now + rng.randint(1, 30)
            new = structs.replace(world.job(rng.randint(1, world.cores), rng.randint(1, 10), "high"), reservation=date)
            world.submit(new)
        case 4:
            date, length = world.now + rng.randint(1, 30), rng.randint(1, 10)
            new = structs.replace(world.job(rng.randint(1, world.cores), length, "high"), reservation=date)
            world.windows[new.id] = ReservationWindow(date + length + rng.randint(0, 30), date)
            world.submit(new)
        case 5:
            everybody = [*world.running, *world.accepted, *(job.id for job in world.waiting)]
            if everybody:
                world.ends.pop(job := rng.choice(everybody), None)
                world.end(job)
        case _:
            pass


@pytest.mark.parametrize("hasty", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_comes_makes_a_promised_bag_late(seed: int, hasty: bool) -> None:
    world = World(Random(seed), hasty)
    for second in range(80):
        if second < 60 and world.rng.random() < 0.5:
            something_happens(world)
        answers = world.schedule()
        world.schedule()
        for number, bag in world.bags.items():
            if bag.promise is None or not bag.tasks:
                continue
            assert answers.expected.get(number, 0) <= bag.promise
            assert all(one.end <= bag.promise for job, one in world.accepted.items() if job in bag.tasks)
        world.advance()
    for bag in world.bags.values():
        assert bag.promise is None or bag.ended <= bag.promise


@pytest.mark.parametrize("hasty", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_no_task_of_a_bag_starts_later_than_one_did_before(seed: int, hasty: bool) -> None:
    world = World(Random(seed), hasty)
    number = world.submit_bag(12, 1, 7)
    world.schedule()
    before: list[float] = []
    while world.bags[number].tasks:
        world.schedule()
        starts = sorted(one.start for one in world.accepted.values())
        assert not before or all(a <= b for a, b in zip(starts[::-1], before[::-1], strict=False))
        before = starts
        world.advance()


def test_reservations_make_room_for_a_deadline_inside_their_windows() -> None:
    world = World(Random(1), cores=2)
    new = structs.replace(world.job(2, 30), reservation=10)
    world.windows[new.id] = ReservationWindow(90, 10)
    world.submit(new)
    world.schedule()
    first, second = world.submit_bag(4, 1, 10, deadline=20), world.submit_bag(2, 1, 10, deadline=30)
    answers = world.schedule()
    assert answers.promises == {first: 20, second: 30}
    (moved,) = answers.room_made
    assert (moved.before, moved.reservation.start) == (10, 30)
    assert world.accepted[new.id].start == 30
    nearest = world.submit_bag(2, 1, 30, deadline=59)
    assert world.schedule().promises == {nearest: 60}
    assert world.accepted[new.id].start == 60


def test_a_best_effort_job_does_not_start_where_a_reservation_comes_to_begin_now() -> None:
    decided = decide(
        snapshot_of(
            """
            cluster n1:2
            reserved 2 1-2 20..50 /core=2 window=0..60
            job 7 /core=2 10 types=besteffort
            bag 3-6 /core=1 25 deadline=85
            """
        )
    )
    assert [start.job for start in decided.starts] == [2]


def test_an_empty_cluster_does_tasks_in_rounds() -> None:
    world = World(Random(1))
    number = world.submit_bag(10, 1, 5)
    assert world.schedule().promises == {number: 15}


def test_of_a_thousand_tasks_those_come_forward_whose_cores_are_free_earlier() -> None:
    world = World(Random(1), cores=128)
    number = world.submit_bag(1000, 1, 600)
    assert world.schedule().promises == {number: 4800}
    world.schedule()
    world.now += 1
    for job in list(world.running)[:64]:
        world.end(job)
    answers = decide(world.snapshot()).promised
    assert isinstance(answers, BagAnswers)
    assert len(answers.moves) == 64 * 7


def test_in_a_hasty_pass_those_alone_move_that_begin_now() -> None:
    world = World(Random(1), cores=128)
    world.submit_bag(1000, 1, 600)
    world.schedule()
    world.schedule()
    world.now += 1
    freed = list(world.running)[:64]
    cores = {core for job in freed for core in world.running[job].resources}
    for job in freed:
        world.end(job)
    hasty = replace(world.snapshot(), promising=BagStep(list(world.bags.values()), thorough=False))
    answers = decide(hasty).promised
    assert isinstance(answers, BagAnswers)
    assert answers.hasty
    assert {core for one in answers.moves for core in one.resources} == cores
    assert {one.start for one in answers.moves} == {world.now}
    assert len(answers.moves) == 64


def test_a_bag_whose_tasks_have_no_place_is_named() -> None:
    world = World(Random(1), cores=2)
    number = world.submit_bag(4, 1, 50)
    world.schedule()
    rows = [replace(row, state="Absent") for row in world.platform.resources]
    away = replace(world.snapshot(), now=60, platform=Platform.build(rows, hierarchy=["core"]))
    answers = decide(away).promised
    assert isinstance(answers, BagAnswers)
    assert answers.without_place == {number}
    assert not decide(away).kept.moves


def test_a_task_to_be_run_again_that_has_no_place_is_not_refused_and_its_bag_is_named() -> None:
    world = World(Random(1), cores=2)
    number = world.submit_bag(2, 1, 50)
    world.schedule()
    copy = world.job(1, 50, bag=True)
    world.submit(copy)
    world.bags[number] = replace(world.bags[number], repeated=frozenset({copy.id}))
    rows = [replace(row, state="Dead") for row in world.platform.resources]
    decided = decide(replace(world.snapshot(), platform=Platform.build(rows, hierarchy=["core"])))
    answers = decided.promised
    assert isinstance(answers, BagAnswers)
    assert answers.without_place == {number}
    assert not decided.refused
