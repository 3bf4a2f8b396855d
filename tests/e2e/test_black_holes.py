"""A node on which nothing can be started, for a reason of its own: real agents, whose jobs go elsewhere."""

from __future__ import annotations

import ctypes.util
import os
import pwd
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oarpy.client.session import Session
from oarpy.client.submission.options import Options
from oarpy.client.submission.submission import submit
from oarpy.configuration import load
from tests.harness.ordinary_users import ordinary_users
from tests.harness.passable_folder import passable_folder
from tests.harness.ssh_cluster import SshCluster, run_cluster
from tests.harness.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs of other users")]

BAD, ADDRESS = "node1", "127.0.1.1"

PYTHON = """\
#!/bin/sh
# the agent of one node sees other files than those of all others
case $SSH_CONNECTION in
    *" {address} "*) exec unshare -m --propagation private sh -c '{mount} && exec "$0" "$@"' {python} "$@" ;;
esac
exec {python} "$@"
"""


@pytest.fixture(scope="module")
def users() -> Iterator[list[pwd.struct_passwd]]:
    with ordinary_users("first", "second") as found:
        yield found


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    """A PAM service that lets everybody in, where it is."""
    path = Path("/etc/pam.d") / f"oarpy-test-{uuid.uuid4().hex}"
    if not path.parent.is_dir() or not ctypes.util.find_library("pam"):
        pytest.skip("no PAM here")
    path.write_text("account required pam_permit.so\nsession required pam_permit.so\n")
    yield path.name
    path.unlink()


@pytest.fixture(params=["no such user", "no home", "no PAM service"])
def place(
    request: pytest.FixtureRequest,
    service: str,
    cluster_databases: Callable[[], dict[str, str]],
    users: list[pwd.struct_passwd],
) -> Iterator[tuple[SshCluster, Path]]:
    """A cluster of which one node knows no user, has no homes, or lets nobody in; and where the homes are."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mounts of one's own for a node (unshare -m)")
    with passable_folder("oarpy-homes-") as folder:
        for user in users:
            (folder / "homes" / user.pw_name).mkdir(parents=True)
            os.chown(folder / "homes" / user.pw_name, user.pw_uid, user.pw_gid)
        # all of /etc: a mount on a file is gone once another test adds a user, which puts a new file in its place
        subprocess.run(["cp", "-a", "/etc", folder / "etc"], check=True)
        others = (one for one in Path("/etc/passwd").read_text().splitlines() if not one.startswith("oarpy-"))
        (folder / "etc" / "passwd").write_text("\n".join(others) + "\n")
        hidden = {
            "no such user": f"mount --bind {folder}/etc /etc",
            "no home": f"mount -t tmpfs none {folder}/homes",
            "no PAM service": "mount -t tmpfs none /etc/pam.d",
        }[request.param]
        program = folder / "python"
        program.write_text(PYTHON.format(address=ADDRESS, mount=hidden, python=sys.executable))
        program.chmod(0o755)
        nodes = {"python": str(program), "pam_service": service if request.param == "no PAM service" else ""}
        with run_cluster(cluster_databases(), nodes=nodes) as made:
            yield made, folder / "homes"


def submit_as(cluster: SshCluster, homes: Path, user: pwd.struct_passwd, command: str) -> int:
    """Submit for a user: what a gateway would do for them."""
    session = Session(cluster.connection, load(cluster.sandbox.environment()), user.pw_name, user.pw_uid, False)
    options = Options(
        words=(command,),
        texts={"directory": str(homes / user.pw_name)},
        lists={"alternatives": ("/nodes=1,walltime=0:5:0",), "types": ()},
    )
    (job,) = submit(session, options, ["oarsub", command], {"PATH": os.defpath}).job_ids
    return job


def test_jobs_of_a_black_hole_run_elsewhere(place: tuple[SshCluster, Path], users: list[pwd.struct_passwd]) -> None:
    """The other nodes are busy, so that it is given one job after the other until it is suspected."""
    cluster, homes = place
    go = homes / "go"
    command = f"until [ -e {go} ]; do sleep 0.05; done"
    jobs = [submit_as(cluster, homes, users[number % 2], command) for number in range(12)]
    state = "SELECT DISTINCT state, state_by FROM resources WHERE network_address = %s"
    until(lambda: cluster.sql(state, BAD) == [("Suspected", "launcher")], lambda: f"{BAD}: {cluster.sql(state, BAD)}")
    go.touch()
    for job in jobs:
        cluster.wait_for(job, "Terminated")
    assert {cluster.job(job, "exit_status") for job in jobs} == {0}
    where = """
        SELECT DISTINCT r.network_address
        FROM jobs j JOIN assigned_resources a USING (job_id) JOIN resources r USING (resource_id)
        WHERE a.during && tstzrange(j.started_at, j.ended_at) ORDER BY 1
    """
    assert cluster.sql(where) == [("node2",), ("node3",), ("node4",)]
    shown = cluster.sandbox.run("oarnodes", BAD).stdout
    assert "5 starts failed within a minute, the last: " in shown
    whys = ("does not exist on this node", "No such file or directory", "there is no /etc/pam.d/")
    assert any(why in shown for why in whys)
