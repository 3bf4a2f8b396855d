"""What policy forbids is busy: in the first view of an application, and in those that passes make."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from oarpy.cluster_state.snapshot_reader import SnapshotReader
from oarpy.negotiation.modules.first_view import FirstView, first_view
from oarpy.negotiation.profiles import BusyHosts
from oarpy.negotiation.store import applications
from tests.harness.sample_cluster import Connection
from tests.harness.small_cluster import SETTINGS, SmallCluster

pytestmark = [pytest.mark.db, pytest.mark.kept]

WALLTIME = 3000


def views(cluster: SmallCluster) -> list[BusyHosts]:
    """Return the first view of an application that asks for all four hosts, and that of the pass after its request."""
    connection = cluster.connection
    job, first = first_of(cluster)
    applications.show_first(connection, job, {}, {}, first.informed)
    assert applications.ask(connection, job, 1, {"all": 4}, WALLTIME, None)
    cluster.plan()
    (row,) = applications.named(connection, [job]).values()
    return [BusyHosts.of(first.profiles["all"][1]), BusyHosts.of(row.view["all"][1])]


def first_of(cluster: SmallCluster) -> tuple[int, FirstView]:
    """Return an application that has asked for nothing, and its first view."""
    job = cluster.submit("/nodes=4,walltime=0:50:0", types=("negotiated",))
    connection = cluster.connection
    applications.add(connection, job, applications.NewApplication({}, "host", False, "keep", ""))
    (row,) = applications.named(connection, [job]).values()
    with connection.transaction():
        return job, first_view(connection, SnapshotReader(cluster.settings), cluster.settings, row)


def made(connection: Connection, share: float = 1.0) -> SmallCluster:
    settings = replace(SETTINGS, negotiation=replace(SETTINGS.negotiation, visible_share=share))
    cluster = SmallCluster(connection, settings)
    cluster.add_nodes("n1", "n2", "n3", "n4")
    cluster.settle()
    return cluster


def test_from_the_date_until_which_hosts_are_available(connection: Connection) -> None:
    cluster = made(connection)
    until = datetime.now(UTC) + timedelta(seconds=1000)
    cluster.sql("UPDATE resources SET available_upto = %s WHERE network_address IN ('n1', 'n2')", until)
    for view in views(cluster):
        assert view.busy == (0, 2)
        assert abs(view.ends[0] - until.timestamp()) < 1
        assert view.ends[1] > time.time() + 10**9


def test_while_hosts_are_closed(connection: Connection) -> None:
    cluster = made(connection)
    ((window, begin),) = cluster.sql(
        "INSERT INTO maintenance_windows (during)"
        " SELECT tstzrange(now() + interval '10 min', now() + interval '20 min')"
        " RETURNING window_id, extract(epoch FROM lower(during))::float8"
    )
    cluster.sql("INSERT INTO maintenance_nodes VALUES (%s, 'n2')", window)
    for view in views(cluster):
        assert view.busy == (0, 1)
        assert [abs(end - begin - length) <= 1 for end, length in zip(view.ends, (0, 600), strict=True)] == [True, True]


def test_while_hosts_are_reserved(connection: Connection) -> None:
    cluster = made(connection)
    begin = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=900)
    cluster.submit("/nodes=3,walltime=0:10:0", reservation=begin)
    cluster.settle()
    for view in views(cluster):
        assert view.busy == (0, 3)
        assert [end - begin.timestamp() for end in view.ends] == [0, 601]


def test_beyond_the_share_of_one_application(connection: Connection) -> None:
    cluster = made(connection, share=0.7)
    cluster.submit("/nodes=3,walltime=1:0:0")
    cluster.settle()
    for view in views(cluster):
        assert view.busy == (3, 2)
        assert view.ends[1] > time.time() + 10**9


def test_what_was_freed_since_the_last_pass_is_still_busy_in_a_first_view(connection: Connection) -> None:
    cluster = made(connection)
    job = cluster.submit("/nodes=3,walltime=0:50:0")
    cluster.settle()
    until = cluster.job(job, "started_at").timestamp() + WALLTIME
    cluster.sql("UPDATE jobs SET state = 'Finishing', final_state = 'Terminated' WHERE job_id = %s", job)
    cluster.sql("UPDATE jobs SET state = 'Terminated', ended_at = now(), left_nothing = true WHERE job_id = %s", job)
    _, first = first_of(cluster)
    view = BusyHosts.of(first.profiles["all"][1])
    assert view.busy == (3,)
    assert abs(view.ends[0] - until - cluster.settings.scheduler.security_time) <= 1
    cluster.plan()
    _, first = first_of(cluster)
    assert BusyHosts.of(first.profiles["all"][1]).busy == ()
