"""``oarstat --why``: a sentence to act on, from the state of this moment."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

import pytest

from oarpy.cluster_state.snapshot_reader import SnapshotReader
from oarpy.cluster_state.what_if import foreseen
from oarpy.configuration import load
from oarpy.modules.metascheduler.metascheduler import Metascheduler
from oarpy.scheduler.gantt.gantt import Claim
from oarpy.scheduler.plan import plan
from oarpy.scheduler.verdicts import Verdict
from tests.harness.oarsub_cluster import Connection, Submitter, contents, run_pass

pytestmark = [pytest.mark.db, pytest.mark.kept]


def why(oarsub: Submitter, job: int) -> dict[str, Any]:
    result = oarsub("--why", str(job), "-J", command="oarstat")
    assert (result.status, result.err) == (0, ""), result
    return dict(json.loads(result.out))


def said(oarsub: Submitter, job: int) -> str:
    result = oarsub("--why", str(job), command="oarstat")
    assert (result.status, result.err) == (0, ""), result
    return result.out


def local(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds)).strftime("%Y-%m-%d %H:%M:%S")


def test_busy_resources(connection: Connection, oarsub: Submitter) -> None:
    holder = oarsub.job_id("-l", "/nodes=2,walltime=1:0:0", "sleep 3600")
    run_pass(connection)
    job = oarsub.job_id("-l", "/nodes=2/core=4,walltime=0:30:0", "date")
    run_pass(connection)
    before = contents(connection)
    found = why(oarsub, job)
    assert contents(connection) == before
    assert (found["job_id"], found["state"], found["verdict"]) == (job, "Waiting", "resources_busy")
    assert found["stored"]["verdict"] == "resources_busy"
    assert abs(found["start"] - found["stored"]["start"]) < 60
    assert found["rank"] == {"place": 1, "among": 1}
    (in_the_way,) = found["in_the_way"]
    assert (in_the_way["job_id"], in_the_way["running"], in_the_way["until"]) == (holder, True, found["start"])
    request = "/nodes=1/core=4"
    assert found["would_start_now"]["count"] == {"level": "nodes", "count": 1, "request": request}
    # n4 is free, but two nodes are not, however short the job
    assert found["would_start_now"]["walltime"] is None
    text = said(oarsub, job)
    assert text.startswith(f"Job {job} waits for resources that are held (resources_busy): what it needs is held until")
    assert "Rank: 1 of 1 waiting in queue default.\n" in text
    assert f"In the way: job {holder} of " in text
    assert re.search(r"In the way: .*; 60 s of security time included\.$", text, re.MULTILINE)
    assert f'It would start now with nodes=1 (-l "{request}").\n' in text


def test_without_a_server_it_is_said(connection: Connection, oarsub: Submitter) -> None:
    connection.execute("SET application_name = 'somebody'")
    result = oarsub("date")
    assert (result.status, result.err) == (0, ""), result
    note, line = result.out.splitlines()
    assert note == "# no server is running: jobs start when 'oarpy server' does"
    job = int(line.removeprefix("OAR_JOB_ID="))
    assert json.loads(oarsub("-J", "date").out)["warnings"] == [note.removeprefix("# ")]
    assert "No server is running: no job starts until 'oarpy server' does.\n" in said(oarsub, job)
    assert why(oarsub, job)["server_runs"] is False
    connection.execute("SET application_name = 'oarpy metascheduler'")
    assert "server" not in oarsub("date").out + said(oarsub, job)
    assert why(oarsub, job)["server_runs"] is True


def test_what_is_said_comes_true(connection: Connection, oarsub: Submitter) -> None:
    """A job resubmitted with the walltime advised starts; one second more and it does not."""
    oarsub.job_id("-l", "/nodes=2,walltime=1:0:0", "sleep 3600")
    run_pass(connection)
    oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "sleep 3600")
    job = oarsub.job_id("-l", "/nodes=1,walltime=4:0:0", "date")
    run_pass(connection)
    advised = why(oarsub, job)["would_start_now"]["walltime"]
    # the free node is promised to the second job when the first ends
    assert 3000 < advised <= 3600
    connection.execute("UPDATE jobs SET state = 'Hold' WHERE job_id = %s", (job,))
    too_long = oarsub.job_id("-l", f"/nodes=1,walltime=0:0:{advised + 300}", "date")
    fitting = oarsub.job_id("-l", f"/nodes=1,walltime=0:0:{advised - 300}", "date")
    run_pass(connection)
    states: dict[int, str] = dict(connection.execute("SELECT job_id, state FROM jobs").fetchall())
    assert (states[too_long], states[fitting]) == ("Waiting", "Running")


def test_a_property_that_nothing_has(connection: Connection, oarsub: Submitter) -> None:
    job = oarsub.job_id("-p", "mem > 10 AND host = 'n2'", "-l", "/nodes=1", "date")
    connection.execute("UPDATE jobs SET properties = 'mem > 10 AND gpu = ''H200''' WHERE job_id = %s", (job,))
    found = why(oarsub, job)
    assert found["verdict"] == "never"
    (missing,) = found["missing"]
    assert (missing["matching"], missing["unmet"]) == (0, "gpu = 'H200'")
    assert [one["filter"] for one in found["would_start_earlier"]["filters"]] == ["mem > 10 AND gpu = 'H200'"]
    text = said(oarsub, job)
    assert text.startswith(f"Job {job} can never run as it is (never): ")
    assert "Missing: no resource meets gpu = 'H200'.\n" in text
    assert "without its filter mem > 10 AND gpu = 'H200'.\n" in text


def test_conditions_that_exclude_each_other(connection: Connection, oarsub: Submitter) -> None:
    job = oarsub.job_id("-l", "/nodes=1", "date")
    connection.execute("UPDATE jobs SET properties = 'mem > 30 AND host = ''n2''' WHERE job_id = %s", (job,))
    assert "Missing: no resource meets mem > 30 AND host = 'n2'.\n" in said(oarsub, job)


def test_resources_that_are_not_there(connection: Connection, oarsub: Submitter) -> None:
    job = oarsub.job_id("-l", "/nodes=4/core=4", "date")
    found = why(oarsub, job)
    assert found["verdict"] == "resources_down"
    assert found["missing"][0]["levels"] == [
        {"level": "nodes", "asked": 4, "largest": 3},
        {"level": "core", "asked": 4, "largest": 0},
    ]
    text = said(oarsub, job)
    assert "Missing: the resources Alive serve at most nodes=3 instead of 4.\n" in text
    assert 'It would start now with nodes=3 (-l "/nodes=3/core=4").\n' in text


def test_quota(connection: Connection, oarsub: Submitter) -> None:
    connection.execute("INSERT INTO quotas (user_name, max_resources) VALUES ('/', 8)")
    first = oarsub.job_id("-l", "/nodes=1,walltime=1:0:0", "sleep 3600")
    run_pass(connection)
    job = oarsub.job_id("-l", "/nodes=2,walltime=1:0:0", "date")
    found = why(oarsub, job)
    assert found["verdict"] == "quota"
    assert found["quota"]["rule"] == {
        "queue": "*",
        "project": "*",
        "type": "*",
        "user": "/",
        "level": "default",
    }
    assert found["quota"]["limits"] == {"resources": 8, "jobs": None, "resource_hours": None}
    assert found["quota"]["used"] == {"resources": 4, "jobs": 1, "resource_hours": 4}
    assert found["quota"]["job_ids"] == [first]
    assert found["would_start_now"]["count"]["count"] == 1
    assert f"Quota *,*,*,/: 4 of 8 resources used now by job {first}.\n" in said(oarsub, job)


def test_rank_and_jobs_ahead(connection: Connection, oarsub: Submitter) -> None:
    oarsub.job_id("-l", "/nodes=2,walltime=1:0:0", "sleep 3600")
    run_pass(connection)
    ahead = oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "sleep 3600")
    job = oarsub.job_id("-l", "/nodes=1,walltime=3:0:0", "date")
    found = why(oarsub, job)
    assert (found["verdict"], found["rank"]) == ("behind_higher_priority", {"place": 2, "among": 2})
    assert [(one["job_id"], one["running"]) for one in found["in_the_way"]] == [(ahead, False)]
    assert ", not started yet)" in said(oarsub, job)


def test_best_effort_jobs_that_go_first(connection: Connection, oarsub: Submitter) -> None:
    victim = oarsub.job_id("-t", "besteffort", "-l", "/nodes=3,walltime=1:0:0", "sleep 3600")
    run_pass(connection)
    job = oarsub.job_id("-l", "/nodes=1,walltime=0:10:0", "date")
    found = why(oarsub, job)
    assert (found["verdict"], [one["job_id"] for one in found["in_the_way"]]) == ("resources_busy", [victim])


def test_the_last_pass_is_read_as_it_was_planned(connection: Connection, oarsub: Submitter) -> None:
    """Sets of resources come back from the stored ranges, also when ids and positions do not follow each other."""
    connection.execute("UPDATE resources SET network_address = 'a9', host = 'a9' WHERE network_address = 'n4'")
    connection.execute("UPDATE resources SET state = 'Alive' WHERE network_address = 'n1'")
    for request in ("/nodes=2", "/nodes=4/core=1", "/nodes=3/core=2", "/core=5", "/nodes=4"):
        oarsub.job_id("-l", f"{request},walltime=1:0:0", "sleep 3600")
    oarsub.job_id("--hold", "date")
    reader = SnapshotReader(load())
    now = datetime.now().astimezone()
    with connection.transaction():
        snapshot = reader.read(connection, int(now.timestamp())).snapshot
    Metascheduler(load()).run_once(connection, now)
    expected = {
        one.job: Claim(one.start, one.end - one.start, one.bits)
        for one in plan(snapshot).placements
        if one.start is not None and one.end is not None and one.verdict is not Verdict.STARTS
    }
    assert len(expected) > 2
    assert foreseen(connection, snapshot.platform) == expected


def test_a_stale_forecast_is_not_used(connection: Connection, oarsub: Submitter) -> None:
    oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "sleep 3600")
    run_pass(connection)
    ahead = oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "sleep 3600")
    job = oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "date")
    run_pass(connection)
    before = why(oarsub, job)
    # the job ahead gets a place that is taken: everything is planned again
    connection.execute("UPDATE gantt_predictions SET start_time = now(), end_time = now() + interval '1 hour'")
    again = why(oarsub, job)
    assert (again["verdict"], again["rank"]) == (before["verdict"], before["rank"])
    assert abs(again["start"] - before["start"]) < 60
    assert [one["job_id"] for one in again["in_the_way"]] == [ahead]


def test_held_jobs(connection: Connection, oarsub: Submitter) -> None:
    job = oarsub.job_id("--hold", "-l", "/nodes=1", "date")
    found = why(oarsub, job)
    assert (found["state"], found["verdict"], found["rank"]) == ("Hold", "held", None)
    assert found["if_resumed"] is not None
    assert said(oarsub, job).startswith(f"Job {job} is held (held): oarresume {job} lets it go on.\nResumed now, it ")


def test_a_stopped_queue(connection: Connection, oarsub: Submitter) -> None:
    job = oarsub.job_id("-l", "/nodes=1", "date")
    connection.execute("UPDATE queues SET active = false WHERE queue_name = 'default'")
    assert "queue 'default' is not active" in said(oarsub, job)


def test_dependency(connection: Connection, oarsub: Submitter) -> None:
    first = oarsub.job_id("-l", "/nodes=1,walltime=1:0:0", "sleep 3600")
    run_pass(connection)
    job = oarsub.job_id("-a", str(first), "-l", "/nodes=1", "date")
    found = why(oarsub, job)
    assert found["verdict"] == "dependency"
    assert f"expected to end at {local(found['start'])}" in found["summary"]


def test_jobs_that_do_not_wait(connection: Connection, oarsub: Submitter) -> None:
    job = oarsub.job_id("-l", "/nodes=1,walltime=1:0:0", "sleep 3600")
    assert said(oarsub, job).startswith(f"Job {job} starts in the next scheduling pass (starts): starts now.\n")
    run_pass(connection)
    found = why(oarsub, job)
    assert found["state"] == "Running"
    assert "verdict" not in found
    assert f"Job {job} does not wait: it is Running since " in said(oarsub, job)
    connection.execute(
        "UPDATE jobs SET state = 'Finishing', final_state = 'Terminated', message = 'fine' WHERE job_id = %s", (job,)
    )
    connection.execute(
        "UPDATE jobs SET state = 'Terminated', left_nothing = true, ended_at = now(), exit_status = 256"
        " WHERE job_id = %s",
        (job,),
    )
    assert said(oarsub, job).endswith("(Terminated, exit status 1): fine.\n")


def test_several_jobs(oarsub: Submitter) -> None:
    first, second = (oarsub.job_id("-l", "/nodes=1,walltime=1:0:0", "date") for _ in range(2))
    text = oarsub("--why", str(first), f"OAR_JOB_ID={second}", command="oarstat").out
    assert text == f"{said(oarsub, first)}\n{said(oarsub, second)}"
    found = json.loads(oarsub("--why", str(first), str(second), "-J", command="oarstat").out)
    assert [one["job_id"] for one in found] == [first, second]
    places = json.loads(oarsub("--priority", str(first), str(second), "-J", command="oarstat").out)
    assert [one["job_id"] for one in places] == [first, second]


def test_an_accepted_reservation(connection: Connection, oarsub: Submitter) -> None:
    job = oarsub.job_id("-l", "/nodes=1,walltime=1:0:0", "date")
    connection.execute(
        "UPDATE jobs SET reservation_start = '2040-01-01 00:00Z', reservation_state = 'toSchedule' WHERE job_id = %s",
        (job,),
    )
    assert why(oarsub, job)["verdict"] == "reserved"
    run_pass(connection)
    date = local(datetime.fromisoformat("2040-01-01T00:00:00+00:00").timestamp())
    assert said(oarsub, job) == f"Job {job} is an accepted reservation and starts at {date}.\n"


def test_misuse_is_one_line(oarsub: Submitter) -> None:
    for word, status in (("99", 4), ("x", 2), ("", 2), ("-1", 2)):
        result = oarsub("--why", word, command="oarstat")
        assert (result.status, result.out, result.err.count("\n")) == (status, "", 1), result
