"""Asking machines once for their parts and their state, the way on which agents are started."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from oarpy.model.errors import Unreachable
from oarpy.transport.bundle import agent_arguments, agent_program
from oarpy.transport.node import ChannelConfig, NodeAddress, NodeMode, SshConfig
from oarpy.transport.ssh import SshConnector

_AT_ONCE = 16
_LARGEST = 1 << 20


class StateDisk(msgspec.Struct, frozen=True):
    """Where the state directory of a node is, or will be: bytes, and whether the log-in may write there."""

    path: str
    free: int
    size: int
    writable: bool


class ProbedCore(msgspec.Struct, frozen=True):
    """A core: its socket and the numbers of its threads."""

    socket: int
    threads: list[int]


class ProbedGpu(msgspec.Struct, frozen=True):
    """A graphics processor; ``near`` are the threads close to it, none, and no ``uuid``: the machine does not tell."""

    address: str
    near: list[int]
    uuid: str = ""


class ProbeReport(msgspec.Struct, frozen=True):
    """A machine's report. ``clock`` in epoch seconds, ``memory`` in MiB.

    ``lack_of_walls`` says why jobs there are kept from no device; empty: they are kept from devices.
    ``lack_of_privacy`` says likewise why jobs there have no directories of their own, ``lack_of_swap_limits`` why their
    swap is not limited.
    """

    clock: float
    python: tuple[int, int, int]
    disk: StateDisk
    cores: list[ProbedCore]
    gpus: list[ProbedGpu]
    memory: int
    lack_of_walls: str = ""
    lack_of_privacy: str = ""
    lack_of_swap_limits: str = ""


@dataclass(frozen=True, slots=True)
class NodeProbe:
    """A report, or why there is none; ``asked`` and ``answered`` are epoch seconds here."""

    report: ProbeReport | None
    error: str = ""
    asked: float = 0.0
    answered: float = 0.0

    def clock_offset(self) -> float:
        """Return by how many seconds the node's clock is surely ahead of the server's (below 0: behind)."""
        if self.report is None:
            return 0.0
        clock = self.report.clock
        return min(clock - self.asked, 0.0) + max(clock - self.answered, 0.0)


def probe(nodes: Sequence[NodeAddress], config: ChannelConfig, ssh: SshConfig) -> dict[str, NodeProbe]:
    """Ask all nodes, some at a time; return the answer of each by name."""
    connector = SshConnector(ssh, config)
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        probes = pool.map(lambda node: _ask(node, config, connector), nodes)
        return {node.name: answer for node, answer in zip(nodes, probes, strict=True)}


def _ask(node: NodeAddress, config: ChannelConfig, connector: SshConnector) -> NodeProbe:
    program = agent_program(node, config, "probe")
    asked_at = time.time()
    try:
        output = _locally(node, program, config) if node.mode is NodeMode.LOCAL else _over_ssh(node, program, connector)
        report = msgspec.json.decode(output, type=ProbeReport)
    except (Unreachable, OSError) as error:
        return NodeProbe(None, str(error))
    except msgspec.MsgspecError:
        return NodeProbe(None, f"node {node.name} answered what nobody asked for: is '{node.python}' a Python there?")
    return NodeProbe(report, "", asked_at, time.time())


def _locally(node: NodeAddress, program: bytes, config: ChannelConfig) -> bytes:
    try:
        done = subprocess.run(
            agent_arguments(node, program), input=program, capture_output=True, timeout=config.connect_timeout * 3
        )
    except subprocess.TimeoutExpired:
        raise Unreachable(f"node {node.name} does not answer") from None
    if done.returncode:
        raise Unreachable(f"node {node.name}: {_last_line(done.stderr)}")
    return done.stdout


def _over_ssh(node: NodeAddress, program: bytes, connector: SshConnector) -> bytes:
    stream = connector.open(node, program)
    try:
        with suppress(OSError):  # a process that ended before it had read everything says why
            stream.write(program)
            stream.end_writing()
        output = b""
        while len(output) < _LARGEST and (part := stream.read()):
            output += part
    finally:
        end = stream.finish()
    if not output:
        raise Unreachable(f"node {node.name}: {end}")
    return output


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "its Python ended without a word"
