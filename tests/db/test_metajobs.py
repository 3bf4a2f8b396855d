"""One program over clusters that the broker chooses: placed, reserved on all of them, begun and ended together."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

import psycopg
import pytest

from oarpy.grid.broker.coallocated.metajobs import MetajobRules
from oarpy.grid.broker.replay import differing
from oarpy.grid.calls.table import Begin, Call, Cancel, Prepare, Slots
from oarpy.grid.clusters.slurm.cluster import ABILITIES
from oarpy.grid.clusters.virtual.cluster import OrderedFault, SimulatedCluster
from oarpy.model.states import GridJobState, GridPartState
from oarpy.store.grid import broker_jobs, clusters, decisions, metajobs
from oarpy.store.grid.broker_jobs import NewGridComponent, NewGridJob
from tests.harness.claim_rounds import BrokerKilled, ClaimRounds
from tests.harness.oarsub_cluster import Submitter

pytestmark = [pytest.mark.db, pytest.mark.kept]
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
NOTHING: dict[str, dict[str, str]] = {"north": {}, "south": {}}
LEAD = 15
"""Seconds to the earliest start."""


@pytest.fixture
def rounds(connection: Connection) -> ClaimRounds:
    return ClaimRounds(connection)


def places(rounds: ClaimRounds, job: int) -> tuple[float, float, dict[str, int]]:
    """Return start, end and parts of a job, in seconds from the beginning."""
    row, asked = rounds.job(job), metajobs.of_jobs(rounds.connection, [job])[job]
    assert row.deadline is not None
    assert asked.end is not None
    components = broker_jobs.components(rounds.connection, [job])[job]
    there = {part.component: part for part in rounds.parts(job) if part.state not in (GridPartState.GONE,)}
    parts = {there[one.number].cluster: one.procs for one in components}
    return row.deadline - rounds.began, asked.end - rounds.began, parts


def _noted(cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch) -> list[Call[Any]]:
    """Return the list to which all calls of a cluster are added from now on."""
    asked: list[Call[Any]] = []
    answered = cluster.ask

    def ask(call: Call[Any]) -> Any:
        asked.append(call)
        return answered(call)

    monkeypatch.setattr(cluster, "ask", ask)
    return asked


def test_it_gets_the_earliest_start_on_several_clusters_and_ends_with_its_program(rounds: ClaimRounds) -> None:
    rounds.clusters["south"].submit("local", 4, 1000)
    job = rounds.spread(12, overhead=0.2)
    rounds.until(1)
    assert rounds.job(job).state is GridJobState.MAPPED
    assert places(rounds, job) == (LEAD, LEAD + 120, {"north": 8, "south": 4})
    rounds.until(LEAD + 1)
    assert rounds.job(job).state is GridJobState.RUNNING
    assert [event.at - rounds.began for event in rounds.events("started")] == [LEAD, LEAD]
    rounds.clusters["north"].finish(rounds.parts(job)[0].name, 7)
    rounds.until(LEAD + 40)
    row = rounds.job(job)
    assert (row.state, row.exit_status) == (GridJobState.TERMINATED, 7)
    assert rounds.there() == {"north": {}, "south": {"local": "running"}}


def test_who_gets_hosts_of_one_name_is_told_when_placed(rounds: ClaimRounds, monkeypatch: pytest.MonkeyPatch) -> None:
    for cluster in rounds.clusters.values():
        answered = cluster.ask

        def ask(call: Call[Any], answered: Any = answered) -> Any:
            answer = answered(call)
            return replace(answer, hosts=("n1",)) if isinstance(call, Prepare) else answer

        monkeypatch.setattr(cluster, "ask", ask)
    alone, both = rounds.spread(4), rounds.spread(10)
    rounds.until(3)
    assert rounds.job(alone).message == ""
    assert rounds.job(both).message == "oargridsh and mpirun cannot tell hosts apart that several clusters have: n1"


def test_one_cluster_with_room_comes_before_several_and_the_first_one_turns(rounds: ClaimRounds) -> None:
    jobs = [rounds.spread(4, overhead=0.5) for _ in range(3)]
    rounds.until(3)
    assert [places(rounds, job) for job in jobs] == [
        (LEAD, LEAD + 100, {"north": 4}),
        (LEAD, LEAD + 100, {"south": 4}),
        (LEAD, LEAD + 100, {"north": 4}),
    ]


def test_a_cluster_gives_no_more_than_it_may(rounds: ClaimRounds) -> None:
    job = rounds.spread(10, at_most={"north": 3})
    rounds.until(1)
    assert places(rounds, job)[2] == {"north": 3, "south": 7}


def test_a_slow_cluster_makes_all_walltimes_longer(rounds: ClaimRounds) -> None:
    clusters.put(rounds.connection, "south", "oarpy", ["oargriddoor", "campus"], speed=0.5, place=1)
    job = rounds.spread(16, walltime=100, overhead=0.1)
    rounds.until(1)
    assert [round(part.walltime) for part in rounds.parts(job)] == [220, 220]


def test_who_finds_no_room_is_told_what_each_cluster_had(rounds: ClaimRounds) -> None:
    clusters.put(rounds.connection, "south", "oarpy", ["oargriddoor", "campus"], users=["bob"], place=1)
    job = rounds.spread(12)
    rounds.until(1)
    row = rounds.job(job)
    assert row.state is GridJobState.ERROR
    assert row.message == (
        "no room for 12 processors: south cluster 'south' is not open to 'alice'; north 8 free now, 8 at most"
    )
    assert rounds.there() == NOTHING


def test_a_cluster_of_slurm_gets_no_part_and_the_job_says_why(
    connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--answer-timeout", "0", "--parts", "any", "-l", "core=8,walltime=0:10:0", "date")
    rounds = ClaimRounds(connection)
    rounds.clusters["south"] = SimulatedCluster("south", 8, clock=rounds.clock, abilities=ABILITIES)
    rounds.kill()
    clusters.note_description(connection, "south", 8, ["claim", "withdraw"], 0)
    asked = _noted(rounds.clusters["south"], monkeypatch)
    assert oarsub(*words, command="oargridsub").status == 6
    ((job,),) = connection.execute("SELECT id FROM grid_jobs").fetchall()
    rounds.until(1)
    assert places(rounds, job)[2] == {"north": 8}
    assert not any(isinstance(call, Slots | Prepare) for call in asked)
    why = oarsub("--why", str(job), command="oargridstat").out
    assert "  when it was placed, north : 8 free now, 8 at most\n" in why
    assert "  when it was placed, south : it reserves nothing\n" in why


def test_who_comes_before_any_cluster_was_heard_waits_for_one(rounds: ClaimRounds) -> None:
    rounds.connection.execute("UPDATE grid_clusters SET procs = NULL")
    job = rounds.spread(12)
    rounds._claimer.run_once(rounds.connection, datetime.fromtimestamp(rounds.clock(), UTC))
    assert rounds.job(job).state is GridJobState.SUBMITTED
    rounds.until(40)
    assert rounds.job(job).state is GridJobState.RUNNING


def test_a_job_that_is_to_be_over_too_early_finds_no_room(rounds: ClaimRounds) -> None:
    rounds.clusters["south"].submit("local", 8, 1000)
    late = rounds.spread(12, end_by=rounds.began + 1000)
    early = rounds.spread(4, end_by=rounds.began + 200)
    rounds.until(1)
    assert rounds.job(late).state is GridJobState.ERROR
    assert rounds.job(early).state is GridJobState.MAPPED


def test_a_refusal_asks_anew_three_times(rounds: ClaimRounds) -> None:
    for _ in range(2):
        rounds.clusters["south"].faults.refuse("prepare", "too late")
    job = rounds.spread(12)
    rounds.until(3)
    assert rounds.job(job).state is GridJobState.MAPPED
    for _ in range(6):  # each time a cluster is asked twice, as there is time
        rounds.clusters["south"].faults.refuse("prepare", "too late")
    refused = rounds.spread(12)
    rounds.until(10)
    row = rounds.job(refused)
    assert (row.state, row.message) == (GridJobState.ERROR, "south: cluster 'south' refuses: too late")


def test_who_does_not_answer_is_asked_again(rounds: ClaimRounds) -> None:
    rounds.clusters["south"].faults.silent("slots")
    job = rounds.spread(12)
    rounds.until(1)
    assert rounds.job(job).state is GridJobState.SUBMITTED
    assert "south" in rounds.job(job).message
    rounds.until(12)
    assert rounds.job(job).state is GridJobState.MAPPED


@pytest.mark.parametrize("call", ["slots", "prepare", "commit", "begin"])
@pytest.mark.parametrize("done", [False, True])
def test_a_broker_killed_at_any_call_goes_on(rounds: ClaimRounds, call: str, done: bool) -> None:
    rounds.clusters["south"].faults.strike(OrderedFault(call, BrokerKilled(), done))
    job = rounds.spread(12)
    rounds.until(LEAD + 10)
    assert rounds.job(job).state is GridJobState.RUNNING
    assert len(rounds.events("started")) == 2
    assert [sum(state == "running" for state in states.values()) for states in rounds.there().values()] == [1, 1]


def test_a_part_that_dies_ends_the_others(rounds: ClaimRounds) -> None:
    job = rounds.spread(12, walltime=1000)
    rounds.until(LEAD + 1)
    hosts = next(part for part in rounds.parts(job) if part.component == 1)
    rounds.clusters[hosts.cluster].finish(hosts.name, 1)
    rounds.until(LEAD + 40)
    row = rounds.job(job)
    assert row.state is GridJobState.ERROR
    assert row.message.startswith(f"its part on cluster {hosts.cluster} failed")
    assert rounds.there() == NOTHING


def test_parts_that_do_not_come_together_are_placed_once_more(rounds: ClaimRounds) -> None:
    job = rounds.spread(12, walltime=1000)
    for _ in range(2):
        rounds.until(rounds.clock() - rounds.began + 5)
        while rounds.job(job).state is not GridJobState.MAPPED:
            rounds.until(rounds.clock() - rounds.began + 1)
        lost = next(part for part in rounds.parts(job) if part.state is GridPartState.WAITING)
        rounds.clusters[lost.cluster].ask(Cancel(lost.name, "its node died", key=lost.name))
        rounds.until(rounds.clock() - rounds.began + 3)
    rounds.until(rounds.clock() - rounds.began + 40)
    row = rounds.job(job)
    assert row.state is GridJobState.ERROR
    assert "its node died" in row.message
    assert rounds.there() == NOTHING
    assert metajobs.of_jobs(rounds.connection, [job])[job].placings == 2


def test_a_part_that_waits_for_a_silent_cluster_is_given_up_a_minute_after_its_start(rounds: ClaimRounds) -> None:
    job = rounds.spread(16, walltime=300)
    south = rounds.clusters["south"]
    south.faults.silent("commit")
    while not any(part.state is GridPartState.COMMITTING for part in rounds.parts(job)):
        rounds.round()
        rounds.clock.now += 0.25
    assert rounds.job(job).state is GridJobState.MAPPED
    south.faults.cut = True
    rounds.until(LEAD + 80)
    row = rounds.job(job)
    assert row.state is GridJobState.SUBMITTED
    assert rounds.there()["north"] == {}
    south.faults.forget()
    rounds.until(LEAD + 140)
    assert rounds.job(job).state is GridJobState.RUNNING
    assert metajobs.of_jobs(rounds.connection, [job])[job].placings == 2


def test_a_cluster_that_dies_at_the_start_is_not_awaited_when_its_part_only_holds_hosts(rounds: ClaimRounds) -> None:
    rounds.clusters["north"].submit("local", 4, 60)
    rounds.clusters["south"].submit("local", 4, 5000)
    job = rounds.spread(8, walltime=300)
    rounds.until(5)
    assert [part.cluster for part in rounds.parts(job)] == ["north", "south"]
    south = rounds.clusters["south"]
    south.faults.cut = True
    rounds.until(200)
    assert rounds.job(job).state is GridJobState.RUNNING
    assert len(rounds.there()["north"]) == 1
    south.faults.forget()
    rounds.until(230)
    assert rounds.there()["south"].keys() == {"local"}
    assert rounds.job(job).state is GridJobState.RUNNING


def test_a_cluster_that_was_not_told_that_the_program_begins_is_not_awaited(rounds: ClaimRounds) -> None:
    rounds.clusters["south"].submit("local", 4, 90)
    job = rounds.spread(12, walltime=300)
    rounds.until(5)
    assert [part.cluster for part in rounds.parts(job)] == ["north", "south"]
    clusters.set_active(rounds.connection, "north", active=False)
    rounds.clusters["north"].faults.cut = True
    rounds.until(LEAD + 50)
    assert rounds.job(job).state is GridJobState.MAPPED
    rounds.until(LEAD + 80)
    assert "no room" in rounds.job(job).message
    rounds.clusters["north"].faults.forget()
    rounds.until(LEAD + 150)
    assert rounds.there() == {"north": {}, "south": {}}
    assert [event.part for event in rounds.events("started")] == [rounds.parts(job)[1].name]


def test_a_program_begins_when_all_parts_run_and_knows_their_hosts(
    rounds: ClaimRounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    north, south = rounds.clusters.values()
    asked = _noted(north, monkeypatch)
    for _ in range(3):
        south.faults.refuse("begin", "not yet")
    job = rounds.spread(12)
    rounds.until(LEAD + 5)
    assert rounds.job(job).state is GridJobState.RUNNING
    started = {event.part: event for event in rounds.events("started")}
    program, hosts = (started[part.name] for part in rounds.parts(job))
    assert LEAD < hosts.at - rounds.began <= program.at - rounds.began < LEAD + 3
    assert {call.hosts for call in asked if isinstance(call, Begin)} == {hosts.hosts}


def test_a_part_that_is_never_ready_begins_no_program(rounds: ClaimRounds) -> None:
    job = rounds.spread(16, walltime=300)
    rounds.until(5)
    for _ in range(1000):
        rounds.clusters["south"].faults.refuse("begin", "its node died")
    rounds.until(LEAD + 58)
    assert metajobs.of_job(rounds.connection, job).placings == 1
    rounds.until(LEAD + 180)
    row = rounds.job(job)
    assert row.state is GridJobState.ERROR
    assert row.message.endswith("had not started 60 s after the deadline")
    assert metajobs.of_job(rounds.connection, job).placings == 2
    assert (rounds.events("started"), rounds.there()) == ([], NOTHING)


def test_parts_begin_within_the_time_that_the_broker_is_set_to(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = ClaimRounds(connection, metajobs=MetajobRules(begin_time=20))
    asked = _noted(rounds.clusters["south"], monkeypatch)
    job = rounds.spread(16, walltime=300)
    rounds.until(5)
    for _ in range(400):
        rounds.clusters["south"].faults.refuse("begin", "its node died")
    rounds.until(LEAD + 80)
    row = rounds.job(job)
    assert row.state is GridJobState.ERROR
    assert row.message.endswith("had not started 20 s after the deadline")
    assert {call.part.patience for call in asked if isinstance(call, Prepare)} == {22}


def test_a_program_that_may_have_begun_does_not_begin_again(rounds: ClaimRounds) -> None:
    job = rounds.spread(16, walltime=300)
    rounds.until(5)
    north = rounds.clusters["north"]
    north.faults.silent("begin", done=True)
    while "begin" not in north.calls:
        rounds.round()
        rounds.clock.now += 0.25
    north.faults.cut = True
    rounds.until(LEAD + 80)
    assert rounds.job(job).state is GridJobState.SUBMITTED
    north.faults.forget()
    rounds.until(LEAD + 130)
    row = rounds.job(job)
    assert row.state is GridJobState.ERROR
    assert row.message.startswith("its program may have begun on cluster north: ")
    assert len(rounds.events("started")) == 2
    assert rounds.there() == NOTHING


def test_a_job_that_ran_to_its_end_while_its_cluster_was_silent_does_not_run_again(rounds: ClaimRounds) -> None:
    job = rounds.spread(8, walltime=300)
    rounds.until(5)
    (part,) = rounds.parts(job)
    cluster = rounds.clusters[part.cluster]
    cluster.faults.cut = True
    rounds.until(LEAD + 100)
    assert rounds.job(job).state is GridJobState.SUBMITTED
    cluster.finish(part.name, 0)
    cluster.faults.forget()
    rounds.until(LEAD + 150)
    row = rounds.job(job)
    assert (row.state, row.exit_status) == (GridJobState.TERMINATED, 0)
    assert len(rounds.events("started")) == 1


def test_a_program_that_has_ended_ends_its_job_while_another_cluster_is_silent(rounds: ClaimRounds) -> None:
    job = rounds.spread(16, walltime=1000)
    rounds.until(LEAD + 10)
    south = rounds.clusters["south"]
    south.faults.cut = True
    rounds.clusters["north"].finish(rounds.parts(job)[0].name, 3)
    rounds.until(LEAD + 30)
    row = rounds.job(job)
    assert (row.state, row.exit_status) == (GridJobState.TERMINATED, 3)
    south.faults.forget()
    rounds.until(LEAD + 70)
    assert rounds.there() == NOTHING


@pytest.mark.parametrize("at", [0, 5, LEAD + 2])
def test_a_job_is_deleted_in_every_state(rounds: ClaimRounds, at: float) -> None:
    job = rounds.spread(12)
    if at:
        rounds.until(at)
    assert broker_jobs.ask_deletion(rounds.connection, [job], "alice") == [job]
    rounds.until(at + 3)
    row = rounds.job(job)
    assert (row.state, row.message) == (GridJobState.ERROR, "deleted by alice")
    assert rounds.there() == NOTHING


def test_its_places_are_decided_again_alike(rounds: ClaimRounds) -> None:
    rounds.spread(12)
    rounds.spread(30)
    rounds.until(2)
    assert list(differing(decisions.every(rounds.connection))) == [None, None]


@pytest.mark.parametrize("kind", ["metajob", "bag"])
def test_a_job_whose_rows_contradict_each_other_stops_no_other(rounds: ClaimRounds, kind: str) -> None:
    lacking = NewGridJob("alice", kind, "date", 100, (NewGridComponent("/core=1", 1, "north"),))
    (broken,) = broker_jobs.insert(rounds.connection, lacking)
    job = rounds.spread(4)
    rounds.until(40)
    assert rounds.job(job).state is GridJobState.RUNNING
    assert rounds.job(broken).state is GridJobState.SUBMITTED
    assert rounds.job(broken).message.startswith("set aside: ")


def test_a_cluster_that_is_disabled_while_it_tells_its_free_slots_gets_no_part(rounds: ClaimRounds) -> None:
    rounds.disable_when_asked(Slots, "south")
    job = rounds.spread(12)
    rounds.until(2)
    assert rounds.job(job).state is GridJobState.SUBMITTED
    assert rounds.job(job).message.startswith("no room yet: ")
    assert "south it is not in use any more" in rounds.job(job).message
