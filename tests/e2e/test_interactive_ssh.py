"""Shells and steps in jobs over real sshd nodes, for a user who is not root and reaches the gateway only."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.local_cluster.user_commands import user_command
from tests.harness.ssh_cluster import SshCluster, marked, run_cluster
from tests.harness.terminal_session import DEADLINE, TerminalSession
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def cluster(cluster_database: dict[str, str]) -> Iterator[SshCluster]:
    with run_cluster(cluster_database) as made:
        yield made


@pytest.fixture(scope="module")
def user() -> Iterator[pwd.struct_passwd]:
    """An ordinary user, made for these tests."""
    if os.geteuid() != 0:
        pytest.skip("only root can run jobs of other users")
    programs = [shutil.which(name, path="/usr/sbin:/sbin:/usr/bin") for name in ("useradd", "userdel")]
    if None in programs:
        pytest.skip("no useradd and userdel to make a user with")
    name = f"oarpy-shell-{os.getpid()}"
    add = [str(programs[0]), "--no-create-home", "--home-dir", "/", "--shell", "/bin/sh", name]
    subprocess.run(add, check=True, capture_output=True)
    yield pwd.getpwnam(name)
    subprocess.run([str(programs[1]), name], check=True, capture_output=True)


@pytest.fixture(scope="module")
def home(cluster: SshCluster, user: pwd.struct_passwd) -> Path:
    """A directory of that user."""
    path = cluster.sandbox.directory / f"home-{user.pw_name}"
    path.mkdir()
    os.chown(path, user.pw_uid, user.pw_gid)
    return path


def environment(cluster: SshCluster) -> dict[str, str]:
    """What a user has who knows nothing of the database."""
    return {
        "PATH": os.defpath,
        "PYTHONPATH": str(ROOT),
        "PS1": "$ ",
        "OARPY_GATEWAY_SOCKET": str(cluster.sandbox.directory / "gateway" / "socket"),
        "OARPY_DATABASE_URL": "postgresql:///none?host=/nowhere",
    }


def words(uid: int, *arguments: str) -> list[str]:
    """What to start for a command of a user."""
    return user_command(uid, *arguments)


def run(cluster: SshCluster, uid: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user."""
    return subprocess.run(
        words(uid, *arguments),
        env=environment(cluster),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd="/",
        timeout=DEADLINE,
        check=False,
    )


def test_a_shell_over_ssh_is_that_of_its_user(cluster: SshCluster, user: pwd.struct_passwd, home: Path) -> None:
    asked = words(user.pw_uid, "oarsub", "-I", "-l", "/nodes=2,walltime=0:5:0")
    with TerminalSession(asked, environment(cluster), directory=str(home)) as session:
        session.expect("OAR_JOB_ID=")
        session.expect("# Starting...")
        job = int(session.text.partition("OAR_JOB_ID=")[2].split()[0])
        session.type("id -u; pwd; tty; stty size; touch mine\n")
        session.expect(f"{user.pw_uid}\r\n{home}\r\n/dev/pts/")
        session.expect("30 90")
        for other, status in ((user.pw_uid, 0), (0, 5)):
            done = run(cluster, other, "oarsh", "-j", str(job), "node2", "id -u; cat $OAR_NODEFILE | uniq")
            assert done.returncode == status, done
            if other:
                assert done.stdout.split() == [str(user.pw_uid), "node1", "node2"]
        done = run(cluster, user.pw_uid, "oarsrun", "-j", str(job), "id", "-u")
        assert sorted(done.stdout.splitlines()) == [f"node1: {user.pw_uid}", f"node2: {user.pw_uid}"]
        done = run(cluster, 0, "oarconnect", str(job))
        assert (done.returncode, done.stdout) == (5, "")
        session.type("exit 4\n")
        session.expect(f"# Disconnected from OAR job {job}")
        assert session.wait() == 4
    cluster.wait_for(job, "Terminated")
    assert cluster.job(job, "exit_status") == 4 << 8
    assert (home / "mine").stat().st_uid == user.pw_uid


def test_a_node_that_goes_away_takes_the_shell_and_the_job(
    cluster: SshCluster, user: pwd.struct_passwd, home: Path
) -> None:
    asked = words(user.pw_uid, "oarsub", "-I", "-l", "/nodes=1,walltime=0:5:0")
    with TerminalSession(asked, environment(cluster), directory=str(home)) as session:
        session.expect("OAR_JOB_ID=")
        session.expect("# Starting...")
        job = int(session.text.partition("OAR_JOB_ID=")[2].split()[0])
        session.type("echo here=$((40 + 2))\n")
        session.expect("here=42")
        (node,) = cluster.sql(
            "SELECT DISTINCT network_address FROM assigned_resources JOIN resources USING (resource_id)"
            " WHERE job_id = %s",
            job,
        )[0]
        cluster.kill_node(node)
        assert session.wait() == 6
    cluster.revive_node(node)
    until(lambda: cluster.job(job) in ("Terminated", "Error"), lambda: f"job {job} is {cluster.job(job)}")
    until(lambda: not marked(cluster.mark(job)), "nothing is left of it")
