from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from oarpy.model.errors import UsageError
from oarpy.model.setting_values import PolicyName
from oarpy.scheduler.plan import Plan
from oarpy.scheduler.snapshot import HoldingJob, Snapshot, WaitingJob
from oarpy.simulation.engines.engine import replay
from oarpy.simulation.engines.flat_conservative import FlatConservative
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.policies import make_scheduler
from oarpy.simulation.engines.production import Compressed, FullPasses
from oarpy.simulation.engines.queue_order import ranks
from oarpy.simulation.traces.trace import TraceJob, in_submit_order
from oarpy.simulation.workloads.generate import generated
from tests.harness.busy_processors import busy_steps
from tests.harness.examples import examples
from tests.unit.simulation.naive_replay import NaiveReplay

Row = tuple[int, int, int, int]
ORDERS = st.sampled_from(["fifo", "smallest", "largest", "longest", "widest/10"])


def workload(*rows: tuple[float, float, float, int]) -> tuple[TraceJob, ...]:
    """Jobs from (submit, run, estimate, procs); a run above the estimate is cut."""
    return in_submit_order(
        [
            TraceJob(number, submit, min(run, most), most, size)
            for number, (submit, run, most, size) in enumerate(rows, 1)
        ]
    )


def rows(largest: int) -> st.SearchStrategy[list[Row]]:
    durations = st.integers(1, 12)
    row = st.tuples(st.integers(0, 25), durations, durations, st.integers(1, largest))
    exact = row.map(lambda one: (one[0], one[2], one[2], one[3]))
    return st.lists(row | exact, min_size=1, max_size=20)


def test_everybody_behind_the_head_has_a_reservation_too() -> None:
    jobs = workload((0, 10, 10, 3), (1, 10, 10, 4), (2, 10, 10, 2), (3, 25, 25, 1), (4, 9, 9, 2))
    assert replay(jobs, FlatConservative(jobs, "fifo", Machine(4))) == [0, 10, 20, 20, 30]


def test_an_early_end_lets_the_plan_move_forward() -> None:
    jobs = workload((0, 4, 20, 3), (1, 5, 5, 4), (2, 30, 30, 1))
    assert replay(jobs, FlatConservative(jobs, "fifo", Machine(4))) == [0, 4, 9]


def test_whole_nodes_are_given() -> None:
    machine = Machine(4, 2)
    jobs = workload((0, 10, 10, machine.size(1)), (0, 10, 10, machine.size(3)), (0, 10, 10, machine.size(1)))
    assert replay(jobs, FlatConservative(jobs, "fifo", machine)) == [0, 10, 0]


def test_a_machine_too_large_to_name_its_processors_is_refused() -> None:
    with pytest.raises(UsageError, match="2000000 processors are too many for a policy that names them"):
        make_scheduler("conservative", "fifo", workload((0, 10, 10, 1)), Machine(2_000_000))


@settings(max_examples=examples(150), deadline=None)
@given(rows=rows(6), order=ORDERS)
def test_the_fast_engine_equals_a_full_plan_after_every_event(rows: list[Row], order: str) -> None:
    jobs = workload(*rows)
    machine = Machine(6)
    assert replay(jobs, FlatConservative(jobs, order, machine)) == replay(jobs, FullPasses(jobs, order, machine))


class UntilCompletion(FullPasses):
    """Plans with jobs that hold their processors until their completion is handled, as the baselines count them.

    Jobs that start in one pass do so, and so end, in the order of the queue.
    """

    def _place(
        self, now: float, holding: tuple[HoldingJob, ...], waiting: tuple[WaitingJob, ...]
    ) -> dict[int, HoldingJob]:
        ending = tuple(
            structs.replace(job, walltime=now - job.start + 0.5) if job.end <= now else job for job in holding
        )
        placed = super()._place(now, ending, waiting)
        return dict(sorted(placed.items(), key=lambda one: self._ranks[one[0]]))


@settings(max_examples=examples(150), deadline=None)
@given(rows=rows(6), order=ORDERS, policy=st.sampled_from(["fcfs", "easy"]))
@example(
    rows=[(10, 2, 2, 6), (11, 1, 1, 5), *[(10, 1, 1, size) for size in (1, 1, 3, 3)]], order="largest", policy="easy"
)
def test_counting_processors_equals_the_planners_own_baselines(rows: list[Row], order: str, policy: str) -> None:
    jobs = workload(*rows)
    machine = Machine(6)
    counted = replay(jobs, make_scheduler(policy, order, jobs, machine))
    assert counted == replay(jobs, UntilCompletion(jobs, order, machine, policy))  # type: ignore[arg-type]


@settings(max_examples=examples(200), deadline=None)
@given(rows=rows(6), order=ORDERS, policy=st.sampled_from(["fcfs", "easy", "first_fit"]))
def test_the_planner_equals_the_naive_replay(rows: list[Row], order: str, policy: PolicyName) -> None:
    jobs = workload(*rows)
    starts = NaiveReplay(jobs, policy, order, 6).starts
    planned = replay(jobs, UntilCompletion(jobs, order, Machine(6), policy))
    assert planned == [starts[job] for job in range(len(jobs))]


@settings(max_examples=examples(60), deadline=None)
@given(rows=rows(3), order=ORDERS)
def test_the_same_holds_on_whole_nodes(rows: list[Row], order: str) -> None:
    machine = Machine(6, 2)
    jobs = workload(*((submit, run, most, machine.size(size)) for submit, run, most, size in rows))
    assert replay(jobs, FlatConservative(jobs, order, machine)) == replay(jobs, FullPasses(jobs, order, machine))
    counted = replay(jobs, make_scheduler("easy", order, jobs, machine))
    assert counted == replay(jobs, UntilCompletion(jobs, order, machine, "easy"))


@settings(max_examples=examples(100), deadline=None)
@given(rows=rows(6), order=ORDERS)
def test_no_processor_is_used_twice(rows: list[Row], order: str) -> None:
    jobs = workload(*rows)
    starts = replay(jobs, FlatConservative(jobs, order, Machine(6)))
    assert max(busy for _, busy in busy_steps(jobs, starts)) <= 6
    assert all(start >= job.submit for job, start in zip(jobs, starts, strict=True))


@settings(max_examples=examples(80), deadline=None)
@given(rows=rows(6))
def test_when_estimates_are_exact_everybody_starts_as_first_promised(rows: list[Row]) -> None:
    jobs = workload(*((submit, most, most, size) for submit, _, most, size in rows))
    scheduler = Promises(jobs, "fifo", Machine(6))
    starts = replay(jobs, scheduler)
    assert dict(enumerate(starts)) == scheduler.promised


@settings(max_examples=examples(150), deadline=None)
@given(rows=rows(6))
def test_under_compression_nobody_starts_later_than_first_promised(rows: list[Row]) -> None:
    jobs = workload(*rows)
    scheduler = CompressedPromises(jobs, "fifo", Machine(6))
    starts = replay(jobs, scheduler)
    assert max(busy for _, busy in busy_steps(jobs, starts)) <= 6
    assert all(start <= scheduler.promised[job] for job, start in enumerate(starts))


class CompressedPromises(Compressed):
    """Remembers the start first foreseen for each job."""

    def __init__(self, jobs: tuple[TraceJob, ...], order: str, machine: Machine) -> None:
        super().__init__(jobs, order, machine)
        self.promised: dict[int, float] = {}

    def _plan(self, snapshot: Snapshot) -> Plan:
        made = super()._plan(snapshot)
        for one in made.placements:
            assert one.start is not None
            assert one.start <= self.promised.setdefault(one.job, one.start)
        return made


class Promises(FlatConservative):
    """Remembers the start first foreseen for each job."""

    def __init__(self, jobs: tuple[TraceJob, ...], order: str, machine: Machine) -> None:
        super().__init__(jobs, order, machine)
        self.promised: dict[int, float] = {}

    def schedule(self, now: float) -> list[int]:
        started = super().schedule(now)
        for job, held in {**self._placed, **self._running}.items():
            self.promised.setdefault(job, held.start)
        return started


@settings(max_examples=examples(100), deadline=None)
@given(
    rows=rows(6),
    name=st.sampled_from(["fifo", "smallest", "largest", "shortest", "widest"]),
    policy=st.sampled_from(["fcfs", "easy", "conservative"]),
)
def test_windows_of_submission_bound_the_wait(rows: list[Row], name: str, policy: str) -> None:
    jobs = workload(*rows)
    order = f"{name}/5"
    starts = replay(jobs, make_scheduler(policy, order, jobs, Machine(6)))
    rank = ranks(order, jobs)
    longest = max(job.estimate for job in jobs)
    for place, job in enumerate(sorted(range(len(jobs)), key=rank.__getitem__), start=1):
        assert starts[job] <= (jobs[job].submit // 5 + 1) * 5 + place * longest


@pytest.mark.parametrize("order", ["fifo", "smallest", "longest/3600"])
def test_a_longer_workload_of_a_model(order: str) -> None:
    jobs = generated("lublin-both", 64, 250, 3)
    machine = Machine(64)
    assert replay(jobs, FlatConservative(jobs, order, machine)) == replay(jobs, FullPasses(jobs, order, machine))
