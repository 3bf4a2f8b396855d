"""Throws broken, mutated and hostile messages at a real agent, and a hostile agent's at what reads them on the server.

``python -m tests.campaigns.agent_fuzz --count 100000`` runs it by hand; a smaller number is a test. Every choice comes
from the seed. No crash, no hang, no effect: nothing is run, and nothing is written outside the agent's directory.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import random
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oarpy.transport.bundle import agent_arguments, agent_program
from oarpy.transport.node import ChannelConfig, NodeAddress
from oarpy.wire.frames import Malformed
from oarpy.wire.jobs import JobKey, JobSpec
from oarpy.wire.messages import (
    COMMANDS,
    AgentError,
    Checked,
    Checkpointed,
    Cleaned,
    Ended,
    Forget,
    Gpus,
    GpuUse,
    Health,
    JobReport,
    Knocked,
    LauncherEnded,
    Load,
    MeasuredGpu,
    Pong,
    Ready,
    Recalled,
    RecalledJob,
    Refused,
    Report,
    Resized,
    Resumed,
    RunLaunchers,
    RunScript,
    ScriptEnded,
    Start,
    Started,
    Stuck,
    Suspended,
    WalltimeChanged,
    decode_reports,
    encode_command,
    encode_reports,
)
from oarpy.wire.steps import StepSpec, StepTerminal
from research.benchmarks.server_processes import pids_with
from tests.harness import bare_environment

PATIENCE = 60.0
"""Seconds within which the agent must answer, whatever it was sent before."""

_BATCH = 200
_TRICKS = ["../../../outside", "/outside", "1.1/../../outside", "..", ".", "1.1\x00", "\ud800", "-1", "", "x" * 70_000]
VALUES: list[Any] = [
    None,
    True,
    False,
    -1,
    0,
    2**31,
    2**63,
    2**200,
    1.5,
    -0.0,
    float("nan"),
    float("inf"),
    "",
    "1",
    [],
    [[]],
    [[1]],
    [1, 2],
    [["1", 1]],
    [[1, 1, 1]],
    [[-1, 0]],
    [[2**47, 1]],
    {},
    {"": None},
    {"a=b": "c"},
    {"a": "b\0"},
    *_TRICKS,
]


@dataclass(slots=True)
class Agent:
    """An agent in a directory of its own, its conversation, and what it must leave alone."""

    directory: Path
    instance: str
    process: subprocess.Popen[bytes] = field(init=False)
    outcomes: Counter[str] = field(default_factory=Counter)
    _unread: bytes = b""
    _token: int = 0

    def __post_init__(self) -> None:
        (self.directory / "outside").mkdir()
        (self.directory / "outside" / "file").write_text("as it was")
        node = NodeAddress("node1", str(self.directory / "state"), python=sys.executable)
        program = agent_program(node, ChannelConfig(instance=self.instance, isolation="none"))
        self.process = subprocess.Popen(
            agent_arguments(node, program), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, cwd=self.directory
        )
        self.write(program)
        assert "ready" in self.turn()

    def spec(self, job: int, command: str, **changes: object) -> JobSpec:
        """Return a job of this user."""
        made = JobSpec(job, 1, getpass.getuser(), command, str(self.directory), shell="/bin/sh", walltime=600)
        return made.replace(allow_root=os.geteuid() == 0, **changes)

    def write(self, content: bytes) -> None:
        """Send bytes; the agent must take them in time."""
        assert self.process.stdin is not None
        sink = self.process.stdin.fileno()
        os.set_blocking(sink, False)
        deadline, rest = time.monotonic() + PATIENCE, memoryview(content)
        while rest:
            with suppress(BlockingIOError):
                rest = rest[os.write(sink, rest) :]
                continue
            self._read(deadline, sink)

    def turn(self) -> Counter[str]:
        """Wait for the answer to a ping, which comes after those to everything before; count what came by type."""
        self._token += 1
        self.write(b"\n" + json.dumps({"type": "ping", "token": f"turn {self._token}"}).encode() + b"\n")
        deadline, came = time.monotonic() + PATIENCE, Counter[str]()
        while True:
            *lines, self._unread = self._unread.split(b"\n")
            for line in lines:
                for message in json.loads(line):
                    came[message["type"]] += 1
                    if message.get("token") == f"turn {self._token}":
                        self._unread = b"\n".join([*lines[lines.index(line) + 1 :], self._unread])
                        self.outcomes += came
                        return came
            self._read(deadline)

    def wait_for(self, job: int) -> Report:
        """Wait for the end of a job."""
        deadline = time.monotonic() + PATIENCE
        while True:
            *lines, self._unread = self._unread.split(b"\n")
            for report in (report for line in lines for report in decode_reports(line)):
                if isinstance(report, Ended) and report.key.job == job:
                    return report
            self._read(deadline)

    def _read(self, deadline: float, sink: int | None = None) -> None:
        assert self.process.stdout is not None
        source = self.process.stdout.fileno()
        ready = select.select([source], [] if sink is None else [sink], [], max(0.0, deadline - time.monotonic()))
        if not ready[0] and not ready[1]:
            raise AssertionError("the agent hangs")
        if ready[0]:
            content = os.read(source, 1 << 20)
            if not content:
                raise AssertionError(f"the agent ended with status {self.process.wait(PATIENCE)}")
            self._unread += content

    def processes(self) -> list[int]:
        """Return the processes of its jobs."""
        prefix = f"OARPY_JOB={self.instance}/".encode()
        return pids_with(lambda entry: entry.startswith(prefix))

    def outside(self) -> dict[str, str]:
        """Return the files beside its own directory, with their contents."""
        return {
            str(path.relative_to(self.directory)): path.read_text() if path.is_file() else ""
            for path in self.directory.rglob("*")
            if (self.directory / "state") not in (path, *path.parents)
        }

    def resident(self) -> int:
        """Return its resident memory in MiB."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text("ascii").split()[1]) * 4096 // 2**20

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.communicate()


@dataclass(slots=True)
class Messages:
    """Makes one hostile line after the other. Jobs that are whole would be run: theirs are for nobody, and too late."""

    agent: Agent
    chance: random.Random
    old: list[bytes] = field(default_factory=list)

    def next(self) -> bytes:
        """Return one input."""
        return self.chance.choice(
            [
                self._noise,
                self._json,
                self._flipped,
                self._cut,
                self._replay,
                self._order,
                self._order,
                self._start,
                self._script,
            ]
        )()

    def _noise(self) -> bytes:
        return self.chance.randbytes(self.chance.choice([1, 4, 60, 3000])) + b"\n"

    def _json(self) -> bytes:
        deep = self.chance.choice([b"[", b'{"type":', b'{"type":"forget","jobs":['])
        long = b"9" * self.chance.choice([100, 5000])
        texts = [
            deep * self.chance.choice([1, 200, 3000]),
            b"NaN",
            b"-Infinity",
            b"1e999",
            b'{"type":"forget","jobs":[[' + long + b",1]]}",
            b'"' + b"x" * 70_000 + b'"',
            b"\xff\xfe",
            json.dumps(self.chance.choice(VALUES)).encode(),
            json.dumps({"type": self.chance.choice(VALUES)}).encode(),
            b'{"type":"ping","type":"nothing"}',
        ]
        return self.chance.choice(texts) + b"\n"

    def _whole(self) -> bytes:
        return encode_command(Start((self._late(self.chance.randrange(10**6, 2 * 10**6)),)))

    def _late(self, job: int) -> JobSpec:
        return self.agent.spec(job, "touch ../ran ran", user=f"nobody-{job}", start_deadline=1.0)

    def _whole_script(self) -> dict[str, Any]:
        spec = self._late(self.chance.randrange(10**6, 10**6 + 50))
        kind = self.chance.choice(["prologue", "epilogue", "launcher"])
        if kind == "launcher":
            return dict(json.loads(encode_command(RunLaunchers((spec,)))))
        return dict(json.loads(encode_command(RunScript(kind, "/bin/sh", 60.0, (spec,), self.chance.random() < 0.3))))

    def _script(self) -> bytes:
        """Return a script for a job of nobody, whole or with one value that does not belong there."""
        content = self._whole_script()
        if self.chance.random() < 0.8:
            (job,) = content["jobs"]["each"]
            target = self.chance.choice([content, content, content["jobs"], job])
            names = [name for name in target if name != "user"]
            target[self.chance.choice(names)] = self.chance.choice(VALUES)
        return json.dumps(content).encode() + b"\n"

    def _flipped(self) -> bytes:
        data = bytearray(self._whole())
        for _ in range(self.chance.choice([1, 1, 2, 8])):
            data[self.chance.randrange(len(data))] ^= 1 << self.chance.randrange(8)
        return bytes(data) + b"\n"

    def _cut(self) -> bytes:
        data = self._whole()
        begin = self.chance.randrange(3)
        return data[begin : begin + self.chance.randrange(1, len(data))] + self.chance.choice([b"", b"\n"])

    def _replay(self) -> bytes:
        return self.chance.choice(self.old)

    def _order(self) -> bytes:
        """Return an order about jobs that are not there, or with values that do not belong there."""
        word = self.chance.choice(list(COMMANDS))
        body: dict[str, Any] = {"type": word}
        key = [self.chance.randrange(10**6, 10**6 + 50), self.chance.choice([0, 1, 65535])]
        tricky = [self.chance.choice(_TRICKS), 1]
        fields = COMMANDS[word].CHECKS.keys()
        if "jobs" in fields:
            body["jobs"] = self.chance.choice([[key], [key, key], [tricky], [key, tricky], self.chance.choice(VALUES)])
        for name in fields:
            if name != "jobs" and self.chance.random() < 0.9:
                body[name] = self.chance.choice([0, 9, 3600, None] if self.chance.random() < 0.7 else VALUES)
        if self.chance.random() < 0.1:
            body[self.chance.choice(["grace", "token", "no such field"])] = self.chance.choice(VALUES)
        return json.dumps(body).encode() + b"\n"

    def _start(self) -> bytes:
        """Return a start with one value that does not belong there, one missing, or one too many."""
        content: dict[str, Any] = json.loads(self._whole())
        (job,) = content["jobs"]["each"]
        target = self.chance.choice([job, job, job, content["jobs"]["shared"], content["jobs"], content])
        if target is job and self.chance.random() < 0.3:
            del job[self.chance.choice(list(job))]
        else:
            target[self.chance.choice([*target, *job, "no such field"])] = self.chance.choice(VALUES)
        return json.dumps(content).encode() + b"\n"


def fuzz(agent: Agent, count: int, seed: int) -> list[str]:
    """Send ``count`` inputs; return what is wrong."""
    ended, forgotten = (agent.spec(job, f"echo ran >> ran.{job}") for job in (1, 2))
    agent.write(encode_command(Start((ended, forgotten))))
    agent.wait_for(1)
    agent.write(encode_command(Start((forgotten,))))  # told again, should its end have come before that of job 1
    agent.wait_for(2)
    agent.write(encode_command(Forget((forgotten.key,))))
    messages = Messages(agent, random.Random(seed))
    messages.old = [encode_command(Start((one,), fence)) for one in (ended, forgotten) for fence in ("", "other:life")]
    agent.turn()
    before, wrong = agent.outside(), []
    if [before.get(name) for name in ("ran.1", "ran.2")] != ["ran\n", "ran\n"]:
        wrong.append(f"the jobs before did not run: {before}")
    for sent in range(0, count, _BATCH):
        agent.write(b"".join(messages.next() for _ in range(min(_BATCH, count - sent))))
        agent.turn()
        if agent.processes():
            wrong.append("a process was started")
            break
    if agent.outside() != before:
        wrong.append(f"files have changed: {agent.outside()}")
    return wrong


def fuzz_steps(count: int, seed: int) -> list[str]:
    """Read ``count`` specifications of steps with values that do not belong there; return what is wrong."""
    chance, wrong = random.Random(seed), []
    job = JobSpec(1, 1, "user", "true", "/tmp", environment={"A": "b"})
    whole = json.dumps(StepSpec(job, "date", "/tmp", terminal=StepTerminal("vt100", 24, 80)).entry(), default=vars)
    for _ in range(count):
        content: dict[str, Any] = json.loads(whole)
        target = chance.choice([content, content["job"], content["terminal"]])
        name = chance.choice([*target, "no such field"])
        if chance.random() < 0.2:
            target.pop(name, None)
        else:
            target[name] = chance.choice(VALUES)
        try:
            if vars(StepSpec.read(content).job).keys() != JobSpec.CHECKS.keys():
                wrong.append(f"a job with other fields: {str(content)[:200]}")
        except Malformed:
            continue
        except Exception as error:  # what this looks for
            wrong.append(f"{type(error).__name__} on {str(content)[:200]}")
    return wrong


_KEY = JobKey(1, 1)
SAMPLE_REPORTS: list[Report] = [
    Ready(1, "b", "b:i", 1.0, (JobReport(_KEY, "running"),), 3),
    Recalled((RecalledJob(_KEY, "ann", 2, 1.0, 2.0, 0, "exited"), RecalledJob(_KEY))),
    Started(_KEY, 5.0),
    Ended(_KEY, 0, "exited", 5.0, 6.0, cpu_seconds=1.5, memory_peak=4096),
    Refused(_KEY, "FORGOTTEN", ""),
    Stuck(_KEY, "it was stopped", "/away"),
    Cleaned(_KEY, 0, 0, 0, 1.5, 4096),
    Suspended(_KEY, 5.0),
    Resumed(_KEY, 5.0),
    Checkpointed(_KEY, 5.0),
    Pong("t", 1.0),
    Checked(""),
    ScriptEnded(_KEY, "prologue", "ok", ""),
    LauncherEnded(_KEY, "it ended with exit status 3"),
    WalltimeChanged(_KEY, 60),
    Resized(_KEY, 1),
    Load(0.5, 1024, 60),
    Gpus(8),
    GpuUse((MeasuredGpu(0, 50, 1 << 30, None),)),
    Health("the disk is full"),
    Knocked("0123456789abcdef" * 2),
    AgentError("e"),
]


def reports(chance: random.Random) -> bytes:
    """Return one line of a hostile agent: a whole message, one of its values put to something else, or noise."""
    message: dict[str, Any] = json.loads(encode_reports([chance.choice(SAMPLE_REPORTS)]))[0]
    if "key" in message:
        message["key"] = [chance.randrange(1, 9), chance.randrange(3)]
    if chance.random() < 0.7:
        target = message["jobs"][0] if message["type"] == "ready" and chance.random() < 0.4 else message
        target[chance.choice(list(target))] = chance.choice(["it is weird", "WEIRD", "killed", 9e12, *VALUES])
    data = json.dumps([message] * chance.choice([1, 1, 3])).encode()
    if chance.random() < 0.1:
        flipped = bytearray(data)
        flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
        return bytes(flipped)
    return chance.randbytes(40) if chance.random() < 0.05 else data


def fuzz_reader(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Read ``count`` lines of a hostile agent; return what became of them and what is wrong."""
    chance, outcomes, wrong = random.Random(seed), Counter[str](), []
    for _ in range(count):
        line = reports(chance)
        try:
            for report in decode_reports(line):
                outcomes["read"] += 1
                wrong += _not_storable(report)
        except Malformed:
            outcomes["refused"] += 1
        except Exception as error:  # what this looks for
            wrong.append(f"{type(error).__name__} on {line[:200]!r}")
    return outcomes, wrong


def _not_storable(report: Report) -> list[str]:
    """Name what the database cannot hold of a report."""
    wrong = []
    if isinstance(report, (Started, Ended, Cleaned)) and not _is_key(report.key):
        wrong.append(f"key {report.key}")
    if isinstance(report, Ended):
        texts = (report.detail, report.reason)
        wrong += [f"text {one!r}" for one in texts if "\0" in one or one.encode(errors="replace").decode() != one]
        wrong += [f"time {at}" for at in (report.start, report.end) if at is not None and not 0 <= at < 1e12]
        wrong += [f"number {one}" for one in (report.status, report.left) if one is not None and not 0 <= one < 2**31]
    if isinstance(report, Load):
        wrong += [f"number {one}" for one in (report.available_memory, report.uptime) if not 0 <= one < 2**31]
        wrong += [f"load {report.average}"] if not 0 <= report.average < 1e16 else []
    return wrong


def _is_key(key: JobKey) -> bool:
    return 0 <= key.job < 2**47 and 0 <= key.attempt < 2**16


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both, and print what happened; exit status 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="oarpy-fuzz-") as folder:
        agent = Agent(Path(folder), f"fuzz-{os.getpid()}")
        try:
            began, size = time.monotonic(), agent.resident()
            wrong += _guarded(lambda: fuzz(agent, options.count, options.seed))
            print(f"{options.count} inputs to an agent (seed {options.seed}) in {time.monotonic() - began:.0f} s")
            print("  answers: " + ", ".join(f"{what} {times}" for what, times in sorted(agent.outcomes.items())))
            if not wrong:
                print(f"  resident MiB of the agent: {size} before, {agent.resident()} after")
        finally:
            agent.close()
    outcomes, misread = fuzz_reader(options.count, options.seed)
    print(f"{options.count} lines of a hostile agent (seed {options.seed})")
    print("  " + ", ".join(f"{what} {times}" for what, times in sorted(outcomes.items())))
    wrong += misread + fuzz_steps(options.count, options.seed)
    print(f"{options.count} specifications of steps (seed {options.seed})")
    print("\n".join(f"  WRONG: {line}" for line in wrong[:20]) or "  no crash, no hang, no effect")
    return 1 if wrong else 0


def _guarded(run: Callable[[], list[str]]) -> list[str]:
    try:
        return run()
    except AssertionError as error:
        return [str(error)]


if __name__ == "__main__":
    bare_environment.enter()
    sys.exit(main())
