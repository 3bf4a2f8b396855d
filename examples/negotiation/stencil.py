"""Heat on a plate, computed by one process a host: whoever joins or leaves, the result stays the same to the last bit.

The plate is cut into blocks of rows. In a step each process needs the row above its block and the row below it, which
its neighbours send. When the hosts change, rows are sent to their new owners, from process to process.

    process 1   rows 0..3    \\                     process 1   rows 0..5
    process 2   rows 4..7     }  process 2 leaves:
    process 3   rows 8..11   /                      process 3   rows 6..11

``Stencil`` starts the processes and tells them what to do; ``StencilProcess`` is one of them. Standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import select
import socket
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from typing import NamedTuple

Partition = Mapping[int, range]
"""The rows of each process, in the order of the plate."""

_LONGEST_START = 60.0
"""Seconds that a process may take to report."""


class RowTransfer(NamedTuple):
    """Rows that one process sends to another, or keeps."""

    source: int
    target: int
    rows: range


def blocks(rows: int, processes: Sequence[int]) -> dict[int, range]:
    """Return the rows of each process: blocks as equal as can be."""
    cuts = [rows * rank // len(processes) for rank in range(len(processes) + 1)]
    return {process: range(cuts[rank], cuts[rank + 1]) for rank, process in enumerate(processes)}


def transfers(old: Partition, new: Partition) -> list[RowTransfer]:
    """Return what goes where. All processes follow this one order, so no two of them wait for each other."""
    found = []
    for target, wanted in new.items():
        for source, held in old.items():
            common = range(max(wanted.start, held.start), min(wanted.stop, held.stop))
            if common:
                found.append(RowTransfer(source, target, common))
    return found


def neighbours(partition: Partition) -> list[tuple[int, int]]:
    """Return the pairs that exchange rows, every other pair first: those can do it at the same time."""
    order = [process for process, rows in partition.items() if rows]
    pairs = list(zip(order, order[1:]))
    return pairs[::2] + pairs[1::2]


def first_row(row: int, columns: int) -> array[float]:
    """Return a row of the plate before the first step: one edge is hot."""
    return array("d", [1.0 if row == 0 else 0.0] * columns)


def next_row(above: array[float], row: array[float], below: array[float]) -> array[float]:
    """Return a row after a step: the mean of the four beside each point. The edges stay as they are."""
    inner = [0.25 * (up + down + left + right) for up, down, left, right in zip(above[1:-1], below[1:-1], row, row[2:])]
    return array("d", [row[0], *inner, row[-1]])


def checksum(rows: Iterable[array[float]]) -> str:
    """Return a checksum of all points of the plate."""
    found = hashlib.sha256()
    for row in rows:
        found.update(row.tobytes())
    return found.hexdigest()


class Plate(NamedTuple):
    """Its size in points, and the least seconds of a step, as if a step were a longer computation."""

    rows: int
    columns: int
    pace: float = 0.0


class StencilProcess:
    """One process: it holds rows, and does what it is told until it is told to end."""

    def __init__(self, number: int, plate: Plate, control: Connection, listener: Listener, key: bytes) -> None:
        self.number = number
        self.plate = plate
        self.control = control
        self.listener = listener
        self.key = key
        self.partition: Partition = {}
        self.addresses: Mapping[int, tuple[str, int]] = {}
        self.peers: dict[int, Connection] = {}
        self.rows: dict[int, array[float]] = {}

    def serve(self) -> None:
        """Carry out orders and say of each that it is done."""
        while True:
            order, *arguments = self.control.recv()
            if order == "end":
                return
            self.control.send(getattr(self, order)(*arguments))

    def repartition(self, new: Partition, addresses: Mapping[int, tuple[str, int]]) -> None:
        """Send rows to their new owners, and receive those that are now its own."""
        self.addresses = addresses
        kept: dict[int, array[float]] = {}
        for source, target, rows in transfers(self.partition, new):
            if source == target == self.number:
                kept.update((row, self.rows[row]) for row in rows)
            elif source == self.number:
                self._peer(target).send([self.rows[row] for row in rows])
            elif target == self.number:
                kept.update(zip(rows, self._peer(source).recv()))
        mine = new.get(self.number, range(0))
        self.rows = {row: kept[row] if row in kept else first_row(row, self.plate.columns) for row in mine}
        self.partition = new
        self.peers = {number: peer for number, peer in self.peers.items() if number in new}

    def know(self, partition: Partition) -> None:
        """Learn, as a new process, how the rows are held at present."""
        self.partition = partition

    def run(self, steps: int) -> None:
        """Compute so many steps, together with the others."""
        for _ in range(steps):
            begin = time.monotonic()
            halo = self._halo()
            rows = {**self.rows, **halo}
            last = self.plate.rows - 1
            self.rows = {
                number: row if number in (0, last) else next_row(rows[number - 1], row, rows[number + 1])
                for number, row in self.rows.items()
            }
            if (left := begin + self.plate.pace - time.monotonic()) > 0:
                time.sleep(left)

    def held(self) -> list[array[float]]:
        """Return its rows."""
        return list(self.rows.values())

    def _halo(self) -> dict[int, array[float]]:
        """Exchange rows with the neighbours: the one above sends first, then the one below."""
        found = {}
        mine = self.partition[self.number]
        for above, below in neighbours(self.partition):
            if self.number == above:
                self._peer(below).send(self.rows[mine.stop - 1])
                found[mine.stop] = self._peer(below).recv()
            elif self.number == below:
                found[mine.start - 1] = self._peer(above).recv()
                self._peer(above).send(self.rows[mine.start])
        return found

    def _peer(self, number: int) -> Connection:
        """Return the connection with another process. The older one dials."""
        if number not in self.peers and self.number < number:
            self.peers[number] = Client(self.addresses[number], authkey=self.key)
            self.peers[number].send(self.number)
        while number not in self.peers:
            peer = self.listener.accept()
            self.peers[peer.recv()] = peer
        return self.peers[number]


def run_process() -> None:
    """Be a process of a stencil: its standard input names who is to be told, and the key."""
    host, port, key_text, number, rows, columns, pace = sys.stdin.readline().split()
    key = bytes.fromhex(key_text)
    with Client((host, int(port)), authkey=key) as control:
        with socket.socket(fileno=os.dup(control.fileno())) as own:
            address = own.getsockname()[0]
        with Listener((address, 0), backlog=64, authkey=key) as listener:
            control.send((int(number), listener.address))
            plate = Plate(int(rows), int(columns), float(pace))
            # a lost connection is the end of all: whoever leads says why
            with contextlib.suppress(EOFError, ConnectionError):
                StencilProcess(int(number), plate, control, listener, key).serve()


class LedProcess(NamedTuple):
    """A process as its leader knows it."""

    host: str
    process: subprocess.Popen[bytes]
    control: Connection
    address: tuple[str, int]


class Stencil:
    """Leads the processes. ``start`` starts ``stencil.py process`` on a host, with a pipe to its standard input."""

    def __init__(self, plate: Plate, start: Callable[[str], subprocess.Popen[bytes]], address: str) -> None:
        self.plate = plate
        self.step = 0
        self._start = start
        self._key = secrets.token_bytes(16)
        self._server = socket.create_server((address, 0), backlog=64)
        self._members: dict[int, LedProcess] = {}
        self._starting: dict[int, tuple[str, subprocess.Popen[bytes]]] = {}
        self._partition: Partition = {}
        self._started = 0

    def __enter__(self) -> Stencil:
        """Return it; at the end of the block all processes are ended."""
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes."""
        for number in list(self._members):
            self._end(number)
        for _host, process in self._starting.values():
            process.kill()
            _close(process)
        self._server.close()

    @property
    def hosts(self) -> list[str]:
        """The hosts that compute."""
        return [member.host for member in self._members.values()]

    def spread(self, hosts: Sequence[str]) -> None:
        """Compute on these hosts from now on. Returns when no other host has any data. Raises OSError."""
        stay = [number for number, member in self._members.items() if member.host in hosts]
        leave = [number for number in self._members if number not in stay]
        new = self._begun([host for host in hosts if host not in self.hosts])
        for number in new:
            self._members[number].control.send(("know", self._partition))
        self._answers(new)
        self._partition = blocks(self.plate.rows, [*stay, *new])
        addresses = {number: member.address for number, member in self._members.items()}
        self._all("repartition", self._partition, addresses)
        for number in leave:
            self._end(number)

    def run(self, steps: int) -> None:
        """Compute so many steps. Raises OSError when a process is lost."""
        self._all("run", steps)
        self.step += steps

    def checksum(self) -> str:
        """Return a checksum of all points, the same on whatever hosts they were computed."""
        return checksum(row for rows in self._all("held") for row in rows)

    def _all(self, *order: object) -> list[list[array[float]]]:
        for member in self._members.values():
            member.control.send(order)
        return self._answers(list(self._members))

    def _answers(self, numbers: Sequence[int]) -> list[list[array[float]]]:
        answers = []
        for number in numbers:
            try:
                answers.append(self._members[number].control.recv())
            except (EOFError, ConnectionError):
                raise OSError(f"the process on {self._members[number].host} is gone") from None
        return answers

    def _begun(self, hosts: Sequence[str]) -> list[int]:
        """Start a process on each host; return their numbers when all have reported."""
        host, port = self._server.getsockname()[:2]
        for name in hosts:
            self._started += 1
            process = self._start(name)
            self._starting[self._started] = name, process
            words = (host, port, self._key.hex(), self._started, self.plate.rows, self.plate.columns, self.plate.pace)
            # one that has ended already is found when it does not report
            with contextlib.suppress(BrokenPipeError):
                os.write(_input(process), (" ".join(map(str, words)) + "\n").encode())
        until = time.monotonic() + _LONGEST_START
        new = list(self._starting)
        while self._starting:
            control = self._reported(until)
            number, address = control.recv()
            self._members[number] = LedProcess(*self._starting.pop(number), control, address)
        self._members = dict(sorted(self._members.items()))
        return new

    def _reported(self, until: float) -> Connection:
        """Return the connection of the next process that reports."""
        waited_for = list(self._starting.values())
        while not select.select([self._server], [], [], 0.5)[0]:
            for host, process in waited_for:
                if process.poll() is not None:
                    raise OSError(f"the process on {host} ended with {process.returncode}")
            if time.monotonic() > until:
                raise OSError(f"no process on {waited_for[0][0]} after {_LONGEST_START:g} s")
        control = Connection(self._server.accept()[0].detach())
        deliver_challenge(control, self._key)
        answer_challenge(control, self._key)
        return control

    def _end(self, number: int) -> None:
        member = self._members.pop(number)
        with contextlib.suppress(ConnectionError):
            member.control.send(("end",))
        member.control.close()
        _close(member.process)


def _input(process: subprocess.Popen[bytes]) -> int:
    assert process.stdin is not None
    return process.stdin.fileno()


def _close(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a process, whose input ends."""
    if process.stdin is not None:
        process.stdin.close()
    process.wait()


if __name__ == "__main__":
    run_process()
