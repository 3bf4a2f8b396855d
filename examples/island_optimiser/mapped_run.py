"""Processes on cores as a map says: the leader hands out work, a worker a core does it.

*Synchronous*: in a stage each core runs its next process; when all have ended, their results become one, with which
the next stage begins. *Asynchronous*: a core that has ended a process begins its next one with the results that are
there by then.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, answer_challenge, deliver_challenge, wait
from typing import NamedTuple

import numpy as np
from oarpy.examples.island_optimiser.dtlz6 import VARIABLES, Values
from oarpy.examples.island_optimiser.islands import evolve, merged


class Core(NamedTuple):
    """A core of a host, counted from 0."""

    host: str
    number: int


class Process(NamedTuple):
    """A process of the program; its size is a topology."""

    number: int
    size: str
    iterations: int


CoreMap = Mapping[Core, Sequence[Process]]
"""The processes of each core, in their order."""


class Island(NamedTuple):
    """What all processes have in common."""

    individuals: int
    seed: int


def read_map(text: str) -> CoreMap:
    """Return what a file as ``OAR_MAPFILE`` says: lines of process, size, host, core and iterations."""
    found: dict[Core, list[Process]] = {}
    for line in text.splitlines():
        number, size, host, core, iterations = line.split()
        found.setdefault(Core(host, int(core)), []).append(Process(int(number), size, int(iterations)))
    return found


def serial(core_map: CoreMap, island: Island) -> Values:
    """Return the result of the stages, computed here without any worker."""
    archive = np.empty((0, VARIABLES))
    for stage in _stages(core_map):
        archive = merged(archive, *(result(process, archive, island) for _, process in stage))
    return archive


def result(process: Process, archive: Values, island: Island) -> Values:
    """Return what a process finds from an archive."""
    return evolve(process.size, island.individuals, process.iterations, archive, (island.seed, process.number))


def _stages(core_map: CoreMap) -> Iterable[list[tuple[Core, Process]]]:
    """Yield the processes of each stage, by core."""
    for stage in range(max(map(len, core_map.values()))):
        yield [(core, line[stage]) for core, line in core_map.items() if stage < len(line)]


_INTRODUCTION = struct.pack("ll", 5, 0)
"""Seconds, and microseconds, in which a worker that reports has to show that it has the key."""

Start = Callable[[Core], "subprocess.Popen[bytes]"]
"""Starts ``work`` on a core, with a pipe to its standard input."""


class Workers:
    """A worker on each core. Ended with the block.

    ``address`` is where they reach this program: by another address, it may be, than this host has for its name.
    """

    def __init__(self, cores: Iterable[Core], start: Start, address: str) -> None:
        key = secrets.token_bytes(16)
        self._cores = list(cores)
        self._processes: list[subprocess.Popen[bytes]] = []
        self.connections: dict[Core, Connection] = {}
        with socket.create_server(("localhost" if address == "localhost" else "", 0), backlog=64) as server:
            port = server.getsockname()[1]
            try:
                for number, core in enumerate(self._cores):
                    self._begin(start(core), f"{address} {port} {key.hex()} {number}\n")
                while len(self.connections) < len(self._cores):
                    self._accept(server, key)
            except OSError:
                self.__exit__()
                raise

    def __enter__(self) -> Workers:
        """Return them."""
        return self

    def __exit__(self, *_: object) -> None:
        """End all: a worker ends when its connection does."""
        for connection in self.connections.values():
            connection.close()
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
            if len(self.connections) < len(self._cores):
                process.kill()
            process.wait()

    def _begin(self, process: subprocess.Popen[bytes], words: str) -> None:
        self._processes.append(process)
        assert process.stdin is not None
        # one that has ended already is found when it does not report
        with contextlib.suppress(BrokenPipeError):
            os.write(process.stdin.fileno(), words.encode())

    def _accept(self, server: socket.socket, key: bytes) -> None:
        """Take the next worker that reports, or drop a connection of others. Raises OSError when a worker has ended."""
        while not select.select([server], [], [], 0.5)[0]:
            for core, process in zip(self._cores, self._processes):
                if process.poll() is not None:
                    raise OSError(f"the worker on {core.host} ended with {process.returncode}")
        with server.accept()[0] as accepted:
            connection = Connection(os.dup(accepted.fileno()))
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _INTRODUCTION)
            try:
                deliver_challenge(connection, key)
                answer_challenge(connection, key)
                core = self._cores[connection.recv()]
            except (AuthenticationError, EOFError, OSError):
                connection.close()
                return
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))
        self.connections[core] = connection

    def synchronous(self, core_map: CoreMap, island: Island) -> Values:
        """Run a stage after another. Raises OSError when a worker is lost."""
        archive = np.empty((0, VARIABLES))
        for stage in _stages(core_map):
            for core, process in stage:
                self.connections[core].send((process, archive, island))
            archive = merged(archive, *[self._answer(core) for core, _ in stage])
        return archive

    def asynchronous(self, core_map: CoreMap, island: Island) -> Values:
        """Let no core wait for another. Raises OSError when a worker is lost."""
        archive = np.empty((0, VARIABLES))
        left = {core: list(line) for core, line in core_map.items()}
        for core, line in left.items():
            self.connections[core].send((line.pop(0), archive, island))
        busy = {self.connections[core]: core for core in left}
        while busy:
            for ended in wait(list(busy)):
                assert isinstance(ended, Connection)
                core = busy[ended]
                archive = merged(archive, self._answer(core))
                if left[core]:
                    ended.send((left[core].pop(0), archive, island))
                else:
                    del busy[ended]
        return archive

    def _answer(self, core: Core) -> Values:
        try:
            return np.asarray(self.connections[core].recv())
        except (EOFError, ConnectionError):
            raise OSError(f"the worker on {core.host} is gone") from None


def work(compute: Callable[[Process, Values, Island], Values] = result) -> None:
    """Be a worker: standard input names the leader, the key, and this worker's number."""
    host, port, key, number = sys.stdin.readline().split()
    with Client((host, int(port)), authkey=bytes.fromhex(key)) as leader:
        leader.send(int(number))
        # a lost connection is the end of all: the leader says why
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                leader.send(compute(*leader.recv()))


if __name__ == "__main__":
    work()
