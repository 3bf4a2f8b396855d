"""Tests run beside a decoy of an installed cluster, which must hear nothing of them.

``python -m tests.campaigns.beside_a_cluster`` (as root) takes arguments of pytest, else runs the tests that once
reached the cluster of their machine, and more. The decoy stands in network and mount namespaces of its own, so nothing
of it is seen outside: a gateway at the usual socket, a database server, configuration files in ``/etc`` and at home,
``PG*``, ``OARPY_*`` and ``OAR_*`` in the environment, commands on the search path. Before the tests, commands show that
each of these notices who comes to it.
"""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from oarpy.configuration import Nodes
from oarpy.frontend import discovery
from tests.campaigns.namespace_nodes import isolate
from tests.harness.passable_folder import passable_folder
from tests.harness.waiting import until

DEFAULT_TESTS = (
    "tests/e2e/test_calls.py",
    "tests/unit",
    "tests/db/test_gateway.py",
    "tests/db/test_installation.py",
    "tests/db/test_oarsub.py",
)
COMMANDS = ("oarsub", "oarstat", "oardel", "oarnodes", "oarsh", "oarprint", "oarpy")
SYSTEM_FOLDER, RUN_FOLDER = Path(discovery.SYSTEM_CONFIGURATION).parent, Path(discovery.USUAL_SOCKET).parent
STATE_FOLDER = Path(Nodes().state_directory)
DATABASE = ("127.0.0.1", 5432)
ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(slots=True)
class Decoy:
    """What an installed cluster would have, and what it has heard since the last :meth:`forget`."""

    home: Path
    programs: Path
    files: tuple[Path, ...]
    heard: list[str] = field(default_factory=list)
    read: dict[Path, int] = field(default_factory=dict)

    def listen(self, name: str, listener: socket.socket) -> None:
        """Note every connection, and close it at once."""
        listener.listen(64)
        threading.Thread(target=self._accept, args=(name, listener), daemon=True).start()

    def _accept(self, name: str, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            connection.close()
            self.heard.append(f"a connection to {name}")

    def environment(self) -> dict[str, str]:
        """Return what a user of the cluster has in the environment, inside one of its jobs."""
        host, port = DATABASE
        return {
            **os.environ,
            "PATH": f"{self.programs}:{os.environ.get('PATH', os.defpath)}",
            "HOME": str(self.home),
            "PGHOST": host,
            "PGPORT": str(port),
            "PGUSER": "decoy",
            "PGDATABASE": "decoy",
            "PGSERVICE": "decoy",
            "PGOPTIONS": "-c decoy=on",
            "OARPY_CONFIG": discovery.SYSTEM_CONFIGURATION,
            "OARPY_DATABASE_URL": f"postgresql://{host}:{port}/decoy",
            "OARPY_GATEWAY_SOCKET": discovery.USUAL_SOCKET,
            "OARPY_SUBMISSION_ADMINS": "decoy",
            "OARPY_SCHEDULER_SECURITY_TIME": "7777",
            "OARPY_NODES_STATE_DIRECTORY": str(STATE_FOLDER),
            "OAR_JOB_ID": "7777",
            "OAR_OARSTAT_OUTPUT_FORMAT": "ids",
        }

    def forget(self) -> None:
        """Begin anew: nothing was heard, nothing was read."""
        self.heard.clear()
        (self.programs / "called").write_text("")
        self.read = {file: file.stat().st_atime_ns for file in self.files}

    def complaints(self) -> list[str]:
        """Return what was heard, which files were read, what was called and what was left behind."""
        read = [f"{file} was read" for file, when in self.read.items() if file.stat().st_atime_ns != when]
        called = [f"{line} was called" for line in (self.programs / "called").read_text().splitlines()]
        left = [f"{path} was made" for path in STATE_FOLDER.iterdir()]
        return [*self.heard, *read, *called, *left]


@contextmanager
def decoy() -> Iterator[Decoy]:
    """Set up a decoy in the namespaces of this process."""
    own = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".config" / "oarpy"
    with ExitStack() as stack:
        directory = stack.enter_context(passable_folder("oarpy-decoy-"))
        at_home = directory / "home" / ".config" / "oarpy"
        for folder in (SYSTEM_FOLDER, RUN_FOLDER, STATE_FOLDER, own, directory / "home"):
            stack.enter_context(_covered(folder))
        at_home.mkdir(parents=True)
        made = Decoy(
            directory / "home",
            directory / "programs",
            tuple(folder / "config.toml" for folder in (SYSTEM_FOLDER, own, at_home)),
        )
        _furnish(made)
        gateway = stack.enter_context(socket.socket(socket.AF_UNIX))
        gateway.bind(discovery.USUAL_SOCKET)
        Path(discovery.USUAL_SOCKET).chmod(0o777)
        database = stack.enter_context(socket.socket())
        database.bind(DATABASE)
        made.listen("the gateway", gateway)
        made.listen("the database", database)
        yield made


def _furnish(made: Decoy) -> None:
    host, port = DATABASE
    settings = f'[database]\nurl = "postgresql://{host}:{port}/decoy"\n[gateway]\nsocket = "{discovery.USUAL_SOCKET}"\n'
    for file in made.files:
        file.write_text(settings)
    (made.home / ".pg_service.conf").write_text(f"[decoy]\nhost={host}\nport={port}\n")
    made.programs.mkdir()
    (made.programs / "called").touch()
    (made.programs / "called").chmod(0o666)
    for name in COMMANDS:
        (made.programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{made.programs}/called\n')
        (made.programs / name).chmod(0o755)


@contextmanager
def _covered(folder: Path) -> Iterator[None]:
    """Cover a folder by an empty file system that knows when a file was last read; make it first if need be."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "strictatime,mode=755", "none", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        for one in missing:
            one.rmdir()


def deaf(made: Decoy) -> list[str]:
    """Return which parts of the decoy do not notice a command that reaches them, and forget the others' noise."""
    oarstat = str(Path(sys.executable).parent / "oarstat")
    usual = {**made.environment(), "PATH": os.defpath}
    tries = {
        "a connection to the gateway": ([oarstat], {}),
        "a connection to the database": ([oarstat], {**usual, "OARPY_GATEWAY_SOCKET": ""}),
        f"{made.files[0]} was read": ([oarstat], {"HOME": "/nonexistent"}),
        f"{made.files[1]} was read": ([oarstat], {}),
        "oarsub date was called": (["oarsub", "date"], made.environment()),
    }
    found = []
    for sign, (words, environment) in tries.items():
        made.forget()
        subprocess.run(
            ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        try:
            until(lambda sign=sign: sign in made.complaints(), sign, 10.0)  # type: ignore[misc]
        except AssertionError:
            found.append(sign)
    made.forget()
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run tests beside the decoy; exit status 1 when one failed or the decoy heard anything."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    isolate("tests.campaigns.beside_a_cluster", given)
    with decoy() as made:
        if unheard := deaf(made):
            print("the decoy does not notice: " + ", ".join(unheard))
            return 1
        # without the cache: what a run leaves in the checkout is no concern of this one
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
        done = subprocess.run([*pytest, *(given or DEFAULT_TESTS)], cwd=ROOT, env=made.environment(), check=False)
        complaints = made.complaints()
    print("\n".join(f"HEARD: {line}" for line in complaints) or "the decoy heard nothing")
    return 1 if complaints or done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
