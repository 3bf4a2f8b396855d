"""``oarsub --launcher``: the agent of a host runs the program that speaks for a job, and runs it again when it is lost.

Who speaks from a node is who the kernel says; a token stands for its job alone.
"""

from __future__ import annotations

import json
import os
import pwd
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from oarpy.local_cluster.user_commands import user_command
from research.benchmarks.server_processes import parent_of
from tests.harness.bare_environment import NO_GATEWAY
from tests.harness.launchers import LauncherProcess
from tests.harness.ordinary_users import ordinary_users
from tests.harness.ssh_cluster import SshCluster, marked, run_cluster
from tests.harness.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs of other users")]
ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples" / "negotiation"
DEADLINE = 60.0
BARE = "unset OARPY_CONFIG PYTHONPATH; export OARPY_GATEWAY_SOCKET=; PATH=${PATH##*:}:/usr/bin:/bin"
"""What a node is like where nothing is installed."""


@pytest.fixture(scope="module")
def cluster(cluster_database: dict[str, str]) -> Iterator[SshCluster]:
    with run_cluster(
        cluster_database,
        negotiation={"launcher_host": "node1", "fair_start": 1.0, "timer": 0.2},
        nodes={"lost_timeout": DEADLINE},
    ) as made:
        yield made  # a node that is slow to answer again loses no job


@pytest.fixture(autouse=True)
def _empty_again(cluster: SshCluster) -> Iterator[None]:
    yield
    cluster.delete_all()
    until(lambda: not marked(f"{cluster.instance}/"), "nothing of the jobs and their launchers is left")


@pytest.fixture(scope="module")
def users() -> Iterator[list[pwd.struct_passwd]]:
    """Two ordinary users, made for these tests."""
    with ordinary_users("speaker", "other") as found:
        yield found


@pytest.fixture(scope="module")
def home(cluster: SshCluster, users: list[pwd.struct_passwd]) -> Path:
    """A directory of the first user, with a launcher that needs nothing of oarpy but the node's commands."""
    path = cluster.sandbox.directory / "home"
    path.mkdir()
    shutil.copy(EXAMPLES / "launcher.sh", path)
    (path / "speak.sh").write_text(f'{BARE}\necho $$ >>"runs-$OAR_JOB_ID"\nexec sh launcher.sh "$@"\n')
    (path / "work.sh").write_text(
        'until test -e "go-$OAR_JOB_ID"; do sleep 0.05; done\necho "$@" >"hosts-$OAR_JOB_ID"\n'
    )
    for one in (path, *path.iterdir()):
        os.chown(one, users[0].pw_uid, users[0].pw_gid)
    return path


def oarsub(cluster: SshCluster, user: pwd.struct_passwd, home: Path, *arguments: str) -> tuple[int, str]:
    """Submit as a user, through the gateway; return the exit status and what was printed."""
    variables = {
        "PATH": os.defpath,
        "PYTHONPATH": str(ROOT),
        "OARPY_GATEWAY_SOCKET": str(cluster.sandbox.directory / "gateway" / "socket"),
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
    return done.returncode, done.stdout + done.stderr


def submitted(cluster: SshCluster, user: pwd.struct_passwd, home: Path, *arguments: str) -> int:
    status, said = oarsub(cluster, user, home, *arguments)
    assert status == 0, said
    return int(said.rpartition("OAR_JOB_ID=")[2].split()[0])


def state(cluster: SshCluster, job: int) -> tuple[Any, ...]:
    """Return the state of an application, and how it ended."""
    return cluster.sql("SELECT state, ended FROM applications WHERE job_id = %s", job)[0]


def story(cluster: SshCluster, job: int) -> str:
    """Return the state of an application and the events of its job."""
    events = "SELECT type, description FROM event_logs WHERE job_id = %s ORDER BY 1"
    return "\n".join(map(str, [state(cluster, job), *cluster.sql(events, job)]))


def runs(home: Path, job: int) -> list[int]:
    """Return the process ids of a launcher, as far as it was run."""
    path = home / f"runs-{job}"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def test_a_launcher_is_run_and_again_whatever_is_killed(
    cluster: SshCluster, users: list[pwd.struct_passwd], home: Path
) -> None:
    job = submitted(cluster, users[0], home, "-n", "spoken for", "--launcher", "sh speak.sh 2 300 sh work.sh")
    until(lambda: len(runs(home, job)) == 1, "the launcher is run")
    assert os.stat(f"/proc/{runs(home, job)[0]}").st_uid == users[0].pw_uid
    until(lambda: state(cluster, job) == ("Started", None), lambda: f"it starts: {state(cluster, job)}")
    os.kill(runs(home, job)[0], signal.SIGKILL)
    until(lambda: len(runs(home, job)) == 2, "it is run again")
    logged = "SELECT description FROM event_logs WHERE job_id = %s AND type = 'LAUNCHER_ENDED'"
    until(lambda: cluster.sql(logged, job) == [("it ended with exit status 137",)], "what went wrong is told")
    until(lambda: len(carriers(cluster, job)) == 1, "it has a connection")
    os.kill(carriers(cluster, job)[0], signal.SIGKILL)
    until(lambda: len(runs(home, job)) == 3, "it is run again with a new connection")
    until(lambda: len(carriers(cluster, job)) == 1, "it has a connection again")
    os.kill(parent_of(carriers(cluster, job)[0]), signal.SIGKILL)
    until(lambda: len(runs(home, job)) == 4, "it is run again after what ran it was killed")
    attached = "SELECT lost_since IS NULL FROM applications WHERE job_id = %s"
    until(lambda: cluster.sql(attached, job) == [(True,)], "it speaks")
    cluster.sandbox.stop_server(signal.SIGKILL)
    cluster.kill_node("node1")
    cluster.revive_node("node1")
    cluster.sandbox.start()
    until(lambda: len(runs(home, job)) > 4, "it is run again by another server and another agent")
    until(lambda: cluster.sql(attached, job) == [(True,)], "it speaks to the other server")
    before_the_end = len(runs(home, job))
    (home / f"go-{job}").touch()
    until(lambda: state(cluster, job)[1] == "done", lambda: f"it ends: {story(cluster, job)}")
    hosts = (home / f"hosts-{job}").read_text().split()
    assert len(set(hosts)) == 2
    until(lambda: not marked(f"{cluster.instance}/{job}/"), "nothing of it is left")
    assert len(runs(home, job)) == before_the_end


def carriers(cluster: SshCluster, job: int) -> list[int]:
    """Return the processes that carry the lines of a launcher."""

    def words(pid: int) -> bytes:
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return b""

    return [pid for pid in marked(f"{cluster.instance}/{job}/0/launcher") if b"oarnegotiate" in words(pid)]


def test_a_launcher_that_fails_is_run_again_until_its_job_is_over(
    cluster: SshCluster, users: list[pwd.struct_passwd], home: Path
) -> None:
    job = submitted(cluster, users[0], home, "--launcher", "echo no luck >&2; exit 3")
    logged = "SELECT description FROM event_logs WHERE job_id = %s AND type = 'LAUNCHER_ENDED'"
    until(lambda: len(cluster.sql(logged, job)) == 2, "it was run twice")
    assert set(cluster.sql(logged, job)) == {("it ended with exit status 3",)}
    assert set((home / f"OAR.{job}.launcher").read_text().splitlines()) == {"no luck"}
    cluster.sql("INSERT INTO kill_requests (job_id) VALUES (%s)", job)
    until(lambda: state(cluster, job) == ("Finished", "deleted"), lambda: f"it is over: {state(cluster, job)}")
    assert cluster.sql("SELECT job_id FROM applications WHERE launcher IS NOT NULL AND ended IS NULL") == []
    (home / "closed").mkdir()
    elsewhere = submitted(cluster, users[0], home / "closed", "--launcher", "true")
    (home / "closed").rmdir()
    until(lambda: cluster.sql(logged, elsewhere) != [], "that it cannot be run is told")
    assert "No such file or directory" in cluster.sql(logged, elsewhere)[-1][0] or cluster.sql(logged, elsewhere)


_HOME = Path(pwd.getpwuid(os.getuid()).pw_dir)
OLDEST = min(_HOME.glob(".pyenv/versions/3.9*/bin/python3.9"), default=Path(sys.executable))
"""The oldest Python that launchers may have, where it is."""


@pytest.mark.parametrize("by_site", [True, False], ids=["run by the site", "run by hand with the oldest Python"])
def test_the_sweep_chooses_its_hosts_and_goes_on_where_it_was(cluster: SshCluster, by_site: bool) -> None:
    results = cluster.work / f"results-{by_site}"
    results.mkdir()
    (results / "point-2.out").write_text("done before\n")
    options = ["--points", "5", "--seconds", "1", "--most", "3", "--results", str(results)]
    words = [str(sys.executable if by_site else OLDEST), str(EXAMPLES / "sweep.py"), *options, "echo", "point"]
    if by_site:
        job = cluster.submit("-n", "sweep", "--launcher", shlex.join(words))
        until(lambda: state(cluster, job)[1] == "done", lambda: f"the sweep ends: {state(cluster, job)}")
    else:
        run_by_hand(cluster, words)
    found = {one.name: one.read_text() for one in results.iterdir()}
    wanted = {f"point-{number}.out": f"point {number}\n" for number in range(5)}
    assert found == {**wanted, "point-2.out": "done before\n"}


def run_by_hand(cluster: SshCluster, words: list[str]) -> None:
    """Run a launcher where users submit, which makes its job itself."""
    environment = {**cluster.sandbox.environment(), "PYTHONPATH": str(ROOT)}
    path = f"{Path(sys.executable).parent}:{os.defpath}"
    done = subprocess.run(
        words,
        env={**environment, "PATH": path},
        cwd=cluster.work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done
    (job,) = (int(line.partition("=")[2]) for line in done.stderr.splitlines() if line.startswith("OAR_JOB_ID="))
    assert state(cluster, job)[1] == "done"


def test_a_launcher_without_python_makes_its_job_itself(cluster: SshCluster) -> None:
    run_by_hand(cluster, [str(EXAMPLES / "launcher.sh"), "2", "300", "sh", "-c", 'echo "$@" >by-hand', "work"])
    assert len(set((cluster.work / "by-hand").read_text().split())) == 2


@dataclass(slots=True)
class NodeSpeakers:
    """Processes of the nodes' own oarnegotiate."""

    cluster: SshCluster
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, user: pwd.struct_passwd, node: str) -> LauncherProcess:
        """Start one as a user who has logged in there by another way."""
        process = subprocess.Popen(
            [self.cluster.sandbox.directory / "nodes" / node / "bin" / "oarnegotiate"],
            env={"PATH": os.defpath, **NO_GATEWAY},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=[],
        )
        self.started.append(process)
        return LauncherProcess(process)


@pytest.fixture
def speakers(cluster: SshCluster) -> Iterator[NodeSpeakers]:
    """What starts an oarnegotiate on a node; all end with the test."""
    found = NodeSpeakers(cluster)
    yield found
    for process in found.started:
        process.kill()
        with process:  # closes its pipes
            pass


def test_who_speaks_from_a_node_is_who_the_kernel_says(
    cluster: SshCluster, users: list[pwd.struct_passwd], home: Path, speakers: NodeSpeakers
) -> None:
    mine, other = users
    quiet = ("-O", "/dev/null", "-E", "/dev/null")
    for user in users:
        asked = ("-l", "/host=1/cpu=1/core=1,walltime=0:5:0", "-p", "host = 'node2'")
        batch = submitted(cluster, user, home, *asked, *quiet, "sleep 300")
        cluster.wait_for(batch, "Running")
    one = speakers.start(mine, "node2")
    one.say("subscribe")
    answer = one.hear("subscribed")
    job, token = answer["job"], answer["token"]
    one.hear("changeNotify")
    assert cluster.job(job, "user_name") == mine.pw_name
    foreign = speakers.start(other, "node2")
    for said in ({"job": job}, {"job": job, "token": "0" * 32}, {"job": job + 1000}, {"job": batch, "token": token}):
        foreign.say("attach", **said)
        refused = foreign.hear("refused")
        assert (refused["code"], refused["of"]) == (5, "attach")
        assert refused["reason"] == f"there is no job {said['job']} of yours that negotiates"
    assert foreign.leave() == 5
    trusted = speakers.start(other, "node2")
    trusted.say("attach", job=job, token=token)
    assert trusted.hear("attached")["job"] == job
    assert one.process.wait(DEADLINE) == 1
    trusted.hear("changeNotify")
    cluster.sql("INSERT INTO kill_requests (job_id) VALUES (%s)", job)
    assert trusted.hear("ended")["reason"] == "deleted"
    late = speakers.start(other, "node2")
    late.say("attach", job=job, token=token)
    assert late.hear("refused")["code"] == 5
    again = speakers.start(mine, "node2")
    again.say("attach", job=job)
    assert again.hear("attached")["state"] == "Finished"
    assert again.hear("ended")["reason"] == "deleted"
    nobody = speakers.start(mine, "node3")
    assert nobody.process.wait(DEADLINE) == 5


def test_a_job_speaks_for_itself_from_its_first_node(
    cluster: SshCluster, users: list[pwd.struct_passwd], home: Path
) -> None:
    inside = home / "inside.sh"
    inside.write_text(f"""{BARE}
{{
    printf '{{"message":"attach","job":%d}}\\n' "$OAR_JOB_ID"
    until grep -q attached "heard-$OAR_JOB_ID"; do sleep 0.05; done
    printf '{{"message":"done"}}\\n'
    sleep 60
}} | oarnegotiate >"heard-$OAR_JOB_ID"
""")
    job = submitted(cluster, users[0], home, "--launcher", "sh speak.sh 1 300 sh work.sh", "sh inside.sh")
    until(lambda: state(cluster, job)[1] == "done", lambda: f"the job says done: {state(cluster, job)}")
    heard = [json.loads(line) for line in (home / f"heard-{job}").read_text().splitlines()]
    assert (heard[0]["message"], heard[0]["state"]) == ("attached", "Started")
