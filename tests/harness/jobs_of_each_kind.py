"""Jobs of each kind, made by the modules of a small cluster."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from oarpy.client.jobs import actions
from oarpy.client.jobs.selection import JobSelection
from oarpy.client.session import Session
from oarpy.modules.accounting import account
from tests.harness.small_cluster import Connection, SmallCluster, with_settings


@dataclass(frozen=True)
class JobsOfEachKind:
    """One of each kind, by what became of it."""

    gave_way: int
    runs: int
    suspended: int
    waits: int
    reservation: int
    never_launched: int
    failed: int
    deleted: int


def jobs_of_each_kind(connection: Connection) -> JobsOfEachKind:
    """Add three nodes of two cores; let jobs of each kind go their way."""
    cluster = SmallCluster(connection, with_settings(jobs={"users_may_suspend": True}))
    cluster.add_nodes("n1", "n2", "n3")
    gave_way = cluster.submit("/nodes=3", queue="besteffort", types=("besteffort",))
    cluster.settle()
    runs = cluster.submit("/nodes=1", "/core=2")
    cluster.settle()
    suspended = cluster.submit("/core=1")
    cluster.settle()
    session = Session(connection, cluster.settings, "ann", 1000, is_admin=True)
    actions.hold(session, JobSelection((suspended,)), running=True)
    cluster.settle()
    waits = cluster.submit("/core=1", dependencies=(runs,))
    date = (cluster.now() + timedelta(hours=2)).replace(microsecond=0)
    reservation = cluster.submit("/nodes=2,walltime=1:0:0", reservation=date)
    cluster.settle()
    never_launched = cluster.submit("/nodes=1")
    cluster.plan()
    cluster.delete(reservation, never_launched)
    cluster.settle()
    failed = cluster.submit("/core=1")
    cluster.settle()
    cluster.end(failed, 256)
    deleted = cluster.submit("/nodes=3")
    cluster.settle()
    cluster.delete(deleted)
    cluster.settle()
    account(connection, 86400)
    return JobsOfEachKind(gave_way, runs, suspended, waits, reservation, never_launched, failed, deleted)
