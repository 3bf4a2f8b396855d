"""A job that starts together on clusters, of which one was silent at its deadline, is told as it was in the end."""

from __future__ import annotations

from typing import Any, TypeAlias

import psycopg
import pytest

from oarpy.grid.broker.watcher import change_part
from oarpy.grid.calls.parts import PartEnded, PartEvent, PartLost, PartStarted
from oarpy.model.states import GridJobState
from oarpy.store.grid import broker_jobs, broker_parts, clusters, transactions
from oarpy.store.grid.broker_jobs import GridJobRow, NewGridComponent, NewGridJob
from oarpy.store.grid.transactions import NewGridPart

pytestmark = [pytest.mark.db, pytest.mark.kept]
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
NAMES = ("north", "south", "west")
BEGIN = 1_000_000.0


@pytest.fixture
def missed(connection: Connection) -> int:
    """A job with a part on each of three clusters; those of two are known to run, and nothing is known of the third."""
    for name in NAMES:
        clusters.put(connection, name, "oarpy", ["oargriddoor", "campus"])
    components = tuple(NewGridComponent("/core=1", 1) for _ in NAMES)
    new = NewGridJob("alice", "coallocated", "date", 60, components, deadline=BEGIN, notify="mail:alice@localhost")
    (job,) = broker_jobs.insert(connection, new)
    broker_jobs.move(connection, [job], GridJobState.CLAIMING)
    transaction = transactions.begin(connection, "claim", "claimer", job, 60, BEGIN)
    parts = [NewGridPart(name, job, number, name, "claim", 60) for number, name in enumerate(NAMES)]
    transactions.add_parts(connection, transaction, parts)
    transactions.note_prepared(connection, transaction, dict.fromkeys(NAMES, "17"))
    transactions.hold(connection, transaction)
    broker_jobs.move(connection, [job], GridJobState.CLAIMED)
    transactions.decide(connection, transaction, BEGIN)
    for name in NAMES[:2]:
        hear(connection, PartStarted(1, BEGIN, name, job="17", hosts=("n1",)))
    broker_parts.ask_end(connection, NAMES, "late")
    broker_jobs.move(connection, [job], GridJobState.MISSED, "its part on cluster west had not started")
    return job


def hear(connection: Connection, event: PartEvent) -> None:
    """What the watcher does with an event."""
    (part,) = broker_parts.by_name(connection, [event.part])
    (job,) = broker_jobs.read(connection, [part.job])
    change_part(connection, part, job, event)


def seen(connection: Connection, job: int) -> GridJobRow:
    return broker_jobs.read(connection, [job])[0]


def test_a_job_whose_parts_all_ran_is_terminated_once_the_silent_cluster_is_heard(
    connection: Connection, missed: int
) -> None:
    hear(connection, PartEnded(2, BEGIN + 10, "north", status=0))
    hear(connection, PartEnded(2, BEGIN + 12, "south", status=256))
    hear(connection, PartStarted(1, BEGIN + 1, "west", job="17", hosts=("n1",)))
    assert seen(connection, missed).state is GridJobState.MISSED
    hear(connection, PartEnded(2, BEGIN + 11, "west", status=0))
    job = seen(connection, missed)
    assert (job.state, job.started, job.ended, job.exit_status) == (GridJobState.TERMINATED, BEGIN, BEGIN + 12, 256)
    assert job.message == "all of its parts ran: that was heard late"
    tags = connection.execute("SELECT tag FROM notices WHERE grid_job_id = %s ORDER BY notice_id", [missed]).fetchall()
    assert tags == [("ERROR",), ("END",)]


def test_a_job_whose_parts_were_ended_stays_missed_and_says_what_is_known_now(
    connection: Connection, missed: int
) -> None:
    hear(connection, PartLost(2, BEGIN + 20, "north", reason="ended by the broker"))
    hear(connection, PartEnded(2, BEGIN + 12, "south", status=0))
    hear(connection, PartStarted(1, BEGIN + 1, "west", job="17", hosts=("n1",)))
    hear(connection, PartEnded(2, BEGIN + 11, "west", status=0))
    job = seen(connection, missed)
    assert (job.state, job.message.partition(":")[0]) == (GridJobState.MISSED, "all of its parts had started")


def test_a_job_of_which_a_part_never_started_stays_missed(connection: Connection, missed: int) -> None:
    for name in NAMES[:2]:
        hear(connection, PartEnded(2, BEGIN + 10, name, status=0))
    hear(connection, PartLost(1, BEGIN + 30, "west", reason="it was not told in time to start"))
    job = seen(connection, missed)
    assert (job.state, job.message) == (GridJobState.MISSED, "its part on cluster west had not started")
