"""The main job, end to end: a cluster of sshd daemons on loopback addresses, each with its port, key and directory."""

from __future__ import annotations

import getpass
import grp
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.client.session import Session
from oarpy.client.submission.options import Options
from oarpy.client.submission.submission import submit
from oarpy.configuration import load
from research.benchmarks.server_processes import is_running
from tests.harness.ssh_cluster import CORES, IMPOSTOR, SshCluster, marked, run_cluster
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e

GOOD = ["node1", "node2", "node3", "node4"]

# Ignores TERM, leaves its session, forgets its environment where it can, and has company on all nodes of the job.
STUBBORN = """\
trap '' TERM HUP INT
if [ "$1" = stay ]; then
    echo $$ >> "$2"
    while :; do sleep 0.3; done
fi
pids=$OAR_WORKDIR/pids.$OAR_JOB_ID
setsid "$0" stay "$pids" </dev/null >/dev/null 2>&1 &
setsid env -i "$0" stay "$pids" </dev/null >/dev/null 2>&1 &
for node in $(sort -u "$OAR_NODEFILE"); do
    ssh {options} "$node" "setsid '$0' stay '$pids' </dev/null >/dev/null 2>&1 &"
done
exec "$0" stay "$pids"
"""


@pytest.fixture(scope="module")
def running_cluster(cluster_database: dict[str, str]) -> Iterator[SshCluster]:
    """One cluster for all tests of this module."""
    with run_cluster(cluster_database) as made:
        yield made


@pytest.fixture
def cluster(running_cluster: SshCluster) -> Iterator[SshCluster]:
    """The cluster; a test leaves it without live jobs."""
    yield running_cluster
    running_cluster.delete_all()


def stubborn(cluster: SshCluster) -> str:
    return str(cluster.script("stubborn.sh", STUBBORN.format(options=cluster.client_options)))


def pids_of(cluster: SshCluster, job: int) -> list[int]:
    """The processes that a stubborn job noted down."""
    path = cluster.work / f"pids.{job}"
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def wait_for_company(cluster: SshCluster, job: int, nodes: int) -> list[int]:
    """Wait until all processes of a stubborn job are there: the script, its two daemons, one on each node."""
    until(lambda: len(pids_of(cluster, job)) == nodes + 3, lambda: f"only {pids_of(cluster, job)} run")
    pids = pids_of(cluster, job)
    assert all(map(is_running, pids))
    # all but the one that forgot its environment carry the job's mark, also on the other nodes
    assert len(set(pids) & set(marked(cluster.mark(job)))) == nodes + 2
    return pids


def test_a_script_reaches_every_node_of_its_node_file(cluster: SshCluster) -> None:
    script = cluster.script(
        "reach.sh",
        f"for node in $(uniq $OAR_NODEFILE); do\n"
        f"    ssh {cluster.client_options} $node 'echo $OAR_JOB_ID $SSH_CONNECTION' >> reached\n"
        f"done\n",
    )
    job = cluster.submit("-l", "/nodes=4,walltime=0:5:0", str(script))
    cluster.wait_for(job, "Terminated")
    assert cluster.job(job, "exit_status") == 0
    reached = [line.split() for line in (cluster.work / "reached").read_text().splitlines()]
    assert [line[0] for line in reached] == [str(job)] * 4
    # the end of the connection on the node's side: its own address and port
    expected = [(cluster.node(name).address, str(cluster.node(name).port)) for name in GOOD]
    assert [(line[3], line[4]) for line in reached] == expected


def test_environment_files_and_exit_status(cluster: SshCluster) -> None:
    script = cluster.script(
        "look.sh",
        "env -0 > environment\ncp $OAR_NODEFILE nodes\ncp $OAR_RESOURCE_PROPERTIES_FILE properties\n"
        'echo "out $1"; echo "err $2" >&2; exit 7\n',
    )
    job = cluster.submit("-l", "/nodes=2,walltime=1:2:3", "-n", "look", "--project", "climate", f"{script} one two")
    cluster.wait_for(job, "Terminated")
    assert cluster.job(job, "exit_status") == 7 << 8
    assert (cluster.work / f"OAR.look.{job}.stdout").read_text() == "out one\n"
    assert (cluster.work / f"OAR.look.{job}.stderr").read_text() == "err two\n"
    entries = (cluster.work / "environment").read_text().split("\0")
    environment = dict(entry.split("=", 1) for entry in entries if "=" in entry)
    user = pwd.getpwuid(os.getuid()).pw_name
    expected = {
        "OAR_JOB_ID": str(job),
        "OAR_JOBID": str(job),
        "OAR_ARRAY_ID": str(job),
        "OAR_ARRAY_INDEX": "1",
        "OAR_JOB_NAME": "look",
        "OAR_PROJECT_NAME": "climate",
        "OAR_JOB_WALLTIME": "1:2:3",
        "OAR_JOB_WALLTIME_SECONDS": "3723",
        "OAR_USER": user,
        "USER": user,
        "OAR_WORKDIR": str(cluster.work),
        "OAR_O_WORKDIR": str(cluster.work),
        "OAR_WORKING_DIRECTORY": str(cluster.work),
        "PWD": str(cluster.work),
    }
    assert {name: environment.get(name) for name in expected} == expected
    names = ("OAR_NODEFILE", "OAR_NODE_FILE", "OAR_FILE_NODES", "OAR_RESOURCE_FILE")
    assert len({environment[name] for name in names}) == 1
    hosts = (cluster.work / "nodes").read_text().split()
    assert hosts == sorted(hosts)
    assert [hosts.count(name) for name in sorted(set(hosts))] == [CORES, CORES]
    properties = (cluster.work / "properties").read_text().splitlines()
    assert len(properties) == 2 * CORES
    assert all(f"network_address = '{host}'" in line for host, line in zip(hosts, properties, strict=True))


def test_the_walltime_ends_a_stubborn_job_on_all_nodes(cluster: SshCluster) -> None:
    job = cluster.submit("-l", "/nodes=4,walltime=0:0:6", stubborn(cluster))
    cluster.wait_for(job, "Running")
    pids = wait_for_company(cluster, job, 4)
    cluster.wait_for(job, "Error")
    assert cluster.job(job, "message") == "killed: its walltime was over"
    assert not [pid for pid in pids if is_running(pid)]
    assert marked(cluster.mark(job)) == []
    (ran,) = cluster.sql("SELECT extract(epoch FROM ended_at - started_at)::float8 FROM jobs WHERE job_id = %s", job)[0]
    assert ran >= 6


def test_oardel_ends_a_stubborn_job_on_all_nodes(cluster: SshCluster) -> None:
    job = cluster.submit("-l", "/nodes=4,walltime=1:0:0", stubborn(cluster))
    cluster.wait_for(job, "Running")
    pids = wait_for_company(cluster, job, 4)
    cluster.sandbox.run("oardel", str(job))
    cluster.wait_for(job, "Error")
    assert cluster.job(job, "message") == f"killed: oardel by {getpass.getuser()}"
    assert not [pid for pid in pids if is_running(pid)]
    assert marked(cluster.mark(job)) == []


def test_a_job_that_ends_by_itself_leaves_nothing_on_its_nodes(cluster: SshCluster) -> None:
    script = cluster.script(
        "leaves.sh",
        f"for node in $(sort -u $OAR_NODEFILE); do\n"
        f"    ssh {cluster.client_options} $node 'setsid sleep 1000 </dev/null >/dev/null 2>&1 &'\n"
        f"done\n",
    )
    job = cluster.submit("-l", "/nodes=3,walltime=1:0:0", str(script))
    cluster.wait_for(job, "Terminated")
    assert marked(cluster.mark(job)) == []


def test_a_node_with_another_host_key_is_never_used(cluster: SshCluster) -> None:
    query = (
        "SELECT DISTINCT r.state, n.channel, n.channel_message FROM resources r JOIN nodes n USING (network_address)"
    )
    where = " WHERE network_address = %s"
    until(lambda: cluster.sql(query + where, IMPOSTOR)[0][0] == "Suspected", "the impostor is suspected")
    ((_, channel, message),) = cluster.sql(query + where, IMPOSTOR)
    node = cluster.node(IMPOSTOR)
    assert channel == "lost"
    assert message.startswith(f"host key of node {IMPOSTOR} ({node.address} port {node.port}) has changed: SHA256:")
    assert str(cluster.sshd.known_hosts) in message
    job = cluster.submit("-l", "/nodes=5,walltime=0:5:0", "touch never")
    verdict = "SELECT verdict FROM gantt_predictions WHERE job_id = %s"
    until(lambda: cluster.sql(verdict, job) == [("resources_down",)], lambda: str(cluster.sql(verdict, job)))
    cluster.sandbox.run("oardel", str(job))
    cluster.wait_for(job, "Error")
    assert not (cluster.work / "never").exists()
    assert "Accepted" not in (node.directory / "sshd.log").read_text()


def test_a_lost_node_is_suspected_and_comes_back_by_itself(cluster: SshCluster) -> None:
    on_node = ["-p", "network_address = 'node2'", "-l", "/nodes=1,walltime=1:0:0"]
    effects = 'echo "$OAR_JOB_ID" >> effects; exec sleep 1000'
    job = cluster.submit(*on_node, "-t", "idempotent", effects)
    cluster.wait_for(job, "Running")
    mark = cluster.mark(job)
    until(lambda: (cluster.work / "effects").exists(), "the job left its effect")
    cluster.kill_node("node2")
    cluster.wait_for(job, "Error")
    assert cluster.job(job, "message") == "node node2 was lost while the job was there"
    states = "SELECT DISTINCT state FROM resources WHERE network_address = 'node2'"
    assert cluster.sql(states) == [("Suspected",)]
    # its processes are out of reach, and run on
    assert marked(mark)
    ((copy,),) = until(lambda: cluster.sql("SELECT job_id FROM jobs WHERE resubmit_of = %s", job), "it is resubmitted")
    assert cluster.job(copy) == "Waiting"
    cluster.revive_node("node2")
    until(lambda: cluster.sql(states) == [("Alive",)], "the node is back")
    until(lambda: not marked(mark), "what was left of the dead job is killed")
    cluster.wait_for(copy, "Running")
    until(lambda: (cluster.work / "effects").read_text().split() == [str(job), str(copy)], "each ran once")
    cluster.sandbox.run("oardel", str(copy))
    cluster.wait_for(copy, "Error")
    assert cluster.sql("SELECT count(*) FROM jobs WHERE resubmit_of = %s", copy) == [(0,)]
    events = cluster.sql("SELECT type FROM event_logs WHERE hosts = '{node2}' ORDER BY event_id")
    assert events == [("PING_CHECKER_NODE_SUSPECTED",), ("FINAUD_RECOVER",)]


def test_a_job_that_loses_a_node_other_than_its_first_is_killed(cluster: SshCluster) -> None:
    job = cluster.submit("-l", "/nodes=4,walltime=1:0:0", stubborn(cluster))
    cluster.wait_for(job, "Running")
    wait_for_company(cluster, job, 4)
    cluster.kill_node("node3")
    cluster.wait_for(job, "Error")
    assert cluster.job(job, "message") == "killed: node node3 was lost"
    cluster.revive_node("node3")
    until(lambda: not marked(cluster.mark(job)), "the node that is back is cleaned")


# Jobs of other users


@pytest.fixture(scope="module")
def other_user() -> Iterator[pwd.struct_passwd]:
    """An ordinary user with a second group, made for these tests."""
    if os.geteuid() != 0:
        pytest.skip("only root can run jobs of other users")
    programs = [shutil.which(name, path="/usr/sbin:/sbin:/usr/bin") for name in ("useradd", "userdel")]
    if None in programs:
        pytest.skip("no useradd and userdel to make a user with")
    name = f"oarpy-test-{os.getpid()}"
    add = [str(programs[0]), "--no-create-home", "--home-dir", "/", "--shell", "/bin/sh", "--groups", "games", name]
    subprocess.run(add, check=True, capture_output=True)
    yield pwd.getpwnam(name)
    subprocess.run([str(programs[1]), name], check=True, capture_output=True)


@pytest.fixture
def home(cluster: SshCluster, other_user: pwd.struct_passwd) -> Path:
    """A directory of that user."""
    path = cluster.sandbox.directory / f"home-{other_user.pw_name}"
    path.mkdir(exist_ok=True)
    os.chown(path, other_user.pw_uid, other_user.pw_gid)
    return path


def submit_as(cluster: SshCluster, user: pwd.struct_passwd, directory: Path, command: str, *types: str) -> int:
    """Submit for a user whom the embedded database does not let in: what a gateway would do for them."""
    session = Session(cluster.connection, load(cluster.sandbox.environment()), user.pw_name, user.pw_uid, False)
    options = Options(
        words=(command,),
        texts={"directory": str(directory)},
        lists={"alternatives": ("/nodes=2,walltime=0:5:0",), "types": types},
    )
    (job,) = submit(session, options, ["oarsub", command], {"PATH": os.defpath}).job_ids
    return job


def test_jobs_run_as_their_user(cluster: SshCluster, other_user: pwd.struct_passwd, home: Path) -> None:
    secret = cluster.sandbox.directory / "secret"
    secret.write_text("root's")
    secret.chmod(0o600)
    command = (
        "id -u; id -g; id -G; wc -l < $OAR_NODEFILE; touch mine; "
        f"echo no > {secret}; cat {secret}; touch {cluster.work}/no; echo $OAR_USER"
    )
    job = submit_as(cluster, other_user, home, command)
    cluster.wait_for(job, "Terminated")
    uid, gid, groups, cores, name = (home / f"OAR.{job}.stdout").read_text().splitlines()
    assert (int(uid), int(gid), name) == (other_user.pw_uid, other_user.pw_gid, other_user.pw_name)
    assert sorted(map(int, groups.split())) == sorted([other_user.pw_gid, grp.getgrnam("games").gr_gid])
    assert int(cores) == 2 * CORES
    for file in ("mine", f"OAR.{job}.stdout", f"OAR.{job}.stderr"):
        assert (home / file).stat().st_uid == other_user.pw_uid
    assert secret.read_text() == "root's"
    assert not (cluster.work / "no").exists()
    assert (home / f"OAR.{job}.stderr").read_text().count("ermission denied") == 3


def test_a_user_without_access_to_the_directory_gets_no_job(
    cluster: SshCluster, other_user: pwd.struct_passwd, home: Path
) -> None:
    closed = home / "closed"
    closed.mkdir(mode=0o700)
    job = submit_as(cluster, other_user, closed, "touch never")
    cluster.wait_for(job, "Error")
    assert cluster.sql("SELECT type FROM event_logs WHERE job_id = %s", job) == [("WORKING_DIRECTORY",)]
    assert str(closed) in cluster.job(job, "message")


def test_jobs_of_another_user_are_killed_too(cluster: SshCluster, other_user: pwd.struct_passwd, home: Path) -> None:
    job = submit_as(cluster, other_user, home, "trap '' TERM; setsid sleep 1000 & sleep 1001; sleep 1002")
    cluster.wait_for(job, "Running")
    until(lambda: len(marked(cluster.mark(job))) >= 3, "its processes are there")
    cluster.sandbox.run("oardel", str(job))
    cluster.wait_for(job, "Error")
    assert marked(cluster.mark(job)) == []
