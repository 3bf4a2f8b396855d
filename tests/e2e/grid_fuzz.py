"""Throws bad lines, and calls beyond every grant, at the door of a cluster: each is refused, the database stays.

``python -m tests.e2e.grid_fuzz --count 100000`` runs it by hand on a cluster of its own; a smaller number is a test.
Every choice comes from the seed. Lines that would be calls with an effect are not sent. Root alone can run it.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from oarpy.grid.calls.json_lines import key_of, read_call
from oarpy.grid.calls.table import Describe, Events, Waiting
from oarpy.local_cluster.sandbox import Sandbox
from oarpy.model.errors import UsageError
from oarpy.store.grid import grants
from oarpy.store.grid.grants import GrantRow
from tests.harness import bare_environment
from tests.harness.grid_door import Door, door

ACCOUNT, USER, OTHER = "games", "nobody", "man"
LONGEST_LINE = 10_000
SETTINGS = {"calls_per_second": 10_000_000, "line_limit": LONGEST_LINE}
"""Keys of ``[door]`` for a fuzzed door."""

_AT_ONCE = 100
"""Lines that are sent before their answers are read."""

_REQUEST = {"user": "ann", "resources": "/core=1", "procs": 1, "walltime": 60}
_PART = {"name": "fuzz.1", "kind": "queued", "request": _REQUEST, "program": "date", "environment": {"A": "1"}}
_CALLS: list[dict[str, Any]] = [
    {"call": "describe", "key": "k"},
    {"call": "idle", "key": "k", "request": _REQUEST},
    {"call": "waiting", "key": "k"},
    {"call": "estimate", "key": "k", "requests": [_REQUEST, "p"], "without": ["p"], "joined": [_REQUEST], "age": 1},
    {"call": "estimate_in_turn", "key": "k", "request": _REQUEST, "count": 2},
    {"call": "evictable", "key": "k", "request": _REQUEST},
    {"call": "events", "key": "k", "after": 0},
    {"call": "prepare", "key": "k", "transaction": "t", "part": _PART, "ttl": 30},
    {"call": "amend", "key": "k", "transaction": "t", "instead_of": "p", "part": _PART, "ttl": 30},
    {"call": "commit", "key": "k", "transaction": "t", "begin": 1, "hosts": ["n1"]},
    {"call": "abort", "key": "k", "transaction": "t"},
    {"call": "cancel", "key": "k", "part": "p", "reason": "r"},
    {"call": "evict", "key": "k", "transaction": "t", "request": _REQUEST, "procs": 1},
]
_BEYOND: list[dict[str, Any]] = [
    {"user": "nobody"}, {"user": "root"}, {"user": "ann' OR '1'='1"}, {"user": "ann;"}, {"user": "*"}, {"user": "rita"},
    {"queue": "admin"}, {"queue": "nowhere"}, {"queue": "default' --"}, {"queue": "a\\b"}, {"queue": "%s"},
    {"resources": "/core=3", "procs": 3}, {"resources": "/core=99", "procs": 1}, {"resources": "/nodes=ALL"},
    {"resources": "/nothing=1"}, {"resources": "/core=1,walltime=9:0:0"}, {"resources": "/core=-1"},
    {"resources": "/core=1};DROP TABLE jobs"}, {"walltime": 3601}, {"walltime": 1e9},
    {"properties": "1=1; DROP TABLE jobs"}, {"properties": "pg_sleep(100) IS NULL"}, {"properties": "'"},
    {"properties": "host IN (SELECT user_name FROM jobs)"}, {"types": ["nonsense"]}, {"types": ["negotiates"]},
    {"types": ["admin=1"]}, {"types": ["deploy"]}, {"project": "x" * 3000},
]  # fmt: skip
"""Changes to a request that make it one that the grant, the rules or the grammar refuse."""

_VALUES: list[Any] = [
    None, True, False, -1, 0, 2**53, 2**70, -(2**80), 1.5, 1e308, -0.0, "", "x", "1", "é", "\ud800", "a\0b", "\u0085",
    "\ufffe", "x" * 129, "x" * 9000, "' OR 1=1 --", "$(reboot)", "%s", "\n", [], {}, [[]], {"": None}, ["x", 1],
    {"OARPY_UMASK": "0"}, {"A": 1},
]  # fmt: skip
_CONTENTS = "SELECT md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), '')) FROM {} AS t"


@dataclass(slots=True)
class DoorFuzzer:
    """Sends lines in sessions of a broker, and counts what becomes of them."""

    door: Door
    chance: random.Random
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def run(self, count: int) -> None:
        """Send ``count`` lines, some thousands a session."""
        while (sent := self.outcomes.total()) < count:
            left = min(count - sent, self.chance.choice([10, 1000, 5000]))
            with subprocess.Popen(self.door.words(), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as session:
                while left > 0:
                    lines = [self._harmless() for _ in range(min(left, _AT_ONCE))]
                    left -= len(lines)
                    self._exchange(session, lines)
                assert session.stdin is not None
                if self.chance.random() < 0.5:
                    session.stdin.write(b'{"call": "abort", "key": "cut", "transaction": "never"}')  # and no newline
                session.stdin.close()
            if session.returncode != 0:
                self.wrong.append(f"a session ended with {session.returncode}")

    def _exchange(self, session: subprocess.Popen[bytes], lines: Sequence[bytes]) -> None:
        assert session.stdin is not None
        assert session.stdout is not None
        session.stdin.write(b"".join(line + b"\n" for line in lines))
        session.stdin.flush()
        for line in lines:
            try:
                self._judge(line, json.loads(session.stdout.readline()))
            except ValueError as error:
                self.wrong.append(f"{line[:200]!r}: no answer, {error}")
                self.outcomes["none"] += 1

    def _judge(self, line: bytes, answer: Mapping[str, Any]) -> None:
        error = answer.get("error")
        looks = _looks(line)
        self.outcomes["answered" if error is None else f"refused {error['status']}"] += 1
        well = looks if error is None else error["status"] in (2, 3, 4, 5) and _one_line(error["message"])
        key = "" if len(line) > LONGEST_LINE else key_of(line)
        if not well or answer["key"] != key:
            self.wrong.append(f"{line[:400]!r}: {answer}")

    def _harmless(self) -> bytes:
        """Return a line that must have no effect."""
        if self.chance.random() < 0.05:
            return self._beyond()
        while True:
            line = self._line().replace(b"\n", b" ")
            try:
                call = read_call(line) if len(line) <= LONGEST_LINE else None
            except UsageError:
                return line
            if call is None or isinstance(call, Describe | Waiting | Events):
                return line

    def _beyond(self) -> bytes:
        """Return a call that is well written, and asks for more than there is a grant for."""
        request = {**_REQUEST, **self.chance.choice(_BEYOND)}
        part: dict[str, Any] = {**_PART, "name": f"beyond.{self.chance.randrange(9)}", "request": request}
        part["kind"] = self.chance.choice(["queued", "claim", "reserved"])
        if part["kind"] != "queued":
            part["begin"] = time.time() + 3600
        call = {
            "call": "prepare",
            "key": f"b{self.chance.randrange(10**9)}",
            "transaction": "b",
            "part": part,
            "ttl": 5,
        }
        return json.dumps(call).encode()

    def _line(self) -> bytes:
        make = self.chance.choice((self._noise, self._flipped, self._cut, self._changed, self._changed, self._text))
        return make()

    def _noise(self) -> bytes:
        return self.chance.randbytes(self.chance.choice([0, 1, 4, 60, 3000]))

    def _good(self) -> bytes:
        return json.dumps(self.chance.choice(_CALLS)).encode()

    def _flipped(self) -> bytes:
        data = bytearray(self._good())
        for _ in range(self.chance.choice([1, 1, 2, 8])):
            data[self.chance.randrange(len(data))] ^= 1 << self.chance.randrange(8)
        return bytes(data)

    def _cut(self) -> bytes:
        data = self._good()
        begin = self.chance.randrange(3)
        return data[begin : begin + self.chance.randrange(len(data))]

    def _changed(self) -> bytes:
        """Return a call with keys, at some depth, that are missing, unknown, or have odd values."""
        call = json.loads(self._good())
        target = call
        while (inner := [one for one in target.values() if isinstance(one, dict)]) and self.chance.random() < 0.6:
            target = self.chance.choice(inner)
        for _ in range(self.chance.choice([1, 1, 2])):
            key = self.chance.choice([*target, "uid", "", "call", "sql"])
            if self.chance.random() < 0.2:
                target.pop(key, None)
            else:
                target[key] = self.chance.choice(_VALUES)
        return json.dumps(call, ensure_ascii=self.chance.random() < 0.5).encode("utf-8", "surrogatepass")

    def _text(self) -> bytes:
        deep = self.chance.choice([b"[", b'{"call":', b'["\\ud800",'])
        texts = [deep * self.chance.choice([1, 500, 900]), b"NaN", b"1e999", b'{"call": 1e999}', b"\xff\xfe"]
        texts += [b'{"call": "abort", "key": "' + b"9" * 500 + b'"}', b"x" * (LONGEST_LINE + 1), b"DROP TABLE jobs"]
        texts += [b"exit", b"sh -i", b"<?xml?>", b"GET / HTTP/1.0\r"]
        texts.append(json.dumps(self.chance.choice(_VALUES)).encode())
        texts.append(json.dumps({"call": self.chance.choice(["", "Abort", "shell", "sql", "describe"])}).encode())
        return self.chance.choice(texts)


def _looks(line: bytes) -> bool:
    """Tell whether a line is a call that may be answered."""
    try:
        return isinstance(read_call(line), Describe | Waiting | Events)
    except UsageError:
        return False


def _one_line(message: str) -> bool:
    return 0 < len(message) <= 500 and message.isprintable()


def contents(dsn: str) -> dict[str, str]:
    """Return what every table holds, each as one checksum."""
    with psycopg.connect(dsn) as connection:
        names = "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
        tables = [name for (name,) in connection.execute(names)]
        return {table: connection.execute(_CONTENTS.format(table)).fetchall()[0][0] for table in tables}


def allow(dsn: str) -> None:
    """Grant the broker a little: one user, one queue, 2 resources, an hour; another broker something of its own."""
    with psycopg.connect(dsn) as connection:
        grants.grant(connection, GrantRow("campus", "ann", USER, ["default"], 2, 3600, "root"))
        grants.grant(connection, GrantRow("lyon", "rita", OTHER, [], None, None, "root"))


def strangers(here: Door, count: int) -> list[str]:
    """Let users who are no broker come ``count`` times; return what was wrong with the answers."""
    chance, wrong = random.Random(1), []
    for _ in range(count):
        user, broker = chance.choice([(USER, "campus"), (OTHER, "campus"), ("root", "campus"), (ACCOUNT, "lyon")])
        done = here.gateway.run("oargriddoor", broker, uid=pwd.getpwnam(user).pw_uid, cwd="/", stdin="{}\n")
        if (done.status, done.out) != (5, "") or done.err.count("\n") != 1:
            wrong.append(f"{user} came as {broker}: {done}")
    return wrong


def fuzz(here: Door, dsn: str, count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Send ``count`` lines, and let strangers come; return what became of the lines and what is wrong."""
    allow(dsn)
    before = contents(dsn)
    fuzzer = DoorFuzzer(here, random.Random(seed))
    fuzzer.run(count)
    wrong = [*fuzzer.wrong[:20], *strangers(here, max(4, min(100, count // 1000)))]
    after = contents(dsn)
    changed = [table for table in after if after[table] != before.get(table)]
    if changed:
        wrong.append(f"the database has changed: {', '.join(changed)}")
    if here.ask({"call": "describe", "key": "k"})[0].get("answer", {}).get("speed") != 1:
        wrong.append("the broker is not answered any more")
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
            environment = {**os.environ, **sandbox.environment()}
            with door(environment, ACCOUNT, pwd.getpwnam(ACCOUNT).pw_uid, **SETTINGS) as here:
                began = time.monotonic()
                outcomes, wrong = fuzz(here, sandbox.dsn(), options.count, options.seed)
            print(f"{options.count} lines (seed {options.seed}) in {time.monotonic() - began:.0f} s")
            print("  " + ", ".join(f"{what} {times}" for what, times in sorted(outcomes.items())))
            print("\n".join(f"  WRONG: {line}" for line in wrong) or "  no effect: every table is as before")
        finally:
            sandbox.discard()
    return 1 if wrong else 0


if __name__ == "__main__":
    bare_environment.enter()
    sys.exit(main())
