"""Machines for tests: ``create DIR`` starts a real sshd for each name that it reads, ``delete DIR`` ends it.

Each machine has its own loopback address, port and host key, below ``DIR/machines``. ``DIR/log`` has a line for each
that was started or ended. A name in ``DIR/broken`` gets no machine. Creation waits while ``DIR/hold`` exists. A name in
``DIR/stuck`` cannot be deleted: the command fails. Both may be run twice for a machine.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

_DEADLINE = 30.0


def create(root: Path, name: str) -> str:
    """Start a machine unless it stands; return where it is, "" if none can be had."""
    while (root / "hold").exists():
        time.sleep(0.02)
    if name in _words(root / "broken"):
        return ""
    home = root / "machines" / name
    if not (home / "where").exists():
        shutil.rmtree(home, ignore_errors=True)
        _start(root, home)
        _log(root, f"created {name}")
    return (home / "where").read_text()


def delete(root: Path, name: str) -> None:
    """End a machine with all its processes, if it stands."""
    home = root / "machines" / name
    if not home.exists():
        return
    daemon = int((home / "pid").read_text())
    for pid in [daemon, *_below(daemon)]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    shutil.rmtree(home)
    _log(root, f"deleted {name}")


def _start(root: Path, home: Path) -> None:
    (home / "home").mkdir(parents=True)
    address = f"127.0.3.{int(home.name.lstrip('abcdefghijklmnopqrstuvwxyz'))}"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(home / "host_key")], check=True)
    with socket.socket() as probe:
        probe.bind((address, 0))
        port = probe.getsockname()[1]
    (home / "sshd_config").write_text(
        f"ListenAddress {address}\nPort {port}\nHostKey {home}/host_key\nPidFile none\n"
        f"AuthorizedKeysFile {root}/authorized_keys\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\n"
        f"UsePAM no\nMaxStartups 100\nAcceptEnv OARPY_JOB OAR_*\nPrintMotd no\nSetEnv HOME={home}/home\n"
    )
    key = (home / "host_key.pub").read_text().split()
    with (root / "known_hosts").open("a") as known:
        known.write(f"[{address}]:{port} {key[0]} {key[1]}\n")
    command = [(root / "sshd").read_text(), "-D", "-f", str(home / "sshd_config"), "-E", str(home / "log")]
    daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
    (home / "pid").write_text(str(daemon.pid))
    deadline = time.monotonic() + _DEADLINE
    while True:
        try:
            socket.create_connection((address, port), 1).close()
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    (home / "where").write_text(f"{address} {port}")


def _below(root: int) -> list[int]:
    """Return all processes below ``root``."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(status.parent.name))
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def _words(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def _log(root: Path, line: str) -> None:
    with (root / "log").open("a") as log:
        log.write(line + "\n")


def main(action: str, root: Path) -> None:
    """Do what ``action`` says for each name on the input, and print where created machines are."""
    for name in sys.stdin.read().split():
        if action == "delete":
            if name in _words(root / "stuck"):
                sys.exit(f"{name} cannot be deleted")
            delete(root, name)
        elif where := create(root, name):
            print(name, where, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
