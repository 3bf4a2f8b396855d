"""``oarhold -r`` and ``oarresume``: states, resources, walltimes; every node obeys, whoever dies in between."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from oarpy.client.jobs import actions as client
from oarpy.client.jobs.selection import JobSelection
from oarpy.client.session import Session
from oarpy.model.errors import NotAllowed, OarpyError
from oarpy.store.jobs import suspensions
from oarpy.transport.wakeup import readable
from oarpy.wire.messages import Clean, Command, Kill, Resume, Start, Suspend
from tests.harness.sample_cluster import Shell, add_job, add_nodes
from tests.harness.small_cluster import Connection, SmallCluster, with_settings

pytestmark = [pytest.mark.db, pytest.mark.kept]

PATH = ["Waiting", "toLaunch", "Launching", "Running", "Suspended", "Resuming", "Running"]


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection, with_settings(jobs={"users_may_suspend": True}))
    made.add_nodes("n1", "n2")
    return made


def session(cluster: SmallCluster, user: str = "ann", **jobs: Any) -> Session:
    settings = with_settings(jobs={"users_may_suspend": True, **jobs})
    return Session(cluster.connection, settings, user, 1000, is_admin=False)


def suspend(cluster: SmallCluster, *jobs: int) -> None:
    client.hold(session(cluster), JobSelection(jobs), running=True)
    cluster.settle()


def resume(cluster: SmallCluster, *jobs: int) -> None:
    client.resume(session(cluster), JobSelection(jobs))
    cluster.settle()


def told(cluster: SmallCluster, kind: type[Command], job: int) -> set[str]:
    return {
        name
        for name, command in cluster.sent(kind)
        if not isinstance(command, Start) and cluster.key(job) in getattr(command, "jobs", ())
    }


def holders(cluster: SmallCluster) -> dict[int, int]:
    """Who may use each resource now."""
    rows = cluster.sql("SELECT resource_id, job_id FROM assigned_resources WHERE upper_inf(during) AND NOT suspended")
    return dict(rows)


def test_a_suspended_job_lets_others_run_and_goes_on_when_they_are_done(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2,walltime=1:0:0")
    other = cluster.submit("/nodes=2,walltime=0:10:0", user="bob")
    cluster.settle()
    assert cluster.states([job, other]) == ["Running", "Waiting"]
    suspend(cluster, job)
    assert cluster.states([job, other]) == ["Suspended", "Running"]
    assert told(cluster, Suspend, job) == {"n1", "n2"}
    assert set(holders(cluster).values()) == {other}
    resume(cluster, job)
    assert cluster.states([job, other]) == ["Resuming", "Running"]
    assert told(cluster, Resume, job) == set()
    cluster.end(other)
    cluster.settle()
    assert cluster.states([job, other]) == ["Running", "Terminated"]
    assert told(cluster, Resume, job) == {"n1", "n2"}
    assert set(holders(cluster).values()) == {job}
    assert cluster.path(job) == PATH
    assert cluster.events(job) == ["HOLD_RUNNING_JOB", "JOB_SUSPENDED", "RESUME_JOB", "JOB_RESUMED"]
    cluster.end(job)
    cluster.settle()
    assert cluster.state(job) == "Terminated"
    assert cluster.held() == {}


def test_a_job_that_goes_on_comes_before_everything_that_waits(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2,walltime=1:0:0")
    short = cluster.submit("/nodes=1,walltime=0:10:0", user="bob")
    cluster.settle()
    suspend(cluster, job)
    assert cluster.state(short) == "Running"
    resume(cluster, job)
    later = cluster.submit("/nodes=1,walltime=1:0:0", user="bob")
    cluster.settle()
    assert cluster.state(later) == "Waiting"
    assert cluster.predicted(later) == pytest.approx(600 + 3600, abs=60)
    filler = cluster.submit("/nodes=1,walltime=0:5:0", user="bob")
    cluster.settle()
    assert cluster.state(filler) == "Running"


def test_best_effort_jobs_give_way_to_a_job_that_goes_on(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2")
    cluster.settle()
    suspend(cluster, job)
    cheap = cluster.submit("/nodes=2", queue="besteffort", types=("besteffort",), user="bob")
    cluster.settle()
    assert cluster.state(cheap) == "Running"
    resume(cluster, job)
    assert cluster.states([job, cheap]) == ["Running", "Error"]


def test_the_walltime_stands_still(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2,walltime=1:0:0")
    cluster.settle()
    suspend(cluster, job)
    cluster.sql("UPDATE jobs SET suspended_at = suspended_at - interval '2 hours' WHERE job_id = %s", job)
    cluster.sql("UPDATE jobs SET started_at = started_at - interval '2 hours' WHERE job_id = %s", job)
    resume(cluster, job)
    assert cluster.state(job) == "Running"
    assert cluster.job(job, "suspended_time").total_seconds() == pytest.approx(7200, abs=60)
    assert cluster.job(job, "walltime").total_seconds() == 3600
    later = cluster.submit("/nodes=2", user="bob")
    cluster.settle()
    assert cluster.predicted(later) == pytest.approx(3600, abs=60)


def test_a_noop_job_stands_still_without_its_nodes(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2,walltime=0:1:0", types=("noop",))
    cluster.settle()
    suspend(cluster, job)
    assert cluster.state(job) == "Suspended"
    assert told(cluster, Suspend, job) == set()
    cluster.sql(
        "UPDATE jobs SET started_at = started_at - interval '1 hour', suspended_at = suspended_at - interval '1 hour'"
    )
    cluster.offset = 5.0
    cluster.settle()
    assert cluster.state(job) == "Suspended"
    resume(cluster, job)
    assert cluster.state(job) == "Running"


def test_only_resources_of_the_configured_types_are_given_back(connection: Connection) -> None:
    cluster = SmallCluster(connection, with_settings(scheduler={"suspended_resource_types": ()}))
    cluster.add_nodes("n1")
    job, other = cluster.submit("/nodes=1"), cluster.submit("/nodes=1", user="bob")
    cluster.settle()
    suspend(cluster, job)
    assert cluster.states([job, other]) == ["Suspended", "Waiting"]
    resume(cluster, job)
    assert cluster.states([job, other]) == ["Running", "Waiting"]


def test_a_job_is_not_suspended_before_every_node_says_so(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2")
    cluster.settle()
    cluster.node("n2").deaf = True
    suspend(cluster, job)
    assert cluster.state(job) == "Running"
    assert set(holders(cluster).values()) == {job}
    cluster.node("n2").deaf = False
    cluster.restart_launcher()
    cluster.settle()
    assert cluster.state(job) == "Suspended"


@pytest.mark.parametrize("deaf", ["n1", "n2"])
def test_a_launcher_killed_while_a_job_is_to_go_on_leaves_it_to_the_next(cluster: SmallCluster, deaf: str) -> None:
    job = cluster.submit("/nodes=2")
    cluster.settle()
    suspend(cluster, job)
    cluster.node(deaf).deaf = True
    resume(cluster, job)
    assert cluster.state(job) == "Resuming"
    cluster.node(deaf).deaf = False
    cluster.restart_launcher()
    cluster.settle()
    assert cluster.state(job) == "Running"
    assert cluster.node("n1").jobs[cluster.key(job)].suspended is None


def test_a_deleted_suspended_job_is_killed_and_cleaned_everywhere(cluster: SmallCluster) -> None:
    job, other = cluster.submit("/nodes=2"), cluster.submit("/nodes=2", user="bob")
    cluster.settle()
    suspend(cluster, job)
    assert cluster.state(other) == "Running"
    cluster.delete(job)
    cluster.settle()
    assert cluster.states([job, other]) == ["Error", "Running"]
    assert told(cluster, Kill, job) == {"n1"}
    assert told(cluster, Clean, job) == {"n1", "n2"}
    assert cluster.sql("SELECT suspended_at FROM jobs WHERE job_id = %s", job) == [(None,)]
    assert set(holders(cluster).values()) == {other}


def test_a_job_that_ends_before_it_is_suspended_leaves_no_request(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=1")
    cluster.settle()
    cluster.node("n1").deaf = True
    suspend(cluster, job)
    cluster.node("n1").deaf = False
    cluster.end(job)
    cluster.settle()
    assert cluster.state(job) == "Terminated"
    assert cluster.sql("SELECT FROM suspend_requests") == []


def test_held_again_before_it_went_on(cluster: SmallCluster) -> None:
    job, other = cluster.submit("/nodes=2"), cluster.submit("/nodes=2", user="bob")
    cluster.settle()
    suspend(cluster, job)
    resume(cluster, job)
    assert cluster.state(job) == "Resuming"
    suspend(cluster, job)
    cluster.end(other)
    cluster.settle()
    assert cluster.state(job) == "Suspended"
    cluster.node("n2").deaf = True
    resume(cluster, job)
    assert set(holders(cluster).values()) == {job}
    cluster.node("n2").deaf = False
    suspend(cluster, job)
    cluster.restart_launcher()
    cluster.settle()
    assert cluster.state(job) == "Suspended"
    assert holders(cluster) == {}
    assert cluster.node("n1").jobs[cluster.key(job)].suspended is not None


def test_a_state_changed_by_hand_is_carried_out(cluster: SmallCluster) -> None:
    job, other = cluster.submit("/nodes=2"), cluster.submit("/nodes=2", user="bob")
    cluster.settle()
    cluster.sql("UPDATE jobs SET state = 'Suspended' WHERE job_id = %s", job)
    cluster.settle()
    assert cluster.states([job, other]) == ["Suspended", "Running"]
    assert told(cluster, Suspend, job) == {"n1", "n2"}


def test_the_database_lets_no_two_hold_a_resource_whatever_is_resumed(cluster: SmallCluster) -> None:
    job, other = cluster.submit("/nodes=2"), cluster.submit("/nodes=2", user="bob")
    cluster.settle()
    suspend(cluster, job)
    assert cluster.state(other) == "Running"
    cluster.sql("UPDATE jobs SET state = 'Resuming' WHERE job_id = %s", job)
    with pytest.raises(psycopg.errors.ExclusionViolation):
        suspensions.give_back(cluster.connection, [job])


def test_who_may_suspend_what(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=1")
    container = cluster.submit("/nodes=1", types=("container",))
    waiting = cluster.submit("/nodes=2")
    cluster.settle()
    with pytest.raises(NotAllowed, match="only an admin may suspend"):
        client.hold(session(cluster, users_may_suspend=False), JobSelection((job,)), running=True)
    with pytest.raises(NotAllowed, match="belongs to 'ann'"):
        client.hold(session(cluster, "eve"), JobSelection((job,)), running=True)
    with pytest.raises(OarpyError, match="type container and cannot be suspended"):
        client.hold(session(cluster), JobSelection((container,)), running=True)
    with pytest.raises(OarpyError, match="is Running and cannot be held: only a waiting job can"):
        client.hold(session(cluster), JobSelection((job,)))
    client.hold(session(cluster, users_may_suspend=False), JobSelection((waiting,)), running=True)
    assert cluster.state(waiting) == "Hold"
    suspend(cluster, job)
    with pytest.raises(NotAllowed, match="only an admin may suspend and resume"):
        client.resume(session(cluster, users_may_suspend=False), JobSelection((job,)))


def test_the_commands(connection: Connection, shell: Shell) -> None:
    cores = add_nodes(connection, "node1")
    add_job(connection, "Running", resources=cores, user="somebody")
    assert shell("oarhold", "1").status == 1
    assert shell.done("oarhold", "-r", "1") == "[1] Hold request was sent to the OAR server.\n"
    assert json.loads(shell.done("oarhold", "-r", "-J", "1")) == {"action": "hold", "jobs": [1]}
    assert connection.execute("SELECT job_id FROM suspend_requests").fetchall() == [(1,)]
    connection.execute("UPDATE jobs SET state = 'Suspended'")
    assert "S" in shell.done("oarstat", "1").split()
    assert shell.done("oarstat", "--why", "1") == "Job 1 is suspended: oarresume 1 lets it go on.\n"
    assert shell.done("oarresume", "1") == "[1] Resume request was sent to the OAR server.\n"
    assert connection.execute("SELECT state FROM jobs").fetchall() == [("Resuming",)]
    said = shell.done("oarstat", "--why", "1")
    assert said == "Job 1 is resuming: it goes on as soon as its resources are free.\n"


def program(path: Path, text: str) -> str:
    """Write a program of the site; what it prints goes to ``log`` beside it."""
    path.write_text(f"#!/bin/sh\ncd {path.parent}\n{text}\n")
    path.chmod(0o755)
    return str(path)


def with_programs(connection: Connection, **jobs: object) -> SmallCluster:
    cluster = SmallCluster(connection, with_settings(jobs={"users_may_suspend": True, **jobs}))
    cluster.add_nodes("n1", "n2")
    return cluster


def rounds(cluster: SmallCluster, condition: Callable[[], bool], what: str) -> None:
    """Run rounds until a condition holds: programs on the server take their time."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, f"not in time: {what}"
        cluster.settle()
        readable(cluster.launcher.files(), 0.05)


def until_state(cluster: SmallCluster, job: int, state: str) -> None:
    rounds(cluster, lambda: cluster.state(job) == state, f"job {job} is {cluster.state(job)}, not {state}")


def test_the_programs_of_the_site_run_while_nobody_else_has_the_resources(
    connection: Connection, tmp_path: Path
) -> None:
    wait = "until [ -e go ]; do sleep 0.01; done; rm go"
    cluster = with_programs(
        connection,
        after_suspend=program(tmp_path / "after", f"echo after $* >> log; {wait}"),
        before_resume=program(tmp_path / "before", f"echo before $* >> log; {wait}"),
    )
    job, other = cluster.submit("/nodes=2"), cluster.submit("/nodes=2", user="bob")
    cluster.settle()
    for _ in range(2):
        (tmp_path / "log").unlink(missing_ok=True)
        suspend(cluster, job)
        rounds(cluster, (tmp_path / "log").exists, "the program was started")
        assert told(cluster, Suspend, job) == {"n1", "n2"}
        assert cluster.states([job, other])[0] == "Running"
        assert set(holders(cluster).values()) == {job}
        (tmp_path / "go").touch()
        until_state(cluster, job, "Suspended")
        cluster.settle()
        if cluster.state(other) == "Running":
            cluster.end(other)
            cluster.settle()
        before = len(cluster.sent(Resume))
        resume(cluster, job)
        rounds(cluster, lambda: "before" in (tmp_path / "log").read_text(), "the other program was started")
        assert cluster.state(job) == "Resuming"
        assert set(holders(cluster).values()) == {job}
        assert len(cluster.sent(Resume)) == before
        (tmp_path / "go").touch()
        until_state(cluster, job, "Running")
        assert (tmp_path / "log").read_text() == f"after {job}\nbefore {job}\n"
    assert not cluster.launcher.run_once(connection, datetime.now(UTC)).pending
    assert len(cluster.launcher.files()) == 1


def test_what_fails_after_a_suspension_is_told_and_no_more(connection: Connection, tmp_path: Path) -> None:
    cluster = with_programs(connection, after_suspend=program(tmp_path / "after", "echo no space; exit 3"))
    job = cluster.submit("/nodes=2")
    cluster.settle()
    suspend(cluster, job)
    until_state(cluster, job, "Suspended")
    said = cluster.sql("SELECT description FROM event_logs WHERE type = 'SUSPEND_SCRIPT_ERROR'")
    assert said == [("after_suspend ended with exit status 3: no space",)]
    assert holders(cluster) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("test -e go && exit; exit 1", "it stays suspended: before_resume ended with exit status 1"),
        ("test -e go || exec sleep 60", "it stays suspended: before_resume took more than 0.3 s"),
        (None, "it stays suspended: before_resume {program}: No such file or directory"),
    ],
)
def test_a_job_stays_suspended_when_it_may_not_go_on(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, said: str
) -> None:
    path = tmp_path / "before"
    if text is None:
        monkeypatch.setattr("oarpy.modules.launcher.scripts.programs.shutil.which", lambda name: None)
    else:
        program(path, text)
    cluster = with_programs(connection, before_resume=str(path), server_script_timeout=0.3)
    job, other = cluster.submit("/nodes=2"), cluster.submit("/nodes=2", user="bob")
    cluster.settle()
    suspend(cluster, job)
    cluster.end(other)
    cluster.settle()
    resume(cluster, job)
    failed = "SELECT description FROM event_logs WHERE type = 'RESUME_SCRIPT_ERROR'"
    rounds(cluster, lambda: bool(cluster.sql(failed)), "the failure is told")
    assert cluster.sql(failed) == [(said.format(program=path),)]
    assert cluster.state(job) == "Suspended"
    assert told(cluster, Resume, job) == set()
    cluster.settle()
    assert holders(cluster) == {}
    program(path, "exit 0")
    resume(cluster, job)
    until_state(cluster, job, "Running")


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a killed launcher closes nothing
def test_a_program_that_was_cut_off_is_run_again(connection: Connection, tmp_path: Path) -> None:
    text = "echo x >> log; until test -e go; do sleep 0.05; done"
    cluster = with_programs(connection, after_suspend=program(tmp_path / "after", text))
    job = cluster.submit("/nodes=1")
    cluster.settle()
    suspend(cluster, job)
    rounds(cluster, (tmp_path / "log").exists, "the program was started")
    cluster.restart_launcher()
    (tmp_path / "go").touch()
    until_state(cluster, job, "Suspended")
    assert (tmp_path / "log").read_text() == "x\nx\n"


def test_a_job_that_is_held_again_has_the_program_run_again(connection: Connection, tmp_path: Path) -> None:
    cluster = with_programs(
        connection,
        after_suspend=program(tmp_path / "after", "echo after >> log"),
        before_resume=program(tmp_path / "before", "echo before >> log; until [ -e go ]; do sleep 0.01; done"),
    )
    job = cluster.submit("/nodes=2")
    cluster.settle()
    suspend(cluster, job)
    until_state(cluster, job, "Suspended")
    resume(cluster, job)
    rounds(cluster, lambda: "before" in (tmp_path / "log").read_text(), "the program was started")
    suspend(cluster, job)
    rounds(cluster, lambda: holders(cluster) == {}, "its resources are free again")
    (tmp_path / "go").touch()
    rounds(cluster, lambda: len(cluster.launcher.files()) == 1, "its end was seen")
    assert cluster.state(job) == "Suspended"
    assert (tmp_path / "log").read_text() == "after\nbefore\nafter\n"
