"""A host with a real sshd, whose broker's account has nothing but the door: as a site would set it up."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from oarpy.grid.clusters.oarpy_cluster import OarpyCluster
from tests.harness.gateway_process import TIMEOUT
from tests.harness.grid_door import BROKER, Door, door
from tests.harness.ordinary_users import ordinary_users
from tests.harness.passable_folder import passable_folder
from tests.harness.sshd_nodes import SshdCluster, start_nodes

ROOT = Path(__file__).resolve().parent.parent.parent
OTHER_BROKER, _OTHER_ACCOUNT = "lyon", "games"
_PROGRAM = """\
#!/bin/sh
export OARPY_GATEWAY_SOCKET={socket} PYTHONPATH={library}
exec {python} -c 'from oarpy.frontend import entry; entry.start("oargriddoor")' "$@"
"""


@dataclass(frozen=True, slots=True)
class DoorHost:
    """The door, the sshd, and the accounts of the broker and of two users."""

    door: Door
    sshd: SshdCluster
    broker: pwd.struct_passwd
    ann: pwd.struct_passwd
    bob: pwd.struct_passwd

    def words(self, *more: str) -> list[str]:
        """Return how the broker, or a thief of its key, logs in; ``more`` are options of ssh."""
        return ["ssh", *self.sshd.ssh_options(), *more, "-l", self.broker.pw_name, "node1"]

    def ssh(self, *command: str, options: tuple[str, ...] = (), stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Log in with the broker's key and ask for a command."""
        words = [*self.words(*options), *command]
        return subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=TIMEOUT, check=False)

    def cluster(self, *more: str) -> OarpyCluster:
        """Return the cluster as its broker has it."""
        return OarpyCluster("far", self.words(*more), seconds=60)

    def other_broker(self) -> OarpyCluster:
        """Return the cluster as another broker has it."""
        return OarpyCluster("far", self.door.words(OTHER_BROKER, pwd.getpwnam(_OTHER_ACCOUNT).pw_uid), seconds=60)

    def as_user(self, user: pwd.struct_passwd, *words: str, stdin: str = "") -> str:
        """Run a command of a user on the cluster, which must succeed; return what it prints."""
        done = self.door.gateway.run(*words, uid=user.pw_uid, cwd="/", stdin=stdin)
        assert (done.status, done.err) == (0, ""), done
        return done.out


@contextmanager
def door_host(environment: Mapping[str, str], **settings: object) -> Iterator[DoorHost]:
    """Run a gateway and an sshd that lets a key of the broker run ``oargriddoor`` and nothing else.

    ``settings`` are keys of ``[door]``.
    """
    if os.getuid() != 0:
        pytest.skip("only root can make users")
    with ExitStack() as stack:
        broker, ann, bob = stack.enter_context(ordinary_users("broker", "ann", "bob"))
        folder = stack.enter_context(passable_folder("oarpy-door-"))
        brokers = f"{BROKER}={broker.pw_name},{OTHER_BROKER}={_OTHER_ACCOUNT}"
        here = stack.enter_context(door(environment, broker.pw_name, broker.pw_uid, brokers=brokers, **settings))
        host = DoorHost(here, stack.enter_context(start_nodes(1, folder)), broker, ann, bob)
        (folder / "authorized_keys").write_text(_line(host, folder))
        yield host


def _line(host: DoorHost, folder: Path) -> str:
    """Return the line of the broker's key, as ``oargridctl`` prints it."""
    public = folder / "campus.pub"
    shutil.copy(host.sshd.key_file.with_suffix(".pub"), public)
    program = _install(folder, host.door.gateway.path)
    return host.as_user(host.ann, "oargridctl", "key", BROKER, str(public), "--program", str(program))


def _install(folder: Path, socket: Path) -> Path:
    """Install what a command of users needs where every user may read it; return the path of ``oargriddoor``."""
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip(f"ordinary users cannot run {sys.executable}, and there is no /usr/bin/python3")
    library = folder / "lib" / "oarpy"
    for package in ("frontend", "wire"):
        shutil.copytree(ROOT / "oarpy" / package, library / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "oarpy" / "__init__.py", library / "__init__.py")
    program = folder / "oargriddoor"
    program.write_text(_PROGRAM.format(socket=socket, library=library.parent, python=python))
    program.chmod(0o755)
    return program
