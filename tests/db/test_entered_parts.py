"""Programs inside a part, at its cluster: what its broker reads of one that begins, fails to, or is lost."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from oarpy.client.caller import Streams
from oarpy.client.jobs import job_steps
from oarpy.client.jobs.job_steps import Collected
from oarpy.client.session import Session
from oarpy.grid.entering.from_jobs import way_from_job
from oarpy.model.errors import OarpyError, Unreachable
from oarpy.transport.steps import UNREACHABLE, StepEnded, StepEvent, StepFailed, StepOutput, StepStarted
from tests.harness.brokers_door import BrokersDoor, brokers_door, small_cluster
from tests.harness.small_cluster import Connection

pytestmark = [pytest.mark.db, pytest.mark.kept]
LINE = b'{"call":"enter","key":"k","part":"c1","user":"ann","host":"n1","command":"date","input":false}'


@pytest.fixture
def door(connection: Connection, dsn: str) -> Iterator[BrokersDoor]:
    """The door of a cluster where a part runs, on both its nodes; a node of the other part is called n2, too."""
    with brokers_door(dsn, small_cluster(connection, "n1", "n2")) as made:
        made.held(int(made.claim("c1", 4)["job"]))
        assert made.ask("commit", transaction="c1", hosts=["n1", "n1", "n2", "n2", "n2", "n3"]) is None
        made.cluster.sql("UPDATE launch_gates SET opens_at = now(), expected_at = now()")
        made.cluster.settle()
        yield made


class ToldSteps:
    """Steps of which events are told, one at a time."""

    takes_input = True

    def __init__(self, *events: StepEvent) -> None:
        self._events = list(events)
        self._bell = os.eventfd(1)

    def start(self, *_: object) -> int:
        return 0

    def end_input(self, _: int) -> None:
        """Nothing is read."""

    def fileno(self) -> int:
        return self._bell

    def events(self) -> list[StepEvent]:
        return [self._events.pop(0)]

    @contextmanager
    def of(self, _: object) -> Iterator[ToldSteps]:
        yield self
        os.close(self._bell)


def entered(door: BrokersDoor, monkeypatch: pytest.MonkeyPatch, *events: StepEvent) -> tuple[Any, Collected]:
    """Enter the part and return the exit status, or what was raised, and what was written."""
    streams = Collected()
    monkeypatch.setattr(job_steps, "steps_of", ToldSteps(*events).of)
    try:
        return door.session.run_entry(LINE, cast("Streams", streams)), streams
    except OarpyError as error:
        return error, streams


def test_a_program_that_is_refused_did_not_begin(door: BrokersDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    status, streams = entered(door, monkeypatch, StepFailed(0, "JOB_OVER", "the job does not run on this node"))
    (line,) = streams.text(1).splitlines()
    assert (status, json.loads(line)["error"]["message"]) == (4, "the job does not run on this node")


def test_what_a_program_that_began_writes_comes_alone(door: BrokersDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    began = (StepStarted(0), StepOutput(0, 1, b"out\n"))
    status, streams = entered(door, monkeypatch, *began, StepEnded(0, 3 << 8))
    answer = '{"key":"k","answer":null}\n'
    assert (status, streams.text(1)) == (3, answer + "out\n")
    lost, streams = entered(door, monkeypatch, *began, StepFailed(0, UNREACHABLE, "node n1 is away"))
    assert isinstance(lost, Unreachable), "its command writes this to standard error"
    assert streams.text(1) == answer + "out\n"


def test_a_host_name_of_another_cluster_is_refused_in_the_job(door: BrokersDoor) -> None:
    ((job,),) = door.cluster.sql("SELECT job_id FROM jobs")
    session = Session(door.cluster.connection, door.cluster.settings, "nobody", 65534, is_admin=False)
    there = {"OAR_JOB_ID": str(job)}
    assert way_from_job(session, there, "n1", "date", with_input=False).door == ()
    with pytest.raises(OarpyError, match="'n2' is also a host of the grid job on another cluster"):
        way_from_job(session, there, "n2", "date", with_input=False)
