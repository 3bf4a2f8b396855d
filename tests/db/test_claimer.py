"""Jobs whose components start together, on clusters in memory and with the broker's real database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import psycopg
import pytest

from oarpy.grid.broker.coallocated import deadline_jobs
from oarpy.grid.broker.coallocated.deadline_jobs import CoallocatedJobs
from oarpy.grid.broker.decisions import taken_again
from oarpy.grid.calls.table import Cancel, Commit, Idle
from oarpy.grid.clusters.virtual.cluster import OrderedFault
from oarpy.model.states import GridJobState
from oarpy.store.grid import broker_jobs, decisions, placing_tries
from tests.harness.claim_rounds import BrokerKilled, ClaimRounds
from tests.harness.inline_calls import answer_instead

pytestmark = [pytest.mark.db, pytest.mark.kept]
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
NOTHING: dict[str, dict[str, str]] = {"north": {}, "south": {}}


@pytest.fixture
def rounds(connection: Connection) -> ClaimRounds:
    return ClaimRounds(connection)


def test_components_start_together_at_the_deadline(rounds: ClaimRounds) -> None:
    job = rounds.submit(deadline=400, components=3)
    rounds.until(210)
    assert rounds.job(job).state is GridJobState.CLAIMED
    rounds.until(401)
    row = rounds.job(job)
    assert (row.state, row.started) == (GridJobState.RUNNING, rounds.began + 400)
    assert [one.at - rounds.began for one in rounds.events("started")] == [400, 400, 400]
    assert [part.cluster for part in rounds.parts(job)] == ["north", "south", "north"]
    rounds.until(510)
    row = rounds.job(job)
    assert (row.state, row.exit_status, row.message) == (GridJobState.TERMINATED, 0, "")
    assert rounds.there() == NOTHING


def test_commits_carry_the_deadline_and_all_hosts(rounds: ClaimRounds) -> None:
    told = []

    def commit(call: Commit, real: Callable[[Commit], None]) -> None:
        told.append((rounds.clock() - rounds.began, (call.begin or 0) - rounds.began, list(call.hosts)))
        real(call)

    rounds.submit(deadline=400)
    for cluster in rounds.clusters.values():
        answer_instead(cluster, Commit, commit)
    rounds.until(401)
    hosts = [f"{name}-{number}" for name in ("north", "south") for number in range(4)]
    assert told == [(395, 400, hosts), (395, 400, hosts)]


def test_a_job_is_tried_again_until_there_is_room(rounds: ClaimRounds) -> None:
    rounds.clusters["north"].submit("local", 8, 250)
    job = rounds.submit(deadline=400, components=3)
    rounds.until(290)
    assert "no room for all components: north 0 idle, south 8 idle" in rounds.job(job).message
    rounds.until(320)
    assert rounds.job(job).state is GridJobState.CLAIMED
    told = placing_tries.of_jobs(rounds.connection, [job])
    assert [(one.due - rounds.began, one.outcome) for one in told] == [
        (200, "no room"),
        (300, "claimed"),
    ]


def test_a_job_without_room_is_missed_and_told_why(rounds: ClaimRounds) -> None:
    rounds.clusters["north"].submit("local", 8, 1000)
    job = rounds.submit(deadline=400, components=3)
    rounds.until(400)
    row = rounds.job(job)
    assert (row.state, row.message) == (
        GridJobState.MISSED,
        "no room for all components: north 0 idle, south 8 idle",
    )
    due = [one.due - rounds.began for one in placing_tries.of_jobs(rounds.connection, [job])]
    assert due == [200, 300, 350, 370]
    assert rounds.there() == {"north": {"local": "running"}, "south": {}}
    taken = list(decisions.every(rounds.connection))
    assert len(taken) == 5
    assert all(taken_again(one.state, one.events) == list(one.actions) for one in taken)


def test_a_try_without_room_reads_the_clusters_once(rounds: ClaimRounds, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[object] = []
    found: list[int] = []
    read, find = deadline_jobs.usable, CoallocatedJobs.room_found

    def usable(connection: Connection) -> Any:
        reads.append(connection)
        return read(connection)

    def room_found(*arguments: Any) -> None:
        reads.clear()
        find(*arguments)
        found.append(len(reads))

    monkeypatch.setattr(deadline_jobs, "usable", usable)
    monkeypatch.setattr(CoallocatedJobs, "room_found", room_found)
    job = rounds.submit(deadline=400, procs=100)
    rounds.until(401)
    assert rounds.job(job).state is GridJobState.MISSED
    assert set(found) == {1}


def test_local_jobs_give_way_at_the_last_try_in_time_to_end_in_order(rounds: ClaimRounds) -> None:
    rounds.clusters["north"].submit("victim", 8, 1000, evictable=True)
    rounds.clusters["south"].submit("other", 8, 1000)
    job = rounds.submit(deadline=400, components=2)
    rounds.until(369)
    assert rounds.there()["north"] == {"victim": "running"}
    rounds.until(371)
    assert rounds.job(job).state is GridJobState.CLAIMED
    rounds.until(401)
    assert rounds.job(job).state is GridJobState.RUNNING
    assert rounds.there()["south"] == {"other": "running"}


def test_a_cluster_whose_clock_is_off_is_not_used(rounds: ClaimRounds) -> None:
    rounds.clusters["north"].clock_off = 2
    job = rounds.submit(deadline=400, components=2)
    rounds.until(401)
    assert {part.cluster for part in rounds.parts(job)} == {"south"}


def test_a_refused_claim_counts_as_a_try_and_leaves_nothing_held(rounds: ClaimRounds) -> None:
    rounds.clusters["south"].faults.refuse("prepare", "in maintenance")
    job = rounds.submit(deadline=400)
    rounds.until(201)
    row = rounds.job(job)
    assert (row.state, row.message) == (
        GridJobState.SUBMITTED,
        "south: cluster 'south' refuses: in maintenance",
    )
    assert rounds.there() == NOTHING
    rounds.until(401)
    assert rounds.job(job).state is GridJobState.RUNNING


@pytest.mark.parametrize("call", ["describe", "idle", "prepare", "commit"])
@pytest.mark.parametrize("done", [False, True])
def test_a_lost_answer_does_no_harm(rounds: ClaimRounds, call: str, done: bool) -> None:
    rounds.clusters["south"].faults.silent(call, done=done)
    job = rounds.submit(deadline=400, components=3)
    rounds.until(401)
    assert rounds.job(job).state is GridJobState.RUNNING
    assert len(rounds.events("started")) == 3


@pytest.mark.parametrize("call", ["describe", "idle", "prepare", "commit"])
@pytest.mark.parametrize("done", [False, True])
def test_a_broker_killed_at_any_call_goes_on(rounds: ClaimRounds, call: str, done: bool) -> None:
    rounds.clusters["south"].faults.strike(OrderedFault(call, BrokerKilled(), done))
    job = rounds.submit(deadline=400, components=3)
    rounds.until(401)
    assert rounds.job(job).state is GridJobState.RUNNING
    assert [one.at - rounds.began for one in rounds.events("started")] == [400, 400, 400]
    rounds.until(510)
    assert rounds.there() == NOTHING


def test_a_cluster_silent_at_the_deadline_makes_the_job_missed_and_leaves_no_part_alone(rounds: ClaimRounds) -> None:
    job = rounds.submit(deadline=400)
    rounds.until(390)
    rounds.clusters["south"].faults.cut = True
    rounds.until(425)
    row = rounds.job(job)
    assert row.state is GridJobState.MISSED
    assert row.message.startswith("its part on cluster south had not started")
    assert rounds.there() == NOTHING
    rounds.clusters["south"].faults.cut = False
    rounds.until(440)
    assert rounds.there() == NOTHING
    (ended,) = rounds.events("failed")
    assert (ended.part, ended.at - rounds.began < 430) == (rounds.parts(job)[0].name, True)


def test_a_cluster_that_lost_its_claim_ends_the_other_part_at_once(rounds: ClaimRounds) -> None:
    job = rounds.submit(deadline=400)
    rounds.until(390)
    rounds.clusters["south"].faults.refuse("commit", "node died")
    rounds.until(402)
    row = rounds.job(job)
    assert row.state is GridJobState.MISSED
    assert "south did not start: cluster 'south' refuses: node died" in row.message
    rounds.until(404)
    assert rounds.there() == NOTHING


def test_a_broker_that_was_away_at_the_deadline_starts_nothing(rounds: ClaimRounds) -> None:
    job = rounds.submit(deadline=400)
    rounds.until(300)
    rounds.clock.advance(101)
    rounds.kill()
    rounds.until(403)
    row = rounds.job(job)
    assert (row.state, row.message) == (GridJobState.MISSED, "the broker was not there at its deadline")
    assert rounds.there() == NOTHING
    assert rounds.events("started") == []


def test_a_claim_that_is_lost_before_the_deadline_is_made_again(rounds: ClaimRounds) -> None:
    job = rounds.submit(deadline=400)
    rounds.until(220)
    rounds.clusters["south"].ask(Cancel(rounds.parts(job)[1].name, "its node died", key="by an admin"))
    rounds.until(299)
    row = rounds.job(job)
    assert row.state is GridJobState.SUBMITTED
    assert row.message == "its claim was lost: cluster 'south': its node died"
    rounds.until(401)
    assert rounds.job(job).state is GridJobState.RUNNING


@pytest.mark.parametrize("call", ["evict", "prepare"])
@pytest.mark.parametrize("done", [False, True])
def test_a_broker_killed_while_local_jobs_give_way_goes_on(rounds: ClaimRounds, call: str, done: bool) -> None:
    rounds.clusters["north"].submit("victim", 8, 1000, evictable=True)
    job = rounds.submit(deadline=400, components=4)
    rounds.clusters["north"].faults.strike(OrderedFault(call, BrokerKilled(), done))
    rounds.until(401)
    assert rounds.job(job).state is GridJobState.RUNNING
    assert len(rounds.events("started")) == 4


@pytest.mark.parametrize("at", [10, 250, 396, 402])
def test_a_job_is_deleted_in_every_state(rounds: ClaimRounds, at: float) -> None:
    job = rounds.submit(deadline=400)
    rounds.until(at)
    assert broker_jobs.ask_deletion(rounds.connection, [job], "alice") == [job]
    rounds.until(at + 1)
    row = rounds.job(job)
    assert (row.state, row.message) == (GridJobState.ERROR, "deleted by alice")
    rounds.until(at + 3)
    assert rounds.there() == NOTHING


@pytest.mark.parametrize("disabled", [["south"], ["north", "south"]])
def test_a_job_has_no_room_on_clusters_that_are_disabled_while_they_say_what_is_idle(
    rounds: ClaimRounds, disabled: list[str]
) -> None:
    rounds.disable_when_asked(Idle, *disabled)
    job = rounds.submit(deadline=100, components=4)
    rounds.until(99)
    row = rounds.job(job)
    assert row.state is not GridJobState.CLAIMED
    assert row.message.startswith("no room for all components: ")
    assert "cluster 'south' is not in use any more" in placing_tries.of_jobs(rounds.connection, [job])[0].message
