"""The environment of everything that tests run, made from nothing.

What this machine has of oarpy is out of sight: its configuration files, gateway and commands, the databases that
``PG*`` name, and what the user of the tests has at home. ``python -m tests.campaigns.beside_a_cluster`` proves it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

from oarpy.frontend import discovery

KEPT = ("LANG", "LC_ALL", "TERM", "TMPDIR", "TZ", "http_proxy", "https_proxy", "no_proxy")
KEPT_PREFIXES = ("OARPY_TEST_", "PYTEST_")
"""Variables that say how the tests are run, not what they see."""

NO_GATEWAY = {"OARPY_GATEWAY_SOCKET": ""}
"""Closes the usual socket to a command that has no configuration, such as one on a node."""


def enter() -> None:
    """Give this process, and so all that it starts, the bare environment."""
    made = bare_environment()
    os.environ.clear()
    os.environ.update(made)
    # for commands that a test runs in its own process without OARPY_CONFIG
    discovery.SYSTEM_CONFIGURATION = f"{_home()}/no-system-configuration"
    discovery.USUAL_SOCKET = f"{_home()}/no-gateway/socket"


def leave() -> None:
    """Remove the files of the bare environment: at the end of the process, or before it becomes another program."""
    shutil.rmtree(_home(), ignore_errors=True)


def bare_environment(**variables: str) -> dict[str, str]:
    """Return an environment with an empty home, an empty configuration, and so no gateway; then ``variables``."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(KEPT_PREFIXES)}
    closed = {"HOME": _home(), "OARPY_CONFIG": f"{_home()}/config.toml"}
    return {**kept, "PATH": _search_path(), **closed, **variables}


@cache
def _home() -> str:
    """Make a folder for this process that every user may enter, with nothing but an empty configuration file."""
    folder = Path(tempfile.mkdtemp(prefix="oarpy-bare-"))
    atexit.register(leave)
    folder.chmod(0o755)
    (folder / "config.toml").touch()
    return str(folder)


def _search_path() -> str:
    """Return the search path: the commands of this checkout, and no folder that is there for those of another."""
    own = str(Path(sys.executable).parent)
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    others = [one for one in folders if one != own and not (_has(one, "oarsub") and not _has(one, "sh"))]
    return os.pathsep.join([own, *others])


def _has(folder: str, program: str) -> bool:
    return os.access(Path(folder) / program, os.X_OK)
