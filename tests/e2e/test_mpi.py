"""The commands of the node behind the profiles of shells, and launchers of MPI that need no option, for real."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from ctypes.util import find_library
from pathlib import Path

import pytest

from oarpy.grid.local.mpi_job import ONE_MACHINE
from oarpy.local_cluster.user_commands import user_command
from tests.harness.ordinary_users import ordinary_users
from tests.harness.ssh_cluster import SshCluster, run_cluster
from tests.harness.terminal_session import TerminalSession

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs of other users")]
ROOT = Path(__file__).resolve().parent.parent.parent
DEADLINE = 60.0
PYTHON = "/usr/bin/python3"
"""Which any user may run."""

PROGRAM = """
import ctypes, os, sys
mpi = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
def known(name, number):  # Open MPI has objects where MPICH has numbers
    try:
        return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))
    except ValueError:
        return ctypes.c_int(number)
world, kind = known("ompi_mpi_comm_world", 0x44000000), known("ompi_mpi_int", 0x4C000405)
total = known("ompi_mpi_op_sum", 0x58000003)
rank, size, result = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
mpi.MPI_Init(None, None)
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
mpi.MPI_Allreduce(ctypes.byref(rank), ctypes.byref(result), 1, kind, total, world)
# a launcher may give its own environment to all: what started this process knows where it is
starter = dict(one.split(b"=", 1) for one in open(f"/proc/{os.getppid()}/environ", "rb").read().split(b"\\0") if one)
node = os.path.basename(starter[b"OARPY_NODE"].decode())
sys.stdout.write(f"{rank.value} of {size.value}: {result.value} on {node}\\n")
sys.stdout.flush()
if len(sys.argv) > 2 and rank.value == 1:
    mpi.MPI_Abort(world, int(sys.argv[2]))
mpi.MPI_Finalize()
"""


@pytest.fixture(scope="module")
def cluster(cluster_database: dict[str, str]) -> Iterator[SshCluster]:
    with run_cluster(cluster_database) as made:
        yield made


@pytest.fixture(scope="module")
def user() -> Iterator[pwd.struct_passwd]:
    with ordinary_users("mpi", shell="/bin/bash") as (found,):
        yield found


@pytest.fixture(scope="module")
def home(cluster: SshCluster, user: pwd.struct_passwd) -> Path:
    """A directory of the user, with a program of MPI."""
    path = cluster.sandbox.directory / "home"
    path.mkdir()
    os.chown(path, user.pw_uid, user.pw_gid)
    (path / "sum.py").write_text(PROGRAM)
    return path


def outside(cluster: SshCluster) -> dict[str, str]:
    """The environment of a user on a frontend."""
    socket = cluster.sandbox.directory / "gateway" / "socket"
    return {"PATH": os.defpath, "PYTHONPATH": str(ROOT), "PS1": "$ ", "OARPY_GATEWAY_SOCKET": str(socket)}


def outcome(
    cluster: SshCluster, user: pwd.struct_passwd, home: Path, script: str, nodes: int = 1, **variables: str
) -> str:
    """Run a script as a job to its end; return what it wrote."""
    path = home / "script"
    path.write_text(script)
    path.chmod(0o755)
    wanted = f"/nodes={nodes},walltime=0:5:0"
    submission = user_command(user.pw_uid, "oarsub", "-O", "%jobid%.out", "-E", "%jobid%.out", "-l", wanted, str(path))
    done = subprocess.run(
        submission,
        env={**outside(cluster), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=home,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done
    job = int(done.stdout.rpartition("OAR_JOB_ID=")[2].split()[0])
    cluster.wait_for(job, "Terminated")
    return (home / f"{job}.out").read_text()


def test_scripts_that_read_a_profile_have_the_nodes_commands(
    cluster: SshCluster, user: pwd.struct_passwd, home: Path
) -> None:
    script = "#!/bin/bash -l\necho ${PATH##*:}; command -v oarstat; bash -lc 'command -v oarsh'; env | grep -c ^HYDRA\n"
    folder = cluster.sandbox.directory / "nodes" / "node1" / "bin"
    assert outcome(cluster, user, home, script).split() == [str(folder), f"{folder}/oarstat", f"{folder}/oarsh", "0"]


def test_shells_at_a_terminal_have_the_nodes_commands(cluster: SshCluster, user: pwd.struct_passwd, home: Path) -> None:
    words = user_command(user.pw_uid, "oarsub", "-I", "-l", "/nodes=2")
    with TerminalSession(words, outside(cluster), directory=str(home)) as session:
        session.type("shopt login_shell; command -v oarsh; echo $((40 + 2))\n")
        session.expect("login_shell    \ton")
        session.expect("/bin/oarsh")
        session.expect("42")
        session.type("bash -l\n")
        session.type("command -v oarstat; echo $((50 + 2))\n")
        session.expect("/bin/oarstat")
        session.expect("52")
        session.type("exit\nexit\n")
        assert session.wait() == 0


@pytest.mark.parametrize(("kind", "library"), [("openmpi", "libmpi.so.40"), ("mpich", "libmpich.so.12")])
@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash -l"], ids=["sh", "login"])
def test_mpirun_needs_no_option(
    cluster: SshCluster, user: pwd.struct_passwd, home: Path, kind: str, library: str, shell: str
) -> None:
    if not os.access(PYTHON, os.X_OK):
        pytest.skip(f"no {PYTHON}")
    if shutil.which(f"mpirun.{kind}") is None or find_library(library.partition(".")[0][3:]) is None:
        pytest.skip(f"no {kind} on this machine (Debian: openmpi-bin has 55 MB, mpich 21 MB)")
    program = f"{PYTHON} {home}/sum.py {library}"
    export = f"export HOME={home}\n{ONE_MACHINE}"
    written = outcome(cluster, user, home, f"#!{shell}\n{export}\nmpirun.{kind} -n 4 {program}\n", nodes=2)
    lines = sorted(line for line in written.splitlines() if " of " in line)
    hosts = sorted({line.rpartition(" ")[2] for line in lines})  # any two: an earlier job may be cleaned up yet
    assert len(hosts) == 2, written
    assert lines == [f"{rank} of 4: 6 on {hosts[rank // 2]}" for rank in range(4)], written


def test_ranks_of_oarsrun_are_those_of_mpich(cluster: SshCluster, user: pwd.struct_passwd, home: Path) -> None:
    if not os.access(PYTHON, os.X_OK) or find_library("mpich") is None:
        pytest.skip(f"no {PYTHON}, or no mpich on this machine (Debian: libmpich12)")
    program = f"{PYTHON} {home}/sum.py libmpich.so.12"
    script = f"""#!/bin/sh
export HOME={home}
oarsrun -n 4 --no-prefix {program}
oarsrun -n 2 --ntasks-per-node 1 {program} 9
echo $?
"""
    written = outcome(cluster, user, home, script, nodes=2).splitlines()
    lines = sorted(line for line in written if " of 4: " in line)
    hosts = sorted({line.rpartition(" ")[2] for line in lines})
    assert len(hosts) == 2, written
    assert lines == [f"{rank} of 4: 6 on {hosts[rank // 2]}" for rank in range(4)], written
    assert written[-1] == "9", written


def test_what_the_user_has_set_stays(cluster: SshCluster, user: pwd.struct_passwd, home: Path) -> None:
    own = {"HYDRA_LAUNCHER": "fork", "OMPI_MCA_orte_default_hostfile": "/my/hosts", "BASH_ENV": ""}
    script = '#!/bin/sh\necho "$HYDRA_LAUNCHER $OMPI_MCA_orte_default_hostfile [$BASH_ENV] $HYDRA_LAUNCHER_EXEC"\n'
    assert outcome(cluster, user, home, script, 2, **own) == "fork /my/hosts [] oarsh\n"


def test_a_job_that_a_job_submits_has_hosts_of_its_own(
    cluster: SshCluster, user: pwd.struct_passwd, home: Path
) -> None:
    outer = {"OAR_NODEFILE": "/of/the/outer", "HYDRA_HOST_FILE": "/of/the/outer"}
    script = '#!/bin/sh\ntest "$HYDRA_HOST_FILE" = "$OAR_NODEFILE" && uniq $HYDRA_HOST_FILE\n'
    assert outcome(cluster, user, home, script, 2, **outer) == "node1\nnode2\n"
