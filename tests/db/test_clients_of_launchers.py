"""The client in Python speaks with a real negotiator, whatever is killed between them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from oarpy.negotiation.line_streams import CommandStreams
from oarpy.negotiation.negotiated_job import MessageRefused, NegotiatedJob, NotConnected
from tests.harness.gateway_process import TIMEOUT, GatewayProcess, gateway
from tests.harness.launchers import negotiator
from tests.harness.oarsub_cluster import build, decide, let_run, settings
from tests.harness.sample_cluster import Connection
from tests.harness.waiting import until

pytestmark = pytest.mark.db


@pytest.fixture
def environment(connection: Connection, cluster_environment: dict[str, str]) -> dict[str, str]:
    """A small cluster whose admin is the user of the tests."""
    build(connection)
    return {**cluster_environment, **settings(), "TZ": "UTC"}


@pytest.fixture
def running(environment: dict[str, str]) -> Iterator[GatewayProcess]:
    """A gateway; negotiators come and go."""
    with gateway(environment, workers=2) as found:
        yield found


class Children:
    """The processes that carry the lines of one job."""

    def __init__(self, running: GatewayProcess) -> None:
        self._server = running
        self.all: list[CommandStreams] = []

    def start(self) -> CommandStreams:
        """Start another one."""
        environment = self._server.user_environment()
        self.all.append(CommandStreams(self._server.command("oarnegotiate"), environment))
        return self.all[-1]

    def kill(self) -> None:
        """Kill the last one."""
        os.kill(self.all[-1].pid, signal.SIGKILL)


def state(connection: Connection, job: int | None) -> Any:
    row = connection.execute("SELECT state FROM applications WHERE job_id = %s", [job]).fetchone()
    return row and row[0]


def heard(job: NegotiatedJob, word: str) -> dict[str, Any]:
    """Return the next message, which is of this word."""
    message = job.next(TIMEOUT)
    assert message is not None
    assert message["message"] == word, message
    return message


def test_a_job_is_spoken_for_while_everything_between_is_killed(
    running: GatewayProcess, environment: dict[str, str], connection: Connection
) -> None:
    children = Children(running)
    with negotiator(environment, running):
        job = NegotiatedJob(children.start)
        job.subscribe(["-n", "sweep"])
        name = next(iter(heard(job, "changeNotify")["changes"]))
        assert job.clusters([name])["clusters"][name]["hosts"] == 1
        children.kill()
        tag = job.request({name: 1}, 600)
        until(lambda: state(connection, job.id) == "RequestSent", "the request arrives after all")
    with negotiator(environment, running):
        decide(connection)
        start = heard(job, "startNotify")
        assert (start["tag"], start["hosts"], job.hosts) == (tag, {name: 1}, start["names"])
        assert job.id is not None
        let_run(connection)
        with pytest.raises(MessageRefused, match="has job"):
            job.subscribe()
        children.kill()
    with negotiator(environment, running):
        job.done()
        until(lambda: _ended(connection, job.id) == "done", "the end arrives after all")
        connection.execute(
            "UPDATE jobs SET state = 'Finishing', final_state = 'Terminated' WHERE job_id = %s", [job.id]
        )
        connection.execute(
            "UPDATE jobs SET state = 'Terminated', ended_at = now(), left_nothing = true WHERE job_id = %s", [job.id]
        )
        decide(connection)
        assert [message["reason"] for message in job.messages(TIMEOUT)] == ["done"]
        job.close()
    assert len(children.all) > 3


def _ended(connection: Connection, job: int | None) -> Any:
    row = connection.execute("SELECT ended FROM applications WHERE job_id = %s", [job]).fetchone()
    return row and row[0]


def test_a_job_that_is_over_or_not_ours_is_given_up(
    running: GatewayProcess, environment: dict[str, str], connection: Connection
) -> None:
    with negotiator(environment, running):
        with NegotiatedJob(Children(running).start) as job, pytest.raises(MessageRefused) as refused:
            job.attach(4711)
        assert refused.value.code == 5
        with NegotiatedJob(Children(running).start) as one, NegotiatedJob(Children(running).start) as other:
            one.subscribe(if_lost="keep")
            assert one.id is not None
            assert other.attach(one.id, token=one.token)["job"] == one.id
    children = Children(running)
    with pytest.raises(NotConnected, match="before there was a job"), NegotiatedJob(children.start) as job:
        job.subscribe()
