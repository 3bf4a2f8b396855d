"""``oarresize``: more hosts for a running job, fewer, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest

from oarpy.negotiation.requests import resizing
from oarpy.store.jobs import extensions, resizes
from tests.harness.oarsub_cluster import Submitter, build, decide, run_pass, submitter
from tests.harness.sample_cluster import Connection

pytestmark = pytest.mark.db


@pytest.fixture
def submit(
    connection: Connection,
    cluster_environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Submitter:
    """Commands on a small cluster with three nodes; while one waits for its answer, a pass runs and nodes confirm."""
    build(connection)

    def looks() -> Iterator[None]:
        decide(connection)
        resizes.confirm(connection, [one.id for one in resizes.opened(connection)])
        yield

    monkeypatch.setattr(resizing, "_looks", looks)
    return submitter(cluster_environment, monkeypatch, capsys)


def test_a_job_gets_hosts_and_gives_them_back(submit: Submitter, connection: Connection) -> None:
    job = str(submit.job_id("-l", "/nodes=1,walltime=1:0:0", "sleep 1"))
    run_pass(connection)
    found = submit(job, "+1", command="oarresize")
    assert (found.out, found.err, found.status) == (f"Granted: job {job} has n3.\n", "", 0)
    found = submit(job, "+1", "--revocable", "-J", command="oarresize")
    assert json.loads(found.out) == {
        "action": "resize", "job": int(job), "granted": ["n4"], "released": [], "pending": None
    }  # fmt: skip
    assert f"\n{job} " in (listed := submit(command="oarstat").out)
    assert ("R=12," in listed, "R=4," in listed) == (True, False)
    found = submit(job, "-n3,n4", command="oarresize")
    assert (found.out, found.status) == (f"Released: job {job} has n3, n4 no more.\n", 0)
    assert "R=4," in submit(command="oarstat").out
    found = submit(job, "+1@all#2", command="oarresize")
    assert (found.out, found.status) == (f"Granted: job {job} has n3.\n", 0)


def test_what_has_to_wait_has_an_estimate_and_can_be_withdrawn(submit: Submitter, connection: Connection) -> None:
    job = str(submit.job_id("-l", "/nodes=1,walltime=1:0:0", "sleep 1"))
    other = submit.job_id("-l", "/nodes=2,walltime=0:10:0", "sleep 1")
    run_pass(connection)
    found = submit(job, "+1", command="oarresize")
    assert found.status == 0
    assert found.out.startswith(f"Pending for job {job}, foreseen for 20")
    assert f"when job {other} should be over" in found.out
    shown = json.loads(submit("-J", "-j", job, command="oarstat").out)[job]["extensions"]
    assert [(one["kind"], one["hosts"], one["state"], one["start"] > 0) for one in shown] == [
        ("firm", {"": 1}, "Waiting", True)
    ]
    assert "extensions = +1 firm Waiting\n" in submit("-f", "-j", job, command="oarstat").out
    found = submit(job, "+0", command="oarresize")
    assert found.out == f"Accepted: nothing is pending any more for job {job}.\n"
    assert connection.execute("SELECT state FROM extensions").fetchall() == [("Withdrawn",)]


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("1", "+x"), 2, "'+x' is no change of hosts (+2, +2@CLUSTER, or -HOST,HOST)"),
        (("1", "+1@"), 2, "'+1@' is no change of hosts"),
        (("1", "-n2,"), 2, "'-n2,' is no change of hosts"),
        (("1", "-n3", "--revocable"), 2, "--revocable beside hosts to give back"),
        (("1", "-n2"), 3, "'n2' is the first host of job 1"),
        (("1", "+99"), 3, "99"),
        (("1", "+2@all#1"), 3, "2 hosts of cluster 'all#1'"),
        (("1", "+1@red"), 4, "there is no cluster 'red'"),
        (("1", "-n4"), 4, "job 1 has no host 'n4' (it has n2)"),
        (("99", "+1"), 4, "job 99"),
        (("2", "+1"), 1, "job 2 is Waiting: only a job that runs can get more hosts"),
        (("2", "-n2"), 1, "job 2 is Waiting"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    submit: Submitter, connection: Connection, arguments: tuple[str, ...], status: int, text: str
) -> None:
    submit.job_id("-l", "/nodes=1,walltime=1:0:0", "sleep 1")
    run_pass(connection)
    submit.job_id("-l", "/nodes=3,walltime=1:0:0", "sleep 1")
    found = submit(*arguments, command="oarresize")
    assert (found.status, found.out, found.err.count("\n")) == (status, "", 1)
    assert text in found.err
    assert connection.execute(
        "SELECT (SELECT count(*) FROM extensions), (SELECT count(*) FROM resizes)"
    ).fetchall() == [(0, 0)]


def test_rules_look_at_what_is_asked_for_and_at_the_time_that_is_left(
    submit: Submitter, connection: Connection
) -> None:
    job = str(submit.job_id("-l", "/nodes=1,walltime=1:0:0", "sleep 1"))
    run_pass(connection)
    text = (
        "for request in job.alternatives:\n"
        "    if request.groups[0].levels[0].count > 1 and request.walltime <= 3600:\n"
        "        refuse('one host more at a time')\n"
    )
    connection.execute("INSERT INTO admission_rules (name, priority, rule_text) VALUES ('one', 50, %s)", [text])
    found = submit(job, "+2", command="oarresize")
    assert (found.status, found.err.count("one host more at a time")) == (3, 1)
    assert submit(job, "+1", command="oarresize").out == f"Granted: job {job} has n3.\n"


def test_a_job_that_shares_its_hosts_does_not_grow(submit: Submitter, connection: Connection) -> None:
    job = str(submit.job_id("-t", "timesharing=user,*", "-l", "/nodes=1,walltime=1:0:0", "sleep 1"))
    run_pass(connection)
    found = submit(job, "+1", command="oarresize")
    assert (found.status, found.out) == (3, "")
    assert f"job {job} shares its resources" in found.err


def application(submit: Submitter, connection: Connection, subscription: Mapping[str, object], hosts: str) -> str:
    """Return the job of an application that runs with these hosts; all hosts but n4 are equal."""
    connection.execute("UPDATE resources SET mem = CASE network_address WHEN 'n4' THEN 16 ELSE 8 END")
    made = submit("--subscribe", json.dumps({"message": "subscribe", **subscription}), "sleep 1")
    job = str(json.loads(made.out)["job"])
    request = {"message": "request", "tag": 1, "hosts": {hosts: 1}, "walltime": 600}
    found = submit("--ask", job, "--request", json.dumps(request), command="oarnegotiate")
    assert found.status == 0, found
    run_pass(connection)
    return job


def test_an_application_grows_in_its_own_clusters_by_what_it_counts(submit: Submitter, connection: Connection) -> None:
    job = application(submit, connection, {"filter": {"clusters": ["all#2"]}, "level": "core"}, "all#2")
    found = submit(job, "+1@all#1", command="oarresize")
    assert (found.status, "there is no cluster 'all#1'" in found.err) == (4, True), found
    found = submit(job, "+4", command="oarresize")
    assert (found.status, "no cluster has 4 more cores" in found.err) == (3, True)
    found = submit(job, "+3", command="oarresize")
    assert (found.out, found.err) == (f"Granted: job {job} has n4.\n", "")
    ((cores,),) = connection.execute("SELECT count(*) FROM assigned_resources WHERE job_id = %s", [int(job)])
    assert cores == 4


def test_an_application_grows_up_to_the_share_of_a_cluster(
    submit: Submitter, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OARPY_NEGOTIATION_VISIBLE_SHARE", "0.5")
    connection.execute("UPDATE resources SET state = 'Alive'")
    job = application(submit, connection, {}, "all#1")
    found = submit(job, "+2@all#1", command="oarresize")
    assert (found.status, "2 more hosts of cluster 'all#1' beside 1" in found.err) == (3, True), found
    assert submit(job, "+1@all#1", command="oarresize").out == f"Granted: job {job} has n2.\n"
    found = submit(job, "+1@all#1", "--revocable", command="oarresize")
    assert (found.status, "beside 2 (one application may have 2 of 4)" in found.err) == (3, True), found
    assert submit(job, "+1", command="oarresize").out == f"Granted: job {job} has n4.\n"
    assert submit(job, "+1", command="oarresize").status == 3


@pytest.mark.parametrize(
    ("meanwhile", "text"),
    [
        ("UPDATE extensions SET state = 'Withdrawn'", "job 1 gets no hosts by this: what was asked for firm later"),
        ("UPDATE jobs SET state = 'Terminated', left_nothing = true, ended_at = now()", "job 1 has ended meanwhile"),
        ("", "job 1 does not get the hosts that it was to have: its disk is full"),
    ],
)
def test_what_will_not_come_is_not_called_pending(
    submit: Submitter, connection: Connection, monkeypatch: pytest.MonkeyPatch, meanwhile: str, text: str
) -> None:
    submit.job_id("-l", "/nodes=1,walltime=1:0:0", "sleep 1")
    run_pass(connection)

    def looks() -> Iterator[None]:
        if not meanwhile:
            decide(connection)
            (given,) = resizes.opened(connection)
            resizes.take_back(connection, given, "its disk is full", again=False)
        else:
            connection.execute(meanwhile)
            extensions.end(connection)
        yield

    monkeypatch.setattr(resizing, "_looks", looks)
    found = submit("1", "+1", command="oarresize")
    assert (found.status, found.out, found.err.count("\n")) == (1, "", 1)
    assert text in found.err
