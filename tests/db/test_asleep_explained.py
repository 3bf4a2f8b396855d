"""Nodes that sleep: who asks why a job waits, or when one would start, is told that they have to wake first."""

from __future__ import annotations

import json
import time

import pytest

from tests.db.oarsub_cluster import Connection, Submitter

pytestmark = pytest.mark.db

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
    assert "These nodes have to wake first: n1\n" in text
    awake = json.loads(oarsub("--dry-run", "-J", "-l", "/nodes=3,walltime=1", "date").out)
    assert (awake["verdict"], awake["asleep"]) == ("starts", [])


def test_why(oarsub: Submitter) -> None:
    job = oarsub.job_id("-l", "/nodes=4,walltime=1", "date")
    found = json.loads(oarsub("--why", str(job), "-J", command="oarstat").out)
    assert (found["verdict"], found["asleep"]) == ("resources_down", ["n1"])
    assert abs(found["start"] - time.time() - FIVE_MINUTES) < 60
    text = oarsub("--why", str(job), command="oarstat").out
    assert "These nodes have to wake first: n1.\n" in text
