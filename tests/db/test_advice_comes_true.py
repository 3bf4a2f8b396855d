"""What ``oarstat --why`` advises is submitted, in the place of the job that was asked about, and gets what was said."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.harness.oarsub_cluster import Connection, Submitter, decide, run_pass

pytestmark = [pytest.mark.db, pytest.mark.kept]

TOLERANCE = 120
"""Seconds that may pass between the question and the pass, on whatever machine."""
HOUR = 3600

Situation = Callable[[Connection, Submitter], Sequence[str]]
"""Prepares the cluster of four nodes, of which three are Alive, and returns what the job asks for."""


def busy(connection: Connection, oarsub: Submitter) -> Sequence[str]:
    """One node is free for an hour, then promised to another job."""
    oarsub.job_id("-l", "/nodes=2,walltime=1:0:0", "sleep 3600")
    run_pass(connection)
    oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "sleep 3600")
    return ("-l", "/nodes=1,walltime=3:0:0")


def quota(connection: Connection, oarsub: Submitter) -> Sequence[str]:
    """Of twelve resource-hours a job that runs leaves eight."""
    connection.execute("INSERT INTO quotas (user_name, max_resource_hours) VALUES ('/', 12)")
    oarsub.job_id("-l", "/nodes=1,walltime=1:0:0", "sleep 3600")
    run_pass(connection)
    return ("-l", "/nodes=2,walltime=1:30:0")


def reservation(connection: Connection, oarsub: Submitter) -> Sequence[str]:
    """All nodes but one are reserved in half an hour."""
    date = (datetime.now() + timedelta(seconds=HOUR / 2)).strftime("%Y-%m-%d %H:%M:%S")
    connection.execute("UPDATE resources SET state = 'Alive' WHERE network_address = 'n1'")
    oarsub("-J", "-r", date, "--answer-timeout", "0", "-l", "/nodes=3,walltime=1:0:0", "date")
    decide(connection)
    return ("-l", "/nodes=3,walltime=1:0:0")


def container(connection: Connection, oarsub: Submitter) -> Sequence[str]:
    """Inside a container of two nodes a job takes one for an hour."""
    around = oarsub.job_id("-t", "container=box", "-l", "/nodes=2,walltime=2:0:0", "sleep 7200")
    run_pass(connection)
    oarsub.job_id("-t", "inner=box", "-l", "/nodes=1,walltime=1:0:0", "sleep 3600")
    run_pass(connection)
    assert connection.execute("SELECT state FROM jobs WHERE job_id = %s", (around,)).fetchall() == [("Running",)]
    return ("-t", "inner=box", "-l", "/nodes=2,walltime=0:30:0")


def filtered(connection: Connection, oarsub: Submitter) -> Sequence[str]:
    """The node that the filter admits is taken; another one is free, a third reserved by nobody."""
    oarsub.job_id("-p", "host = 'n3'", "-l", "/nodes=1,walltime=1:0:0", "sleep 3600")
    run_pass(connection)
    return ("-p", "host = 'n3'", "-l", "/nodes=1/core=2,walltime=0:30:0")


SITUATIONS: dict[str, tuple[Situation, frozenset[str]]] = {
    "busy": (busy, frozenset({"walltime"})),
    "quota": (quota, frozenset({"count", "walltime"})),
    "reservation": (reservation, frozenset({"count", "walltime"})),
    "container": (container, frozenset({"count"})),
    "filtered": (filtered, frozenset({"filter"})),
}
"""Each with the kinds of advice that there are at least."""


def option(words: Sequence[str], name: str) -> str:
    return words[words.index(name) + 1]


def advised(found: dict[str, Any], asked: Sequence[str]) -> dict[str, tuple[list[str], float | None]]:
    """Return what to submit for each piece of advice, and the start that it is said to get (None: at once)."""
    resources, _, walltime = option(asked, "-l").partition(",")
    rest = [word for word in asked if word not in ("-l", option(asked, "-l"))]
    now, earlier = found["would_start_now"], found["would_start_earlier"]
    ways: dict[str, tuple[list[str], float | None]] = {}
    if now["count"] is not None:
        ways["count"] = [*rest, "-l", f"{now['count']['request']},{walltime}"], None
    if now["walltime"] is not None:
        # a reservation comes nearer while the test runs
        ways["walltime"] = [*rest, "-l", f"{resources},walltime=0:0:{now['walltime'] - TOLERANCE}"], None
    if earlier["walltime"] is not None:
        seconds = earlier["walltime"]["walltime"] - TOLERANCE
        ways["earlier"] = [*rest, "-l", f"{resources},walltime=0:0:{seconds}"], earlier["walltime"]["start"]
    for one in earlier["filters"]:
        if one["group"] is None:
            ways["filter"] = ["-l", option(asked, "-l")], one["start"]
    return ways


def verdict(connection: Connection, job: int) -> tuple[str, float]:
    """Return what a pass says of a job; its start is now when it is started."""
    decide(connection)
    if connection.execute("SELECT state FROM jobs WHERE job_id = %s", (job,)).fetchone() == ("toLaunch",):
        return "starts", time.time()
    row = connection.execute(
        "SELECT verdict, extract(epoch FROM start_time)::float8 FROM gantt_predictions WHERE job_id = %s", (job,)
    ).fetchone()
    assert row is not None
    return row[0], row[1]


@pytest.mark.parametrize("name", SITUATIONS)
def test_advice_comes_true(connection: Connection, oarsub: Submitter, name: str) -> None:
    prepare, expected = SITUATIONS[name]
    asked = prepare(connection, oarsub)
    job = oarsub.job_id(*asked, "date")
    decide(connection)
    result = oarsub("--why", str(job), "-J", command="oarstat")
    ways = advised(json.loads(result.out), asked)
    assert ways.keys() >= expected, result.out
    connection.execute("UPDATE jobs SET state = 'Hold' WHERE job_id = %s", (job,))
    for words, start in ways.values():
        again = oarsub.job_id(*words, "date")
        # nothing is left of one try when the next one is made
        with connection.transaction(force_rollback=True):
            found, planned = verdict(connection, again)
        connection.execute("UPDATE jobs SET state = 'Hold' WHERE job_id = %s", (again,))
        if start is None:
            assert found == "starts", words
        else:
            assert abs(planned - start) < TOLERANCE, words


def test_one_more_than_advised_waits(connection: Connection, oarsub: Submitter) -> None:
    asked = quota(connection, oarsub)
    job = oarsub.job_id(*asked, "date")
    found = json.loads(oarsub("--why", str(job), "-J", command="oarstat").out)
    assert found["quota"]["limits"] == {"resources": None, "jobs": None, "resource_hours": 12}
    assert found["would_start_now"]["walltime"] == HOUR
    connection.execute("UPDATE jobs SET state = 'Hold' WHERE job_id = %s", (job,))
    too_long = oarsub.job_id("-l", f"/nodes=2,walltime=0:0:{HOUR + 1}", "date")
    assert verdict(connection, too_long)[0] == "quota"
    connection.execute("UPDATE jobs SET state = 'Hold' WHERE job_id = %s", (too_long,))
    assert verdict(connection, oarsub.job_id("-l", "/nodes=2,walltime=1:0:0", "date"))[0] == "starts"
