"""The optimiser of the examples as a program of a user of this machine, on local nodes.

The Python of this process may be root's alone. So programs of the user, and the commands of local nodes, are run by
that of the system, with NumPy from there or a copy of ours.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterable
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from oarpy.grid.local.local_grid import LocalGrid

PYTHON = "/usr/bin/python3"
_OPTIMISER = "oarpy.examples.island_optimiser"
_LIBRARIES = "lib"
PROGRAM = f"PYTHONPATH=$PWD/{_LIBRARIES} {PYTHON} -m {_OPTIMISER}.run_islands --individuals 64"
"""What a shell in the user's folder runs."""


def what_is_missing(home: Path, user: pwd.struct_passwd) -> str:
    """Say why the user cannot run the program, for which ``prepare`` was called; nothing if that is possible."""
    if not os.access(PYTHON, os.X_OK):
        return f"no {PYTHON}"
    return "" if run(home, user, "--help").returncode == 0 else f"no NumPy for {PYTHON} (Debian: python3-numpy)"


def prepare(home: Path) -> None:
    """Put the optimiser and NumPy into a folder of the user."""
    package = home / _LIBRARIES / "oarpy" / "examples" / "island_optimiser"
    compiled = shutil.ignore_patterns("__pycache__", "tests")
    with as_file(files(_OPTIMISER)) as optimiser:
        shutil.copytree(optimiser, package, ignore=compiled)
    for folder in (package.parent, package.parent.parent):
        (folder / "__init__.py").touch()
    numpy = Path(np.__file__).parent
    for source in (numpy, numpy.with_name("numpy.libs")):
        if source.is_dir():
            shutil.copytree(source, home / _LIBRARIES / source.name, ignore=compiled)


def run(home: Path, user: pwd.struct_passwd, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the program as its user, outside of any job."""
    return subprocess.run(
        ["/bin/sh", "-c", f'{PROGRAM} "$@"', "sh", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=[],
        cwd=home,
        check=False,
    )


def commands_of_nodes(grid: LocalGrid) -> list[Path]:
    """Return the scripts of the nodes' commands, which their agents write."""
    return [cluster.directory / "nodes" / f"{name}1" / "bin" / ".oarpy" for name, cluster in grid.clusters.items()]


def let_users_run(scripts: Iterable[Path]) -> None:
    """Have the commands of nodes run by the Python of the system."""
    for script in scripts:
        _, _, rest = script.read_bytes().partition(b"\n")
        script.write_bytes(f"#!{PYTHON} -IS\n".encode() + rest)
