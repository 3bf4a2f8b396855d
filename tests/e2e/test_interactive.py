"""``oarsub -I``, ``oarsub -C`` and ``oarconnect`` at a real terminal, through the gateway and without it."""

from __future__ import annotations

import getpass
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from oarpy.local_cluster.sandbox import Sandbox, Settings, command, local_nodes, running_sandbox
from research.benchmarks.server_processes import children_of
from tests.harness.server_processes import server_pids
from tests.harness.terminal_session import TerminalSession
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e
DEADLINE = 60.0
MOST_SESSIONS = 3
WAIT = ("oarsub", "--wait", "-O", "/dev/null", "-E", "/dev/null")
WAYS = pytest.mark.parametrize("way", [{}, {"OARPY_GATEWAY_SOCKET": ""}], ids=["gateway", "direct"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, cluster_database: dict[str, str]) -> Iterator[Sandbox]:
    hosts = {"deploy_host": "localhost", "cosystem_host": "localhost"}
    settings: Settings = {
        "jobs": {"kill_grace": 1.0, "interactive_patience": 10.0, **hosts},
        "gateway": {"sessions_per_user": MOST_SESSIONS},
        "database": cluster_database,
    }
    nodes = local_nodes("/host=n[1-2]/cpu={1}/core={2}", "-p", "deploy=YES")
    with running_sandbox(tmp_path_factory.mktemp("interactive"), settings, nodes) as made:
        until(lambda: gateway_listens(made), "the gateway listens")
        yield made


def gateway_listens(cluster: Sandbox) -> bool:
    """Whether commands find the gateway; otherwise they would do without."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(cluster.directory / "gateway" / "socket")) == 0


def at_terminal(cluster: Sandbox, *words: str, **variables: str) -> TerminalSession:
    """Start a command at a terminal of its own."""
    return TerminalSession([command(words[0]), *words[1:]], {**cluster.environment(), **variables})


def job_of(session: TerminalSession) -> int:
    """The id that ``oarsub`` printed."""
    session.expect("OAR_JOB_ID=")
    session.expect("\n")
    return int(session.text.partition("OAR_JOB_ID=")[2].split()[0])


def row(cluster: Sandbox, job: int) -> tuple[str, int | None, str]:
    """State, exit status and message of a job."""
    with psycopg.connect(cluster.dsn()) as connection:
        found = connection.execute("SELECT state, exit_status, message FROM jobs WHERE job_id = %s", [job]).fetchone()
    assert found is not None
    return found[0], found[1], found[2]


def wait_for(cluster: Sandbox, job: int, state: str) -> tuple[str, int | None, str]:
    """Wait until a job is in a state, and return its row."""
    until(lambda: row(cluster, job)[0] == state, f"job {job} is not {state}")
    return row(cluster, job)


@WAYS
def test_a_shell_with_a_terminal_and_the_job_ends_with_it(cluster: Sandbox, way: dict[str, str]) -> None:
    with at_terminal(cluster, "oarsub", "-I", "-l", "/nodes=2/core=1", **way) as session:
        modes = session.modes()
        job = job_of(session)
        session.expect("# Interactive mode: waiting...")
        session.expect("# Starting...")
        session.expect(f"# Connect to OAR job {job} via the node n1")
        session.type("tty; stty size; echo $TERM job=$OAR_JOB_ID $(sort -u $OAR_NODEFILE)\n")
        session.expect("/dev/pts/")
        session.expect("30 90")
        session.expect(f"vt100 job={job} n1 n2")
        session.resize(41, 101)
        session.type("until [ \"$(stty size)\" = '41 101' ]; do sleep 0.1; done; echo new size\n")
        session.expect("new size\r\n")
        # the interrupt key is the program's, not the client's
        session.type("sh -c 'trap \"echo caught; exit\" INT; echo go=$((1 + 1)); while :; do sleep 0.1; done'\n")
        session.expect("go=2")
        session.type("\x03")
        session.expect("caught\r\n")
        session.type("exit 7\n")
        session.expect(f"# Disconnected from OAR job {job}")
        assert session.wait() == 7
        assert session.modes() == modes
    assert wait_for(cluster, job, "Terminated")[1] == 7 << 8


@WAYS
@pytest.mark.parametrize("kind", ["deploy", "cosystem"])
def test_a_shell_on_the_host_of_its_type(cluster: Sandbox, kind: str, way: dict[str, str]) -> None:
    with at_terminal(cluster, "oarsub", "-I", "-t", kind, "-l", "/nodes=2", **way) as session:
        job = job_of(session)
        session.expect(f"# Connect to OAR job {job} via the node localhost")
        session.type("tty; echo job=$OAR_JOB_ID $(sort -u $OAR_NODEFILE); exit 6\n")
        session.expect("/dev/pts/")
        session.expect(f"job={job} n1 n2")
        session.expect(f"# Disconnected from OAR job {job}")
        assert session.wait() == 6
    assert wait_for(cluster, job, "Terminated")[1] == 6 << 8


@WAYS
def test_an_interrupt_while_it_waits_deletes_the_job(cluster: Sandbox, way: dict[str, str]) -> None:
    (blocker,) = cluster.job_ids("-l", "/nodes=2/core=2,walltime=0:10:0", "sleep 600")
    with at_terminal(cluster, "oarsub", "-I", "-l", "/nodes=2/core=2", **way) as session:
        job = job_of(session)
        session.expect("Start prediction: ")
        session.type("\x03")
        session.expect(f"# Interrupted: job {job} is deleted")
        assert session.wait() == 130
    assert wait_for(cluster, job, "Error")[2].startswith("killed: ")
    cluster.run("oardel", str(blocker))


@WAYS
def test_a_client_that_is_killed_while_it_waits_leaves_no_job(cluster: Sandbox, way: dict[str, str]) -> None:
    (blocker,) = cluster.job_ids("-l", "/nodes=2/core=2,walltime=0:10:0", "sleep 600")
    with at_terminal(cluster, "oarsub", "-I", "-l", "/nodes=2/core=2", **way) as session:
        job = job_of(session)
        session.expect("Start prediction: ")
        session.process.kill()
    if way:
        # nobody is left to delete it: it runs, and ends when nobody comes
        cluster.run("oardel", str(blocker))
        assert wait_for(cluster, job, "Terminated")[1] == 129 << 8
    else:
        wait_for(cluster, job, "Error")
        cluster.run("oardel", str(blocker))


@WAYS
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_a_client_that_is_killed_in_its_shell_ends_the_job(cluster: Sandbox, way: dict[str, str], number: int) -> None:
    with at_terminal(cluster, "oarsub", "-I", **way) as session:
        job = job_of(session)
        session.expect("# Connect")
        session.type("echo here=$((40 + 2))\n")
        session.expect("here=42")
        session.process.send_signal(number)
    assert wait_for(cluster, job, "Terminated")[1] == 129 << 8


def test_the_end_of_the_job_ends_the_shell(cluster: Sandbox) -> None:
    with at_terminal(cluster, "oarsub", "-I") as session:
        job = job_of(session)
        session.expect("# Connect")
        session.type("echo here=$((40 + 2))\n")
        session.expect("here=42")
        cluster.run("oardel", str(job))
        session.expect(f"] Job {job} KILLED ## oardel by {getpass.getuser()}\r\n")
        session.expect(f"# Disconnected from OAR job {job}")
        assert session.wait() > 128
    assert wait_for(cluster, job, "Error")[2] == f"killed: oardel by {getpass.getuser()}"


@WAYS
def test_connecting_to_a_running_job(cluster: Sandbox, way: dict[str, str]) -> None:
    (job,) = cluster.job_ids("-l", "/nodes=1", "sleep 600")
    wait_for(cluster, job, "Running")
    for words in (["oarsub", "-C"], ["oarconnect", str(job)]):
        with at_terminal(cluster, *words, **way) as session:
            session.expect(f"# Connect to OAR job {job}")
            session.type("echo job=$OAR_JOB_ID; exit 3\n")
            session.expect(f"job={job}\r\n")
            session.expect(f"# Disconnected from OAR job {job}")
            assert session.wait() == 3
    (other,) = cluster.job_ids("-l", "/nodes=1", "sleep 600")
    wait_for(cluster, other, "Running")
    with at_terminal(cluster, "oarconnect", **way) as session:
        session.expect("oarconnect: 2 jobs of ")
        session.expect(f" run: {job}, {other} (name one of them)")
        assert session.wait() == 2
    cluster.run("oardel", str(job), str(other))
    wait_for(cluster, job, "Error")
    wait_for(cluster, other, "Error")


def gateway_sessions(cluster: Sandbox) -> list[int]:
    """The processes that go on with commands for their callers: children of the gateway's workers.

    Those in which admission rules run are children too; those may take on no rights any more.
    """
    assert cluster.server is not None
    gateway = server_pids("gateway", cluster.server.pid, cluster.directory / "postgresql")
    children = children_of(*children_of(*gateway))
    return [pid for pid in children if "\nNoNewPrivs:\t0\n" in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")]


@pytest.mark.parametrize("victim", ["launcher", "agent", "gateway"])
def test_a_shell_outlives_what_it_does_not_need(cluster: Sandbox, victim: str) -> None:
    """Killed while a shell is open: it goes on, and its end is that of its job."""
    assert cluster.server is not None
    with at_terminal(cluster, "oarsub", "-I") as session:
        job = job_of(session)
        session.expect("# Connect")
        session.type("echo here=$((40 + 2))\n")
        session.expect("here=42")
        kind = "launcher" if victim == "agent" else victim
        pids = server_pids(kind, cluster.server.pid, cluster.directory / "postgresql")
        pids = children_of(*pids) if victim == "agent" else pids
        assert pids
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        session.type("echo still=$((41 + 2)); exit 5\n")
        session.expect("still=43")
        assert session.wait() == 5
    assert wait_for(cluster, job, "Terminated")[1] == 5 << 8
    until(lambda: gateway_listens(cluster), "the gateway is there")


def test_a_killed_session_of_the_gateway_ends_the_job(cluster: Sandbox) -> None:
    with at_terminal(cluster, "oarsub", "-I") as session:
        job = job_of(session)
        session.expect("# Connect")
        session.type("echo here=$((40 + 2))\n")
        session.expect("here=42")
        modes = session.modes()
        (pid,) = gateway_sessions(cluster)
        os.kill(pid, signal.SIGKILL)
        session.expect("the gateway left before the command ended")
        assert session.wait() == 6
        assert session.modes() != modes, "the terminal is as before the shell"
    assert wait_for(cluster, job, "Terminated")[1] == 129 << 8


def test_sessions_of_a_user_are_bounded(cluster: Sandbox) -> None:
    (job,) = cluster.job_ids("-l", "/nodes=1", "sleep 600")
    wait_for(cluster, job, "Running")
    words = [command("oarsh"), "-j", str(job), "n1", "cat"]
    environment = cluster.environment()
    held = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        for _ in range(MOST_SESSIONS)
    ]
    for one in held:
        assert one.stdin is not None
        assert one.stdout is not None
        one.stdin.write(b"x\n")
        one.stdin.flush()
        assert one.stdout.readline() == b"x\n"
    refused = subprocess.run(words, input=b"", capture_output=True, env=environment, check=False, timeout=DEADLINE)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"oarsh: you are attached to {MOST_SESSIONS} programs in jobs".encode())
    assert refused.stderr.count(b"\n") == 1
    held[0].communicate()
    done = subprocess.run(words, input=b"again", capture_output=True, env=environment, check=False, timeout=DEADLINE)
    assert (done.returncode, done.stdout) == (0, b"again")
    for one in held[1:]:
        one.communicate()
    cluster.run("oardel", str(job))
    wait_for(cluster, job, "Error")


@WAYS
def test_waiting_for_the_ends_of_jobs(cluster: Sandbox, way: dict[str, str]) -> None:
    for words, status in (
        (("exit 7",), 7),
        (("kill -9 $$",), 128 + signal.SIGKILL),
        (("--array", "3", "exit $((OAR_ARRAY_INDEX * 2))"), 6),
        (("-t", "noop", "-l", "/core=1,walltime=0:0:1"), 0),
    ):
        with at_terminal(cluster, *WAIT, *words, **way) as session:
            job_of(session)
            assert session.wait() == status, words


@WAYS
def test_an_interrupt_ends_the_waiting_and_not_the_job(cluster: Sandbox, way: dict[str, str]) -> None:
    with at_terminal(cluster, *WAIT, "-J", "-l", "/core=1,walltime=0:10:0", "sleep 600", **way) as session:
        session.expect("}")
        job = int(json.loads(session.text[session.text.index("{") :])["job_id"])
        wait_for(cluster, job, "Running")
        session.type("\x03")
        assert session.wait() == 130
    assert row(cluster, job)[0] == "Running"
    cluster.run("oardel", str(job))
    wait_for(cluster, job, "Error")


@WAYS
def test_a_job_that_never_ran_and_one_that_is_killed(cluster: Sandbox, way: dict[str, str]) -> None:
    with at_terminal(cluster, *WAIT, "--hold", "true", **way) as session:
        cluster.run("oardel", str(job_of(session)))
        assert session.wait() == 1
    with at_terminal(cluster, *WAIT, "exec sleep 600", **way) as session:
        job = job_of(session)
        wait_for(cluster, job, "Running")
        cluster.run("oardel", str(job))
        _, status, _ = wait_for(cluster, job, "Error")
        assert session.wait() == (1 if status is None else 128 + os.WTERMSIG(status))


def test_many_who_wait_leave_the_gateway_to_others(cluster: Sandbox) -> None:
    words = (*WAIT, "-l", "/core=1,walltime=0:10:0", "sleep 600")
    with (
        at_terminal(cluster, *words) as one,
        at_terminal(cluster, *words) as two,
        at_terminal(cluster, *words) as three,
    ):
        jobs = [job_of(session) for session in (one, two, three)]
        with at_terminal(cluster, *words) as fourth:
            jobs.append(job_of(fourth))
            fourth.expect(f"oarsub: you are attached to {MOST_SESSIONS} programs in jobs")
            assert fourth.wait() == 1
        assert str(jobs[0]) in cluster.run("oarstat").stdout
        cluster.run("oardel", *map(str, jobs))
        assert all(session.wait() for session in (one, two, three))


def test_what_cannot_be_interactive_is_refused(cluster: Sandbox) -> None:
    for words, status, what in (
        (["oarsub", "-I", "-t", "noop"], 2, "oarsub: -I with -t noop ("),
        (["oarsub", "-I", "--array", "2"], 2, "oarsub: -I with --array ("),
        (["oarsub", "-I", "-r", "now"], 2, "oarsub: -I with -r ("),
        (["oarsub", "-C", "-q", "default"], 2, "oarsub: -C with other options"),
        (["oarsub", "-C", "99999"], 4, "oarsub: there is no job 99999"),
        (["oarsub", "--wait", "-I"], 2, "oarsub: --wait with -I ("),
        (["oarsub", "--wait", "-C"], 2, "oarsub: --wait with -C ("),
        (["oarsub", "--wait", "--dry-run", "true"], 2, "oarsub: --wait with --dry-run ("),
        (["oarconnect"], 4, "oarconnect: no job of "),
    ):
        with at_terminal(cluster, *words) as session:
            session.expect(what)
            assert session.wait() == status
