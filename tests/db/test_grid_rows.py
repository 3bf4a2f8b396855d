"""What a broker stores keeps to the allowed moves, and a component has one part that can start."""

from __future__ import annotations

from typing import Any, TypeAlias

import psycopg
import pytest

from oarpy.grid.broker.transactions import part_name, wire_name
from oarpy.model.states import GridJobState, GridPartState, GridTransactionState
from oarpy.store.grid import (
    broker_jobs,
    broker_parts,
    clusters,
    decisions,
    placing_tries,
    reallocation_passes,
    transactions,
)
from oarpy.store.grid.broker_jobs import NewGridComponent, NewGridJob
from oarpy.store.grid.transactions import NewGridPart

pytestmark = [pytest.mark.db, pytest.mark.kept]
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
DATE = NewGridJob("alice", "mapped", "date", 60, (NewGridComponent("/core=1", 1),))


@pytest.fixture
def broker(connection: Connection) -> Connection:
    """A database with two clusters."""
    clusters.put(connection, "south", "oarpy", ["oargriddoor", "campus"], place=2)
    clusters.put(connection, "north", "oarpy", ["ssh", "north"], speed=2, place=1)
    return connection


def placed(connection: Connection, job: int, cluster: str, name: str) -> int:
    """Begin a transaction that makes a part, and let its cluster prepare it."""
    transaction = transactions.begin(connection, "place", "mapper", job, 60)
    transactions.add_parts(connection, transaction, [NewGridPart(name, job, 0, cluster, "queued", 60)])
    transactions.note_prepared(connection, transaction, {name: "17"})
    return transaction


def state_of(connection: Connection, part: str) -> GridPartState:
    """The state of a part."""
    return broker_parts.by_name(connection, [part])[0].state


def test_clusters_have_the_configured_order(broker: Connection) -> None:
    clusters.note_description(broker, "north", 32, ["claim"], 0.1)
    clusters.note_silence(broker, "south", "no route")
    north, south = clusters.every(broker)
    assert (north.name, north.speed, north.procs, *north.abilities) == ("north", 2.0, 32, "claim")
    assert (south.name, south.message) == ("south", "no route")
    assert south.silent_since is not None
    assert clusters.remove(broker, "south")
    assert [one.name for one in clusters.every(broker)] == ["north"]


def test_an_array_is_as_many_jobs_with_their_components(broker: Connection) -> None:
    ids = broker_jobs.insert(broker, DATE, 3)
    rows = broker_jobs.of_array(broker, ids[0])
    assert [(one.id, one.array_index, one.state) for one in rows] == [
        (number, place, GridJobState.SUBMITTED) for place, number in enumerate(ids, 1)
    ]
    assert [one[0].resources for one in broker_jobs.components(broker, ids).values()] == ["/core=1"] * 3
    assert broker_jobs.ask_deletion(broker, ids[:1], "root") == ids[:1]
    assert broker_jobs.ask_deletion(broker, ids[:1], "root") == []
    assert [one.id for one in broker_jobs.to_delete(broker, ["mapped"])] == ids[:1]


def test_a_job_does_what_its_moves_allow(broker: Connection) -> None:
    job = broker_jobs.insert(broker, DATE)[0]
    with pytest.raises(psycopg.errors.CheckViolation, match="cannot go from Submitted to Running"):
        broker_jobs.move(broker, [job], GridJobState.RUNNING)
    broker_jobs.move(broker, [job], GridJobState.MAPPED)
    broker_jobs.move(broker, [job], GridJobState.RUNNING, started=1000)
    broker_jobs.move(broker, [job], GridJobState.TERMINATED, ended=1060, status=0)
    assert broker_jobs.move(broker, [job], GridJobState.ERROR) == []
    row = broker_jobs.read(broker, [job])[0]
    assert (row.state, row.started, row.ended, row.exit_status) == (GridJobState.TERMINATED, 1000, 1060, 0)
    with pytest.raises(psycopg.errors.CheckViolation, match="begins as Submitted"):
        broker.execute(
            "INSERT INTO grid_jobs (user_name, kind, state, walltime) VALUES ('a', 'mapped', 'Mapped', '1m')"
        )


def test_a_component_has_one_part_that_can_start(broker: Connection) -> None:
    job = broker_jobs.insert(broker, DATE)[0]
    first, second = placed(broker, job, "north", "1"), placed(broker, job, "south", "2")
    assert transactions.decide(broker, first)
    with pytest.raises(psycopg.errors.UniqueViolation, match="grid_parts_startable"), broker.transaction():
        transactions.decide(broker, second)
    assert transactions.give_up(broker, second, "the other was faster")
    assert (state_of(broker, "1"), state_of(broker, "2")) == (GridPartState.COMMITTING, GridPartState.ABORTING)


def test_a_transaction_is_done_when_all_clusters_know(broker: Connection) -> None:
    job = broker_jobs.insert(broker, DATE)[0]
    transaction = placed(broker, job, "north", "1")
    transactions.decide(broker, transaction)
    transactions.note_unknown(broker, transaction, "north", "no answer")
    assert [(one.cluster, one.asked, one.committed) for one in transactions.doubts(broker)] == [("north", 1, True)]
    assert [one.unaware for one in transactions.open_of(broker, "mapper")] == [("north",)]
    assert transactions.note_known(broker, transaction, "north")
    row = transactions.read(broker, transaction)
    assert row is not None
    assert (row.state, row.unaware, transactions.doubts(broker)) == (GridTransactionState.DONE, (), [])
    assert state_of(broker, "1") == GridPartState.WAITING


def test_a_move_deletes_the_old_part_and_releases_the_new_one(broker: Connection) -> None:
    job = broker_jobs.insert(broker, DATE)[0]
    transactions.decide(broker, placing := placed(broker, job, "north", "1"))
    broker_jobs.move(broker, [job], GridJobState.MAPPED)
    assert broker_parts.movable(broker) == []
    transactions.note_known(broker, placing, "north")
    assert [(one.name, one.cluster, one.procs) for one in broker_parts.movable(broker)] == [("1", "north", 1)]
    move = transactions.begin(broker, "move", "mover", job, 60)
    assert transactions.freeze(broker, move, ["1", "unknown"]) == ["1"]
    assert not transactions.decide(broker, move)
    transactions.note_prepared(broker, move, {"1": "17"})
    transactions.add_parts(broker, move, [NewGridPart("2", job, 0, "south", "queued", 60)])
    transactions.note_prepared(broker, move, {"2": "18"})
    assert transactions.decide(broker, move)
    assert not transactions.note_known(broker, move, "south")
    assert transactions.note_known(broker, move, "north")
    assert (state_of(broker, "1"), state_of(broker, "2")) == (GridPartState.GONE, GridPartState.WAITING)


def test_a_move_that_is_given_up_leaves_the_old_part_where_it_waits(broker: Connection) -> None:
    job = broker_jobs.insert(broker, DATE)[0]
    transactions.decide(broker, placing := placed(broker, job, "north", "1"))
    transactions.note_known(broker, placing, "north")
    move = transactions.begin(broker, "move", "mover", job, 60)
    transactions.freeze(broker, move, ["1"])
    transactions.add_parts(broker, move, [NewGridPart("2", job, 0, "south", "queued", 60)])
    assert transactions.give_up(broker, move, "south does not answer")
    assert transactions.freeze(broker, transactions.begin(broker, "move", "mover", job, 60), ["1"]) == []
    transactions.note_known(broker, move, "south")
    transactions.note_known(broker, move, "north")
    assert (state_of(broker, "1"), state_of(broker, "2")) == (GridPartState.WAITING, GridPartState.GONE)


def test_tries_passes_moves_and_decisions_are_kept(broker: Connection) -> None:
    job = broker_jobs.insert(broker, DATE)[0]
    placing_tries.plan(broker, job, 0, 2000, last=False)
    placing_tries.plan(broker, job, 0, 1000, last=True)
    assert [(one.due, one.last) for one in placing_tries.pending(broker)] == [(1000, True)]
    placing_tries.settle(broker, job, 0, "no room", {"north": 3})
    assert [(one.outcome, one.idle) for one in placing_tries.of_jobs(broker, [job])] == [("no room", {"north": 3})]
    number = reallocation_passes.ask(broker, "root")
    assert [one.id for one in reallocation_passes.asked(broker)] == [number]
    reallocation_passes.begin(broker, 1, "mct", 4, number)
    move = reallocation_passes.add_move(broker, number, job, "north", "south", 500, 300)
    reallocation_passes.settle_move(broker, move, "moved")
    reallocation_passes.end(broker, number, 1)
    assert [(one.moved, one.waiting) for one in reallocation_passes.latest(broker, 1)] == [(1, 4)]
    assert [(one.new_end, one.outcome) for one in reallocation_passes.moves_of_pass(broker, number)] == [(300, "moved")]
    decisions.add(broker, "mapper", 1000, {"clusters": []}, [{"kind": "arrived"}], [])
    assert [(one.module, one.at, one.events) for one in decisions.every(broker)] == [
        ("mapper", 1000, [{"kind": "arrived"}])
    ]


def test_names_on_clusters_do_not_come_again_after_a_restore(broker: Connection) -> None:
    (job,) = broker_jobs.insert(broker, DATE)
    names = []
    for _ in range(2):
        broker.execute("TRUNCATE grid_transactions RESTART IDENTITY CASCADE")  # as it was when the copy was made
        number = transactions.begin(broker, "place", "mapper", job, 60)
        row = transactions.read(broker, number)
        assert row is not None
        assert row.word == transactions.word(broker, number)
        name = wire_name(number, row.word)
        names.append((number, name, part_name(job, 0, name)))
        broker.execute("SELECT begin_generation('restored', 1000)")
    assert names[0][0] == names[1][0]
    assert names[0][1] != names[1][1]
    assert names[0][2] != names[1][2]


def test_kinds_of_transactions_and_outcomes_of_tries_are_those_that_are_written(broker: Connection) -> None:
    job = broker_jobs.insert(broker, DATE)[0]
    placing_tries.plan(broker, job, 0, 1000, last=False)
    with pytest.raises(psycopg.errors.CheckViolation, match="grid_tries_outcome_check"):
        placing_tries.settle(broker, job, 0, "silent", {})
    with pytest.raises(psycopg.errors.CheckViolation, match="grid_transactions_kind_check"):
        transactions.begin(broker, "withdraw", "mover", job, 60)
    placing_tries.settle(broker, job, 0, "no room", {"north": 1})
    assert [one.outcome for one in placing_tries.of_jobs(broker, [job])] == ["no room"]
