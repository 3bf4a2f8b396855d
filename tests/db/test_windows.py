"""Reservations with a window: they move for others, and back; who is refused is offered other starts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest

from oarpy.store.passes import window_moves
from oarpy.store.past import instants
from tests.harness.oarsub_cluster import Submitter, process
from tests.harness.passes_beside import offers, passes
from tests.harness.small_cluster import Connection, SmallCluster, with_settings

pytestmark = pytest.mark.db
HOUR = 3600


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection, with_settings(scheduler={"security_time": 0}))
    made.add_nodes("n1", "n2")
    return made


def at(cluster: SmallCluster, hours: float) -> datetime:
    return (cluster.now() + timedelta(hours=hours)).replace(microsecond=0)


def reserve(cluster: SmallCluster, begin: float, end: float | None = None, **values: Any) -> int:
    """Reserve both nodes for an hour from ``begin`` on (hours from now), or at a time until ``end``."""
    until = None if end is None else at(cluster, end)
    return cluster.submit("/nodes=2,walltime=1:0:0", reservation=at(cluster, begin), until=until, **values)


def start(cluster: SmallCluster, job: int) -> float:
    """Return when a reservation is to start, in hours from now."""
    found: datetime = cluster.job(job, "reservation_start")
    return round((found - cluster.now()).total_seconds() / HOUR, 1)


def test_a_reservation_moves_inside_its_window_for_a_strict_one(cluster: SmallCluster) -> None:
    flexible = reserve(cluster, 2, 6)
    cluster.settle()
    assert start(cluster, flexible) == 2
    strict = reserve(cluster, 2)
    cluster.settle()
    assert (start(cluster, strict), start(cluster, flexible)) == (2, 3)
    assert cluster.states([strict, flexible]) == ["Waiting", "Waiting"]
    assert cluster.events(flexible) == ["RESERVATION_MOVED"]
    held = "SELECT job_id, count(*) FROM reserved_resources GROUP BY 1 ORDER BY 1"
    assert cluster.sql(held) == [(flexible, 4), (strict, 4)]


def test_who_is_refused_is_offered_starts_before_and_after(cluster: SmallCluster) -> None:
    taken = reserve(cluster, 2)
    cluster.settle()
    refused = reserve(cluster, 2.1)
    cluster.settle()
    assert cluster.state(refused) == "Error"
    rows = cluster.sql(
        "SELECT extract(epoch FROM o.start_time - j.reservation_start)::int, round(phi::numeric, 1)::float8"
        " FROM reservation_offers o, jobs j WHERE o.job_id = %s AND j.job_id = %s ORDER BY phi",
        refused,
        taken,
    )
    assert rows == [(HOUR, 0.9), (-HOUR, 1.1)]


def test_a_reservation_moves_forward_when_another_is_deleted(cluster: SmallCluster) -> None:
    first = reserve(cluster, 2)
    flexible = reserve(cluster, 2, 6)
    cluster.settle()
    assert start(cluster, flexible) == 3
    cluster.delete(first)
    cluster.settle()
    assert start(cluster, flexible) == 2


def test_time_travel_shows_windows_as_they_were(cluster: SmallCluster) -> None:
    begin = at(cluster, 2)
    flexible = reserve(cluster, 2, 6)
    before = cluster.now()
    cluster.settle()
    accepted = cluster.now()
    strict = reserve(cluster, 2)
    cluster.settle()
    moved = cluster.now()
    cluster.sql("UPDATE reservation_windows SET deadline = deadline + interval '1 hour', fixed_at = now()")
    wider = cluster.now()
    cluster.sql("DELETE FROM reservation_windows")
    hours = {
        name: [
            (found.ready - begin.timestamp()) / HOUR if found.ready else None,
            round((found.deadline - begin.timestamp()) / HOUR, 1),
            round(((found.start or 0) - begin.timestamp()) / HOUR, 1),
            found.state,
        ]
        for name, instant in {"accepted": accepted, "moved": moved, "wider": wider}.items()
        if (found := instants.windows_at(cluster.connection, instant, [flexible, strict]).get(flexible))
    }
    assert hours == {
        "accepted": [0, 4, 0, "movable"],
        "moved": [0, 4, 1, "movable"],
        "wider": [0, 5, 1, "fixed"],
    }
    assert instants.windows_at(cluster.connection, cluster.now(), [flexible]) == {}
    assert instants.windows_at(cluster.connection, before - timedelta(hours=1), [flexible]) == {}
    kept = "SELECT verdict FROM verdict_changes WHERE job_id = %s ORDER BY at DESC LIMIT 1"
    assert cluster.sql(kept, flexible) == [("reserved",)]


def test_what_went_while_no_server_ran_leaves_room(cluster: SmallCluster, connection: Connection) -> None:
    first = reserve(cluster, 2)
    flexible = reserve(cluster, 2, 6)
    cluster.settle()
    cluster.delete(first)
    cluster.sql("UPDATE jobs SET state = 'toError' WHERE job_id = %s", first)
    cluster.sql("UPDATE jobs SET state = 'Error', ended_at = now() WHERE job_id = %s", first)
    again = SmallCluster(connection, with_settings(scheduler={"security_time": 0}))
    again.settle()
    assert start(again, flexible) == 2


def test_a_window_that_is_changed_by_hand_is_acted_on(cluster: SmallCluster) -> None:
    job = reserve(cluster, 2, 6)
    cluster.settle()
    cluster.sql(
        "UPDATE reservation_windows SET ready = ready + interval '2 hours', deadline = deadline + interval '4 hours'"
    )
    cluster.settle()
    assert start(cluster, job) == 4
    cluster.sql("DELETE FROM reservation_windows")
    refused = cluster.submit("/nodes=2,walltime=1:0:0", reservation=at(cluster, 4.2))
    cluster.settle()
    assert (cluster.state(refused), start(cluster, job)) == ("Error", 4)


def test_one_that_is_put_on_hold_while_a_pass_decides_keeps_its_resources(cluster: SmallCluster) -> None:
    job = reserve(cluster, 2, 6)
    cluster.settle()
    held = "SELECT resource_id, during FROM reserved_resources ORDER BY 1"
    before = cluster.sql(held)
    cluster.sql("UPDATE jobs SET state = 'Hold' WHERE job_id = %s", job)
    to = window_moves.MoveRow(job, at(cluster, 3).timestamp(), [row[0] for row in before], True, "it moves")
    with cluster.connection.transaction():
        window_moves.move(cluster.connection, [to], 0)
    assert cluster.sql(held) == before
    assert cluster.events(job) == []


def test_an_offer_goes_with_its_question(cluster: SmallCluster) -> None:
    reserve(cluster, 2)
    cluster.settle()
    refused = reserve(cluster, 2.1)
    cluster.settle()
    assert cluster.sql("SELECT count(*) FROM reservation_offers") == [(2,)]
    with cluster.connection.transaction():
        cluster.sql("SET LOCAL oarpy.rewrite_history = on")
        cluster.sql("DELETE FROM jobs WHERE job_id = %s", refused)
    assert cluster.sql("SELECT count(*) FROM reservation_offers") == [(0,)]


def test_twenty_clients_who_accept_one_offer_make_one_job(
    oarsub: Submitter,
    connection: Connection,
    dsn: str,
    cluster_environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OARPY_SUBMISSION_WAITING_RESERVATIONS_PER_USER", "50")
    asked = ("-r", f"{datetime.now() + timedelta(hours=2):%Y-%m-%d %H:%M:%S}", "-l", "/nodes=4,walltime=1:0:0", "date")
    with passes(dsn):
        oarsub.job_id(*asked)
        ((number, *_), *_) = offers(oarsub(*asked).out)
        with ThreadPoolExecutor(20) as clients:
            done = list(clients.map(lambda _: process(cluster_environment, "oarsub", "--accept", number), range(20)))
    assert sorted(one.status for one in done) == [0] + [1] * 19
    assert connection.execute("SELECT count(*) FROM jobs WHERE state = 'Waiting'").fetchone() == (2,)
    taken = "SELECT count(*), bool_or(became_job) FROM oar_report.offers WHERE accepted_job IS NOT NULL"
    assert connection.execute(taken).fetchone() == (1, True)


def test_one_that_begins_soon_is_left_alone_and_fixed_ones_are(connection: Connection) -> None:
    cluster = SmallCluster(connection, with_settings(scheduler={"security_time": 0, "reservation_notice": 3 * HOUR}))
    cluster.add_nodes("n1", "n2")
    soon = reserve(cluster, 2, 20)
    later = reserve(cluster, 10, 20)
    fixed = reserve(cluster, 14, 20, fix="now")
    cluster.settle()
    assert cluster.sql("SELECT job_id FROM reservation_windows WHERE fixed_at IS NOT NULL") == [(fixed,)]
    strict = [reserve(cluster, 2), reserve(cluster, 10), reserve(cluster, 14)]
    cluster.settle()
    assert cluster.states(strict) == ["Error", "Waiting", "Error"]
    assert [start(cluster, job) for job in (soon, later, fixed)] == [2, 11, 14]


def test_the_alternative_that_ends_first_is_taken(cluster: SmallCluster) -> None:
    reserve(cluster, 2)
    cluster.settle()
    requests = ("/nodes=2,walltime=1:0:0", "/nodes=2,walltime=0:30:0")
    job = cluster.submit(*requests, reservation=at(cluster, 1.4), until=at(cluster, 5))
    cluster.settle()
    assert start(cluster, job) == 1.4
    assert cluster.job(job, "walltime") == timedelta(minutes=30)


@pytest.mark.parametrize(("slack", "room"), [("50%", 0.25), ("1h", 1)])
def test_each_alternative_has_the_room_of_its_own_walltime(cluster: SmallCluster, slack: str, room: float) -> None:
    requests = ("/nodes=2,walltime=2:0:0", "/nodes=2,walltime=0:30:0")
    date = at(cluster, 2)
    job = cluster.submit(*requests, reservation=date, slack=slack)
    cluster.settle()
    assert cluster.job(job, "walltime") == timedelta(minutes=30)
    ((found,),) = cluster.sql("SELECT deadline FROM reservation_windows WHERE job_id = %s", job)
    assert found == date + timedelta(hours=0.5 + room)
    strict = cluster.submit("/nodes=2,walltime=0:12:0", reservation=date)
    cluster.settle()
    assert (cluster.states([strict, job]), start(cluster, job)) == (["Waiting", "Waiting"], 2.2)


def test_a_short_alternative_has_no_more_room_than_a_long_one_leaves(cluster: SmallCluster) -> None:
    """Half of the long walltime would be an hour, half of the short one is less than what is in the way."""
    cluster.submit("/nodes=2,walltime=0:20:0", reservation=at(cluster, 2))
    cluster.settle()
    requests = ("/nodes=2,walltime=2:0:0", "/nodes=2,walltime=0:30:0")
    job = cluster.submit(*requests, reservation=at(cluster, 2), slack="50%")
    cluster.settle()
    assert (start(cluster, job), cluster.job(job, "walltime")) == (2.3, timedelta(hours=2))


def test_a_quota_holds_on_the_place_that_a_reservation_moves_to(cluster: SmallCluster) -> None:
    cluster.sql("INSERT INTO quotas (user_name, max_resources) VALUES ('ann', 2)")
    flexible = cluster.submit("/nodes=1,walltime=1:0:0", reservation=at(cluster, 2), until=at(cluster, 9))
    cluster.settle()
    other = cluster.submit("/nodes=1,walltime=1:0:0", reservation=at(cluster, 3.1))
    cluster.settle()
    strict = reserve(cluster, 2, user="bob")  # ends before 3.1, also if it is asked for some seconds later
    cluster.settle()
    assert cluster.states([other, strict]) == ["Waiting", "Waiting"]
    assert (start(cluster, strict), start(cluster, flexible)) == (2, 4.1), "ann has her two cores from 3.1 to 4.1"


def test_a_calendar_of_quotas_holds_on_the_place_that_a_reservation_moves_to(cluster: SmallCluster) -> None:
    cluster.sql("INSERT INTO quota_sets (set_name) VALUES ('day')")
    cluster.sql("INSERT INTO quotas (user_name, max_resources, set_name) VALUES ('/', 2, 'day')")
    flexible = reserve(cluster, 2, 9)
    cluster.settle()
    cluster.sql(
        "INSERT INTO quota_exceptions (set_name, begins_at, ends_at) VALUES ('day', %s, %s)",
        at(cluster, 3.5),
        at(cluster, 6),
    )
    reserve(cluster, 2, user="bob")
    cluster.settle()
    assert start(cluster, flexible) == 6


def test_an_outage_holds_on_the_place_that_a_reservation_moves_to(cluster: SmallCluster) -> None:
    flexible = reserve(cluster, 2, 9)
    cluster.settle()
    cluster.sql("INSERT INTO maintenance_windows (during) VALUES (tstzrange(%s, %s))", at(cluster, 3.5), at(cluster, 5))
    cluster.sql("INSERT INTO maintenance_nodes SELECT window_id, 'n1' FROM maintenance_windows")
    cluster.settle()
    assert start(cluster, flexible) == 2
    reserve(cluster, 2, user="bob")
    cluster.settle()
    assert start(cluster, flexible) == 5


def test_dependencies_hold_on_the_place_that_a_reservation_moves_to(cluster: SmallCluster) -> None:
    first = cluster.submit("/nodes=1,walltime=1:0:0", reservation=at(cluster, 2), until=at(cluster, 9))
    cluster.settle()
    strict = reserve(cluster, 3)
    cluster.settle()
    flexible = reserve(cluster, 1, 9, dependencies=[first])
    cluster.settle()
    assert (start(cluster, first), start(cluster, flexible)) == (2, 4)
    cluster.delete(strict)
    cluster.settle()
    assert start(cluster, flexible) == 3, "not before the job that it depends on is over"
    refused = reserve(cluster, 2, user="bob")
    cluster.settle()
    assert (cluster.state(refused), start(cluster, first)) == ("Error", 2), "another depends on it: it stays"


def test_who_moved_is_told(cluster: SmallCluster) -> None:
    job = reserve(cluster, 2, 6, notify="[MOVED]exec:/bin/true")
    cluster.settle()
    reserve(cluster, 2)
    cluster.settle()
    rows = cluster.sql("SELECT tag, comment FROM notices WHERE job_id = %s AND tag = 'MOVED'", job)
    assert len(rows) == 1
    assert rows[0][1].startswith("RESERVATION_MOVED: it starts at ")
    assert cluster.sql("SELECT count(*) FROM changes WHERE kind = 'event'") != [(0,)]
