"""Nodes that sleep: who asks why a job waits, or when one would start, is told that they have to wake first."""

from __future__ import annotations

import json
import time

import pytest

from tests.harness.oarsub_cluster import Connection, Submitter, decide, run_pass

pytestmark = [pytest.mark.db, pytest.mark.kept]

FIVE_MINUTES = 300


@pytest.fixture
def oarsub(oarsub: Submitter, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Submitter:
    """Return a submitter on four nodes, of which n1 sleeps."""
    connection.execute("UPDATE resources SET available_upto = now() + interval '1 year' WHERE network_address = 'n1'")
    for name, value in (("ENABLED", "true"), ("SLEEP_COMMAND", "true"), ("WAKE_COMMAND", "true")):
        monkeypatch.setenv(f"OARPY_ENERGY_{name}", value)
    return oarsub


def test_dry_run(oarsub: Submitter) -> None:
    found = json.loads(oarsub("--dry-run", "-J", "-l", "/nodes=4,walltime=1", "date").out)
    assert (found["verdict"], found["asleep"]) == ("resources_down", ["n1"])
    assert found["reason"] == "its nodes are asleep and have to wake first"
    assert abs(found["start"] - time.time() - FIVE_MINUTES) < 60
    text = oarsub("--dry-run", "-l", "/nodes=4,walltime=1", "date").out
    assert "these nodes have to wake first: n1" in text
    awake = json.loads(oarsub("--dry-run", "-J", "-l", "/nodes=3,walltime=1", "date").out)
    assert (awake["verdict"], awake["asleep"]) == ("starts", [])


def test_why(oarsub: Submitter) -> None:
    job = oarsub.job_id("-l", "/nodes=4,walltime=1", "date")
    found = json.loads(oarsub("--why", str(job), "-J", command="oarstat").out)
    assert (found["verdict"], found["asleep"]) == ("resources_down", ["n1"])
    assert abs(found["start"] - time.time() - FIVE_MINUTES) < 60
    text = oarsub("--why", str(job), command="oarstat").out
    assert "These nodes have to wake first: n1.\n" in text


def pass_says(connection: Connection, job: int) -> tuple[str, float | None]:
    """Return verdict and start of a job by a scheduling pass."""
    decide(connection)
    row = connection.execute(
        "SELECT verdict, extract(epoch FROM start_time)::float8 FROM gantt_predictions WHERE job_id = %s", (job,)
    ).fetchone()
    return ("starts", None) if row is None else (row[0], row[1])


def test_advice_counts_with_the_time_to_wake(connection: Connection, oarsub: Submitter) -> None:
    """What is said to start at once does, and what is said to start when nodes are awake is told so by the pass."""
    job = oarsub.job_id("-l", "/nodes=4,walltime=1", "date")
    advice = json.loads(oarsub("--why", str(job), "-J", command="oarstat").out)["would_start_now"]
    assert advice["count"]["count"] == 3
    assert advice["walltime"] is None
    connection.execute("UPDATE jobs SET state = 'Hold' WHERE job_id = %s", (job,))
    four = oarsub.job_id("-l", "/nodes=4,walltime=0:0:30", "date")
    verdict, start = pass_says(connection, four)
    assert verdict == "resources_down"
    assert start is not None
    assert abs(start - time.time() - FIVE_MINUTES) < 60
    connection.execute("UPDATE jobs SET state = 'Hold' WHERE job_id = %s", (four,))
    assert pass_says(connection, oarsub.job_id("-l", "/nodes=3,walltime=1", "date"))[0] == "starts"


def test_dropping_a_filter_may_lead_to_nodes_that_sleep(connection: Connection, oarsub: Submitter) -> None:
    oarsub.job_id("-l", "/nodes=3,walltime=1", "sleep 3600")
    run_pass(connection)
    job = oarsub.job_id("-p", "host <> 'n1'", "-l", "/nodes=1,walltime=1", "date")
    found = json.loads(oarsub("--why", str(job), "-J", command="oarstat").out)
    (without,) = found["would_start_earlier"]["filters"]
    assert abs(without["start"] - time.time() - FIVE_MINUTES) < 60
    connection.execute("UPDATE jobs SET state = 'Hold' WHERE job_id = %s", (job,))
    rehearsed = json.loads(oarsub("--dry-run", "-J", "-l", "/nodes=1,walltime=1", "date").out)
    verdict, start = pass_says(connection, oarsub.job_id("-l", "/nodes=1,walltime=1", "date"))
    assert (verdict, rehearsed["verdict"]) == ("resources_down", "resources_down")
    assert start is not None
    assert abs(start - without["start"]) < 60
    assert abs(start - rehearsed["start"]) < 60


def test_every_alternative_waits_for_its_nodes(connection: Connection, oarsub: Submitter) -> None:
    ways = ("-l", "/nodes=3,walltime=0:10:0", "-l", "/nodes=4,walltime=0:8:0")
    found = json.loads(oarsub("--dry-run", "-J", *ways, "date").out)
    starts = [way["start"] - time.time() for way in found["alternatives"]]
    # the plan prefers what would end first, were all awake
    assert [round(start / FIVE_MINUTES) for start in starts] == [0, 1]
