"""One grid job whose rows contradict each other, or whose change the database refuses, stops no other job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeAlias

import psycopg
import pytest

from oarpy.grid.broker.conversations import CallBatch, Conversation, Conversations
from oarpy.grid.broker.mover import Mover
from oarpy.grid.calls.table import Cancel, Commit, Estimate, Idle
from oarpy.grid.clusters.virtual.cluster import SimulatedCluster, VirtualClock
from oarpy.grid.core.broker_state import ReallocationRules
from oarpy.model.states import GridJobState
from oarpy.store.grid import broker_jobs, metajobs, reallocation_passes
from oarpy.store.grid.broker_jobs import NewGridComponent, NewGridJob
from tests.harness.claim_rounds import BrokerKilled, ClaimRounds
from tests.harness.inline_calls import InlineConnections, answer_instead, inline_calls
from tests.harness.simulated_grid import SimulatedGrid

pytestmark = pytest.mark.db
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"


@pytest.fixture
def grid(connection: Connection) -> Iterator[SimulatedGrid]:
    made = SimulatedGrid(connection, [SimulatedCluster("north", 8), SimulatedCluster("south", 4, speed=2)])
    yield made
    made.close()


@pytest.fixture
def rounds(connection: Connection) -> ClaimRounds:
    return ClaimRounds(connection, disclose="load")


def refuse(connection: Connection, table: str, what: str) -> None:
    """Have the database refuse rows of a table for which ``what`` is true."""
    connection.execute(f"ALTER TABLE {table} ADD CHECK (NOT ({what})) NOT VALID")


def add_stray(connection: Connection, job: int) -> None:
    """Give a job a part that waits, besides all that its broker made."""
    name = f"stray{job}"
    connection.execute(
        "INSERT INTO grid_parts (transaction, name, job, component, cluster, kind, walltime)"
        " SELECT min(id), %s, %s, 0, 'north', 'queued', '1 hour' FROM grid_transactions",
        [name, job],
    )
    for state in ("Prepared", "Committing", "Waiting"):
        connection.execute("UPDATE grid_parts SET state = %s WHERE name = %s", [state, name])


def test_of_mapped_jobs_the_one_without_a_component_is_set_aside(grid: SimulatedGrid) -> None:
    broken, job = grid.submit(2, 600)[0], grid.submit(1, 600)[0]
    grid.connection.execute("DELETE FROM grid_components WHERE job = %s", [broken])
    grid.drive(lambda: grid.job(job).state is GridJobState.RUNNING, "the start of the other job")
    assert grid.job(broken).state is GridJobState.SUBMITTED
    assert grid.job(broken).message.startswith("set aside: ")


def test_of_an_array_the_job_that_has_a_part_already_is_set_aside(grid: SimulatedGrid) -> None:
    (first,) = grid.submit(1, 600)
    grid.settled(first)
    jobs = grid.submit(1, 600, copies=4)
    add_stray(grid.connection, jobs[1])
    others = [job for job in jobs if job != jobs[1]]
    grid.drive(lambda: all(grid.job(job).state is GridJobState.RUNNING for job in others), "the start of the others")
    assert grid.job(jobs[1]).state is GridJobState.SUBMITTED
    assert grid.job(jobs[1]).message.startswith("set aside: the database refuses it")


def test_a_cluster_that_is_disabled_while_it_estimates_gets_no_job(grid: SimulatedGrid) -> None:
    """It ends jobs first."""

    def disabled(call: Estimate, real: Any) -> Any:
        with psycopg.connect(grid.connection.info.dsn) as beside:
            beside.execute("UPDATE grid_clusters SET active = false WHERE name = 'south'")
        return real(call)

    answer_instead(grid.clusters["south"], Estimate, disabled)
    assert grid.settled(*grid.submit(1, 600)) == ["north"]


class Moves:
    """Two jobs that wait on ``north`` and would end sooner on ``south`` or ``east``, which are idle; and a mover."""

    def __init__(self, connection: Connection) -> None:
        self.connection, self.clock = connection, VirtualClock(float(int(datetime.now(UTC).timestamp())))
        sims = [SimulatedCluster(name, 8, clock=self.clock) for name in ("north", "south", "east")]
        self.grid = SimulatedGrid(connection, sims)
        connection.execute("UPDATE grid_clusters SET active = name = 'north'")
        self.jobs = [self.grid.submit(8, 5000)[0] for _ in range(3)]
        self.grid.settled(*self.jobs)
        connection.execute("UPDATE grid_clusters SET active = true")
        self.mover = Mover(ReallocationRules(algorithm=1), 3600, InlineConnections(self.grid.clusters), self.clock)

    def run(self) -> tuple[int | None, str]:
        """Make a pass; return how many jobs moved, and what is told of the others."""
        reallocation_passes.ask(self.connection, "root")
        self.mover.run_once(self.connection, datetime.now(UTC))
        last = reallocation_passes.latest(self.connection, 1)[-1]
        return last.moved, last.message


@pytest.fixture
def moves(connection: Connection) -> Iterator[Moves]:
    made = Moves(connection)
    yield made
    made.grid.close()


@pytest.mark.parametrize("wrong", ["no component", "two parts"])
def test_a_pass_moves_the_jobs_whose_rows_are_right(moves: Moves, wrong: str) -> None:
    _, broken, other = moves.jobs

    def breaking(call: Estimate, real: Any) -> Any:
        if wrong == "no component":
            moves.connection.execute("DELETE FROM grid_components WHERE job = %s", [broken])
        elif moves.mover._pass and moves.mover._pass.begun:
            moves.connection.execute("DELETE FROM grid_parts WHERE name = %s", [f"stray{broken}"])
            add_stray(moves.connection, broken)
        return real(call)

    for cluster in ("south", "east"):
        answer_instead(moves.grid.clusters[cluster], Estimate, breaking)
    moved, message = moves.run()
    assert moved == 1
    assert f"job {broken} stayed: " in message
    assert [part.cluster for part in moves.grid.parts(other) if part.state != "Gone"][-1] != "north"
    assert moves.grid.job(broken).message.startswith("set aside: ")


def test_a_part_that_is_unknown_and_cannot_be_ended_stops_no_watcher(grid: SimulatedGrid) -> None:
    broken, job = grid.submit(2, 600)[0], grid.submit(2, 600)[0]
    grid.drive(lambda: all(grid.job(one).state is GridJobState.RUNNING for one in (broken, job)), "the start of both")
    refuse(grid.connection, "grid_jobs", f"id = {broken} AND state = 'Error'")
    for cluster in grid.clusters.values():
        answer_instead(cluster, Cancel, lambda call, real: False)
    broker_jobs.ask_deletion(grid.connection, [broken], "alice")
    grid.drive(lambda: grid.job(broken).message.startswith("set aside: "), "the job that is set aside")
    (part,) = grid.parts(job)
    grid.clusters[part.cluster].finish(part.name, 0)
    grid.drive(lambda: grid.job(job).state is GridJobState.TERMINATED, "the end of the other job")


def test_a_job_that_cannot_be_moved_keeps_no_other_where_it_is(rounds: ClaimRounds) -> None:
    """Work on it begins outside its own steps."""
    for name in ("north", "south"):
        rounds.clusters[name].submit(f"half of {name}", 4, 1000)
        rounds.clusters[name].submit(f"rest of {name}", 4, 1000)
    broken, job = rounds.spread(4), rounds.spread(4)
    rounds.until(5)
    assert {rounds.job(one).state for one in (broken, job)} == {GridJobState.MAPPED}
    refuse(rounds.connection, "grid_metajobs", f"job = {broken} AND idle_on = ''")
    for name in ("north", "south"):
        rounds.clusters[name].finish(f"half of {name}")
    rounds.until(60)
    assert rounds.job(broken).message.startswith("set aside: ")
    assert rounds.job(job).state is GridJobState.RUNNING


def test_a_moved_job_without_its_shift_stops_no_other(rounds: ClaimRounds) -> None:
    for name in ("north", "south"):
        rounds.clusters[name].submit(f"all of {name}", 8, 1000)
    broken = rounds.spread(8)
    rounds.until(5)
    rounds.clusters["north"].finish("all of north")
    rounds.until(10)
    rounds.clusters["south"].finish("all of south")
    rounds.until(16)
    assert [shift.outcome for shift in metajobs.shifts_of(rounds.connection, [broken])] == ["moved"]
    rounds.connection.execute("DELETE FROM grid_shifts WHERE job = %s", [broken])
    job = rounds.bag(4, 10)
    rounds.until(80)
    assert rounds.job(job).state is GridJobState.TERMINATED


def test_a_job_that_is_refused_when_it_has_room_is_tried_again_after_a_pause(rounds: ClaimRounds) -> None:
    asked = [0]

    def counted(call: Idle, real: Any) -> Any:
        asked[0] += 1
        if asked[0] > 50:
            raise BrokerKilled
        return real(call)

    answer_instead(rounds.clusters["north"], Idle, counted)
    broken, job = rounds.submit(20), rounds.submit(22)
    refuse(rounds.connection, "grid_jobs", f"id = {broken} AND state = 'Claiming'")
    rounds.until(8)
    assert rounds.job(job).state is GridJobState.CLAIMED
    assert rounds.job(broken).message.startswith("set aside: the database refuses it")
    assert asked[0] < 20


def test_an_outcome_that_cannot_be_noted_is_sent_again_after_a_pause(rounds: ClaimRounds) -> None:
    told = [0]

    def counted(call: Commit, real: Any) -> Any:
        told[0] += 1
        if told[0] > 50:
            raise BrokerKilled
        return real(call)

    answer_instead(rounds.clusters["north"], Commit, counted)
    refuse(rounds.connection, "grid_outcomes", "cluster = 'north' AND known_at IS NOT NULL")
    broken, job = rounds.reserve(20, "north", "south"), rounds.reserve(20, "south")
    rounds.until(8)
    assert rounds.job(job).state is GridJobState.MAPPED
    assert rounds.job(broken).state is GridJobState.SUBMITTED
    assert 1 < told[0] < 20


def test_nothing_is_asked_for_work_that_was_rolled_back(rounds: ClaimRounds) -> None:
    """The parts of the bag would be held on clusters, and their broker would know nothing of them."""
    job = rounds.bag(4)
    refuse(rounds.connection, "grid_bag_tasks", f"job = {job}")
    rounds.until(20)
    assert rounds.there() == {"north": {}, "south": {}}
    assert rounds.job(job).message.startswith("set aside: the database refuses it")


def test_conversations_that_failed_work_began_are_dropped() -> None:
    def silence() -> Conversation[object]:
        yield CallBatch([], pause=10)
        return "over"

    conversations = Conversations[object](inline_calls({}), VirtualClock(0))
    conversations.begin("before", silence())
    with suppress(ValueError), conversations.dropped_on_error():
        conversations.begin("within", silence())
        raise ValueError
    with conversations.dropped_on_error():
        conversations.begin("done", silence())
    assert [name in conversations for name in ("before", "within", "done")] == [True, False, True]


@pytest.mark.parametrize("kind", ["coallocated", "named"])
def test_a_job_with_a_date_and_without_components_stops_no_other(rounds: ClaimRounds, kind: str) -> None:
    component = NewGridComponent("/core=1", 1, "north")
    lacking = NewGridJob("alice", kind, "date", 100, (component,), deadline=rounds.clock() + 60)
    (broken,) = broker_jobs.insert(rounds.connection, lacking)
    rounds.connection.execute("DELETE FROM grid_components WHERE job = %s", [broken])
    job = rounds.spread(4)
    rounds.until(40)
    assert rounds.job(job).state is GridJobState.RUNNING
    assert rounds.job(broken).message.startswith("set aside: ")


@pytest.mark.parametrize("kind", ["coallocated", "named"])
def test_a_job_that_needs_a_date_has_one(connection: Connection, kind: str) -> None:
    dateless = NewGridJob("alice", kind, "date", 100, (NewGridComponent("/core=1", 1, "north"),))
    with pytest.raises(psycopg.errors.CheckViolation, match="grid_jobs_deadline_of_kind"):
        broker_jobs.insert(connection, dateless)
