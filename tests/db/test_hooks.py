"""What the site has run around jobs: prologue and epilogue, on the nodes and on the server; who is blamed for what."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from oarpy.transport.wakeup import readable
from oarpy.wire.messages import Release, RunScript, Start
from tests.harness.sample_cluster import Connection
from tests.harness.small_cluster import SmallCluster, with_settings

STATE = "SELECT DISTINCT network_address, state, state_by FROM resources WHERE state <> 'Alive'"
DEADLINE = 30.0


def made(connection: Connection, **jobs: object) -> SmallCluster:
    """Return a cluster of three nodes with these settings of jobs."""
    cluster = SmallCluster(connection, with_settings(jobs=jobs))
    cluster.add_nodes("n1", "n2", "n3")
    return cluster


def until(cluster: SmallCluster, job: int, *states: str) -> None:
    """Run rounds until a job is in one of these states; scripts on the server take their time."""
    end = time.monotonic() + DEADLINE
    while cluster.state(job) not in states:
        assert time.monotonic() < end, f"job {job} is {cluster.state(job)}"
        cluster.plan()
        cluster.cancel()
        cluster.launch()
        cluster.watch()
        readable(cluster.launcher.files(), 0.05)


def ran(cluster: SmallCluster) -> dict[str, list[str]]:
    """Return which scripts ran on the nodes."""
    return {name: [kind for kind, _ in cluster.node(name).scripts] for name in ("n1", "n2", "n3")}


def program(path: Path, text: str) -> str:
    """Write the site's program."""
    path.write_text(f"#!/bin/sh\ncd {path.parent}\n{text}\n")
    path.chmod(0o755)
    return str(path)


# On the nodes


def test_a_job_starts_after_the_prologue_of_all_its_nodes_and_is_over_after_their_epilogue(
    connection: Connection,
) -> None:
    cluster = made(connection, prologue="/site/prologue", epilogue="/site/epilogue")
    cluster.node("n2").script_outcomes["prologue"] = None
    job = cluster.submit("/nodes=2")
    cluster.settle()
    assert cluster.state(job) == "Launching"
    assert cluster.sent(Start) == []
    cluster.node("n2").script_outcomes = {"epilogue": None}
    cluster.nodes.lose("n2")
    cluster.launch()
    cluster.reconnect("n2")
    cluster.settle()
    assert cluster.state(job) == "Running"
    assert ran(cluster) == {"n1": ["prologue"], "n2": ["prologue"], "n3": []}
    cluster.end(job, 3 << 8)
    cluster.settle()
    assert cluster.state(job) == "Finishing"
    cluster.nodes.lose("n2")  # nobody waits for a node that is away
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "exit_status")) == ("Terminated", 3 << 8)
    assert ran(cluster) == {"n1": ["prologue", "epilogue"], "n2": ["prologue", "epilogue"], "n3": []}
    assert {name for name, _ in cluster.sent(Release)} == {"n1"}


def test_nothing_of_the_user_is_passed_to_a_script(connection: Connection) -> None:
    cluster = made(connection, prologue="/site/prologue", script_timeout=7.0)
    job = cluster.submit("/nodes=1,walltime=0:10:0")
    cluster.settle()
    ((_, asked),) = cluster.sent(RunScript)
    assert isinstance(asked, RunScript)
    (spec,) = asked.jobs
    assert (asked.program, asked.timeout, spec.job, spec.walltime) == ("/site/prologue", 7.0, job, 600)
    assert (spec.environment, spec.variables, spec.command) == ({}, {}, "")


def test_a_failing_prologue_suspects_its_node_and_the_job_is_submitted_again_if_it_may(connection: Connection) -> None:
    cluster = made(connection, prologue="/site/prologue", epilogue="/site/epilogue")
    cluster.node("n1").script_outcomes["prologue"] = "failed"
    job = cluster.submit("/nodes=1", types=("idempotent",), command="true")
    cluster.settle()
    assert cluster.path(job) == ["Waiting", "toLaunch", "Launching", "Finishing", "Error"]
    assert cluster.job(job, "message") == "not started: node n1: as asked"
    assert cluster.sql(STATE) == [("n1", "Suspected", "launcher")]
    ((copy, state),) = cluster.sql("SELECT job_id, state FROM jobs WHERE resubmit_of = %s", job)
    assert state == "Terminated"
    assert cluster.hosts(copy)[0] == "n2"
    assert ran(cluster)["n1"] == ["prologue", "epilogue"]
    assert cluster.sql("SELECT count(*) FROM queues WHERE NOT active") == [(0,)]


@pytest.mark.parametrize(
    ("outcome", "event", "states"),
    [
        ("timeout", "PROLOGUE_ERROR", [("n1", "Suspected", "launcher")]),
        ("lost", "JOB_LOST", []),
        ("UNFIT", "UNFIT", []),
    ],
)
def test_who_is_blamed_for_a_prologue(
    connection: Connection, outcome: str, event: str, states: list[tuple[str, str, str]]
) -> None:
    cluster = made(connection, prologue="/site/prologue")
    cluster.node("n1").script_outcomes["prologue"] = outcome
    cluster.node("n1").problem = "still full"
    job = cluster.submit("/nodes=1")
    cluster.settle()
    assert cluster.state(job) == "Error"
    assert event in cluster.events(job)
    assert cluster.sql(STATE) == states


def test_a_prologue_for_a_user_whom_the_node_does_not_know_sends_the_job_elsewhere(connection: Connection) -> None:
    cluster = made(connection, prologue="/site/prologue")
    cluster.node("n1").script_outcomes["prologue"] = "NO_SUCH_USER"
    job = cluster.submit("/nodes=2", command="true")
    cluster.settle()
    assert cluster.state(job) == "Terminated"
    assert set(cluster.hosts(job)[-4:]) == {"n2", "n3"}
    assert cluster.events(job) == ["REQUEUED"]


def test_a_job_whose_prologue_no_node_could_begin_waits_again(connection: Connection) -> None:
    cluster = made(connection, prologue="/site/prologue", epilogue="/site/epilogue")
    cluster.node("n1").script_outcomes["prologue"] = "STATE_DIRECTORY"
    cluster.node("n1").problem = "still full"
    job = cluster.submit("/nodes=1")
    cluster.settle()
    assert cluster.state(job) == "Running"
    assert cluster.hosts(job)[0] == "n2"
    assert cluster.events(job) == ["STATE_DIRECTORY", "REQUEUED"]
    assert cluster.sql(STATE) == [("n1", "Suspected", "node")]


def test_a_failing_epilogue_suspects_its_node_and_changes_nothing_for_the_job(connection: Connection) -> None:
    cluster = made(connection, epilogue="/site/epilogue")
    cluster.node("n2").script_outcomes["epilogue"] = "failed"
    job = cluster.submit("/nodes=2", command="exit 4")
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "exit_status")) == ("Terminated", 4 << 8)
    assert cluster.sql(STATE) == [("n2", "Suspected", "launcher")]
    assert cluster.events(job) == ["EPILOGUE_ERROR"]


def test_a_launcher_restarted_in_between_asks_again_and_the_node_knows(connection: Connection) -> None:
    cluster = made(connection, prologue="/site/prologue", epilogue="/site/epilogue")
    cluster.node("n1").script_outcomes["prologue"] = None
    job = cluster.submit("/nodes=1")
    cluster.settle()
    cluster.restart_launcher()
    cluster.node("n1").script_outcomes = {}
    cluster.settle()
    assert cluster.state(job) == "Running"
    cluster.end(job)
    cluster.restart_launcher()
    cluster.settle()
    assert cluster.state(job) == "Terminated"
    assert ran(cluster)["n1"] == ["prologue", "epilogue"]


def test_a_job_deleted_during_its_prologue_never_starts(connection: Connection) -> None:
    cluster = made(connection, prologue="/site/prologue", epilogue="/site/epilogue")
    cluster.node("n1").script_outcomes["prologue"] = None
    job = cluster.submit("/nodes=1")
    cluster.settle()
    cluster.delete(job)
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "message")) == ("Error", "killed: oardel")
    assert cluster.node("n1").starts == []
    assert ran(cluster)["n1"] == ["prologue", "epilogue"]


# On the server


@pytest.mark.parametrize("kind", ["", "noop"])
def test_scripts_on_the_server_run_around_every_job(connection: Connection, tmp_path: Path, kind: str) -> None:
    prologue = program(tmp_path / "before", 'echo "before $1 $OAR_JOB_ID" >> said')
    epilogue = program(tmp_path / "after", 'echo "after $1" >> said')
    cluster = made(connection, server_prologue=prologue, server_epilogue=epilogue)
    job = cluster.submit("/nodes=1", types=(kind,) if kind else ())
    until(cluster, job, "Running")
    assert (tmp_path / "said").read_text() == f"before {job} {job}\n"
    if kind:
        cluster.sql("UPDATE jobs SET started_at = started_at - interval '2 hours'")
    else:
        cluster.end(job)
    until(cluster, job, "Terminated")
    assert (tmp_path / "said").read_text() == f"before {job} {job}\nafter {job}\n"
    assert cluster.sql("SELECT count(*) FROM server_scripts") == [(0,)]
    assert cluster.events(job) == []


@pytest.mark.parametrize(
    ("text", "event", "message"),
    [
        (
            "echo no licence; exit 7",
            "SERVER_PROLOGUE_EXIT_CODE_ERROR",
            "server prologue ended with exit status 7: no licence",
        ),
        ("echo slow; exec sleep 600", "SERVER_PROLOGUE_TIMEOUT", "server prologue took more than 0.5 s: slow"),
    ],
)
def test_a_failing_prologue_on_the_server_ends_that_job_only(
    connection: Connection, tmp_path: Path, text: str, event: str, message: str
) -> None:
    prologue = program(tmp_path / "before", f"test $1 = 2 || exit 0\n{text}")
    cluster = made(connection, server_prologue=prologue, server_script_timeout=0.5)
    other, job = cluster.submit("/nodes=1"), cluster.submit("/nodes=1")
    assert job == 2
    until(cluster, job, "Error")
    until(cluster, other, "Running")
    assert cluster.job(job, "message") == message
    assert cluster.events(job) == [event]
    assert cluster.sql(STATE) == []
    assert cluster.sql("SELECT count(*) FROM queues WHERE NOT active") == [(0,)]


def test_a_failing_epilogue_on_the_server_is_an_event(connection: Connection, tmp_path: Path) -> None:
    epilogue = program(tmp_path / "after", "exit 2")
    cluster = made(connection, server_epilogue=epilogue)
    job = cluster.submit("/nodes=1", command="true")
    until(cluster, job, "Terminated")
    assert cluster.events(job) == ["SERVER_EPILOGUE_EXIT_CODE_ERROR"]


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a killed launcher closes nothing
@pytest.mark.parametrize("kind", ["prologue", "epilogue"])
def test_a_script_that_a_killed_launcher_had_begun_is_not_run_again(
    connection: Connection, tmp_path: Path, kind: str
) -> None:
    script = program(tmp_path / "script", "echo ran >> said; until test -e go; do sleep 0.05; done")
    cluster = made(connection, **{f"server_{kind}": script})
    job = cluster.submit("/nodes=1", command="true", types=("idempotent",))
    until(cluster, job, "Launching" if kind == "prologue" else "Finishing")
    end = time.monotonic() + DEADLINE
    while not (tmp_path / "said").exists():
        cluster.launch()
        assert time.monotonic() < end
    cluster.restart_launcher()
    (tmp_path / "go").touch()
    until(cluster, job, "Error", "Terminated")
    assert cluster.state(job) == ("Error" if kind == "prologue" else "Terminated")
    assert cluster.events(job)[0] == f"SERVER_{kind.upper()}_LOST"
    expected = "ran\nran\n" if kind == "prologue" else "ran\n"  # that of the job submitted again is its own
    if kind == "prologue":
        ((copy,),) = cluster.sql("SELECT job_id FROM jobs WHERE resubmit_of = %s", job)
        until(cluster, copy, "Terminated")
    assert (tmp_path / "said").read_text() == expected


def test_a_prologue_that_was_recorded_is_not_run_again(connection: Connection, tmp_path: Path) -> None:
    script = program(tmp_path / "script", "echo ran >> said")
    cluster = made(connection, server_prologue=script, prologue="/site/prologue")
    cluster.node("n1").script_outcomes["prologue"] = None
    job = cluster.submit("/nodes=1")
    until(cluster, job, "Launching")
    end = time.monotonic() + DEADLINE
    while cluster.sql("SELECT outcome FROM server_scripts") != [("ok",)]:
        cluster.launch()
        assert time.monotonic() < end
    cluster.restart_launcher()
    cluster.node("n1").script_outcomes = {}
    until(cluster, job, "Running")
    assert (tmp_path / "said").read_text() == "ran\n"
