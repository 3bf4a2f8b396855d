"""Real sshd daemons as nodes for tests: each with its own loopback address and port, host key and directory.

Use :func:`start_nodes` in a ``with`` block; it skips the test with the reason when there is no sshd to run.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from oarpy.transport.node import NodeAddress, NodeMode, SshConfig
from research.benchmarks.server_processes import children_of

_DEADLINE = 20.0


@dataclass(frozen=True, slots=True)
class SshdNode:
    """One running sshd. ``directory`` holds its keys and log, ``state_directory`` is for the agent."""

    name: str
    address: str
    port: int
    directory: Path
    state_directory: Path
    pid: int

    def node(self) -> NodeAddress:
        """The node as the transport wants it."""
        return NodeAddress(self.name, str(self.state_directory), NodeMode.SSH, self.address, self.port)


@dataclass(frozen=True, slots=True)
class SshdCluster:
    """Nodes, and how to log in on them; ``ssh_options`` are for the system's ssh command."""

    nodes: tuple[SshdNode, ...]
    user: str
    key_file: Path
    known_hosts: Path

    def ssh_config(self) -> SshConfig:
        """The log-in as the transport wants it."""
        return SshConfig(self.user, str(self.key_file), str(self.known_hosts))

    def ssh_options(self) -> list[str]:
        """Options that let ``ssh NAME COMMAND`` reach a node by its name, passing on the mark of a job."""
        return ["-F", str(self.known_hosts.parent / "ssh_config")]


def find_sshd() -> str:
    """The path of sshd, installed when this may be done here; skip the test when there is none."""
    path = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin:/sbin")
    if path is None and os.geteuid() == 0 and shutil.which("apt-get"):
        # Installing must not start a service of the system: the tests run their own daemons.
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "openssh-server"]):
            subprocess.run(["apt-get", *command], env=environment, capture_output=True, check=False, timeout=240)
        path = shutil.which("sshd", path="/usr/sbin")
    if path is None:
        pytest.skip("no sshd on this machine and it could not be installed (apt-get install openssh-server)")
    return path


def make_key(path: Path) -> str:
    """Make a key pair at ``path``; return the public key's text."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)], check=True)
    return path.with_suffix(".pub").read_text().strip()


@contextmanager
def start_nodes(count: int, directory: Path, prefix: str = "node") -> Iterator[SshdCluster]:
    """Run ``count`` sshd daemons below ``directory``; all of them end with the block."""
    sshd = find_sshd()
    directory.mkdir(parents=True, exist_ok=True)
    key_file, known_hosts = directory / "client_key", directory / "known_hosts"
    public = make_key(key_file)
    (directory / "authorized_keys").write_text(public + "\n")
    with ExitStack() as stack:
        nodes = []
        for number in range(1, count + 1):
            node = _prepare(f"{prefix}{number}", f"127.0.1.{number}", directory)
            nodes.append(stack.enter_context(_run(sshd, node)))
        _write_client_files(nodes, key_file, known_hosts)
        yield SshdCluster(tuple(nodes), getpass.getuser(), key_file, known_hosts)


def _prepare(name: str, address: str, directory: Path) -> SshdNode:
    home = directory / name
    (home / "home").mkdir(parents=True)
    make_key(home / "host_key")
    with socket.socket() as probe:
        probe.bind((address, 0))
        port = probe.getsockname()[1]
    (home / "sshd_config").write_text(
        f"""\
ListenAddress {address}
Port {port}
HostKey {home}/host_key
PidFile {home}/sshd.pid
AuthorizedKeysFile {directory}/authorized_keys {directory.parent}/cluster/nodes/{name}/keys/%u
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
UsePAM no
MaxStartups 100
AcceptEnv OARPY_JOB OAR_*
PrintMotd no
LogLevel VERBOSE
SetEnv HOME={home}/home
"""
    )
    return SshdNode(name, address, port, home, home / "state", 0)


@contextmanager
def _run(sshd: str, node: SshdNode) -> Iterator[SshdNode]:
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    log = node.directory / "sshd.log"
    process = subprocess.Popen([sshd, "-D", "-f", str(node.directory / "sshd_config"), "-E", str(log)])
    try:
        _wait_for(node, process, log)
        yield SshdNode(node.name, node.address, node.port, node.directory, node.state_directory, process.pid)
    finally:
        _stop(process)


def _wait_for(node: SshdNode, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _DEADLINE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"sshd ended with {process.returncode}: {log.read_text() if log.exists() else ''}")
        try:
            socket.create_connection((node.address, node.port), 1).close()
            return
        except OSError:
            time.sleep(0.01)
    raise RuntimeError(f"sshd of {node.name} does not listen: {log.read_text()}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    # Connections are processes of their own, children of the daemon: they must not outlive the test.
    children = children_of(process.pid)
    process.terminate()
    for pid in children:
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            continue
    try:
        process.wait(_DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _write_client_files(nodes: list[SshdNode], key_file: Path, known_hosts: Path) -> None:
    lines, blocks = [], []
    for node in nodes:
        public = (node.directory / "host_key.pub").read_text().split()
        lines.append(f"[{node.address}]:{node.port} {public[0]} {public[1]}\n")
        blocks.append(
            f"""\
Host {node.name}
  HostName {node.address}
  Port {node.port}
"""
        )
    known_hosts.write_text("".join(lines))
    common = f"""\
Host *
  IdentityFile {key_file}
  IdentitiesOnly yes
  UserKnownHostsFile {known_hosts}
  StrictHostKeyChecking yes
  BatchMode yes
  SendEnv OARPY_JOB OAR_*
"""
    (known_hosts.parent / "ssh_config").write_text("".join(blocks) + common)
