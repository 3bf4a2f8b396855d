"""One program over two real clusters: it begins earlier when local jobs end early, and dies as one."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from oarpy.grid.local import mpi_job
from oarpy.grid.local.local_grid import LocalGrid, add_clusters
from tests.harness.brokered_clusters import brokered_clusters
from tests.harness.ordinary_users import ordinary_users
from tests.harness.waiting import DEADLINE, until

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def grid(cluster_databases: Callable[[], dict[str, str]]) -> Iterator[LocalGrid]:
    """Two clusters of four cores."""
    with brokered_clusters({"north": 4, "south": 4}, cluster_databases) as found:
        add_clusters(found)
        until(lambda: knows(found), "what the clusters can do")
        yield found


def knows(grid: LocalGrid) -> bool:
    """Whether the broker was told what both clusters can do."""
    return grid.sql("SELECT count(*) FROM grid_clusters WHERE 'foresee' = ANY(abilities)") == [(2,)]


def state(grid: LocalGrid, job: int) -> tuple[str, str]:
    """State and message of a job."""
    (found,) = grid.sql("SELECT state, message FROM grid_jobs WHERE id = %s", job)
    return found[0], found[1]


def shown(grid: LocalGrid) -> str:
    """What is known of all jobs."""
    parts = grid.sql("SELECT job, component, cluster, state, message FROM grid_parts ORDER BY name")
    jobs, shifts = grid.sql("SELECT id, state, message FROM grid_jobs"), grid.sql("SELECT * FROM grid_shifts")
    return f"{jobs} {parts} {shifts}"


def nothing_is_left(grid: LocalGrid) -> bool:
    """Whether no job of the user is on any cluster."""
    return not any(grid.run("oarstat", "-J", on=name).stdout.strip() not in ("{}", "[]") for name in grid.clusters)


def test_it_begins_earlier_on_both_clusters_after_early_ends(grid: LocalGrid) -> None:
    local = {}
    for name, cluster in grid.clusters.items():
        words = ("oarsub", "-d", str(grid.home), "-l", "/core=4,walltime=0:20:0", "sleep 3600")
        local[name] = int(grid.run(*words, on=name).stdout.rpartition("OAR_JOB_ID=")[2].split()[0])
        cluster.wait_for([local[name]], ["Running"], DEADLINE)
    program = "cp $OAR_GRID_NODEFILE nodes.$OAR_GRID_COMPONENT; exit 3"
    (job,) = grid.submit("--parts", "any", "-l", "core=6,walltime=0:1:0", "--overhead", "20%", program)
    ((promised,),) = grid.sql(
        "SELECT extract(epoch FROM promised_start)::float8 FROM grid_metajobs WHERE job = %s", job
    )
    for name in grid.clusters:
        grid.run("oardel", str(local[name]), on=name)
    until(lambda: state(grid, job)[0] in ("Terminated", "Error"), lambda: shown(grid))
    rows = grid.sql(
        "SELECT state, exit_status, extract(epoch FROM started_at)::float8 FROM grid_jobs WHERE id = %s", job
    )
    assert rows[0][:2] == ("Terminated", 3), shown(grid)
    assert rows[0][2] < promised - 600
    hosts = Counter((grid.home / "nodes.0").read_text().split())
    assert hosts == {"north1": 4, "south1": 2}
    assert not (grid.home / "nodes.1").exists(), "the program runs once"
    moves = grid.run("oargridstat", "--moves", str(job)).stdout
    assert "shift north 4, south 2 at " in moves
    assert moves.splitlines()[-1].endswith(": moved")
    until(lambda: nothing_is_left(grid), lambda: shown(grid))


def test_a_part_that_is_killed_ends_the_others(grid: LocalGrid) -> None:
    (job,) = grid.submit("--parts", "any", "-l", "core=6,walltime=0:10:0", "sleep 600")
    until(lambda: state(grid, job)[0] == "Running", lambda: shown(grid))
    rows = grid.sql("SELECT cluster, cluster_job FROM grid_parts WHERE job = %s AND component = 1", job)
    ((cluster, there),) = rows
    grid.run("oardel", str(there), on=cluster)
    until(lambda: state(grid, job)[0] == "Error", lambda: shown(grid))
    assert state(grid, job)[1].startswith(f"its part on cluster {cluster} failed"), shown(grid)
    until(lambda: nothing_is_left(grid), lambda: shown(grid))


PROGRAM = f"""
{mpi_job.SETTING}
mpirun.openmpi sh -c 'tr "\\0" "\\n" </proc/$PPID/environ | sed -n "s,^OARPY_NODE=.*/,,p"' >ranks 2>mpi.errors
echo $? >mpi.status
sleep 600
"""
"""Who started a rank knows where it is: these hosts are one machine, which ``hostname`` would name."""


@pytest.fixture(scope="module")
def spanning(grid: LocalGrid) -> Iterator[int]:
    """A job over both clusters whose program has run ``mpirun`` and sleeps."""
    if missing := mpi_job.what_is_missing():
        pytest.skip(missing)
    mpi_job.prepare(grid.home)
    (job,) = grid.submit("--parts", "any", "-l", "core=6,walltime=0:10:0", PROGRAM)
    until((grid.home / "mpi.status").exists, lambda: shown(grid))
    yield job
    grid.run("oargriddel", str(job))
    until(lambda: nothing_is_left(grid), lambda: shown(grid))


def test_mpirun_begins_on_the_hosts_of_both_clusters(grid: LocalGrid, spanning: int) -> None:
    errors = (grid.home / "mpi.errors").read_text()
    assert Counter((grid.home / "ranks").read_text().split()) == {"north1": 4, "south1": 2}, errors
    done = grid.run(
        "oargridsh", "-j", str(spanning), "south1", "cat; echo $OAR_GRID_COMPONENT >&2; exit 3", check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "1\n")


def test_a_job_is_entered_by_its_user_alone(grid: LocalGrid, spanning: int) -> None:
    ((north,),) = grid.sql("SELECT cluster_job FROM grid_parts WHERE job = %s AND component = 0", spanning)

    def inside(host: str, of: LocalGrid = grid) -> subprocess.CompletedProcess[str]:
        """Run a command as one does who is in the job on its first cluster."""
        before, *words = of.command("oargridsh", host, "id -un; cat", on="north")
        return subprocess.run(
            [before, words[0], f"OAR_JOB_ID={north}", *words[1:]],
            input="in\n",
            capture_output=True,
            text=True,
            check=False,
        )

    for host in ("north1", "south1"):
        assert inside(host).stdout == f"{grid.user.pw_name}\nin\n"
    unknown = inside("east1")
    assert (unknown.returncode, unknown.stdout) == (4, "")
    assert "'east1' is no host of grid job" in unknown.stderr
    with ordinary_users("eve") as (eve,):
        other = replace(grid, user=eve)
        for refused in (inside("south1", other), other.run("oargridsh", "-j", str(spanning), "south1", check=False)):
            assert (refused.returncode, refused.stdout) == (5, ""), refused
            assert f"belongs to '{grid.user.pw_name}', not to '{eve.pw_name}'" in refused.stderr


def test_decisions_are_taken_again_alike(grid: LocalGrid) -> None:
    grid.broker.run("oarpy", "grid", "replay")  # status 1 if one comes out differently
