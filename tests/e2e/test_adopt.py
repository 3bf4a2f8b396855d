"""Who logs in on a node comes into his job or not in: a real sshd with PAM, real users, real control groups."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from oarpy.transport.agent.job.isolation import Isolation
from oarpy.transport.agent.statedir import StateDir
from oarpy.wire.jobs import JobKey, JobSpec
from oarpy.wire.messages import (
    Admit,
    Clean,
    Cleaned,
    Ended,
    Forget,
    Kill,
    Resume,
    Resumed,
    Suspend,
    Suspended,
    Welcome,
)
from tests.harness.ordinary_users import ordinary_users
from tests.harness.sshd_nodes import find_sshd, make_key
from tests.harness.transport_driver import Driver, local_driver
from tests.harness.waiting import until

SERVICES = Path("/etc/pam.d")
MODULES = [*Path("/lib").glob("*/security/pam_exec.so"), *Path("/lib64").glob("security/pam_exec.so")]

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root lets other users log in"),
    pytest.mark.skipif(not (MODULES and SERVICES.is_dir()), reason="no PAM with pam_exec here"),
]

DEADLINE = 60.0
Session = tuple[subprocess.Popen[str], str]
TRIES = 200


@dataclass(frozen=True, slots=True)
class Node:
    """A node with an sshd for its users: ann, who has jobs, and bob, who has none."""

    driver: Driver
    directory: Path
    port: int
    ann: str
    bob: str

    def ssh(self, *words: str, user: str = "", **options: str) -> list[str]:
        """The command of a log-in; ``options`` are settings of ssh."""
        settings = {
            "UserKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "no",
            "BatchMode": "yes",
            **options,
        }
        given = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        place = ["-p", str(self.port), "-l", user or self.ann, "127.0.0.1"]
        return ["ssh", "-F", "none", "-i", str(self.directory / "key"), *given, *place, *words]

    def run(self, *words: str, user: str = "", **options: str) -> subprocess.CompletedProcess[str]:
        """Log in, and wait for the end."""
        command = self.ssh(*words, user=user, **options)
        return subprocess.run(
            command, capture_output=True, text=True, timeout=DEADLINE, check=False, stdin=subprocess.DEVNULL
        )

    @contextlib.contextmanager
    def session(self, *words: str, **options: str) -> Iterator[Session]:
        """A log-in, and the first line that it writes."""
        with subprocess.Popen(
            self.ssh(*words, **options), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
            process.kill()

    def start(self, job: int, command: str = "exec sleep 600", **changes: object) -> JobSpec:
        """Run a job of ann, for which she may log in."""
        spec = self.driver.spec(job, command, **changes)
        self.driver.start(spec)
        self.driver.started(job)
        self.welcome(spec)
        return spec

    def welcome(self, spec: JobSpec, *, head: bool = True) -> None:
        """Let the user of a job log in, and wait until that is so."""
        self.driver.send(Welcome(spec, head))
        until((Path(self.driver.node.state_directory) / "logins" / str(spec.key)).exists, "the node knows the job")

    def end(self, job: int) -> Ended:
        """Kill a job."""
        self.driver.send(Kill((JobKey(job, 1),), 0))
        return self.driver.expect(Ended, lambda report: report.key.job == job)


@pytest.fixture
def node() -> Iterator[Node]:
    directory = Path(tempfile.mkdtemp(prefix="oarpy-adopt-"))
    directory.chmod(0o755)
    with ordinary_users("ann", "bob") as (ann, bob), local_driver(directory, user=ann.pw_name, log_ins=True) as driver:
        python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or "python3"
        driver.node = replace(driver.node, python=python)  # the users run it, too
        driver.connect()
        if not _has_groups():
            pytest.skip("no control groups that root may make here")
        with _sshd(directory, driver, ann.pw_name, bob.pw_name) as port:
            yield Node(driver, directory, port, ann.pw_name, bob.pw_name)
    shutil.rmtree(directory)


def _has_groups() -> bool:
    root = Path("/sys/fs/cgroup")
    return any(os.access(root / name / "cgroup.procs", os.W_OK) for name in ("", "unified", "freezer"))


class _sshd:
    """An sshd whose PAM service is the test's own: the service is called as the program is."""

    def __init__(self, directory: Path, driver: Driver, ann: str, bob: str) -> None:
        self._program = directory / f"oarpy-test-{uuid.uuid4().hex}"
        self._program.symlink_to(find_sshd())
        self._service = SERVICES / self._program.name
        adopter = f"{driver.node.state_directory}/bin/oaradopt"
        self._service.write_text(
            f"account [success=1 default=ignore] pam_succeed_if.so quiet uid = 0\n"
            f"account required pam_exec.so quiet stdout {adopter}\n"
            f"account required pam_permit.so\n"
            f"session [success=1 default=ignore] pam_succeed_if.so quiet uid = 0\n"
            f"session required pam_exec.so quiet stdout {adopter}\n"
            f"session required pam_permit.so\n"
            f"auth required pam_deny.so\n"
        )
        public = make_key(directory / "key")
        make_key(directory / "host_key")
        (directory / "keys").mkdir()
        for user in (ann, bob, "root"):
            (directory / "keys" / user).write_text(f"{public}\n")
        shutil.copy(directory / "key", directory / "key.ann")
        os.chown(directory / "key.ann", pwd.getpwnam(ann).pw_uid, -1)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._config = directory / "sshd_config"
        self._config.write_text(
            f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {directory}/host_key\nPidFile none\n"
            f"AuthorizedKeysFile {directory}/keys/%u {driver.node.state_directory}/keys/%u\n"
            f"StrictModes no\nPermitRootLogin yes\nUsePAM yes\n"
            f"PasswordAuthentication no\nKbdInteractiveAuthentication no\nAcceptEnv OAR_JOB_ID\nPrintMotd no\n"
            f"MaxStartups 100\nMatch User *,!root\n    ForceCommand {adopter}\n"
        )
        self._log = directory / "sshd.log"

    def __enter__(self) -> int:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self._process = subprocess.Popen([str(self._program), "-D", "-f", str(self._config), "-E", str(self._log)])
        until(lambda: "listening" in self._log.read_text() if self._log.exists() else False, "sshd listens")
        return self.port

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        self._service.unlink()


def group_of(pid: int | str) -> str:
    """All control groups of a process."""
    return Path(f"/proc/{pid}/cgroup").read_text()


def test_who_has_no_job_is_told_so_and_root_is_let_in(node: Node) -> None:
    node.start(1)
    refused = node.run("true", user=node.bob)
    assert refused.returncode == 255
    assert "you have no job on this node" in refused.stderr
    assert node.run("id -u", user="root").stdout == "0\n"
    node.end(1)
    assert "you have no job on this node" in node.run("true").stderr


def test_a_log_in_is_in_its_job_has_its_variables_and_ends_with_it(node: Node) -> None:
    node.start(1, environment={"COLOUR": "blue"}, nodes=("node1",))
    shown = node.run('cat /proc/self/cgroup; echo "$OAR_JOB_ID $COLOUR $(cat "$OAR_NODEFILE")"')
    assert shown.returncode == 0, shown
    assert shown.stdout.splitlines()[-1] == "1 blue node1"
    assert "/oarpy/" in shown.stdout
    assert "/1.1\n" in shown.stdout
    assert node.run("exit 7").returncode == 7
    with node.session("echo $$; exec sleep 600") as (session, said):
        pid = int(said)
        assert node.driver.is_grouped(1, pid)
        node.end(1)
        assert session.wait(DEADLINE) != 0
    until(lambda: not Path(f"/proc/{pid}").exists(), "what was started is over")
    assert node.driver.groups(1) == []


def test_what_is_done_is_measured_with_the_job(node: Node) -> None:
    node.start(1)
    burn = "python3 -c 'import time\nwhile time.process_time() < 1.5: pass'"
    assert node.run(burn).returncode == 0
    used = node.end(1).cpu_seconds
    assert used is not None
    assert used >= 1.5


def test_of_several_jobs_it_is_the_newest_or_the_one_that_the_client_names(node: Node) -> None:
    node.start(1)
    node.start(2)
    shown = "echo $OAR_JOB_ID; cat /proc/$PPID/cgroup /proc/self/cgroup"
    assert node.run(shown).stdout.startswith("2\n")
    named = node.run(shown, SetEnv="OAR_JOB_ID=1").stdout
    assert named.startswith("1\n")
    assert "/1.1\n" in named
    assert "/2.1\n" not in named
    for other in ("3", "x", "1\\n2"):
        refused = node.run("true", SetEnv=f"OAR_JOB_ID={other}")
        assert refused.returncode == 1
        assert "is none of yours that runs on this node" in refused.stderr
    with node.session("echo up; exec sleep 600", SetEnv="OAR_JOB_ID=1") as (session, _):
        node.end(2)
        assert session.poll() is None
        node.end(1)
        assert session.wait(DEADLINE) != 0


def test_the_key_of_a_job_is_for_that_job_alone(node: Node) -> None:
    node.start(1)
    node.start(2)
    public = make_key(node.directory / "jobkey").rpartition(" ")[0]
    node.driver.send(Admit((JobKey(1, 1),), node.ann, public, "node1"))
    keys = Path(node.driver.node.state_directory, "keys", node.ann)
    until(keys.exists, "the key is let in")
    own = {"IdentityFile": str(node.directory / "jobkey"), "IdentitiesOnly": "yes"}
    command = [word for word in node.ssh("echo $OAR_JOB_ID", **own) if word not in ("-i", str(node.directory / "key"))]
    wanted = subprocess.run(command, capture_output=True, text=True, check=False)
    assert wanted.stdout == "1\n", wanted
    other = subprocess.run(
        [command[0], "-o", "SetEnv=OAR_JOB_ID=2", *command[1:]], capture_output=True, text=True, check=False
    )
    assert (other.returncode, other.stdout) == (1, "")
    assert "none of yours" in other.stderr
    for job in (1, 2):
        node.end(job)


def test_a_node_that_does_not_lead_the_job_lets_in_until_it_is_cleaned(node: Node) -> None:
    node.welcome(node.driver.spec(1, ""), head=False)
    assert node.run("echo $OAR_JOB_ID").stdout == "1\n"
    node.driver.send(Clean((JobKey(1, 1),)))
    node.driver.expect(Cleaned)
    assert "you have no job on this node" in node.run("true").stderr


def test_a_job_that_is_forgotten_or_suspended_lets_nobody_in(node: Node) -> None:
    node.start(1)
    node.driver.send(Suspend((JobKey(1, 1),)))
    node.driver.expect(Suspended)
    assert "your job 1 on this node is suspended" in node.run("true").stderr
    node.driver.send(Resume((JobKey(1, 1),)))
    node.driver.expect(Resumed)
    assert node.run("true").returncode == 0
    node.end(1)
    node.driver.send(Forget((JobKey(1, 1),)))
    assert "you have no job on this node" in node.run("true").stderr


def test_a_suspended_job_lets_nobody_in_where_it_had_nothing_to_be_stopped(node: Node) -> None:
    node.welcome(node.driver.spec(1, ""), head=False)
    node.driver.send(Suspend((JobKey(1, 1),)))
    node.driver.expect(Suspended)
    assert "your job 1 on this node is suspended" in node.run("true").stderr
    node.driver.send(Resume((JobKey(1, 1),)))
    node.driver.expect(Resumed)
    assert node.run("true").returncode == 0
    node.driver.send(Suspend((JobKey(1, 1),)))
    node.driver.expect(Suspended)
    node.driver.send(Clean((JobKey(1, 1),)))
    node.driver.expect(Cleaned)
    assert not list(Path(node.driver.node.state_directory, "files").iterdir())


def test_what_is_in_the_group_of_a_forgotten_job_is_ended(node: Node) -> None:
    node.start(1)
    node.end(1)
    late = subprocess.Popen(["sleep", "600"])
    isolation = Isolation("auto", "/sys/fs/cgroup", node.driver.node.state_directory)
    StateDir(node.driver.node.state_directory).note_step("1.1")
    isolation.gather("1.1", late.pid)
    node.driver.send(Forget((JobKey(1, 1),)))
    try:
        assert late.wait(DEADLINE) == -signal.SIGKILL
    finally:
        late.kill()
    until(lambda: not node.driver.groups(1), "the group is gone")


OUTSIDE = """
import ctypes, glob, os, subprocess, sys, time

folder, rounds, ssh = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
SLEEP = "echo $$ > %s; exec sleep 600"


def shell(name):
    return ["sh", "-c", SLEEP % os.path.join(folder, name)]


def in_child(name, before):
    if os.fork() == 0:
        try:
            before()
        except Exception:
            pass
        os.execvp("sh", shell(name))


def daemon():
    os.setsid()
    if os.fork():
        os._exit(0)


def into_the_root():
    daemon()
    for path in glob.glob("/sys/fs/cgroup/**/cgroup.procs", recursive=True):
        try:
            with open(path, "w") as file:
                file.write("0")
        except OSError:
            continue


def new_group():
    daemon()
    for path in glob.glob("/sys/fs/cgroup/*") + ["/sys/fs/cgroup"]:
        try:
            os.mkdir(path + "/mine")
            with open(path + "/mine/cgroup.procs", "w") as file:
                file.write("0")
        except OSError:
            continue


def namespaces():
    daemon()
    ctypes.CDLL(None).unshare(0x10000000 | 0x02000000 | 0x00020000)
    into_the_root()


def without_variables():
    os.environ.clear()
    os.environ["PATH"] = "/usr/bin:/bin"
    daemon()


def as_subreaper():
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    daemon()


for number in range(rounds):
    for before in (os.getpid, daemon, into_the_root, new_group, namespaces, without_variables, as_subreaper):
        in_child("%s.%d" % (before.__name__, number), before)
    subprocess.Popen([*ssh, SLEEP % os.path.join(folder, "again.%d" % number)], stdin=subprocess.DEVNULL)
while len([name for name in os.listdir(folder) if os.path.getsize(os.path.join(folder, name))]) < 8 * rounds:
    time.sleep(0.05)
print("all are there", flush=True)
time.sleep(600)
"""


def test_nothing_stays_outside(node: Node) -> None:
    node.start(1)
    (node.directory / "outside").write_text(OUTSIDE)
    folder = node.directory / "pids"
    folder.mkdir()
    folder.chmod(0o777)
    again = [word.replace(f"{node.directory}/key", f"{node.directory}/key.ann") for word in node.ssh()]
    words = ["python3", str(node.directory / "outside"), str(folder), str(TRIES // 8), *again]
    with node.session(*words) as (session, said):
        assert said == "all are there"
        pids = [int(path.read_text()) for path in folder.iterdir()]
        outside = [pid for pid in pids if not node.driver.is_grouped(1, pid)]
        print(f"{len(pids)} tries, {len(outside)} outside of the job")
        assert (len(pids), outside) == (TRIES, [])
        assert node.end(1).left == 0
        assert session.wait(DEADLINE) != 0
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "all have ended with the job")


def test_nobody_else_moves_a_session(node: Node) -> None:
    node.start(1)
    node.start(2)
    knock = (
        "import socket; s = socket.socket(socket.AF_UNIX); s.connect({!r}); s.send(b'1'); print(s.recv(99)); s.close()"
    )
    with node.session("echo up; exec sleep 600"):
        (path,) = Path(node.driver.node.state_directory, "files").glob("choice.*")
        own, other = (
            subprocess.run(
                ["python3", "-c", knock.format(str(path))], user=user, capture_output=True, text=True, check=False
            )
            for user in (node.ann, node.bob)
        )
    assert "this is no process of your log-in" in own.stdout
    assert "PermissionError" in other.stderr
    until(lambda: not path.exists(), "who waited at the socket is gone")
    for job in (1, 2):
        node.end(job)
