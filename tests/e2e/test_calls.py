"""Commands inside jobs on nodes that have nothing of oarpy but its agent, for a user who is not root."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.local_cluster.user_commands import user_command
from oarpy.wire.frames import MESSAGE, Frames, pack_message, read_message
from oarpy.wire.openings import Knock, Speaker
from tests.harness.bare_environment import NO_GATEWAY
from tests.harness.ordinary_users import ordinary_users
from tests.harness.passable_folder import passable_folder
from tests.harness.ssh_cluster import SshCluster, run_cluster
from tests.harness.terminal_session import TerminalSession

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs of other users")]
ROOT = Path(__file__).resolve().parent.parent.parent
DEADLINE = 60.0
BARE = "unset OARPY_CONFIG PYTHONPATH; export OARPY_GATEWAY_SOCKET=; PATH=${PATH##*:}:/usr/bin:/bin"
"""What a node is like where nothing is installed: the commands are those of the last folder of the path."""


@pytest.fixture(scope="module")
def cluster(cluster_database: dict[str, str]) -> Iterator[SshCluster]:
    """A cluster whose gateway's socket is below the home of the server's account."""
    with passable_folder("oarpy-home-") as server, pytest.MonkeyPatch.context() as variables:
        variables.setenv("HOME", str(server))
        with run_cluster(cluster_database, gateway={"socket": "~/run/gateway"}) as made:
            yield made


@pytest.fixture(autouse=True)
def _empty_again(cluster: SshCluster) -> Iterator[None]:
    yield
    cluster.delete_all()


@pytest.fixture(scope="module")
def users() -> Iterator[list[pwd.struct_passwd]]:
    """Two ordinary users, made for these tests."""
    with ordinary_users("caller", "other") as found:
        yield found


@pytest.fixture(scope="module")
def home(cluster: SshCluster, users: list[pwd.struct_passwd]) -> Path:
    """A directory of the first user."""
    path = cluster.sandbox.directory / "home"
    path.mkdir()
    os.chown(path, users[0].pw_uid, users[0].pw_gid)
    return path


def state_of(cluster: SshCluster, node: str = "node1") -> Path:
    """Return the state directory of a node."""
    return cluster.sandbox.directory / "nodes" / node


def as_user(user: pwd.struct_passwd, *words: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program as a user who has logged in on a node by another way."""
    return subprocess.run(
        words,
        env={"PATH": os.defpath, **NO_GATEWAY, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd="/",
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=[],
        timeout=DEADLINE,
        check=False,
    )


HOSTILE = """
import os, sys
uid, state, content = int(sys.argv[1]), sys.argv[2], bytes.fromhex(sys.argv[3])
from oarpy.frontend.call import be_called
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
knock = os.open(state + "/knock", os.O_WRONLY | os.O_NONBLOCK)
try:
    for _ in range(100):
        os.write(knock, os.urandom(1000))
except BlockingIOError:
    pass
with be_called(state, 60.0) as connection:
    connection.settimeout(60.0)
    connection.sendall(content)
    while answer := connection.recv(65536):
        os.write(1, answer)
"""


def submit(cluster: SshCluster, user: pwd.struct_passwd, home: Path, *arguments: str) -> int:
    """Submit a job as a user, through the gateway."""
    variables = {
        "PATH": os.defpath,
        "PYTHONPATH": str(ROOT),
        "OARPY_GATEWAY_SOCKET": os.path.expanduser("~/run/gateway"),
    }
    done = subprocess.run(
        user_command(user.pw_uid, "oarsub", *arguments),
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=home,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done
    return int(done.stdout.rpartition("OAR_JOB_ID=")[2].split()[0])


def outcome(cluster: SshCluster, user: pwd.struct_passwd, home: Path, script: str, nodes: int = 1) -> str:
    """Run a script as a job to its end; return what it wrote."""
    wanted = f"/nodes={nodes},walltime=0:5:0"
    job = submit(cluster, user, home, "-O", "%jobid%.out", "-E", "%jobid%.out", "-l", wanted, f"{BARE}; {script}")
    cluster.wait_for(job, "Terminated")
    return (home / f"{job}.out").read_text()


def test_programs_are_started_on_the_other_nodes_from_inside_a_job(
    cluster: SshCluster, users: list[pwd.struct_passwd], home: Path
) -> None:
    script = (
        "command -v oarsh; oarsrun id -un; other=$(uniq $OAR_NODEFILE | tail -n 1); "
        'oarsh $other "echo there \\$OARPY_NODE; cat; exit 7" <$OAR_NODEFILE; echo status $?'
    )
    lines = outcome(cluster, users[0], home, script, nodes=2).splitlines()
    name = users[0].pw_name
    assert lines[0] == f"{state_of(cluster)}/bin/oarsh"
    assert sorted(lines[1:3]) == [f"node1: {name}", f"node2: {name}"]
    assert lines[3].startswith("there ")
    assert lines[3].endswith("node2")
    assert lines[4:] == ["node1"] * 2 + ["node2"] * 2 + ["status 7"]


def test_a_command_that_is_killed_takes_its_program_with_it(
    cluster: SshCluster, users: list[pwd.struct_passwd], home: Path
) -> None:
    script = (
        "oarsh $(tail -n 1 $OAR_NODEFILE) 'echo $$ >step; exec sleep 600' & until test -s step; do sleep 0.05; done; "
        "kill -9 $!; while kill -0 $(cat step); do sleep 0.05; done 2>/dev/null; echo gone"
    )
    assert outcome(cluster, users[0], home, script, nodes=2).split() == ["gone"]


def test_a_job_asks_about_itself_and_submits_others(
    cluster: SshCluster, users: list[pwd.struct_passwd], home: Path
) -> None:
    script = (
        "oarstat -j $OAR_JOB_ID -J | tr -d '\n'; echo; oarprint host; oarsub --hold -n next date; "
        "oardel 999999; echo status $?; oaradmin 2>/dev/null; echo status $?"
    )
    lines = outcome(cluster, users[0], home, script).splitlines()
    (shown,) = json.loads(lines[0]).values()
    assert (shown["state"], shown["owner"]) == ("Running", users[0].pw_name)
    assert lines[1] == "node1"
    assert lines[2].startswith("OAR_JOB_ID=")
    next_job = int(lines[2].partition("=")[2])
    assert cluster.job(next_job, "user_name") == users[0].pw_name
    assert lines[3].startswith("oardel: job 999999 does not exist")
    assert lines[4:] == ["status 4", "status 127"]


def test_who_has_no_job_on_the_node_is_refused(cluster: SshCluster, users: list[pwd.struct_passwd], home: Path) -> None:
    job = submit(cluster, users[0], home, "-l", "/nodes=1,walltime=0:5:0", "sleep 600")
    cluster.wait_for(job, "Running")
    commands = state_of(cluster) / "bin"
    mine = as_user(users[0], commands / "oarstat", "-s", "-j", str(job))
    assert (mine.returncode, mine.stdout) == (0, f"{job}: Running\n"), mine
    other = as_user(users[1], commands / "oarstat", OAR_JOB_ID=str(job), OAR_USER=users[0].pw_name)
    assert (other.returncode, other.stdout) == (5, "")
    assert "has no running job on node node1" in other.stderr
    root = as_user(pwd.getpwnam("root"), commands / "oardel", str(job))
    assert (root.returncode, root.stdout) == (5, "")
    assert "root of node node1 is not root of the server" in root.stderr
    elsewhere = as_user(users[0], state_of(cluster, "node2") / "bin" / "oarstat")
    assert elsewhere.returncode == 5, elsewhere


def test_a_shell_has_a_terminal(cluster: SshCluster, users: list[pwd.struct_passwd], home: Path) -> None:
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("no setpriv to become a user with")
    job = submit(cluster, users[0], home, "-l", "/nodes=1,walltime=0:5:0", "sleep 600")
    cluster.wait_for(job, "Running")
    become = [setpriv, "--reuid", str(users[0].pw_uid), "--regid", str(users[0].pw_gid), "--clear-groups"]
    asked = [*become, str(state_of(cluster) / "bin" / "oarsh"), "-j", str(job), "node1"]
    with TerminalSession(asked, {"PATH": os.defpath, "PS1": "$ ", **NO_GATEWAY}, directory="/") as session:
        session.type("echo $((40 + 2)); tty; stty size\n")
        session.expect("42\r\n/dev/pts/")
        session.expect("30 90")
        session.type("exit 3\n")
        assert session.wait() == 3


NONSENSE = [b"\xff" * 5000, Speaker(1, "node1").pack() + pack_message({}), Knock("node1", "0" * 32).pack()]


@pytest.mark.parametrize("content", NONSENSE, ids=["no frame", "speaks for another", "knocks"])
def test_a_caller_who_says_something_else_does_no_harm(
    cluster: SshCluster, users: list[pwd.struct_passwd], home: Path, content: bytes
) -> None:
    job = submit(cluster, users[0], home, "-l", "/nodes=1,walltime=0:5:0", "sleep 600")
    cluster.wait_for(job, "Running")
    state = state_of(cluster)
    done = subprocess.run(
        [sys.executable, "-c", HOSTILE, str(users[0].pw_uid), str(state), content.hex()],
        capture_output=True,
        cwd=ROOT,
        timeout=DEADLINE,
        check=False,
    )
    ((kind, answer),) = Frames().feed(done.stdout)
    assert (kind, "refused" in read_message(answer)) == (MESSAGE, True), done
    mine = as_user(users[0], state / "bin" / "oarstat", "-s", "-j", str(job))
    assert (mine.returncode, mine.stdout) == (0, f"{job}: Running\n"), mine
