"""Throws broken, mutated and hostile conversations at a real gateway: no crash, no hang, no effect.

``python -m tests.campaigns.gateway_fuzz --count 100000`` runs it by hand on a cluster of its own; a smaller number is a
test. Every choice comes from the seed.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from oarpy.local_cluster.sandbox import Sandbox
from oarpy.postgres import embedded_server
from oarpy.wire.frames import (
    CONTENT,
    HEADER,
    KNOCK,
    LARGEST_REQUEST,
    MESSAGE,
    SPEAKER,
    Channel,
    Gone,
    Malformed,
    pack,
    pack_message,
    read_message,
)
from oarpy.wire.openings import LARGEST_PREFACE
from tests.harness import bare_environment
from tests.harness.gateway_process import GatewayProcess, gateway, request

PATIENCE = 30.0
"""Seconds within which the gateway must answer or close, whatever it was sent."""

_WORDS = ["-j", "-f", "-J", "1", "-9", "x", "'", "\\", "\ud800", "\x00", "é", "9" * 40, "--sql", "state='x'", "-u", "("]
_VALUES: list[object] = [
    None,
    True,
    -1,
    2**70,
    1.5,
    "",
    "oarstat",
    [],
    {},
    [[]],
    {"": None},
    "\ud800",
    "a\0b",
    "x" * 9999,
]
_TABLES = ("jobs", "submissions", "resources", "queues", "admission_rules", "kill_requests", "event_logs")


@dataclass(slots=True)
class Fuzzer:
    """Counts what became of each input: ``answered`` with a status, ``refused``, ``closed``, or ``HUNG``."""

    running: GatewayProcess
    chance: random.Random
    outcomes: Counter[str] = field(default_factory=Counter)

    def run(self, count: int) -> None:
        """Send ``count`` inputs, each over a connection of its own."""
        kinds: list[Callable[[], bytes]] = [
            self._noise,
            self._header,
            self._flipped,
            self._cut,
            self._json,
            self._request,
        ]
        for number in range(count):
            if number % 10 == 9:
                self._talk()
            else:
                self._send(self.chance.choice(kinds)())

    def _send(self, data: bytes) -> None:
        with self._connection() as connection:
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(data)
                # half of them hang up at once, the others wait for what is said
                if self.chance.random() < 0.5:
                    connection.shutdown(socket.SHUT_WR)
                elif _incomplete(data):
                    self.outcomes["left"] += 1
                    return
            self._follow(connection, lambda _: b"")

    def _talk(self) -> None:
        """Begin like a command, then answer what is asked with something else."""
        words = self.chance.choice(
            [["-S", "./script"], ["--array-param-file", "values", "x"], ["-d", "/somewhere", "x"], ["-S", "a b c"]]
        )
        with self._connection() as connection:
            connection.sendall(pack_message(request("oarsub", "--dry-run", *words)))
            self._follow(connection, self._answer)

    def _follow(self, connection: socket.socket, answer: Callable[[dict[str, object]], bytes]) -> None:
        channel = Channel(connection)
        try:
            while True:
                kind, payload = channel.receive()
                if kind != MESSAGE:
                    continue
                message = read_message(payload)
                if "exit" in message:
                    self.outcomes["refused" if "refused" in message else f"status {message['exit']}"] += 1
                    return
                reply = answer(message)
                if not reply:
                    self.outcomes["left"] += 1
                    return
                connection.sendall(reply)
        except Gone as error:
            self.outcomes["HUNG" if "timed out" in str(error) else "closed"] += 1
        except (BrokenPipeError, ConnectionResetError):
            self.outcomes["closed"] += 1
        except Malformed:
            self.outcomes["MALFORMED ANSWER"] += 1

    def _connection(self) -> socket.socket:
        connection = self.running.connect()
        connection.settimeout(PATIENCE)
        return connection

    def _noise(self) -> bytes:
        return self.chance.randbytes(self.chance.choice([1, 4, 5, 6, 60, 3000]))

    def _header(self) -> bytes:
        length = self.chance.choice([0, 1, 5, LARGEST_REQUEST, LARGEST_REQUEST + 1, 2**32 - 1])
        return struct.pack(">BI", self.chance.randrange(8), length) + self.chance.randbytes(self.chance.randrange(9))

    def _flipped(self) -> bytes:
        data = bytearray(pack_message(request("oarstat", "-j", "1")))
        for _ in range(self.chance.choice([1, 1, 2, 8])):
            data[self.chance.randrange(len(data))] ^= 1 << self.chance.randrange(8)
        return bytes(data)

    def _cut(self) -> bytes:
        data = pack_message(request("oarstat", "-j", "1"))
        begin = self.chance.randrange(3)
        return data[begin : begin + self.chance.randrange(1, len(data))]

    def _json(self) -> bytes:
        deep = self.chance.choice([b"[", b'{"a":', b'["\\ud800",'])
        texts = [
            deep * self.chance.choice([1, 500, 100_000]),
            b"NaN",
            b"1e999",
            b'"' + b"x" * 70_000 + b'"',
            b"\xff\xfe",
        ]
        texts.append(json.dumps(self.chance.choice(_VALUES)).encode())
        return pack(MESSAGE, self.chance.choice(texts))

    def _request(self) -> bytes:
        """Return a request with values that do not belong there, or words that no command understands."""
        message = request(self.chance.choice(["oarstat", "oarnodes", "oarproperty", "oarhold", "oardel"]))
        message["arguments"] = [self.chance.choice(_WORDS) for _ in range(self.chance.randrange(6))]
        target: dict[str, object] = message
        if self.chance.random() < 0.3:
            target = dict(message["terminal"])  # type: ignore[call-overload]
            message["terminal"] = target
        if self.chance.random() < 0.7:
            key = self.chance.choice([*target, "uid", ""])
            target[key] = self.chance.choice(_VALUES)
        if self.chance.random() < 0.2:
            target.pop(self.chance.choice(list(target)))
        return pack_message(message)

    def _answer(self, question: dict[str, object]) -> bytes:
        hostile = [
            pack(CONTENT, self.chance.randbytes(2000)),
            pack(CONTENT, b"#!/bin/sh\n#OAR " + self.chance.randbytes(40)),
            pack(CONTENT, b"#!/bin/sh\n" + b"#OAR -l /core=1\n" * 2000),
            pack(CONTENT, b""),
            pack_message(
                {"errno": self.chance.choice([2, 13, -1, 2**70, "x", None]), "strerror": self.chance.choice(_VALUES)}
            ),
            pack_message({"answer": self.chance.choice(_VALUES)}),
            pack_message({"exit": 0}),
            pack_message(question),
            pack(2, b"output"),
            struct.pack(">BI", self.chance.randrange(8), 2**32 - 1),
            self.chance.randbytes(12),
            b"",
        ]
        return self.chance.choice(hostile)


def _incomplete(data: bytes) -> bool:
    """Say whether the gateway has reason to wait for more."""
    if len(data) < HEADER.size:
        return True
    kind, length = HEADER.unpack(data[: HEADER.size])
    largest = LARGEST_REQUEST if kind == MESSAGE else LARGEST_PREFACE if kind in (KNOCK, SPEAKER) else -1
    return bool(length <= largest and len(data) < HEADER.size + length)


def contents(dsn: str) -> dict[str, str]:
    """Return what the tables hold, each as one checksum."""
    query = "SELECT md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), '')) FROM {} AS t"
    with psycopg.connect(dsn) as connection:
        found = {}
        for table in _TABLES:
            row = connection.execute(query.format(table)).fetchone()
            assert row is not None
            found[table] = row[0]
        return found


def resident(pid: int) -> int:
    """Return the resident memory of a process, in MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * 4096 // 2**20


def fuzz(running: GatewayProcess, dsn: str, count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Run ``count`` inputs; return what became of them and what is wrong."""
    assert running.answers()
    before = contents(dsn)
    fuzzer = Fuzzer(running, random.Random(seed))
    fuzzer.run(count)
    wrong = [what for what in ("HUNG", "MALFORMED ANSWER") if fuzzer.outcomes[what]]
    if not running.answers():
        wrong.append("the gateway does not answer any more")
    if contents(dsn) != before:
        wrong.append("the database has changed")
    wrong += [line for line in running.log().splitlines() if "worker ended" in line or "failed" in line]
    return fuzzer.outcomes, wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it on a cluster made for it, and print what happened; exit status 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="oarpy-fuzz-") as folder:
        sandbox = Sandbox(Path(folder))
        try:
            sandbox.create()
            sandbox.run("oaradmin", "resources", "add", "/host=node[1-2]/core={2}", "--transport", "local")
            with gateway(sandbox.environment(), workers=2) as running:
                assert running.answers()
                began = time.monotonic()
                sizes = [resident(pid) for pid in (running.process.pid, *running.workers())]
                outcomes, wrong = fuzz(running, sandbox.dsn(), options.count, options.seed)
                print(f"{options.count} inputs (seed {options.seed}) in {time.monotonic() - began:.0f} s")
                print("  " + ", ".join(f"{what} {times}" for what, times in sorted(outcomes.items())))
                after = [resident(pid) for pid in (running.process.pid, *running.workers())]
                print(f"  resident MiB, gateway and workers: {sizes} before, {after} after")
                print("\n".join(f"  WRONG: {line}" for line in wrong) or "  no crash, no hang, no effect")
        finally:
            sandbox.stop()
            embedded_server.remove(Path(folder) / "postgresql")
    return 1 if wrong else 0


if __name__ == "__main__":
    bare_environment.enter()
    sys.exit(main())
