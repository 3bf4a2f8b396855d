"""The key of a job opens it, over a real sshd, to its owner on a host that knows nothing of the cluster."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.local_cluster.sandbox import command
from oarpy.local_cluster.user_commands import user_command
from oarpy.store.jobs import extensions, resizes
from tests.harness.ssh_cluster import SshCluster, run_cluster
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).resolve().parent.parent.parent
DEADLINE = 60.0


@pytest.fixture(scope="module")
def user() -> Iterator[pwd.struct_passwd]:
    """An ordinary user whom sshd lets in with a key."""
    if os.geteuid() != 0 or not shutil.which("useradd", path="/usr/sbin"):
        pytest.skip("only root can make a user and run jobs of theirs")
    name = f"oarpy-key-{os.getpid()}"
    add = ["/usr/sbin/useradd", "--no-create-home", "--home-dir", "/", "--shell", "/bin/sh", "-p", "*", name]
    subprocess.run(add, check=True, capture_output=True)
    yield pwd.getpwnam(name)
    subprocess.run(["/usr/sbin/userdel", name], check=True, capture_output=True)


@pytest.fixture(scope="module")
def cluster(cluster_database: dict[str, str], user: pwd.struct_passwd) -> Iterator[SshCluster]:
    with run_cluster(cluster_database) as made:
        yield made


def as_user(cluster: SshCluster, uid: int, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.defpath,
        "PYTHONPATH": str(ROOT),
        "OARPY_GATEWAY_SOCKET": str(cluster.sandbox.directory / "gateway" / "socket"),
    }
    words = user_command(uid, *arguments)
    return subprocess.run(
        words, env=environment, capture_output=True, text=True, cwd=home, timeout=DEADLINE, check=False
    )


def key_files(cluster: SshCluster) -> list[Path]:
    """Return the files of keys that nodes let in."""
    return list((cluster.sandbox.directory / "nodes").glob("*/keys/*"))


def _told(cluster: SshCluster, name: str) -> tuple[str, list[str]]:
    """Return what the node's sshd said last, and the keys that it lets in."""
    node = next(one for one in cluster.sshd.nodes if one.name == name)
    return (node.directory / "sshd.log").read_text()[-1500:], [path.read_text() for path in key_files(cluster)]


def resize(cluster: SshCluster, job: int) -> None:
    """Have a job give back node2 and get another host; wait until it has."""
    opened = "SELECT FROM resizes WHERE done_at IS NULL UNION ALL SELECT FROM extensions WHERE state <> 'Granted'"
    ((cores,),) = cluster.sql("SELECT array_agg(resource_id) FROM resources WHERE network_address = 'node2'")
    cluster.sql("UPDATE resources SET drain = true WHERE network_address = 'node4'")
    extensions.ask(cluster.connection, job, "firm", None, {"": 1})
    until(lambda: not cluster.sql(opened), "the host is granted")
    resizes.order(cluster.connection, job, "release", cores)
    until(lambda: not cluster.sql(opened), "node2 is released")


def test_the_key_of_a_job_opens_its_nodes_from_anywhere(
    cluster: SshCluster, user: pwd.struct_passwd, tmp_path: Path
) -> None:
    home = cluster.sandbox.directory / "home"
    home.mkdir()
    os.chown(home, user.pw_uid, user.pw_gid)
    printed = "cat $OAR_JOB_KEY_FILE > key-in-job; touch begun; sleep 600"
    done = as_user(cluster, user.pw_uid, home, "oarsub", "-k", "-e", "key.%jobid%", "-l", "/nodes=2", printed)
    assert done.returncode == 0, done
    job = int(done.stdout.partition("OAR_JOB_ID=")[2].split()[0])
    key = home / f"key.{job}"
    assert (key.stat().st_mode & 0o777, key.stat().st_uid) == (0o600, user.pw_uid)
    cluster.wait_for(job, "Running")
    until((home / "begun").exists, "the job has read its key")
    assert (home / "key-in-job").read_text() == key.read_text()
    mine = tmp_path / "key"
    mine.write_text(key.read_text())
    mine.chmod(0o600)

    def enter(node: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Call oarsh where there is no gateway, no job and no configuration."""
        there = next(one for one in cluster.sshd.nodes if one.name == node)
        known = f"UserKnownHostsFile={cluster.sshd.known_hosts}"
        options = ["-i", str(mine), "-p", str(there.port), "-o", known, "-o", "BatchMode=yes", "-l", user.pw_name]
        return subprocess.run(
            [command("oarsh"), *options, there.address, *words],
            env={"PATH": os.defpath, "HOME": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )

    for node in ("node1", "node2"):
        done = enter(node, "echo $OAR_JOB_ID $(id -u); exit 9")
        assert (done.returncode, done.stdout) == (9, f"{job} {user.pw_uid}\n"), (done, _told(cluster, node))
    done = enter("node3", "true")
    assert done.returncode == 255, "no node of the job"
    resize(cluster, job)
    done = enter("node3", "uniq $OAR_NODEFILE; echo $OAR_JOB_ID $(id -u)")
    assert (done.returncode, done.stdout) == (0, f"node1\nnode3\n{job} {user.pw_uid}\n"), _told(cluster, "node3")
    assert enter("node1", "uniq $OAR_NODEFILE").stdout == "node1\nnode3\n"
    assert enter("node2", "true").returncode == 255, "the job has left it"
    other = as_user(cluster, user.pw_uid, home, "oarsub", "-i", str(key), "sleep 1")
    assert (other.returncode, other.stderr.partition(" (")[0]) == (2, f"oarsub: job {job} has this key already")
    assert as_user(cluster, user.pw_uid, home, "oardel", str(job)).returncode == 0
    cluster.wait_for(job, "Error")
    assert enter("node1", "true").returncode == 255, "a key opens nothing when its job is over"
    assert not key_files(cluster)
