"""Nodes for fault campaigns: each an sshd in a network namespace, with a disk, a clock and a boot of its own.

The whole campaign runs in a network and mount namespace that :func:`isolate` made, so nothing of it is seen outside.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness import bare_environment
from tests.harness.sshd_nodes import find_sshd, make_key

_ROOT = Path(__file__).resolve().parent.parent.parent
_BRIDGE = "hub"
HERE = "10.77.0.1"
"""The address of what is in no node's namespace."""
_ISOLATED = "OARPY_TEST_ISOLATED"
_DISK = "16m"
_PYTHON = f"""\
#!{sys.executable} -IS
import select, sys, time

# the library that shifts the clock refuses to sleep until an instant, as Python 3.11 does
time.sleep = lambda seconds: select.select((), (), (), seconds) and None
command = sys.argv.index("-c")
program, sys.argv = sys.argv[command + 1], ["-c", *sys.argv[command + 2 :]]
exec(program)
"""
"""What runs the agent on a node with a clock of its own."""
_FAKETIME = "/usr/lib/{}-linux-gnu/faketime/libfaketime.so.1"


def can_isolate() -> bool:
    """Whether this process may make namespaces, networks and mounts."""
    programs = all(shutil.which(name) for name in ("unshare", "ip", "mount"))
    return programs and subprocess.run(["unshare", "--net", "--mount", "true"], check=False).returncode == 0


def run_module(module: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m module options`` to its end, in a process of its own that may :func:`isolate` itself."""
    return subprocess.run(
        [sys.executable, "-m", module, *options],
        cwd=_ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def isolate(module: str, arguments: Sequence[str]) -> None:
    """Run ``python -m module arguments`` in namespaces of its own in place of this process, unless it is that one."""
    if os.environ.get(_ISOLATED) != str(os.getpid()):
        # exec keeps the process id, which so tells the inner process from one that only inherited the variable
        os.environ[_ISOLATED] = str(os.getpid())
        bare_environment.leave()
        os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable, "-m", module, *arguments])
    Path("/run/netns").mkdir(exist_ok=True)
    _do("mount", "-t", "tmpfs", "none", "/run/netns")
    _do("ip", "link", "set", "lo", "up")


def faketime_library() -> str | None:
    """The library that gives one node a clock of its own, if it is installed."""
    path = _FAKETIME.format(os.uname().machine)
    return path if Path(path).exists() else None


@dataclass(slots=True)
class NamespaceNode:
    """One node. ``state`` is its disk: a file system of its own, where the agent keeps what it knows."""

    name: str
    address: str
    directory: Path
    state: Path
    has_clock: bool
    _daemon: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Boot: a new boot identity, and sshd."""
        (self.directory / "boot_id").write_text(f"{uuid.uuid4()}\n")
        (self.directory / "clock").write_text("+0\n")
        bind = f"mount --bind {self.directory}/boot_id /proc/sys/kernel/random/boot_id"
        daemon = f"exec {find_sshd()} -D -f {self.directory}/sshd_config -E {self.directory}/sshd.log"
        boot = f"hostname {self.name} && {bind} && {daemon}"
        command = ["ip", "netns", "exec", self.name, "unshare", "--mount", "--uts", "sh", "-c", boot]
        self._daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def processes(self) -> list[int]:
        """Everything that runs on the node."""
        wanted = os.stat(f"/run/netns/{self.name}").st_ino
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.stat(path / "ns" / "net").st_ino == wanted:
                    found.append(int(path.name))
        return found

    def stop(self) -> None:
        """The power goes: every process is gone at once."""
        while pids := self.processes():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if self._daemon is not None:
                self._daemon.wait()
                self._daemon = None

    def reboot(self, *, keep_state: bool) -> None:
        """Stop and start, with the same disk or an empty one."""
        self.stop()
        if not keep_state:
            self.wipe_state()
        self.start()

    def cut(self) -> None:
        """Take the network away."""
        cut(self.name)

    def mend(self) -> None:
        """Give the network back."""
        mend(self.name)

    def fill_disk(self) -> None:
        """Leave no byte free."""
        with (self.state / "ballast").open("wb", buffering=0) as file, suppress(OSError):
            for size in (1 << 16, 1 << 10, 1):
                with suppress(OSError):
                    while file.write(b"\0" * size) == size:
                        pass

    def free_disk(self) -> None:
        """Take away what :meth:`fill_disk` wrote."""
        (self.state / "ballast").unlink(missing_ok=True)

    def wipe_state(self) -> None:
        """Take away what the agent keeps, also while it and jobs run."""
        for path in self.state.iterdir():
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() and not path.is_symlink() else path.unlink()

    def kill_files(self, place: Path) -> Callable[[], None]:
        """Let what is at ``place`` answer nobody on this node; return what ends that, with an error for who waits."""
        assert self._daemon is not None
        command = ["nsenter", f"--target={self._daemon.pid}", "--mount", "--wd=/"]
        program = [sys.executable, str(_ROOT / "tests/harness/dead_file_system.py"), str(place)]
        helper = subprocess.Popen([*command, *program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert helper.stdout is not None
        helper.stdout.readline()

        def heal() -> None:
            with helper:
                pass

        return heal

    def set_clock(self, seconds: int) -> None:
        """Put the node's clock ``seconds`` ahead of the others' (negative: behind)."""
        (self.directory / "clock").write_text(f"{seconds:+d}\n")


@dataclass(slots=True)
class NodeFarm:
    """The nodes, and what a client needs to log in on them."""

    nodes: list[NamespaceNode]
    key_file: Path
    known_hosts: Path
    library: str | None = field(default_factory=faketime_library)


@contextmanager
def run_nodes(count: int, directory: Path) -> Iterator[NodeFarm]:
    """Run ``count`` nodes below ``directory``; the first has a clock of its own where the library for it is there."""
    directory.mkdir(parents=True, exist_ok=True)
    farm = NodeFarm([], directory / "client_key", directory / "known_hosts")
    (directory / "authorized_keys").write_text(make_key(farm.key_file) + "\n")
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    _do("ip", "link", "add", _BRIDGE, "type", "bridge")
    _do("ip", "addr", "add", f"{HERE}/24", "dev", _BRIDGE)
    _do("ip", "link", "set", _BRIDGE, "up")
    try:
        for number in range(1, count + 1):
            node = _prepare(farm, number, directory)
            farm.nodes.append(node)
            node.start()
        yield farm
    finally:
        for node in farm.nodes:
            node.stop()
            _do("umount", "--lazy", str(node.state))


def join(name: str, address: str) -> None:
    """Make a network namespace ``name`` with ``address`` on the nodes' network."""
    _do("ip", "netns", "add", name)
    _do("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
    _do("ip", "link", "set", f"to-{name}", "master", _BRIDGE, "up")
    for words in (
        ("link", "set", "lo", "up"),
        ("addr", "add", f"{address}/24", "dev", "eth0"),
        ("link", "set", "eth0", "up"),
    ):
        _do("ip", "-n", name, *words)


def cut(name: str) -> None:
    """Take the network away from a namespace."""
    _do("ip", "link", "set", f"to-{name}", "down")


def mend(name: str) -> None:
    """Give it back."""
    _do("ip", "link", "set", f"to-{name}", "up")


def _prepare(farm: NodeFarm, number: int, directory: Path) -> NamespaceNode:
    name, address = f"n{number}", f"10.77.0.{number + 10}"
    home, state = directory / name, directory / "nodes" / name
    home.mkdir()
    (home / "home").mkdir()
    state.mkdir(parents=True)
    _do("mount", "-t", "tmpfs", "-o", f"size={_DISK}", "none", str(state))
    join(name, address)
    public = make_key(home / "host_key").split()
    with farm.known_hosts.open("a") as file:
        file.write(f"{address} {public[0]} {public[1]}\n")
    clock = number == 1 and farm.library is not None
    (home / "sshd_config").write_text(_configuration(directory, home, farm.library if clock else None))
    return NamespaceNode(name, address, home, state, clock)


def _configuration(directory: Path, home: Path, library: str | None) -> str:
    # the log-in's shell reads what it finds at home: nothing of this machine's
    variables = [f"HOME={home}/home"]
    if library:
        variables += [f"LD_PRELOAD={library}", f"FAKETIME_TIMESTAMP_FILE={home}/clock"]
        variables += ["FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"]
        python = home / "bin" / "python3"
        python.parent.mkdir()
        python.write_text(_PYTHON)
        python.chmod(0o755)
        variables += [f"PATH={python.parent}:{os.defpath}"]
    lines = [
        f"HostKey {home}/host_key",
        f"PidFile {home}/sshd.pid",
        f"AuthorizedKeysFile {directory}/authorized_keys",
        "StrictModes no",
        "PermitRootLogin yes",
        "PasswordAuthentication no",
        "UsePAM no",
        "PrintMotd no",
        f"SetEnv {' '.join(variables)}",
    ]
    return "\n".join(lines) + "\n"


def _do(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
