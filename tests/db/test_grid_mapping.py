"""Jobs get the cluster where they end first, their parts wait there, and what happens there is taken in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeAlias

import psycopg
import pytest

from oarpy.grid.broker.decisions import taken_again
from oarpy.grid.calls.parts import ClusterEvent, PartEnded, PartLost, PartStarted
from oarpy.grid.calls.table import Events
from oarpy.grid.clusters.virtual.cluster import OrderedFault, SimulatedCluster
from oarpy.grid.core.broker_state import ReallocationRules
from oarpy.model.states import GridJobState, GridPartState
from oarpy.store.grid import broker_jobs, clusters, decisions, transactions
from tests.harness.inline_calls import answer_instead
from tests.harness.simulated_grid import SimulatedGrid

pytestmark = [pytest.mark.db, pytest.mark.kept]
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"


@pytest.fixture
def grid(connection: Connection) -> Iterator[SimulatedGrid]:
    """Two clusters: north is larger, south is faster."""
    made = SimulatedGrid(connection, [SimulatedCluster("north", 8), SimulatedCluster("south", 4, speed=2)])
    yield made
    made.close()


def test_a_job_goes_where_it_ends_first_and_runs(grid: SimulatedGrid) -> None:
    small, large = grid.submit(4, 600)[0], grid.submit(8, 600)[0]
    assert grid.settled(small, large) == ["south", "north"]
    grid.drive(lambda: grid.job(large).state is GridJobState.RUNNING, "the start of both")
    assert [part.walltime for part in grid.parts(small, large)] == [300, 600]
    grid.clusters["south"].finish(grid.parts(small)[0].name, 3)
    grid.drive(lambda: grid.job(small).state is GridJobState.TERMINATED, "the end of one")
    done = grid.job(small)
    assert (done.exit_status, done.message) == (3, "")
    assert [len(part.hosts) for part in grid.parts(small)] == [4]


def test_an_array_is_mapped_as_its_jobs_would_be_one_by_one(grid: SimulatedGrid) -> None:
    """Speeds are such that no two clusters are equally good, however long the test takes."""
    counts = []
    for copies in (1, 12):
        sims = [SimulatedCluster("north", 8), SimulatedCluster("south", 4, speed=1.7)]
        anew = SimulatedGrid(grid.connection, sims)
        jobs = [anew.submit(2, 600, copies=copies) for _ in range(12 // copies)]
        counts.append(Counter(place for group in jobs for place in anew.settled(*group)))
        anew.close()
    assert counts[0] == counts[1] == {"north": 6, "south": 6}


def test_what_was_decided_is_decided_again(grid: SimulatedGrid) -> None:
    grid.mapper = grid.new_mapper(ReallocationRules("random", seed=3))
    grid.drive(lambda: all(row.procs for row in clusters.every(grid.connection)), "clusters that are known")
    grid.settled(*grid.submit(copies=5))
    grid.mapper = grid.new_mapper(ReallocationRules("round_robin"))
    assert set(grid.settled(*grid.submit(copies=4))) == {"north", "south"}
    grid.mapper = grid.new_mapper()
    grid.settled(*grid.submit(copies=3))
    kept = list(decisions.every(grid.connection))
    assert len(kept) == 3
    assert [taken_again(one.state, one.events) for one in kept] == [one.actions for one in kept]


def test_a_turn_that_a_cluster_misses_is_nobody_elses(connection: Connection) -> None:
    grid = SimulatedGrid(connection, [SimulatedCluster(name, 8) for name in ("a", "b", "c")])
    grid.mapper = grid.new_mapper(ReallocationRules("round_robin"))
    assert [grid.settled(grid.submit(1)[0]) for _ in range(2)] == [["a"], ["b"]]
    grid.clusters["a"].faults.refuse("estimate", "closed")
    assert [grid.settled(grid.submit(1)[0]) for _ in range(3)] == [["c"], ["a"], ["b"]]
    grid.close()


def test_a_job_that_fits_nowhere_fails_and_says_why(grid: SimulatedGrid) -> None:
    job = grid.submit(9)[0]
    grid.drive(lambda: grid.job(job).state is GridJobState.ERROR, "the end of the job")
    assert grid.job(job).message == "cluster 'north' can never run it; cluster 'south' can never run it"


def test_a_cluster_that_refuses_is_passed_over(grid: SimulatedGrid) -> None:
    grid.clusters["south"].faults.refuse("prepare", "no grant for alice")
    job = grid.submit(1)[0]
    assert grid.settled(job) == ["north"]
    grid.clusters["north"].faults.refuse("estimate", "closed")
    grid.clusters["south"].faults.refuse("estimate", "closed too")
    refused = grid.submit(2)[0]
    grid.drive(lambda: grid.job(refused).state is GridJobState.ERROR, "the end of the job")
    assert "closed;" in grid.job(refused).message
    assert "closed too" in grid.job(refused).message


def test_of_an_array_the_jobs_that_a_cluster_refuses_go_elsewhere(grid: SimulatedGrid) -> None:
    grid.clusters["north"].submit("local", 8, 3000)
    jobs = grid.submit(1, 600, copies=4)
    grid.clusters["south"].faults.refuse("prepare", "enough of alice")
    assert sorted(grid.settled(*jobs)) == ["north", "south", "south", "south"]
    assert sum(part.state is GridPartState.GONE for part in grid.parts(*jobs)) == 4


def test_a_silent_cluster_costs_others_nothing_and_all_silent_let_jobs_wait(grid: SimulatedGrid) -> None:
    grid.clusters["south"].faults.cut = True
    assert grid.settled(grid.submit(1)[0]) == ["north"]
    grid.clusters["north"].faults.cut = True
    job = grid.submit(1)[0]
    grid.drive(lambda: "waits for a cluster" in grid.job(job).message, "a job that waits")
    grid.clusters["south"].faults.cut = False
    assert grid.settled(job) == ["south"]


def test_a_silent_cluster_ends_nothing(grid: SimulatedGrid) -> None:
    job = grid.submit(1)[0]
    grid.settled(job)
    grid.drive(lambda: grid.job(job).state is GridJobState.RUNNING, "the start")
    grid.clusters["south"].faults.cut = True
    grid.drive(lambda: clusters.every(grid.connection)[1].silent_since, "silence that is known")
    assert grid.job(job).state is GridJobState.RUNNING
    grid.clusters["south"].faults.cut = False
    grid.drive(lambda: clusters.every(grid.connection)[1].silent_since is None, "a cluster that is heard again")


def test_a_deleted_job_ends_wherever_it_is(grid: SimulatedGrid) -> None:
    waiting, running = grid.submit(8, 600)[0], grid.submit(4, 600)[0]
    blocked = grid.submit(8, 600)[0]
    grid.settled(waiting, running, blocked)
    grid.clusters["north"].faults.cut = grid.clusters["south"].faults.cut = True
    unmapped = grid.submit()[0]
    broker_jobs.ask_deletion(grid.connection, [running, blocked, unmapped], "alice")
    grid.drive(lambda: grid.job(unmapped).state is GridJobState.ERROR, "the end of a job without a part")
    grid.clusters["north"].faults.cut = grid.clusters["south"].faults.cut = False
    grid.drive(lambda: grid.job(blocked).state is GridJobState.ERROR, "the end of a waiting job")
    grid.drive(lambda: grid.job(running).state is GridJobState.ERROR, "the end of a running job")
    assert {grid.job(job).message for job in (running, blocked, unmapped)} == {"deleted by alice"}
    assert list(grid.clusters["south"].states()) == []


def test_a_job_that_its_cluster_loses_is_mapped_anew(grid: SimulatedGrid) -> None:
    job = grid.submit(4, 600)[0]
    grid.clusters["south"].submit("local", 4, 10)
    grid.clusters["north"].submit("local", 8, 1000)
    assert grid.settled(job) == ["south"]
    old = grid.parts(job)[0]
    lost = PartLost(1, 1000, old.name, reason="its database is gone")
    answer_instead(grid.clusters["south"], Events, lambda call, real: [lost][call.after :])
    grid.drive(lambda: len(grid.parts(job)) == 2, "another part")
    assert grid.parts(job)[0].state is GridPartState.ENDED


def comes_to_one_copy(grid: SimulatedGrid, *jobs: int) -> None:
    """Once all transactions are done, each job has one part, and the clusters nothing else."""
    grid.settled(*jobs)
    grid.drive(lambda: not transactions.open_of(grid.connection, "mapper"), "the end of all transactions")
    copies = sorted(name for one in grid.clusters.values() for name in one.states() if name != "local")
    live = sorted(part.name for part in grid.parts(*jobs) if part.state is not GridPartState.GONE)
    assert (len(copies), live) == (len(jobs), copies)


@pytest.mark.parametrize("call", ["prepare", "commit"])
@pytest.mark.parametrize("done", [False, True])
def test_a_cluster_that_falls_silent_in_a_transaction_leaves_one_copy(
    grid: SimulatedGrid, call: str, done: bool
) -> None:
    grid.clusters["south"].faults.silent(call, done=done)
    comes_to_one_copy(grid, grid.submit(1, 600)[0])


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("call", ["estimate", "prepare", "commit", "abort"])
def test_a_mapper_killed_in_any_call_leaves_one_copy(grid: SimulatedGrid, call: str, done: bool) -> None:
    """The mapper that comes after it knows what is in the database alone."""
    south = grid.clusters["south"]
    if call == "abort":
        south.faults.silent("prepare", done=True)
    south.faults.strike(OrderedFault(call, KeyboardInterrupt("killed"), done))
    job = grid.submit(1, 600)[0]
    with pytest.raises(KeyboardInterrupt, match="killed"):
        grid.drive(lambda: False, "the end of the mapper", grid.mapper)
    grid.mapper = grid.new_mapper()
    comes_to_one_copy(grid, job)


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("call", ["prepare", "commit"])
def test_a_mapper_killed_while_it_places_an_array_leaves_one_copy_of_each_job(
    grid: SimulatedGrid, call: str, done: bool
) -> None:
    """One part is prepared already when the next one costs the mapper its life."""
    south = grid.clusters["south"]
    grid.clusters["north"].submit("local", 8, 3000)
    if call == "prepare":
        south.faults.slow(call, seconds=0)
    south.faults.strike(OrderedFault(call, KeyboardInterrupt("killed"), done))
    jobs = grid.submit(1, 600, copies=4)
    with pytest.raises(KeyboardInterrupt, match="killed"):
        grid.drive(lambda: False, "the end of the mapper", grid.mapper)
    grid.mapper = grid.new_mapper()
    comes_to_one_copy(grid, *jobs)


@pytest.mark.parametrize("call", ["prepare", "commit"])
def test_a_cluster_that_falls_silent_amid_an_array_leaves_one_copy_of_each_job(grid: SimulatedGrid, call: str) -> None:
    south = grid.clusters["south"]
    if call == "prepare":
        south.faults.slow(call, seconds=0)
    south.faults.silent(call, done=True)
    comes_to_one_copy(grid, *grid.submit(1, 600, copies=6))


@pytest.mark.parametrize("statement", ["begin", "note_prepared", "decide", "give_up", "note_known"])
def test_a_mapper_killed_at_any_write_leaves_one_copy(
    grid: SimulatedGrid, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it wrote within an unfinished transaction of the database is as if it had never been."""
    if statement == "give_up":
        grid.clusters["south"].faults.silent("prepare", done=True)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt("killed")

    job = grid.submit(1, 600)[0]
    with monkeypatch.context() as patched:
        patched.setattr(transactions, statement, killed)
        with pytest.raises(KeyboardInterrupt, match="killed"):
            grid.drive(lambda: False, "the end of the mapper", grid.mapper)
    grid.mapper = grid.new_mapper()
    comes_to_one_copy(grid, job)


def test_an_event_that_is_about_no_part_is_passed_over(grid: SimulatedGrid) -> None:
    job = grid.submit(2, 600)[0]
    grid.clusters["north"].submit("local", 8, 1000)
    grid.settled(job)
    (part,) = grid.parts(job)
    told = [ClusterEvent(1, 1000), PartStarted(2, 1000, part.name), ClusterEvent(3, 1001)]
    answer_instead(grid.clusters["south"], Events, lambda call, real: told[call.after :])
    grid.drive(lambda: clusters.every(grid.connection)[1].last_event == 3, "all events")
    assert grid.job(job).state is GridJobState.RUNNING


def test_an_event_that_the_database_refuses_hinders_no_other_one(grid: SimulatedGrid) -> None:
    first, second = grid.submit(2, 600, copies=2)
    grid.clusters["north"].submit("local", 8, 1000)
    grid.settled(first, second)
    one, other = grid.parts(first, second)
    wrong = PartStarted(1, 1e13, one.name)
    right = [PartStarted(2, 1000, other.name, hosts=("a",)), PartEnded(3, 1010, other.name, status=0)]
    answer_instead(grid.clusters["south"], Events, lambda call, real: [wrong, *right][call.after :])
    grid.drive(lambda: grid.job(second).state is GridJobState.TERMINATED, "the end of the other job")
    assert clusters.every(grid.connection)[1].last_event == 3


def test_a_cluster_that_does_not_answer_for_an_outcome_is_a_doubt_until_it_does(grid: SimulatedGrid) -> None:
    south = grid.clusters["south"]
    south.faults.silent("commit", done=True)
    south.faults.silent("describe")
    job = grid.submit(1, 600)[0]
    doubt = grid.drive(lambda: [one for one in transactions.doubts(grid.connection) if one.asked], "a doubt")[0]
    assert (doubt.cluster, doubt.committed, doubt.message) == ("south", True, "cluster 'south' does not answer")
    comes_to_one_copy(grid, job)
    assert transactions.doubts(grid.connection) == []


def test_a_cluster_whose_events_went_back_is_read_from_the_first_one(grid: SimulatedGrid) -> None:
    job = grid.submit(8, 600)[0]
    grid.drive(lambda: grid.job(job).state is GridJobState.RUNNING, "the start")
    started = grid.job(job).started
    clusters.note_event(grid.connection, "north", 1000)  # told before a copy of it was restored
    grid.clusters["north"].finish(grid.parts(job)[0].name, 0)
    grid.drive(lambda: grid.job(job).state is GridJobState.TERMINATED, "the end")
    assert grid.job(job).started == started
    # a question that was asked before the number changed may have told of the end: the next one goes back
    grid.drive(lambda: clusters.every(grid.connection)[0].last_event == 2, "events that were read again")


def test_a_cluster_whose_clock_is_behind_draws_no_jobs(grid: SimulatedGrid) -> None:
    """Its clock says that jobs end sooner."""
    grid.clusters["north"].clock_off = -3600
    grid.drive(lambda: clusters.every(grid.connection)[0].clock_ahead < -3000, "clocks that were read")
    assert grid.settled(*grid.submit(2, 600)) == ["south"]
