"""An advance reservation waits for its answer in the database."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import pytest

from oarpy.configuration import load
from oarpy.modules.metascheduler.metascheduler import Metascheduler
from tests.harness.oarsub_cluster import Connection, Submitter, settings

pytestmark = pytest.mark.db


@contextmanager
def waiting_process(environment: dict[str, str], *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        ["oarsub", "-r", "now", *arguments],
        env={**environment, **settings()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        yield running


def read_job(running: subprocess.Popen[str]) -> int:
    """Return the id printed, once the process says that it waits."""
    assert running.stdout is not None
    name, _, job = running.stdout.readline().strip().partition("=")
    assert name == "OAR_JOB_ID"
    assert running.stdout.readline() == "# Advance reservation request: waiting for validation...\n"
    return int(job)


def test_accepted(connection: Connection, oarsub: Submitter, cluster_environment: dict[str, str]) -> None:
    with waiting_process(cluster_environment, "-l", "/nodes=1,walltime=0:10:0", "date") as running:
        job = read_job(running)
        assert connection.execute("SELECT state, reservation_state, message FROM jobs").fetchall() == [
            ("Waiting", "toSchedule", "R=4,W=0:10:0,J=R")
        ]
        connection.execute("UPDATE jobs SET state = 'toAckReservation' WHERE job_id = %s", (job,))
        connection.execute(
            "UPDATE jobs SET state = 'Waiting', reservation_state = 'Scheduled' WHERE job_id = %s", (job,)
        )
        assert running.communicate(timeout=60) == ("# Reservation valid --> OK\n", "")
        assert running.returncode == 0


def test_refused(connection: Connection, oarsub: Submitter, cluster_environment: dict[str, str]) -> None:
    with waiting_process(cluster_environment, "date") as running:
        job = read_job(running)
        connection.execute(
            "UPDATE jobs SET state = 'toError', message = 'reservation refused: 4 of 5 nodes' WHERE job_id = %s", (job,)
        )
        assert running.communicate(timeout=60) == ("# Reservation not valid --> KO (4 of 5 nodes)\n", "")
        assert running.returncode == 3


def test_refused_with_the_next_date_in_json(
    connection: Connection, oarsub: Submitter, cluster_environment: dict[str, str]
) -> None:
    """Three nodes of five are Alive, and a job holds them all for an hour."""
    oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "sleep 3600")
    connection.execute("UPDATE resources SET state = 'Dead' WHERE state <> 'Alive'")
    scheduler = Metascheduler(load(cluster_environment))
    scheduler.run_once(connection, datetime.now().astimezone())
    with subprocess.Popen(
        ["oarsub", "-J", "-r", "now", "-l", "/nodes=2,walltime=0:10:0", "date"],
        env={**cluster_environment, **settings()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        deadline = time.monotonic() + 60
        while running.poll() is None and time.monotonic() < deadline:
            scheduler.run_once(connection, datetime.now().astimezone())
            with suppress(subprocess.TimeoutExpired):
                running.wait(0.1)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (3, "")
    (answer,) = json.loads(out)["reservations"]
    assert not answer["accepted"]
    assert isinstance(answer["next_date"], int)
    assert answer["next_date"] > time.time() + 3000
    assert datetime.fromtimestamp(answer["next_date"]).strftime("possible at %Y-%m-%d %H:%M:%S") in answer["reason"]


def test_nobody_answers(connection: Connection, oarsub: Submitter) -> None:
    result = oarsub("-r", "now", "--answer-timeout", "0", "date")
    assert result.status == 6
    assert result.out.startswith("OAR_JOB_ID=1\n")
    assert result.err.count("\n") == 1
    assert "reservation 1" in result.err
    assert connection.execute("SELECT state, reservation_state FROM jobs").fetchall() == [("Waiting", "toSchedule")]


def test_nobody_answers_in_json(oarsub: Submitter) -> None:
    result = oarsub("-J", "-r", "now", "--answer-timeout", "0", "date")
    assert result.status == 6
    assert json.loads(result.out)["job_id"] == 1


def test_end_date_sets_the_walltime(connection: Connection, oarsub: Submitter) -> None:
    oarsub("-r", "2036-01-01 22:00:00, 02:00", "--answer-timeout", "0", "date")
    assert connection.execute("SELECT extract(epoch FROM walltime)::int FROM moldable_descriptions").fetchall() == [
        (4 * 3600,)
    ]


def test_walltime_wins_over_the_end_date(connection: Connection, oarsub: Submitter) -> None:
    oarsub("-r", "now, 2036-01-02 02:00", "-l", "walltime=1", "--answer-timeout", "0", "date")
    assert connection.execute("SELECT extract(epoch FROM walltime)::int FROM moldable_descriptions").fetchall() == [
        (3600,)
    ]


def test_third_waiting_reservation_is_refused(connection: Connection, oarsub: Submitter) -> None:
    for _ in range(2):
        oarsub("-r", "2036-01-01 22:00:00", "--answer-timeout", "0", "date")
    result = oarsub("-r", "2036-01-01 22:00:00", "--answer-timeout", "0", "date")
    assert (result.status, result.out) == (3, "")
    assert "waiting_reservations" in result.err


def test_without_a_command_it_is_there_to_connect_to(connection: Connection, oarsub: Submitter) -> None:
    assert oarsub("-r", "2036-01-01 22:00:00", "--answer-timeout", "0").out.startswith("OAR_JOB_ID=1\n")
    assert connection.execute("SELECT command FROM jobs").fetchall() == [("exec sleep infinity",)]
    (Path.cwd() / "params").write_text("1\n2\n")
    result = oarsub("-r", "2036-01-01 22:00:00", "--answer-timeout", "0", "--array-param-file", "params")
    assert (result.status, "no command" in result.err) == (2, True)
