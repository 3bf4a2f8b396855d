"""Jobs with parts on named clusters at a date: reserved on all of them, or refused."""

from __future__ import annotations

from typing import Any, TypeAlias

import psycopg
import pytest

from oarpy.grid.clusters.virtual.cluster import OrderedFault
from oarpy.model.states import GridJobState
from oarpy.store.grid import broker_jobs, clusters
from tests.harness.claim_rounds import BrokerKilled, ClaimRounds

pytestmark = pytest.mark.db
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
NOTHING: dict[str, dict[str, str]] = {"north": {}, "south": {}}


@pytest.fixture
def rounds(connection: Connection) -> ClaimRounds:
    return ClaimRounds(connection)


def test_parts_are_reserved_at_once_and_run_at_their_date(rounds: ClaimRounds) -> None:
    job = rounds.reserve(400, "north", "south")
    rounds.until(1)
    assert rounds.job(job).state is GridJobState.MAPPED
    assert [set(states.values()) for states in rounds.there().values()] == [{"reserved"}, {"reserved"}]
    rounds.until(401)
    assert (rounds.job(job).state, rounds.job(job).started) == (GridJobState.RUNNING, rounds.began + 400)
    rounds.until(502)
    assert rounds.job(job).state is GridJobState.TERMINATED


def test_without_a_date_parts_begin_soon(rounds: ClaimRounds) -> None:
    job = rounds.reserve(0, "north", "south")
    rounds.until(12)
    row = rounds.job(job)
    assert (row.state, row.started, row.deadline) == (GridJobState.RUNNING, rounds.began + 10, rounds.began + 10)


def test_a_slow_cluster_makes_all_walltimes_longer(rounds: ClaimRounds) -> None:
    clusters.put(rounds.connection, "south", "oarpy", ["oargriddoor", "campus"], speed=0.5, place=1)
    job = rounds.reserve(400, "north", "south", walltime=100)
    rounds.until(1)
    assert [part.walltime for part in rounds.parts(job)] == [200, 200]


def test_one_refusal_refuses_the_job_and_leaves_nothing(rounds: ClaimRounds) -> None:
    rounds.clusters["south"].submit("local", 8, 1000)
    job = rounds.reserve(400, "north", "south")
    rounds.until(4)  # it is tried three times
    row = rounds.job(job)
    assert (row.state, row.message) == (
        GridJobState.ERROR,
        "south: 4 processors are not idle on cluster 'south'",
    )
    assert rounds.there() == {"north": {}, "south": {"local": "running"}}


def test_a_cluster_that_is_not_in_use_is_named(rounds: ClaimRounds) -> None:
    clusters.set_active(rounds.connection, "south", active=False)
    job = rounds.reserve(400, "north", "south")
    rounds.until(1)
    assert rounds.job(job).message == "no cluster 'south' is in use"


@pytest.mark.parametrize("call", ["prepare", "commit"])
@pytest.mark.parametrize("done", [False, True])
def test_a_broker_killed_at_any_call_goes_on(rounds: ClaimRounds, call: str, done: bool) -> None:
    rounds.clusters["south"].faults.strike(OrderedFault(call, BrokerKilled(), done))
    job = rounds.reserve(400, "north", "south")
    rounds.until(401)
    assert rounds.job(job).state is GridJobState.RUNNING
    assert len(rounds.events("started")) == 2


@pytest.mark.parametrize("done", [False, True])
def test_a_cluster_silent_at_the_first_call_refuses_the_job(rounds: ClaimRounds, done: bool) -> None:
    rounds.clusters["south"].faults.silent("prepare", done=done)
    job = rounds.reserve(400, "north", "south")
    rounds.until(3)
    row = rounds.job(job)
    assert (row.state, row.message) == (GridJobState.ERROR, "south: cluster 'south' does not answer")
    assert rounds.there() == NOTHING


@pytest.mark.parametrize("done", [False, True])
def test_a_cluster_silent_at_the_second_call_is_told_again(rounds: ClaimRounds, done: bool) -> None:
    rounds.clusters["south"].faults.silent("commit", done=done)
    job = rounds.reserve(400, "north", "south")
    rounds.until(3)
    assert rounds.job(job).state is GridJobState.MAPPED


def test_a_cluster_that_dropped_its_reservation_refuses_the_job(rounds: ClaimRounds) -> None:
    rounds.clusters["south"].faults.refuse("commit", "its nodes died")
    job = rounds.reserve(400, "north", "south")
    rounds.until(2)
    row = rounds.job(job)
    assert (row.state, row.message) == (GridJobState.ERROR, "south: cluster 'south' refuses: its nodes died")
    rounds.until(62)
    assert rounds.there() == NOTHING


@pytest.mark.parametrize("at", [0, 10, 402])
def test_a_job_is_deleted_in_every_state(rounds: ClaimRounds, at: float) -> None:
    job = rounds.reserve(400, "north", "south")
    if at:
        rounds.until(at)
    assert broker_jobs.ask_deletion(rounds.connection, [job], "alice") == [job]
    rounds.until(at + 1)
    row = rounds.job(job)
    assert (row.state, row.message) == (GridJobState.ERROR, "deleted by alice")
    rounds.until(at + 3)
    assert rounds.there() == NOTHING


def test_a_cluster_whose_clock_is_off_reserves_nothing(rounds: ClaimRounds) -> None:
    rounds.clusters["south"].clock_off = 600
    clusters.note_description(rounds.connection, "south", 8, ["claim", "reserve"], 600)
    job = rounds.reserve(400, "north", "south")
    rounds.until(1)
    row = rounds.job(job)
    assert row.state is GridJobState.ERROR
    assert row.message == "south: its clock is +600.0 s off, so parts do not begin together"
    assert rounds.there() == NOTHING
