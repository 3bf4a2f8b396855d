"""``oarsh`` through the gateway and without it, on a real cluster."""

from __future__ import annotations

import getpass
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from oarpy.local_cluster.sandbox import Sandbox, Settings, command, local_nodes, running_sandbox

pytestmark = pytest.mark.e2e
DEADLINE = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, cluster_database: dict[str, str]) -> Iterator[Sandbox]:
    nodes = local_nodes("/host=n[1-2]/cpu={1}/core={2}")
    settings: Settings = {"jobs": {"kill_grace": 1.0}, "database": cluster_database}
    with running_sandbox(tmp_path_factory.mktemp("oarsh"), settings, nodes) as made:
        yield made


@pytest.fixture(scope="module")
def job(cluster: Sandbox) -> str:
    (found,) = cluster.job_ids("-l", "/nodes=2/core=1", "sleep 600")
    cluster.wait_for([found], ["Running"], DEADLINE)
    return str(found)


def oarsh(cluster: Sandbox, *words: str, stdin: bytes = b"", **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run the command as a user does."""
    environment = {**cluster.environment(), **variables}
    return subprocess.run(
        [command("oarsh"), *words], input=stdin, capture_output=True, env=environment, timeout=DEADLINE, check=False
    )


@pytest.mark.parametrize("gateway", [{}, {"OARPY_GATEWAY_SOCKET": ""}], ids=["gateway", "direct"])
def test_streams_and_status_pass_through(cluster: Sandbox, job: str, gateway: dict[str, str]) -> None:
    content = b"0123456789abcdef" * 100_000
    script = "echo $OAR_JOB_ID >&2; cat; exit 9"
    done = oarsh(cluster, "n2", script, stdin=content, OAR_JOB_ID=job, **gateway)
    assert (done.returncode, done.stdout, done.stderr) == (9, content, f"{job}\n".encode())


@pytest.mark.parametrize("gateway", [{}, {"OARPY_GATEWAY_SOCKET": ""}], ids=["gateway", "direct"])
@pytest.mark.parametrize("command_text", ["sh -c 'umask; touch made'", "touch made"])
def test_files_are_as_closed_as_the_user_who_submits_wants(
    cluster: Sandbox, tmp_path: Path, gateway: dict[str, str], command_text: str
) -> None:
    done = subprocess.run(
        [command("oarsub"), "-J", "-n", "x", command_text],
        capture_output=True,
        env={**cluster.environment(), **gateway},
        cwd=tmp_path,
        umask=0o027,
        timeout=DEADLINE,
        check=True,
    )
    job = json.loads(done.stdout)["job_id"]
    cluster.wait_for([job], ["Terminated"], DEADLINE)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
        "made": 0o640,
        f"OAR.x.{job}.stdout": 0o640,
        f"OAR.x.{job}.stderr": 0o640,
    }


def test_a_step_has_the_file_mode_mask_of_its_job(cluster: Sandbox) -> None:
    words = [command("oarsub"), "-J", "sleep 600"]
    environment = cluster.environment()
    for mask in (0o077, 0o002):
        done = subprocess.run(
            words, capture_output=True, env=environment, umask=mask, timeout=DEADLINE, check=True, cwd=cluster.directory
        )
        job = json.loads(done.stdout)["job_id"]
        cluster.wait_for([job], ["Running"], DEADLINE)
        done = oarsh(cluster, "-j", str(job), cluster_node(cluster, job), "umask")
        assert int(done.stdout, 8) == mask
        cluster.run("oardel", str(job))


def cluster_node(cluster: Sandbox, job: int) -> str:
    """The first node of a job."""
    found: str = json.loads(cluster.run("oarstat", "-J", "-j", str(job)).stdout)[str(job)]["assigned_network_address"][
        0
    ]
    return found


def test_the_words_after_the_host_are_for_its_shell(cluster: Sandbox, job: str) -> None:
    done = oarsh(cluster, "-j", job, "n1", "printf", "%s-", "-j", "-n")
    assert (done.returncode, done.stdout) == (0, b"-j--n-")
    assert oarsh(cluster, "-j", job, "n1", "--", "printf", "%s", "--").stdout == b"--"
    assert oarsh(cluster, "-j", job, "n1", "kill -9 $$").returncode == 137
    assert oarsh(cluster, "-n", "-j", job, "n1", "cat", stdin=b"not passed on").stdout == b""


def test_it_takes_what_programs_give_to_ssh(cluster: Sandbox, job: str) -> None:
    words = ("-x", "-qT", "-o", "BatchMode=yes", "-oRequestTTY=no", "-a", "-j", job, "--", "n1", "echo", "here")
    done = oarsh(cluster, *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"here\n", b"")


def test_json(cluster: Sandbox, job: str) -> None:
    done = oarsh(cluster, "-J", "-j", job, "n1", "echo out; echo err >&2; exit 3")
    assert done.returncode == 3
    wanted = {"job_id": int(job), "host": "n1", "status": 3, "stdout": "out\n", "stderr": "err\n"}
    assert json.loads(done.stdout) == wanted


def test_what_is_refused_is_said_in_a_line(cluster: Sandbox, job: str) -> None:
    for words, status, what in (
        (("-j", job, "n3", "true"), 4, f"'n3' is not a node of job {job}"),
        (("-j", "99999", "n1", "true"), 4, "there is no job 99999"),
        (("n1", "true"), 2, "no job given"),
        (("-j", "x", "n1", "true"), 2, "'x' is not a job id"),
    ):
        done = oarsh(cluster, *words)
        assert done.returncode == status, done
        assert done.stderr.decode().startswith(f"oarsh: {what}")
        assert done.stderr.count(b"\n") == 1


def test_nobody_else_gets_in_not_even_an_admin(cluster: Sandbox, job: str) -> None:
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        row = connection.execute("SELECT user_name FROM jobs WHERE job_id = %s", [job]).fetchone()
        assert row is not None
        connection.execute("UPDATE jobs SET user_name = 'games' WHERE job_id = %s", [job])
        try:
            done = oarsh(cluster, "-j", job, "n1", "true")
        finally:
            connection.execute("UPDATE jobs SET user_name = %s WHERE job_id = %s", [row[0], job])
    assert done.returncode == 5
    assert done.stderr.decode().startswith(f"oarsh: job {job} belongs to 'games'")


def test_a_session_holds_no_worker(cluster: Sandbox, job: str) -> None:
    """More sessions at once than the gateway has workers for a user."""
    sessions = [
        subprocess.Popen(
            [command("oarsh"), "-j", job, "n1", "cat"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=cluster.environment(),
        )
        for _ in range(10)
    ]
    for number, session in enumerate(sessions):
        assert session.stdin is not None
        session.stdin.write(f"{number}\n".encode())
        session.stdin.flush()
    for number, session in enumerate(sessions):
        assert session.stdout is not None
        assert session.stdout.readline() == f"{number}\n".encode()
    assert "Running" in cluster.run("oarstat", "-s", "-j", job).stdout
    for session in sessions:
        session.communicate()
        assert session.returncode == 0


def test_the_owner_may_be_named_as_with_ssh(cluster: Sandbox, job: str) -> None:
    me = getpass.getuser()
    for words in (("-l", me, "n1"), (f"{me}@n1",), ("-l", me, "nobody@n1")):
        assert oarsh(cluster, "-j", job, *words, "echo here").stdout == b"here\n"
    for words in (("-l", "nobody", "n1"), ("nobody@n1",)):
        done = oarsh(cluster, "-j", job, *words, "true")
        assert (done.returncode, done.stderr.partition(b" (")[0]) == (
            5,
            f"oarsh: '{me}' cannot enter a job as 'nobody'".encode(),
        )


def test_files_are_copied_to_and_from_a_node(cluster: Sandbox, job: str, tmp_path: Path) -> None:
    (tmp_path / "given").write_text("content")
    environment = {**cluster.environment(), "OAR_JOB_ID": job}
    for words in ((f"{tmp_path}/given", f"n2:{tmp_path}/there"), (f"n1:{tmp_path}/there", f"{tmp_path}/back")):
        done = subprocess.run(
            [command("oarcp"), *words], capture_output=True, env=environment, timeout=DEADLINE, check=False
        )
        assert done.returncode == 0, done
    assert (tmp_path / "back").read_text() == "content"
    done = subprocess.run(
        [command("oarcp"), f"{tmp_path}/given", "n3:/tmp/x"], capture_output=True, env=environment, check=False
    )
    assert done.returncode == 1
    assert f"oarsh: 'n3' is not a node of job {job}".encode() in done.stderr
