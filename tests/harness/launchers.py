"""Launchers for tests: commands that speak with a negotiator of their own, line by line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness.gateway_process import TIMEOUT, GatewayProcess
from tests.harness.waiting import until


@dataclass(slots=True)
class LauncherProcess:
    """An ``oarnegotiate`` and what it was told."""

    process: subprocess.Popen[str]
    heard: list[dict[str, Any]] = field(default_factory=list)

    def say(self, word: str, **fields: object) -> None:
        """Send a message."""
        self.send(json.dumps({"message": word, **fields}))

    def send(self, line: str) -> None:
        """Send a line, whatever it is."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def hear(self, word: str | None = None) -> dict[str, Any]:
        """Return the next message, which is of this word; a ping in between is answered."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (word, self.heard, self.process.stderr.read() if self.process.stderr else "")
        message: dict[str, Any] = json.loads(line)
        self.heard.append(message)
        if message["message"] == "ping":
            self.say("pong")
            return self.hear(word)
        assert word is None or message["message"] == word, message
        return message

    def leave(self) -> int:
        """End the input; return the exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(TIMEOUT)


@contextmanager
def negotiator(
    environment: Mapping[str, str], gateway: GatewayProcess, **settings: object
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a negotiator beside a gateway; ``settings`` are keys of its section ``[negotiation]``."""
    variables = {f"OARPY_NEGOTIATION_{name.upper()}": str(value) for name, value in settings.items()}
    own = {**os.environ, **environment, **variables, "OARPY_GATEWAY_SOCKET": str(gateway.path)}
    path = Path(gateway.folder) / "negotiator.sock"
    path.unlink(missing_ok=True)
    process = subprocess.Popen([sys.executable, "-m", "oarpy.modules", "negotiator"], env=own)
    try:
        until(lambda: path.exists() or process.poll() is not None, "the negotiator listens")
        assert process.poll() is None
        yield process
    finally:
        process.kill()
        process.wait()


def launcher(gateway: GatewayProcess, *, uid: int | None = None) -> LauncherProcess:
    """Start a launcher of a user."""
    return LauncherProcess(gateway.start("oarnegotiate", uid=uid))
