"""Orders that look at more than the jobs: the planner's own fair share, and plug-ins."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oarpy.client.past.simulation import SimulationOptions, simulate
from oarpy.model.errors import OarpyError, UsageError
from oarpy.scheduler.order.queue_orders import ORDERS, Candidate
from oarpy.scheduler.order.usage_shares import NO_HISTORY
from oarpy.simulation.engines.engine import replay
from oarpy.simulation.engines.live_order import LiveOrder, ordered
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.policies import make_scheduler
from oarpy.simulation.traces.swf import read_swf
from oarpy.simulation.traces.trace import TraceJob
from tests.harness.examples import examples

MACHINE = Machine(4)


def live(name: str) -> LiveOrder:
    return LiveOrder(f"my-{name}", ORDERS[name], NO_HISTORY, 1000)


@st.composite
def workloads(draw: st.DrawFn) -> tuple[TraceJob, ...]:
    jobs, submit = [], 0
    for number in range(draw(st.integers(1, 8))):
        submit += draw(st.integers(0, 20))
        estimate = draw(st.integers(1, 40))
        run = draw(st.integers(1, estimate))
        jobs.append(TraceJob(number, submit, run, estimate, draw(st.integers(1, 4))))
    return tuple(jobs)


@settings(max_examples=examples(60), deadline=None)
@given(
    workloads(),
    st.sampled_from(["fifo", "smallest", "shortest"]),
    st.sampled_from(["conservative", "easy", "fcfs", "first_fit"]),
)
def test_an_order_of_the_jobs_alone_gives_the_same_starts_as_a_plug_in(
    jobs: tuple[TraceJob, ...], order: str, policy: str
) -> None:
    plugged = replay(jobs, ordered(policy, live(order), jobs, MACHINE))
    assert plugged == replay(jobs, make_scheduler(policy, order, jobs, MACHINE))


def test_who_loses_most_by_waiting_comes_first() -> None:
    jobs = (TraceJob(1, 0, 100, 100, 4), TraceJob(2, 0, 80, 80, 4), TraceJob(3, 90, 10, 10, 4))
    # at 100 job 2 has 180 / 80, job 3 only 20 / 10, or (submitted at 10) 100 / 10
    assert replay(jobs, ordered("conservative", live("slowdown"), jobs, MACHINE)) == [0, 100, 180]
    early = (*jobs[:2], TraceJob(3, 10, 10, 10, 4))
    assert replay(early, ordered("conservative", live("slowdown"), early, MACHINE)) == [0, 110, 100]


def test_who_used_less_comes_first() -> None:
    jobs = (
        TraceJob(1, 0, 100, 100, 4, "ann"),
        TraceJob(2, 1, 10, 10, 4, "ann"),
        TraceJob(3, 2, 10, 10, 4, "bob"),
    )
    assert replay(jobs, ordered("conservative", live("fifo"), jobs, MACHINE)) == [0, 100, 110]
    assert replay(jobs, ordered("conservative", live("fairshare"), jobs, MACHINE)) == [0, 110, 100]


def test_use_is_forgotten_after_the_window() -> None:
    jobs = (
        TraceJob(1, 0, 10, 10, 4, "ann"),
        TraceJob(2, 2000, 10, 10, 4, "eve"),
        TraceJob(3, 2001, 10, 10, 4, "ann"),
        TraceJob(4, 2002, 10, 10, 4, "bob"),
    )
    assert replay(jobs, ordered("conservative", live("fairshare"), jobs, MACHINE)) == [0, 2000, 2010, 2020]


def test_a_plug_in_that_raises_ends_the_replay() -> None:
    def broken(_candidate: Candidate) -> tuple[float, ...]:
        raise KeyError("karma")

    jobs = (TraceJob(1, 0, 10, 10, 4),)
    with pytest.raises(OarpyError, match=r"policy 'odd' .* failed: KeyError: 'karma'"):
        replay(jobs, ordered("easy", LiveOrder("odd", broken, NO_HISTORY, 1), jobs, MACHINE))


def test_compression_keeps_places_and_so_needs_an_order_that_stays() -> None:
    with pytest.raises(UsageError, match="policy 'compressed' does not go with the order 'my-fairshare'"):
        ordered("compressed", live("fairshare"), (), MACHINE)


def test_users_and_groups_are_read_and_orders_found_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.swf"
    path.write_text("1 0 -1 5 1 -1 -1 1 9 -1 1 7 3 -1 -1 -1 -1 -1\n2 0 -1 5 1 -1 -1 1 9 -1 1 -1 -1 -1 -1 -1 -1 -1\n")
    first, second = read_swf(path, MACHINE).jobs
    assert (first.user, first.project, second.user, second.project) == ("7", "3", "", "")
    assert simulate(asked(path, "multifactor")) == 0
    assert "multifactor" in capsys.readouterr().out
    with pytest.raises(UsageError, match="unknown order 'nope'"):
        simulate(asked(path, "nope"))


def asked(trace: Path, order: str) -> SimulationOptions:
    return SimulationOptions(
        trace=trace,
        from_database=False,
        procs=4,
        nodes=None,
        cores_per_node=1,
        policies=("easy",),
        order=order,
        jobs=None,
        since=None,
        until=None,
        quotas=None,
        rules=None,
        output=None,
        plot=None,
        steps=None,
        places=False,
        log=None,
        write=None,
        names=False,
        as_json=False,
    )
