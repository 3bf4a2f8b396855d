"""A database that was restored from an older state knows what became of applications, as far as anybody knows."""

from __future__ import annotations

import pytest

from oarpy.modules.metascheduler.metascheduler import Metascheduler
from oarpy.negotiation.store import applications
from tests.db.test_restores import Site, place
from tests.harness.small_cluster import SmallCluster, with_settings
from tests.harness.wrong_rows import wrong_rows

pytestmark = pytest.mark.db

__all__ = ["place"]


SETTINGS = with_settings(negotiation={"timer": 0.0, "fair_start": 0.0})
"""Every pass deals with applications."""


def subscribe(cluster: SmallCluster, hosts: int = 0) -> int:
    """Make an application; with hosts it has asked for that many."""
    job = cluster.submit(f"/nodes={hosts or 1}", types=("negotiated",))
    applications.add(cluster.connection, job, applications.NewApplication({}, "host", False, "keep", "x"))
    if hosts:
        assert applications.ask(cluster.connection, job, job, {"all": hosts}, 3600, None)
    return job


def states(cluster: SmallCluster) -> dict[int, tuple[str, str, str | None]]:
    """State, state of the job and end of every application."""
    query = "SELECT job_id, a.state, j.state, a.ended FROM applications a JOIN jobs j USING (job_id)"
    return {job: tuple(rest) for job, *rest in cluster.sql(query)}


@pytest.mark.parametrize("noticed", [True, False], ids=["elsewhere", "the same disk"])
def test_applications_go_on_from_the_dump_as_nodes_say(place: Site, noticed: bool) -> None:
    cluster = place.cluster
    cluster.scheduler = Metascheduler(SETTINGS)
    cluster.launch()
    on, ended = subscribe(cluster, 1), subscribe(cluster, 1)
    cluster.settle()
    silent, waits, began = subscribe(cluster), subscribe(cluster, 2), subscribe(cluster, 1)
    cluster.settle()
    assert cluster.states([on, ended, silent, waits, began]) == ["Running"] * 2 + ["Waiting"] * 3
    cluster.sql("UPDATE applications SET serial = 5, answered = 5 WHERE job_id = %s", waits)
    place.dump()
    cluster.end(ended)
    cluster.delete(waits)
    cluster.settle()
    assert states(cluster)[waits] == ("Finished", "Error", "deleted")
    assert cluster.state(began) == "Running"
    lost = subscribe(cluster, 1)
    cluster.end(began)
    cluster.settle()
    place.restore(noticed=noticed)
    cluster = place.cluster
    cluster.scheduler = Metascheduler(SETTINGS)
    cluster.settle()
    found = states(cluster)
    assert lost not in found
    assert found[on] == ("Started", "Running", None)
    assert found[ended] == ("Finished", "Terminated", "done")
    assert found[silent] == ("Submitted", "Waiting", None)
    assert found[began][:2] == ("Finished", "Error")
    assert found[waits] == ("Waiting", "Waiting", None)
    assert cluster.sql("SELECT * FROM ghosts") == []
    assert wrong_rows(place.dsn) == ()
    assert subscribe(cluster) > lost
    cluster.end(on)
    cluster.settle()
    assert states(cluster)[waits][:2] == ("Started", "Running")
