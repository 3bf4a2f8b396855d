"""Launchers negotiate through a real gateway and a real negotiator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.gateway_process import GatewayProcess, gateway
from tests.harness.launchers import launcher, negotiator
from tests.harness.oarsub_cluster import build, run_pass, settings
from tests.harness.sample_cluster import Connection

pytestmark = pytest.mark.db


@pytest.fixture
def environment(connection: Connection, cluster_environment: dict[str, str]) -> dict[str, str]:
    """A small cluster whose admin is the user of the tests."""
    build(connection)
    return {**cluster_environment, **settings(), "TZ": "UTC"}


@pytest.fixture
def running(environment: dict[str, str]) -> Iterator[GatewayProcess]:
    """A gateway and a negotiator."""
    with gateway(environment, workers=2) as found, negotiator(environment, found):
        yield found


def state(connection: Connection, job: int) -> tuple[object, ...] | None:
    return connection.execute(
        "SELECT a.state, j.state FROM applications a JOIN jobs j USING (job_id) WHERE job_id = %s", [job]
    ).fetchone()


def test_who_subscribes_has_a_job_and_sees_what_is_free(running: GatewayProcess, connection: Connection) -> None:
    one = launcher(running)
    one.say("subscribe")
    job = one.hear("subscribed")["job"]
    first = one.hear("changeNotify")
    assert first["serial"] == 1
    assert first["changes"]
    assert all(len(profile) == 1 for profile in first["changes"].values())
    assert state(connection, job) == ("Submitted", "Waiting")
    run_pass(connection)
    told = connection.execute("SELECT verdict, reason FROM gantt_predictions WHERE job_id = %s", [job]).fetchone()
    assert told == ("held", "its launcher has not asked for hosts yet")
    assert one.leave() == 0
