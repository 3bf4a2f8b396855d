"""Throws broken lines, and other users' attempts to attach, at a real negotiator: each is refused, nothing changes.

``python -m tests.campaigns.negotiation_fuzz --count 100000`` runs it by hand on a cluster of its own; a smaller number
is a test. Every choice comes from the seed. Lines that would be messages with an effect are not sent.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from oarpy.local_cluster.sandbox import Sandbox
from oarpy.negotiation.messages import (
    LARGEST_LINE,
    MALFORMED,
    MESSAGES,
    Attach,
    LauncherMessage,
    Subscribe,
    Unreadable,
    read,
)
from tests.harness import bare_environment
from tests.harness.gateway_process import GatewayProcess, gateway
from tests.harness.launcher_lines import LauncherLines, over_socket
from tests.harness.launchers import launcher, negotiator

PATIENCE = 60.0
"""Seconds within which everything must be answered."""
_AT_ONCE = 100
"""Lines that are sent before their answers are read."""
_QUIET = ("ping", "pong", "listClustersInfo")
NOBODY = 65534

_GOOD: list[dict[str, Any]] = [
    {
        "message": "subscribe",
        "filter": {"clusters": ["all"], "min_hosts": 1},
        "arguments": ["-n", "x"],
        "if_lost": "end",
    },
    {"message": "attach", "job": 1, "token": "0" * 32, "serial": 1},
    {"message": "listClustersInfo", "clusters": ["all"]},
    {"message": "request", "tag": 1, "hosts": {"all": 1}, "walltime": 60, "serial": 1},
    {"message": "keep", "serial": 1},
    {"message": "done"},
    {"message": "extend", "tag": "t", "hosts": {"all": 1}, "kind": "firm"},
    {"message": "release", "names": ["n1"]},
    {"message": "ping"},
    {"message": "pong"},
]
_VALUES: list[Any] = [
    None, True, False, -1, 0, 2**53, 2**70, -(2**80), 1.5, 1e308, -0.0, "", "x", "1", "é", "\ud800", "a\0b", "\u0085",
    "\ufffe", "x" * 65, "x" * 9999, "' OR 1=1 --", "$(reboot)", "%s", [], {}, [[]], {"": None}, ["x", 1], {"all": -1},
    {"all": "1"},
]  # fmt: skip
_CONTENTS = "SELECT md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), '')) FROM {} AS t"
_TABLES = (
    "jobs",
    "submissions",
    "kill_requests",
    "event_logs",
    "ghosts",
    "cluster_links",
    "assigned_resources",
    "(SELECT job_id, state, tag, hosts, walltime, requests, serial, view, answered, told, ended FROM applications)",
)


@dataclass(slots=True)
class LineFuzzer:
    """Sends lines over connections with a job and without, and counts what becomes of them."""

    path: str
    chance: random.Random
    job: int
    token: str
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def run(self, count: int) -> None:
        """Send ``count`` lines; every other connection has a job."""
        attached = True
        while (sent := self.outcomes.total()) < count:
            lines = over_socket(self.path)
            attached = not attached
            if attached:
                lines.say("attach", job=self.job, token=self.token, serial=1)
                assert (lines.hear(PATIENCE) or {}).get("message") == "attached"
            try:
                for _ in range(self.chance.randint(1, 10)):
                    self._exchange(lines, min(_AT_ONCE, count - sent), attached=attached)
                if self.chance.random() < 0.05:
                    self._too_long(lines)
            except ConnectionError as error:
                self.wrong.append(f"the connection was lost: {error}")
            lines.close()

    def _exchange(self, lines: LauncherLines, count: int, *, attached: bool) -> None:
        """Send some lines at once; each has its one answer, in order."""
        expected = []
        for _ in range(count):
            line = self._harmless(attached=attached)
            lines.send(line + b"\n")
            if line != b'{"message": "pong"}':
                expected.append(line)
        for line in expected:
            answer = lines.hear(PATIENCE)
            if answer is None:
                self.wrong.append(f"no answer to {line[:200]!r}")
                return
            self._judge(line, answer)

    def _judge(self, line: bytes, answer: Mapping[str, Any]) -> None:
        word = answer["message"]
        try:
            said: LauncherMessage | None = read(line)
        except Unreadable:
            said = None
        self.outcomes[f"{word} {answer.get('code', '')}".strip()] += 1
        refused = word == "refused" and _one_line(answer["reason"])
        if said is None:
            well = refused and answer["code"] == MALFORMED
        else:
            well = said.WORD in _QUIET or (refused and answer["of"] == said.WORD)
        if not well:
            self.wrong.append(f"{line[:200]!r}: {answer}")

    def _harmless(self, *, attached: bool) -> bytes:
        """Return a line that must have no effect: on a connection with a job nearly every message has one."""
        while True:
            line = self._line().replace(b"\n", b" ")
            try:
                said = read(line)
            except Unreadable:
                return line
            if said.WORD == "pong":
                return b'{"message": "pong"}'
            harmless = not isinstance(said, Subscribe | Attach) and not attached
            if harmless or said.WORD in _QUIET or (isinstance(said, Attach) and said.job > self.job + 1000):
                return line

    def _line(self) -> bytes:
        make = self.chance.choice((self._noise, self._flipped, self._cut, self._changed, self._changed, self._text))
        return make()

    def _noise(self) -> bytes:
        return self.chance.randbytes(self.chance.choice([0, 1, 4, 60, 3000]))

    def _good(self) -> bytes:
        return json.dumps(self.chance.choice(_GOOD)).encode()

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
        """Return a message with keys that are missing, unknown, or have odd values."""
        message = json.loads(self._good())
        target = message["filter"] if "filter" in message and self.chance.random() < 0.5 else message
        for _ in range(self.chance.choice([1, 1, 2])):
            key = self.chance.choice([*target, "uid", "", "message"])
            if self.chance.random() < 0.2:
                target.pop(key, None)
            else:
                target[key] = self.chance.choice(_VALUES)
        return json.dumps(message, ensure_ascii=self.chance.random() < 0.5).encode("utf-8", "surrogatepass")

    def _text(self) -> bytes:
        deep = self.chance.choice([b"[", b'{"message":', b'["\\ud800",'])
        texts = [deep * self.chance.choice([1, 500, 5000]), b"NaN", b"1e999", b'{"message": 1e999}', b"\xff\xfe"]
        texts += [b'{"message": "ping", "message": "ping"}', b'{"message": "keep", "serial": ' + b"9" * 5000 + b"}"]
        texts.append(json.dumps(self.chance.choice(_VALUES)).encode())
        texts.append(json.dumps({"message": self.chance.choice([*MESSAGES, "", "Ping"])}).encode())
        return self.chance.choice(texts)

    def _too_long(self, lines: LauncherLines) -> None:
        """A line that is too long is refused and ends the connection."""
        lines.send(b"x" * (LARGEST_LINE + self.chance.choice([0, 1, 9])) + b"\n")
        answer = lines.hear(PATIENCE)
        self.outcomes["too long"] += 1
        if answer is None or answer["code"] != MALFORMED:
            self.wrong.append(f"a line that is too long: {answer}")
        try:
            self.wrong.append(f"after a line that is too long: {lines.hear(PATIENCE)}")
        except ConnectionError:
            return


def _one_line(reason: str) -> bool:
    return bool(reason) and "\n" not in reason and len(reason) <= 500


def contents(dsn: str) -> dict[str, str]:
    """Return what the tables hold, each as one checksum; who is present is not of interest."""
    with psycopg.connect(dsn) as connection:
        found = {}
        for table in _TABLES:
            row = connection.execute(_CONTENTS.format(table)).fetchone()
            assert row is not None
            found[table] = row[0]
        return found


def foreign_attempts(running: GatewayProcess, jobs: Sequence[int], tokens: Sequence[str], count: int) -> list[str]:
    """Let another user try to attach ``count`` times; return what was answered otherwise than for jobs that are not."""
    chance = random.Random(1)
    other = launcher(running, uid=NOBODY)
    wrong, answers = [], set()
    for _ in range(count):
        job = chance.choice([*jobs, max(jobs) + 1, 2**52])
        token = chance.choice([*tokens, "", "0" * 32, tokens[0][:-1], tokens[0].upper(), tokens[0] + "0"])
        if token == dict(zip(jobs, tokens, strict=True)).get(job):
            continue
        other.say("attach", job=job, token=token)
        answer = other.hear("refused")
        answers.add((answer["code"], answer["reason"].replace(str(job), "JOB")))
    if len(answers) != 1 or next(iter(answers))[0] != 5:
        wrong.append(f"another user was told {sorted(answers)}")
    if other.leave() != 5:
        wrong.append("the exit status was not 5")
    asked = running.run(
        "oarnegotiate", "--ask", str(jobs[0]), "--request",
        '{"message": "request", "tag": 1, "hosts": {"all": 1}, "walltime": 1}', uid=NOBODY,
    )  # fmt: skip
    if asked.status != 5 or asked.err.count("\n") != 1:
        wrong.append(f"another user's request: {asked}")
    return wrong


def fuzz(running: GatewayProcess, dsn: str, count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Send ``count`` lines and another user's attempts; return what became of them and what is wrong."""
    owner, second = over_socket(str(running.path)), over_socket(str(running.path))
    made = []
    for one in (owner, second):
        one.say("subscribe", if_lost="keep")
        made.append(one.hear(PATIENCE) or {})
        assert (one.hear(PATIENCE) or {})["serial"] == 1
    jobs, tokens = [one["job"] for one in made], [one["token"] for one in made]
    before = contents(dsn)
    fuzzer = LineFuzzer(str(running.path), random.Random(seed), jobs[0], tokens[0])
    fuzzer.run(count)
    wrong = [*fuzzer.wrong[:10], *foreign_attempts(running, jobs, tokens, max(20, count // 100))]
    second.close()
    second = over_socket(str(running.path))  # the other one was silent for too long by now, perhaps
    second.say("attach", job=jobs[1], serial=1)
    if (second.hear(PATIENCE) or {}).get("message") != "attached":
        wrong.append("another launcher is not answered any more")
    if contents(dsn) != before:
        wrong.append("the database has changed")
    for one in (owner, second):
        one.close()
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
            with gateway(environment, workers=2) as running:
                with negotiator(environment, running, message_rate=1_000_000, first_request_timeout=100_000):
                    began = time.monotonic()
                    outcomes, wrong = fuzz(running, sandbox.dsn(), options.count, options.seed)
                print(f"{options.count} lines (seed {options.seed}) in {time.monotonic() - began:.0f} s")
                print("  " + ", ".join(f"{what} {times}" for what, times in sorted(outcomes.items())))
                print("\n".join(f"  WRONG: {line}" for line in wrong) or "  each was refused, nothing changed")
        finally:
            sandbox.discard()
    return 1 if wrong else 0


if __name__ == "__main__":
    bare_environment.enter()
    sys.exit(main())
