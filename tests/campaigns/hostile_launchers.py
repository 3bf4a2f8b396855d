"""Launchers that flood, fall silent, read slowly or die are ranked ahead of one that behaves: it starts all the same.

``python -m tests.campaigns.hostile_launchers`` has 10 of each kind ask for hosts that stay busy. They are shown every
host that becomes free, so each may keep it back for ``fair_start``, and no longer. In each round a batch job frees
hosts for which one well-behaved application waits behind all of them. A smaller round is a test.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from oarpy.local_cluster.sandbox import Sandbox, Settings
from tests.harness import bare_environment
from tests.harness.launcher_lines import LauncherLines, Message, over_socket

SLACK = 5.0
"""Seconds for passes, processes and a busy machine."""
_PATIENCE = 120.0
_FLOOD = 40
_PAUSE = 0.1


@dataclass(slots=True)
class Hostile:
    """``connect`` opens connections; ``cluster`` is where they ask for hosts, in vain."""

    connect: Callable[[], LauncherLines]
    cluster: str
    over: threading.Event = field(default_factory=threading.Event)
    done: Counter[str] = field(default_factory=Counter)
    """How often each kind did what it does."""

    def play(self, kind: Callable[[], None]) -> None:
        """Do what a kind does until it is over."""
        try:
            kind()
        except ConnectionError:
            if not self.over.is_set():
                raise

    def flood(self) -> None:
        """Say more than may be said, attach again when cut off, and go on."""
        lines, job = self._in_line()
        word = "listClustersInfo"
        while not self.over.is_set():
            with suppress(ConnectionError):
                lines.send(b'{"message": "%s"}\n' % word.encode() * _FLOOD)
                while lines.hear(_PATIENCE) is not None:
                    continue
            self.done["floods"] += 1
            lines.close()
            word = "ping" if word == "listClustersInfo" else "listClustersInfo"
            lines = self._again(job)
        lines.close()

    def fall_silent(self) -> None:
        """Answer nothing, not even a ping."""
        lines, _ = self._in_line()
        self.done["silences"] += 1
        self.over.wait()
        lines.close()

    def read_slowly(self) -> None:
        """Read a few bytes at a time."""
        lines, _ = self._in_line()
        while not self.over.wait(_PAUSE):
            with suppress(OSError, ConnectionError):
                lines.send(b'{"message": "ping"}\n')
                self.done["slow bytes"] += len(lines.socket.recv(5))
        lines.close()

    def die(self) -> None:
        """Leave in the middle of a line, and come back."""
        lines, job = self._in_line()
        while not self.over.is_set():
            with suppress(ConnectionError):
                lines.send(b'{"message": "req')
            lines.close()
            self.done["deaths"] += 1
            self.over.wait(_PAUSE)
            lines = self._again(job)
        lines.close()

    def _in_line(self) -> tuple[LauncherLines, int]:
        """Ask for hosts that are busy; return when a pass has given the request its place."""
        lines = self.connect()
        lines.say("subscribe")
        job = int(expect(lines, "subscribed")["job"])
        expect(lines, "changeNotify")
        lines.say("request", tag=1, hosts={self.cluster: 1}, walltime=3600)
        expect(lines, "estimate")
        return lines, job

    def _again(self, job: int) -> LauncherLines:
        while True:
            try:
                lines = self.connect()
                lines.say("attach", job=job)
                return lines
            except ConnectionError:
                if self.over.wait(_PAUSE):
                    raise


def expect(lines: LauncherLines, word: str) -> Message:
    """Return the next message with this word; a view in between is kept as it is."""
    until = time.monotonic() + _PATIENCE
    while (message := lines.hear(until - time.monotonic())) is not None:
        if message["message"] == "ping":
            lines.say("pong")
        if message["message"] == "changeNotify":
            lines.say("keep", serial=message["serial"])
        if message["message"] == word:
            return message
        assert message["message"] in ("changeNotify", "estimate", "ping", "pong", "refused"), message
    raise AssertionError(f"no {word} within {_PATIENCE:g} s")


@dataclass(slots=True)
class HostileCampaign:
    """Rounds on a cluster of two sites, with ``each`` hostile launchers of each kind."""

    sandbox: Sandbox
    each: int
    fair_start: float
    delays: list[float] = field(default_factory=list)
    """Seconds from the end of a batch job to the start of who waited for its hosts, by round."""
    echoes: list[float] = field(default_factory=list)
    """Seconds from a ping to its pong."""
    done: Counter[str] = field(default_factory=Counter)
    """What the hostile ones did."""

    def run(self, rounds: int) -> list[str]:
        """Run rounds; return what is wrong."""
        self._set_up()
        hostile = Hostile(self._connect, "red")
        kinds = (hostile.flood, hostile.fall_silent, hostile.read_slowly, hostile.die)
        threads = [
            threading.Thread(target=hostile.play, args=(kind,), daemon=True) for kind in kinds for _ in range(self.each)
        ]
        try:
            for thread in threads:
                thread.start()
            self._wait_for_line(len(threads))
            for _ in range(rounds):
                self._round()
        finally:
            hostile.over.set()
            for thread in threads:
                thread.join(_PATIENCE)
        self.done += hostile.done
        bound = self.fair_start + SLACK
        return [f"started {delay:.1f} s after its hosts were freed" for delay in self.delays if delay > bound]

    def _connect(self) -> LauncherLines:
        return over_socket(str(self.sandbox.directory / "gateway" / "socket"))

    def _set_up(self) -> None:
        self.sandbox.create()
        self.sandbox.start()
        self.sandbox.run("oaradmin", "resources", "add", "/host=n[1-4]/core={1}", "--transport", "local")
        self.sandbox.run("oarproperty", "-a", "site", "-c")
        with self._database() as connection:
            connection.execute("UPDATE resources SET site = CASE WHEN host <= 'n2' THEN 'red' ELSE 'blue' END")
        self.sandbox.wait_for_gateway(30)
        busy = self.sandbox.job_ids("-l", "/host=2,walltime=2:0:0", "-p", "site = 'red'", "sleep 7200")
        self.sandbox.wait_for(busy, ("Running",), _PATIENCE)

    def _wait_for_line(self, count: int) -> None:
        until = time.monotonic() + _PATIENCE
        with self._database() as connection:
            while True:
                row = connection.execute("SELECT count(*) FROM applications WHERE state = 'Waiting'").fetchone()
                if row == (count,):
                    return
                assert time.monotonic() < until, f"{row} of {count} hostile applications wait"
                time.sleep(_PAUSE)

    def _round(self) -> None:
        """A batch job holds the hosts of one site; who behaves waits for them, and the batch job is ended."""
        holding = self.sandbox.job_ids("-l", "/host=2,walltime=1:0:0", "-p", "site = 'blue'", "sleep 3600")
        self.sandbox.wait_for(holding, ("Running",), _PATIENCE)
        lines = self._connect()
        lines.say("subscribe")
        job = int(expect(lines, "subscribed")["job"])
        expect(lines, "changeNotify")
        lines.say("request", tag=1, hosts={"blue": 2}, walltime=60)
        expect(lines, "estimate")
        began = time.monotonic()
        lines.say("ping")
        expect(lines, "pong")
        self.echoes.append(time.monotonic() - began)
        self.sandbox.run("oardel", str(holding[0]))
        expect(lines, "startNotify")
        with self._database() as connection:
            row = connection.execute(_DELAY, [holding[0], job]).fetchone()
        assert row is not None
        self.delays.append(float(row[0]))
        self.sandbox.wait_for([job], ("Running",), _PATIENCE)
        lines.say("done")
        expect(lines, "ended")
        lines.close()

    @contextmanager
    def _database(self) -> Iterator[psycopg.Connection]:
        with psycopg.connect(self.sandbox.dsn(), autocommit=True) as connection:
            yield connection


_DELAY = """
    SELECT extract(epoch FROM min(lower(a.during)) - (SELECT ended_at FROM jobs WHERE job_id = %s))::float8
    FROM assigned_resources a WHERE job_id = %s
"""


def run_rounds(directory: Path, each: int, rounds: int, fair_start: float) -> tuple[HostileCampaign, list[str]]:
    """Run the campaign in ``directory``; return it with what it measured, and what is wrong."""
    settings: Settings = {"negotiation": {"cluster": "site", "fair_start": fair_start, "patience": 600.0}}
    campaign = HostileCampaign(Sandbox(directory, settings), each, fair_start)
    try:
        return campaign, campaign.run(rounds)
    finally:
        campaign.sandbox.discard()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign and print what happened; exit status 1 if anybody was delayed for too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=10, help="hostile launchers of each kind")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--fair-start", type=float, default=5.0, help="seconds")
    options = parser.parse_args(arguments)
    for each in (0, options.each):
        with tempfile.TemporaryDirectory(prefix="oarpy-hostile-") as folder:
            campaign, wrong = run_rounds(Path(folder), each, options.rounds, options.fair_start)
        did = ", ".join(f"{what} {count}" for what, count in sorted(campaign.done.items())) or "nothing"
        print(f"{4 * each} hostile launchers ({did}), {options.rounds} rounds")
        for what, seconds in (
            ("from freed hosts to the start", campaign.delays),
            ("from ping to pong", campaign.echoes),
        ):
            print(f"  {what}: {sum(seconds) / len(seconds):.2f} s on average, {max(seconds):.2f} s at most")
        print("\n".join(f"  WRONG: {line}" for line in wrong) or "  nobody was delayed beyond fair-start")
    return 1 if wrong else 0


if __name__ == "__main__":
    bare_environment.enter()
    sys.exit(main())
