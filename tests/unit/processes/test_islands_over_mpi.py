"""The optimiser of the examples over real MPI finds what it finds in series."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from oarpy.examples.island_optimiser.dtlz6 import VARIABLES, epsilon, front, objectives

from oarpy.grid.local import island_job

MAP = """\
0 random node1 0 20
1 regular node1 0 20
2 scale-free node1 1 20
3 small-world node2 0 20
4 random node2 0 20
"""
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_rtc": "^hwloc",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the optimiser and a map."""
    if shutil.which("mpirun.openmpi") is None:
        pytest.skip("no Open MPI (Debian: openmpi-bin)")
    path = tmp_path_factory.mktemp("islands")
    island_job.prepare(path)
    if islands(path, "python -c 'import numpy, mpi4py.MPI'").returncode:
        pytest.skip(f"{island_job.PYTHON} does not run the NumPy of this environment, or has no mpi4py")
    (path / "map").write_text(MAP)
    return path


def islands(home: Path, words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in which ``python`` is that of the system."""
    setting = {"PATH": os.environ["PATH"], "HOME": str(home), **MPI, "OAR_MAPFILE": "map", "PYTHONPATH": f"{home}/lib"}
    command = ["/bin/sh", "-c", words.replace("python", island_job.PYTHON)]
    return subprocess.run(
        command, cwd=home, env=setting, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


PROGRAM = "python -m oarpy.examples.island_optimiser.run_islands --individuals 48"


def test_stages_over_ranks_find_what_they_find_in_series(home: Path) -> None:
    mapped = islands(home, f"mpirun.openmpi -np 3 {PROGRAM} --mpi")
    serial = islands(home, f"{PROGRAM} --serial map")
    found = [done.stdout.rpartition(",")[0] for done in (mapped, serial)]
    assert re.fullmatch(r"5 processes on 3 cores: epsilon \d\.\d+", found[0]), mapped
    assert found[0] == found[1]


def test_ranks_that_wait_for_nobody_come_near_the_front(home: Path) -> None:
    done = islands(home, f"mpirun.openmpi -np 3 {PROGRAM} --mpi --model async")
    found = re.fullmatch(r"5 processes on 3 cores: epsilon (\d\.\d+), \d+\.\d s\n", done.stdout)
    assert found is not None, done
    begin = epsilon(objectives(np.random.default_rng(1).random((200, VARIABLES))), front(100))
    assert float(found[1]) < begin / 2


def test_other_ranks_than_cores_are_told(home: Path) -> None:
    done = islands(home, f"mpirun.openmpi -np 2 {PROGRAM} --mpi")
    assert done.returncode != 0
    assert "run_islands: 2 ranks for 3 cores: mpirun -np 3" in done.stderr
