"""A state directory that is taken away under a living agent: the node begins a new life and says so."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.local_cluster.sandbox import local_nodes, running_sandbox
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import ChannelLost, Clean, Cleaned
from tests.harness.transport_driver import Driver, local_driver
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e
DEADLINE = 60.0


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    with local_driver(tmp_path) as driver:
        yield driver


@pytest.mark.parametrize("what", ["", "jobs", "forgotten", "files"])
def test_an_agent_without_its_state_ends_and_the_next_one_begins_anew(
    driver: Driver, tmp_path: Path, what: str
) -> None:
    before = driver.connect()
    driver.start(driver.spec(1, "sleep 100"), incarnation=before.incarnation)
    driver.started(1)
    shutil.rmtree(tmp_path / "state" / what)
    driver.expect(ChannelLost)
    after = driver.connect()
    driver.start(driver.spec(2, "true"), incarnation=after.incarnation)
    driver.ended(2)
    if what == "files":
        assert after.incarnation == before.incarnation
        assert [report.key for report in after.jobs] == [JobKey(1, 1)]
        return
    assert after.incarnation != before.incarnation
    driver.start(driver.spec(1, "sleep 100"), incarnation=before.incarnation)
    assert driver.refused(1).reason == "INCARNATION"
    if what in ("", "jobs"):
        assert after.jobs == (), "it does not pretend to know"
        driver.send(Clean((JobKey(1, 1),)))
        assert driver.expect(Cleaned).killed > 0
        until(lambda: not driver.processes(1), "the job's processes are gone")


def test_a_node_whose_state_is_wiped_takes_jobs_again(tmp_path: Path, dsn: str) -> None:
    with running_sandbox(tmp_path, {"database": {"url": dsn}}, local_nodes("/host=n1/cpu={1}/core={2}")) as one:
        (lost,) = one.job_ids("sleep 100")
        one.wait_for([lost], ["Running"], DEADLINE)
        (state,) = (path.parent for path in tmp_path.rglob("incarnation"))
        shutil.rmtree(state)
        one.wait_for([lost], ["Error"], DEADLINE)
        assert "forgot" in one.run("oarstat", "-f", "-j", str(lost)).stdout
        (after,) = one.job_ids("true")
        one.wait_for([after], ["Terminated"], DEADLINE)
        assert "Suspected" not in one.run("oarnodes", "-s").stdout
