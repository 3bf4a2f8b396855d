"""Users see the interval in which their job was told to start: oarstat, --why, --dry-run, JSON."""

from __future__ import annotations

import json
import time
from datetime import datetime

import pytest

from oarpy.client.jobs.description import start_interval
from oarpy.scheduler.forecast.start_intervals import FEWEST
from tests.harness.hand_written import add_job, move
from tests.harness.oarsub_cluster import Connection, Submitter, run_pass

pytestmark = pytest.mark.db


def instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def past(connection: Connection, part: float, number: int = FEWEST) -> None:
    """Let jobs have started after this part of the hour that was planned."""
    for _ in range(number):
        job = add_job(connection)
        move(connection, job, "toLaunch", "Launching", "Running", "Finishing")
        connection.execute(
            "UPDATE jobs SET state = 'Terminated', left_nothing = true, ended_at = now() WHERE job_id = %s", [job]
        )
        connection.execute(
            "INSERT INTO first_predictions (job_id, made_at, planned_start) SELECT job_id,"
            " started_at - %s * interval '1 hour', started_at + (1 - %s) * interval '1 hour' FROM jobs"
            " WHERE job_id = %s",
            [part, part, job],
        )


def waiting(connection: Connection, oarsub: Submitter) -> int:
    """Return a job that waits for one that runs for an hour."""
    oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "sleep 3600")
    run_pass(connection)
    job = oarsub.job_id("-l", "/nodes=3,walltime=0:30:0", "date")
    run_pass(connection)
    return job


def test_the_date_is_left_out_today() -> None:
    now = instant("2026-05-01 13:00:00")
    today, tomorrow = instant("2026-05-01 14:05:59"), instant("2026-05-02 03:10:00")
    assert start_interval(today, instant("2026-05-01 15:10:00"), now) == "14:05 to 15:10, 90 %"
    assert start_interval(today, tomorrow, now) == "2026-05-01 14:05 to 2026-05-02 03:10, 90 %"
    assert start_interval(tomorrow, tomorrow + 3600, now) == "2026-05-02 03:10 to 04:10, 90 %"


def test_what_a_job_was_told_is_shown_while_it_waits(connection: Connection, oarsub: Submitter) -> None:
    past(connection, 0.25)
    job = waiting(connection, oarsub)
    (document,) = json.loads(oarsub("-j", str(job), "-J", command="oarstat").out).values()
    told = document["expected_start"]
    assert (
        told["earliest"] == told["latest"] == pytest.approx(told["told_at"] + (told["planned"] - told["told_at"]) / 4)
    )
    assert (told["level"], told["learnt_from"]) == (0.9, FEWEST)
    text = start_interval(told["earliest"], told["latest"], time.time())
    assert f"({text}: " in oarsub("-j", str(job), command="oarstat").out
    assert f"    expectedStart = {text}\n" in oarsub("-f", "-j", str(job), command="oarstat").out
    assert f"\nExpected start: {text} (of {FEWEST} past starts like it, told at " in (
        oarsub("--why", str(job), command="oarstat").out
    )
    why = json.loads(oarsub("--why", str(job), "-J", command="oarstat").out)
    assert why["expected_start"] == told
    connection.execute("UPDATE jobs SET state = 'Hold' WHERE job_id = %s", [job])
    run_pass(connection)
    assert text not in oarsub("-j", str(job), command="oarstat").out


def test_an_interval_that_is_over_is_not_shown_as_one_to_come(connection: Connection, oarsub: Submitter) -> None:
    past(connection, 0.25)
    job = waiting(connection, oarsub)
    connection.execute(
        "UPDATE first_predictions SET made_at = now() - interval '3 h', earliest_start = now() - interval '2 h',"
        " latest_start = now() - interval '1 h' WHERE job_id = %s",
        [job],
    )
    assert "90 %" not in oarsub("-j", str(job), command="oarstat").out
    assert "\nIt was expected " in oarsub("--why", str(job), command="oarstat").out


def test_a_dry_run_tells_the_interval_that_the_job_will_be_told(connection: Connection, oarsub: Submitter) -> None:
    past(connection, 0.25)
    at_once = json.loads(oarsub("--dry-run", "-J", "-l", "/nodes=1/core=1,walltime=0:0:10", "date").out)
    assert (at_once["verdict"], at_once["expected_start"]) == ("starts", None)
    waiting(connection, oarsub)
    found = json.loads(oarsub("--dry-run", "-J", "-l", "/nodes=3,walltime=0:10:0", "date").out)
    told = found["expected_start"]
    assert told["learnt_from"] == FEWEST
    assert told["earliest"] == told["latest"] == pytest.approx((3 * time.time() + found["start"]) / 4, abs=60)
    text = oarsub("--dry-run", "-l", "/nodes=3,walltime=0:10:0", "date").out
    assert "; expected start: " in text
    assert f", 90 % (of {FEWEST} past starts like it)" in text


def test_little_history_says_so(connection: Connection, oarsub: Submitter) -> None:
    job = waiting(connection, oarsub)
    few = f"No interval is told yet: 0 of {FEWEST} past starts are known."
    assert few in oarsub("--why", str(job), command="oarstat").out
    assert few in oarsub("--dry-run", "-l", "/nodes=3,walltime=0:10:0", "date").out
    assert "90 %" not in oarsub("-j", str(job), command="oarstat").out
