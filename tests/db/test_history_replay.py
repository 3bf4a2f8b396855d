"""``oarpy simulate --from-database`` replays what is in the tables, and finds again what it should."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from oarpy.model.request import parse_request
from oarpy.model.submission import Submission
from tests.harness.hand_written import rewrite
from tests.harness.sample_cluster import Connection, Shell
from tests.harness.small_cluster import SmallCluster

pytestmark = pytest.mark.db

BIRTH = datetime(2026, 3, 2, 8, tzinfo=UTC)


@dataclass(frozen=True)
class Past:
    """A job of the past; ``submit``, ``start`` and ``run`` in seconds after BIRTH."""

    submit: int
    run: int
    requests: tuple[str, ...]
    user: str = "ann"
    start: int | None = None
    chosen: int = 0
    properties: str = ""
    types: tuple[str, ...] = ()


def at(seconds: float) -> datetime:
    return BIRTH + timedelta(seconds=seconds)


def add(cluster: SmallCluster, past: Past) -> int:
    """Store the submission as ``oarsub`` does, then what the modules would have written."""
    alternatives = tuple(map(parse_request, past.requests))
    asked = Submission(
        past.user, ("staff",), queue="default", types=past.types, properties=past.properties, alternatives=alternatives
    )
    job = cluster.submit(*past.requests, user=past.user, properties=past.properties, types=past.types, asked=asked)
    start = past.submit if past.start is None else past.start
    cluster.sql("UPDATE jobs SET submitted_at = %s WHERE job_id = %s", at(past.submit), job)
    cluster.sql(
        "UPDATE jobs j SET state = 'toLaunch', moldable_id = m.moldable_id, walltime = m.walltime"
        " FROM moldable_descriptions m WHERE j.job_id = %s AND m.submission_id = j.submission_id AND m.position = %s",
        job,
        past.chosen,
    )
    cluster.sql("UPDATE jobs SET state = 'Launching' WHERE job_id = %s", job)
    cluster.sql("UPDATE jobs SET state = 'Running', started_at = %s WHERE job_id = %s", at(start), job)
    cluster.sql(
        "UPDATE jobs SET state = 'Finishing', final_state = 'Terminated', exit_status = 0 WHERE job_id = %s", job
    )
    cluster.sql(
        "UPDATE jobs SET state = 'Terminated', left_nothing = true, ended_at = %s WHERE job_id = %s",
        at(start + past.run),
        job,
    )
    return job


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    small = SmallCluster(connection)
    small.add_nodes("n1", "n2")
    return small


def replay(shell: Shell, *arguments: str) -> dict[str, Any]:
    found = json.loads(shell.done("oarpy", "simulate", "--from-database", "-J", *arguments))
    (only,) = found["replays"]
    return dict(only)


def starts(shell: Shell, folder: Path, *arguments: str) -> dict[int, int]:
    """Return when each job starts in the replay, in seconds after BIRTH."""
    replay(shell, "--output", str(folder / "jobs.csv"), *arguments)
    with (folder / "jobs.csv").open(newline="") as file:
        return {int(row["job"]): round(float(row["start"]) - BIRTH.timestamp()) for row in csv.DictReader(file)}


def some_jobs(seed: int) -> list[Past]:
    """Wide jobs of ann and narrow ones of bob, more than the cluster can serve at once."""
    draw = random.Random(seed)
    jobs, now = [], 0
    for _ in range(48):
        now += draw.randrange(0, 400)
        run = draw.randrange(100, 1500)
        if draw.random() < 0.3:
            jobs.append(Past(now, run, ("/nodes=2,walltime=0:40:0",)))
        else:
            jobs.append(Past(now, run, ("/nodes=1/core=1,walltime=0:30:0",), "bob"))
    return jobs


@pytest.mark.parametrize(("really", "other"), [("fcfs", "conservative"), ("conservative", "fcfs")])
def test_the_policy_that_really_ran_changes_nothing_and_another_one_does(
    cluster: SmallCluster, shell: Shell, tmp_path: Path, really: str, other: str
) -> None:
    wanted = some_jobs(4)
    for past in wanted:
        add(cluster, past)
    happened = starts(shell, tmp_path, "--policy", really)
    rewrite(cluster.connection, "TRUNCATE jobs, submissions RESTART IDENTITY CASCADE")
    for number, past in enumerate(wanted, start=1):
        assert add(cluster, Past(past.submit, past.run, past.requests, past.user, happened[number])) == number
    same = replay(shell, "--policy", really)
    assert same["jobs"] == 48
    assert same["simulated"] == same["really"]
    assert {user["user"]: user["difference"] for user in same["users"]} == {"ann": 0, "bob": 0}
    changed = {user["user"]: user for user in replay(shell, "--policy", other)["users"]}
    assert changed["ann"]["jobs"] + changed["bob"]["jobs"] == 48
    # backfilling is what lets narrow jobs past the head of the queue
    assert (changed["bob"]["difference"] < 0) == (other == "conservative")
    text = shell.done("oarpy", "simulate", "--from-database", "--policy", other)
    assert f"{other}, the queues' own orders: 48 jobs compared" in text
    assert [line.split()[0] for line in text.splitlines() if line.startswith(("  ann", "  bob"))] == sorted(
        changed, key=lambda user: -changed[user]["difference"]
    )


def test_a_postponed_job_waits_for_its_date(cluster: SmallCluster, shell: Shell, tmp_path: Path) -> None:
    whole = ("/nodes=2,walltime=0:1:0",)
    add(cluster, Past(0, 50, whole, start=7200, types=(f"postpone={at(7200).isoformat(' ')}",)))
    add(cluster, Past(10, 50, whole))
    for policy in ("conservative", "easy"):
        assert starts(shell, tmp_path, "--policy", policy) == {1: 7200, 2: 10}


def test_hierarchies_filters_and_moldable_requests_are_those_that_were_made(
    cluster: SmallCluster, shell: Shell, tmp_path: Path
) -> None:
    jobs = [
        Past(0, 100, ("/nodes=1/core=2,walltime=1:0:0",), properties="host = 'n2'"),
        Past(1, 50, ("/nodes=1/core=2,walltime=1:0:0",), properties="host = 'n2'", start=500),
        Past(2, 600, ("/core=1,walltime=1:0:0", "/nodes=1,walltime=0:30:0"), start=600),
        Past(3, 10, ("/nodes=1/core=1,walltime=0:1:0",)),
    ]
    first, second, third, fourth = (add(cluster, past) for past in jobs)
    found = starts(shell, tmp_path)
    # n2 is taken by the first until 100; the third runs on n1 half as long with its second alternative: 2 to 302,
    # and the fourth, which may go anywhere, follows the second on n2
    assert found == {first: 0, second: 100, third: 2, fourth: 150}
    with (tmp_path / "jobs.csv").open(newline="") as file:
        rows = {int(row["job"]): row for row in csv.DictReader(file)}
    assert [int(rows[job]["resources"]) for job in (first, second, third, fourth)] == [2, 2, 2, 1]
    assert float(rows[third]["end"]) - float(rows[third]["start"]) == 300
    assert float(rows[third]["wait_really"]) == 598


def test_quotas_of_a_file_of_the_table_and_none(cluster: SmallCluster, shell: Shell, tmp_path: Path) -> None:
    jobs = [add(cluster, Past(place, 60, ("/core=1,walltime=0:1:0",))) for place in range(3)]
    cluster.sql("INSERT INTO quotas (user_name, max_jobs) VALUES ('/', 2)")
    assert starts(shell, tmp_path) == {jobs[0]: 0, jobs[1]: 1, jobs[2]: 60}
    assert starts(shell, tmp_path, "--quotas", "none") == {jobs[0]: 0, jobs[1]: 1, jobs[2]: 2}
    one = tmp_path / "quotas.json"
    one.write_text('[{"user": "/", "resources": 1}]')
    assert starts(shell, tmp_path, "--quotas", str(one)) == {jobs[0]: 0, jobs[1]: 60, jobs[2]: 120}
    dates = [at(second).astimezone().strftime("%Y-%m-%d %H:%M:%S") for second in (-10, 50)]
    file = {"quotas": {"*,*,*,/": 3}, "oneshot": [[*dates, "closed"]], "closed": {"*,*,*,/": 0}}
    one.write_text(json.dumps(file))
    assert starts(shell, tmp_path, "--quotas", str(one)) == {jobs[0]: 50, jobs[1]: 50, jobs[2]: 50}
    one.write_text('[{"user": "/", "resourcs": 1}]')
    refused = shell("oarpy", "simulate", "--from-database", "--quotas", str(one))
    assert (refused.status, refused.err.count("\n")) == (2, 1)
    assert "resourcs" in refused.err


def test_rules_admit_the_requests_anew(cluster: SmallCluster, shell: Shell, tmp_path: Path) -> None:
    long = add(cluster, Past(0, 900, ("/nodes=2,walltime=1:0:0",), "ann"))
    short = add(cluster, Past(1, 30, ("/nodes=2,walltime=0:1:0",), "bob", start=900))
    lost = add(cluster, Past(2, 30, ("/nodes=2,walltime=0:1:0",), "eve", start=930))
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "10_no_eve.py").write_text("if job.user == 'eve':\n    refuse('not eve')\n")
    (folder / "20_half.py").write_text(
        "if site.count_jobs(user='ann') and job.user == 'bob':\n"
        "    job.alternatives = [{'resources': '/nodes=1', 'walltime': 60}]\n"
    )
    found = replay(shell, "--rules", str(folder), "--output", str(tmp_path / "jobs.csv"))
    assert found["refused"] == [{"job": lost, "reason": "not eve"}]
    with (tmp_path / "jobs.csv").open(newline="") as file:
        rows = {int(row["job"]): row for row in csv.DictReader(file)}
    assert sorted(rows) == [long, short]
    assert (rows[short]["resources"], rows[long]["resources"]) == ("2", "4")
    (folder / "20_half.py").write_text("if :\n")
    broken = shell("oarpy", "simulate", "--from-database", "--rules", str(folder))
    assert broken.status == 2
    assert "rule half, line 1" in broken.err


def test_a_period_begins_with_what_ran_and_waited_then(cluster: SmallCluster, shell: Shell, tmp_path: Path) -> None:
    running = add(cluster, Past(0, 1000, ("/nodes=2,walltime=1:0:0",)))
    cluster.sql(
        "INSERT INTO assigned_resources (job_id, resource_id, during)"
        " SELECT %s, resource_id, tstzmultirange(tstzrange(%s, %s)) FROM resources",
        running,
        at(0),
        at(1000),
    )
    waiting = add(cluster, Past(10, 300, ("/nodes=2,walltime=1:0:0",), start=1000))
    inside = add(cluster, Past(700, 30, ("/nodes=2,walltime=0:1:0",), "bob", start=1300))
    add(cluster, Past(9000, 30, ("/nodes=2,walltime=0:1:0",), "eve"))
    period = ["--since", at(600).isoformat(), "--until", at(8000).isoformat()]
    found = replay(shell, *period)
    assert (found["jobs"], [user["user"] for user in found["users"]]) == (1, ["bob"])
    assert found["simulated"]["mean_wait"] == 600
    assert starts(shell, tmp_path, *period, "--order", "smallest") == {inside: 1300}
    assert waiting not in starts(shell, tmp_path, *period)
    empty = shell("oarpy", "simulate", "--from-database", "--since", at(90000).isoformat())
    assert empty.status == 2
    assert "no job of that period" in empty.err


def test_what_never_ran_is_counted_and_nothing_is_written(
    cluster: SmallCluster, shell: Shell, connection: Connection, tmp_path: Path
) -> None:
    add(cluster, Past(0, 10, ("/core=1,walltime=1:0:0",)))
    gone = cluster.submit("/core=1,walltime=1:0:0")
    cluster.sql("UPDATE jobs SET state = 'Error', ended_at = now() WHERE job_id = %s", gone)
    cluster.submit("/core=1,walltime=1:0:0")
    before = connection.execute("SELECT array_agg(j::text ORDER BY job_id) FROM jobs j").fetchone()
    plot = tmp_path / "past.svg"
    found = json.loads(shell.done("oarpy", "simulate", "--from-database", "-J", "--plot", str(plot)))
    assert (found["left_out"], found["resources"], found["replays"][0]["jobs"]) == (1, 4, 1)
    assert "job 1</title>" in plot.read_text()
    assert connection.execute("SELECT array_agg(j::text ORDER BY job_id) FROM jobs j").fetchone() == before


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--from-database", "--procs", "3"], "--procs does not go"),
        (["--from-database", "--policy", "best"], "unknown policy 'best'"),
        (["--from-database", "--order", "oldest"], "unknown order 'oldest' (use one of fifo, "),
        (["--from-database", "--order", "fifo/0"], ", or NAME/SECONDS)"),
        (["--from-database", "--since", "2026-01-02", "--until", "2026-01-01"], "period is empty"),
        (["--from-database", "--rules", "/nonexistent"], "cannot read the rules"),
        (["--from-database", "--quotas", "/nonexistent"], "cannot read the quotas"),
        (["--trace", "x", "--quotas", "none"], "--quotas does not go"),
        (["--trace", "x", "--procs", "3", "--nodes", "2"], "how large"),
        ([], "no workload"),
    ],
)
def test_options_that_clash_are_one_clear_error(shell: Shell, arguments: Sequence[str], complaint: str) -> None:
    result = shell("oarpy", "simulate", *arguments)
    assert (result.status, result.err.count("\n")) == (2, 1)
    assert complaint in result.err


def test_amounts_of_the_past_keep_jobs_apart(cluster: SmallCluster, shell: Shell, tmp_path: Path) -> None:
    cluster.add_consumable("memory", n1=8, n2=4)
    jobs = [
        Past(0, 600, ("/core=1,memory=6,walltime=1:0:0",)),
        Past(100, 600, ("/core=1,memory=4,walltime=1:0:0",)),
        Past(200, 100, ("/core=1,memory=3,walltime=1:0:0", "/core=1,memory=2,walltime=1:30:0"), start=700),
        Past(210, 10, ("/core=1,walltime=0:1:0",)),
    ]
    first, second, third, fourth = (add(cluster, past) for past in jobs)
    # 2 of n1 are left: enough for the other alternative alone, whose run is taken to be longer
    assert starts(shell, tmp_path) == {first: 0, second: 100, third: 200, fourth: 210}
    cluster.sql("UPDATE consumable_capacities SET capacity = 7 WHERE block = 'n1'")
    assert starts(shell, tmp_path) == {first: 0, second: 100, third: 600, fourth: 210}
    # what began before the period keeps its amounts
    cluster.sql(
        "INSERT INTO assigned_resources SELECT %s, min(resource_id), tstzmultirange(tstzrange(%s, %s)) FROM resources",
        first, at(0), at(600),
    )  # fmt: skip
    cluster.sql("INSERT INTO assigned_amounts VALUES (%s, 'memory', 'n1', 6, tstzrange(%s, %s))", first, at(0), at(600))
    later = starts(shell, tmp_path, "--since", at(50).isoformat())
    assert later == {second: 100, third: 600, fourth: 210}


def test_a_job_from_before_the_period_keeps_its_gpu_for_itself(
    cluster: SmallCluster, shell: Shell, tmp_path: Path
) -> None:
    cluster.sql("ALTER TABLE resources ADD gpu text")
    cluster.sql("INSERT INTO resource_properties VALUES ('gpu', 'text', false)")
    cluster.sql("UPDATE resources SET gpu = 'g1' WHERE network_address = 'n1'")
    train = ("/gpu=1/core=1,walltime=1:0:0",)
    before = add(cluster, Past(0, 600, train))
    after = add(cluster, Past(100, 10, train, start=600))
    cluster.sql(
        "INSERT INTO assigned_resources SELECT %s, min(resource_id), tstzmultirange(tstzrange(%s, %s)) FROM resources",
        before, at(0), at(600),
    )  # fmt: skip
    assert starts(shell, tmp_path) == {before: 0, after: 600}
    assert starts(shell, tmp_path, "--since", at(50).isoformat()) == {after: 600}
