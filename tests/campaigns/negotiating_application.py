"""An application of campaigns: a thread that negotiates whatever is killed around it, and notes what was wrong."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.harness.launcher_lines import LauncherLines, Message

_PAUSE = 0.2
_QUIET = 5.0
"""Seconds without a message after which a sign of life is asked for."""
_TRY_LATER, _WRONG_MOMENT, _UNKNOWN_NAME = 6, 1, 4
_WALLTIME = 600


class Application(threading.Thread):
    """Subscribes, asks, changes its mind, starts, grows, and gives its hosts back; attaches again after each loss.

    ``command`` are words of ``oarsub``; without any the launcher says ``done`` after ``lasts`` seconds.
    """

    def __init__(
        self, connect: Callable[[], LauncherLines], chance: random.Random, command: tuple[str, ...], most: int
    ) -> None:
        super().__init__(daemon=True)
        self._connect, self._chance, self._command, self._most = connect, chance, command, most
        self.lasts = chance.uniform(0.1, 4)
        self.job: int | None = None
        self.reason = ""
        self.wrong: list[str] = []
        self.attached = 0
        self.requests = 0
        self.lines: LauncherLines | None = None
        self.given_up = False
        self._lock = threading.Lock()
        self._serial = 0
        self._view: dict[str, Any] = {}
        self._tag = 0
        self._asked: dict[int, dict[str, int]] = {}
        self._ends: float | None = None
        self._hosts: set[str] = set()
        self._reclaimed: set[str] = set()
        self.granted = self.released = 0

    def run(self) -> None:
        """Speak until the end is told."""
        while not (self.reason or self.given_up):
            try:
                self.lines = self._connect()
            except (ConnectionError, FileNotFoundError):
                time.sleep(_PAUSE)
                continue
            self._ends = None
            with suppress(ConnectionError):
                self._converse(self.lines)
            self.lines.close()

    def seen(self) -> tuple[int, dict[str, Any]]:
        """Return the number of the last view, and the profiles that views have shown."""
        with self._lock:
            return self._serial, dict(self._view)

    def _converse(self, lines: LauncherLines) -> None:
        if self.job is None:
            lines.say("subscribe", arguments=list(self._command))
        else:
            lines.say("attach", job=self.job, serial=self._serial)
        while not (self.reason or self.given_up):
            message = lines.hear(_QUIET if self._ends is None else max(0, self._ends - time.monotonic()))
            if message is not None:
                self._hear(lines, message)
            elif self._ends is None:
                lines.say("ping")
            else:
                lines.say("done")
                self._ends = time.monotonic() + _QUIET

    def _hear(self, lines: LauncherLines, message: Message) -> None:
        word = message["message"]
        if word == "subscribed":
            self.job = message["job"]
        elif word == "attached":
            self.attached += 1
            if message["state"] in ("Submitted", "RequestSent", "Waiting") and self._tag != (message["tag"] or 0):
                self._ask(lines, self._asked[self._tag])
        elif word == "changeNotify":
            self._look(lines, message)
        elif word == "startNotify":
            self._start(lines, message)
        elif word in ("granted", "reclaim", "released"):
            self._resize(lines, message)
        elif word == "refused":
            self._think(lines, message)
        elif word == "ended":
            self.reason = message["reason"]
        elif word == "ping":
            lines.say("pong")
        elif word not in ("pong", "estimate"):
            self.wrong.append(f"{message}")

    def _look(self, lines: LauncherLines, message: Message) -> None:
        with self._lock:
            if message["serial"] < self._serial:
                self.wrong.append(f"view {message['serial']} after {self._serial}")
            self._serial = message["serial"]
            self._view.update(message["changes"])
        if not self._tag or self._chance.random() < 0.3:
            name = self._chance.choice(sorted(self._view))
            self._ask(lines, {name: self._chance.randint(1, self._most)})
        else:
            lines.say("keep", serial=message["serial"])

    def _ask(self, lines: LauncherLines, hosts: dict[str, int]) -> None:
        self._tag += 1
        self._asked[self._tag] = hosts
        self.requests += 1
        lines.say("request", tag=self._tag, hosts=hosts, walltime=_WALLTIME)

    def _start(self, lines: LauncherLines, message: Message) -> None:
        asked = self._asked.get(message["tag"])
        names = {cluster: len(hosts) for cluster, hosts in message["names"].items()}
        if asked != message["hosts"] or (asked != names and not self._hosts):
            self.wrong.append(f"asked for {asked} and got {message}")
        self._hosts = {name for hosts in message["names"].values() for name in hosts}
        if not self._command and self._ends is None:
            self._ends = time.monotonic() + self.lasts
            kind = self._chance.choice(["firm", "revocable"])
            lines.say("extend", tag="more", hosts={self._chance.choice(sorted(names)): 1}, kind=kind)

    def _resize(self, lines: LauncherLines, message: Message) -> None:
        """Take in more hosts, of which half are given back at once; give back what will be taken; note what is gone."""
        if message["message"] == "released":
            self.released += 1
            self._hosts.difference_update(message["names"])
        elif message["message"] == "reclaim":
            self._reclaimed.update(message["names"])
            lines.say("release", names=message["names"])
        else:
            names = {name for hosts in message["names"].values() for name in hosts}
            if message["tag"] != "more" or not names or names & self._hosts:
                self.wrong.append(f"holds {sorted(self._hosts)} and got {message}")
            self.granted += 1
            self._hosts |= names
            self._reclaimed -= names
            if self._chance.random() < 0.5:
                lines.say("release", names=sorted(names))

    def _think(self, lines: LauncherLines, message: Message) -> None:
        of, code = message["of"], message["code"]
        if code == _TRY_LATER and of == "request":
            time.sleep(_PAUSE)
            self._ask(lines, self._asked[self._tag])
        elif code == _TRY_LATER and of == "subscribe":
            raise ConnectionError("again")
        elif code == _TRY_LATER and of in ("extend", "release"):
            return
        elif code == _UNKNOWN_NAME and of == "release" and self._names_reclaimed(message["reason"]):
            return  # the host was gone before the answer to its reclaim was read
        elif code != _WRONG_MOMENT:  # the start and a request may cross each other
            self.wrong.append(f"{message}")

    def _names_reclaimed(self, reason: str) -> bool:
        return any(f"has no host '{name}'" in reason for name in self._reclaimed)
