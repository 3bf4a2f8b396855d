"""A program of MPI over clusters on one machine: every rank adds up its share, so the sum is the same anywhere.

Its user must be able to run the program that starts ranks on other hosts: the Python of local nodes may be root's
alone.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_PYTHON = "/usr/bin/python3"
_LAST = 1000
RESULT = _LAST * (_LAST + 1) * (2 * _LAST + 1) // 6
"""The sum of the squares of all numbers up to ``_LAST``."""
ONE_MACHINE = """mkdir -p "$HOME/remote"
export OMPI_MCA_orte_launch_agent="env TMPDIR=$HOME/remote orted"
export OMPI_MCA_btl=tcp,self OMPI_MCA_rtc=^hwloc"""
"""All hosts are one machine. Open MPI does not expect hosts to share memory, be it for its topology, or ``/tmp``."""
SETTING = f"export HOME=$PWD PATH=$PWD/bin:$PATH\n{ONE_MACHINE}"

_RANK = f"""#!/bin/sh
seq $((${{OMPI_COMM_WORLD_RANK:-0}} + 1)) ${{OMPI_COMM_WORLD_SIZE:-1}} {_LAST} |
    awk '{{s += $1 * $1}} END {{printf "%d\\n", s}}'
"""
_PROGRAM = f"""#!/bin/sh
{SETTING}
%s ./rank.sh >shares.$OAR_GRID_JOB_ID || exit
awk '{{s += $1}} END {{printf "%%d\\n", s}}' shares.$OAR_GRID_JOB_ID >sum.$OAR_GRID_JOB_ID
"""
_STARTER = f"""#!/bin/sh
exec {_PYTHON} -IS "$OARPY_NODE/bin/oargridsh" "$@"
"""


def what_is_missing() -> str:
    """Say why no program of MPI can run here; nothing if one can."""
    if shutil.which("mpirun.openmpi") is None:
        return "no openmpi on this machine (Debian: openmpi-bin has 55 MB)"
    return "" if os.access(_PYTHON, os.X_OK) else f"no {_PYTHON}"


def prepare(home: Path) -> None:
    """Put the program ``sum.sh`` into a folder where jobs begin, with the program that starts ranks on other hosts.

    It writes its sum into ``sum.JOB``; without MPI it is one rank.
    """
    (home / "bin").mkdir(exist_ok=True)
    mpirun = "" if what_is_missing() else "mpirun.openmpi"
    files = {"sum.sh": _PROGRAM % mpirun, "rank.sh": _RANK, "bin/oargridsh": _STARTER}
    for name, text in files.items():
        (home / name).write_text(text)
        (home / name).chmod(0o755)
