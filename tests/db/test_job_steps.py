"""Programs inside a job that is about to run: whoever was told its hosts may start some at once."""

from __future__ import annotations

import pytest

from oarpy.client.jobs import job_steps
from oarpy.client.session import Session
from oarpy.model.errors import NotFound
from tests.harness.sample_cluster import Connection
from tests.harness.small_cluster import SmallCluster

pytestmark = pytest.mark.db


def test_they_wait_until_the_job_runs(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SmallCluster(connection)
    cluster.add_nodes("n1")
    job = cluster.submit("/nodes=1")
    session = Session(connection, cluster.settings, "ann", 1000, is_admin=False)
    with pytest.raises(NotFound, match="it is Waiting"):
        job_steps.running_job(session, job)
    cluster.plan()
    seen = []

    def pause(_: float) -> None:
        seen.append(cluster.state(job))
        cluster.settle()

    monkeypatch.setattr("oarpy.client.jobs.job_steps.time.sleep", pause)
    found = job_steps.running_job(session, job)
    assert [node.name for node in found.nodes] == ["n1"]
    assert seen == ["toLaunch"]
