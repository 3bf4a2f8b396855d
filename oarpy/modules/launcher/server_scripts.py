"""The site's prologue or epilogue on the server: processes of the launcher, some at a time, each with a time limit."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from oarpy.store import server_scripts
from oarpy.store.database import Connection
from oarpy.store.server_scripts import ScriptOutcome
from oarpy.transport.messages import FAILED, LOST, OK, PROLOGUE, TIMEOUT

_AT_ONCE = 16
_KEPT = 400
_OVERDUE = 5.0
_CUT_OFF = "was cut off: the launcher that ran it was killed"

Attempt = tuple[int, int]
"""A job and which attempt at it."""

EVENTS = {FAILED: "EXIT_CODE_ERROR", TIMEOUT: "TIMEOUT", LOST: "LOST"}
"""How a script can fail, and how the type of its event ends."""


@dataclass(slots=True)
class _Process:
    process: subprocess.Popen[bytes]
    said: IO[bytes]
    handle: int
    deadline: float


@dataclass(slots=True)
class ServerScripts:
    """One kind of script. A row is written before each is started, so one that was cut off is known for that."""

    kind: str
    program: str
    timeout: float
    _running: dict[Attempt, _Process] = field(default_factory=dict)
    _ended: dict[Attempt, ScriptOutcome] = field(default_factory=dict)
    _unrecorded: list[ScriptOutcome] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.program)

    def files(self) -> list[int]:
        """Readable when a script has ended."""
        return [one.handle for one in self._running.values()]

    @property
    def next_deadline(self) -> float | None:
        """When (monotonic seconds) the time of a running script is over."""
        return min((one.deadline for one in self._running.values()), default=None)

    def advance(self, connection: Connection, attempts: Sequence[Attempt]) -> dict[Attempt, ScriptOutcome]:
        """Start the scripts of these (job, attempt) as there is room, see which have ended; return those."""
        self._collect(connection)
        unknown = [one for one in attempts if one not in self._running and one not in self._ended]
        room = unknown[: max(0, _AT_ONCE - len(self._running))]
        if room:
            with connection.transaction():
                begun = server_scripts.begin(connection, self.kind, room)
                earlier = server_scripts.find(connection, self.kind, [one for one in room if one not in begun])
                # Begun by a launcher that is gone: whether it came to its end nobody knows.
                lost = [self._outcome((one.job, one.attempt), LOST, _CUT_OFF) for one in earlier if not one.outcome]
                server_scripts.end(connection, lost)
            known = [one for one in earlier if one.outcome] + lost
            self._ended |= {(one.job, one.attempt): one for one in known}
            for attempt in sorted(begun):
                self._start(attempt)
        return {one: self._ended[one] for one in attempts if one in self._ended}

    def is_running(self, job: int) -> bool:
        """Whether a script of a job runs."""
        return any(one == job for one, _ in self._running)

    def forget(self, live: set[int]) -> None:
        """Drop jobs that are not live any more."""
        for attempt in [attempt for attempt in self._ended if attempt[0] not in live]:
            del self._ended[attempt]

    def close(self) -> None:
        """Let go of what runs: each has a limit of its own."""
        for one in self._running.values():
            one.said.close()
            os.close(one.handle)
        self._running.clear()

    def _start(self, attempt: Attempt) -> None:
        command = [self.program, str(attempt[0])]
        limiter = shutil.which("timeout")
        if limiter:
            # Somebody has to end it, should this process be gone by then.
            command = [limiter, "--signal=KILL", f"{self.timeout + _OVERDUE:g}", *command]
        said = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the script has ended
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd="/",
                env={"PATH": os.environ.get("PATH", os.defpath), "OAR_JOB_ID": str(attempt[0])},
                start_new_session=True,
            )
        except OSError as error:
            said.close()
            self._unrecorded.append(self._outcome(attempt, FAILED, f"{self.program}: {error.strerror}"))
            return
        deadline = time.monotonic() + self.timeout
        self._running[attempt] = _Process(process, said, os.pidfd_open(process.pid), deadline)

    def _collect(self, connection: Connection) -> None:
        """Record the scripts that have ended, and those whose time is over."""
        for attempt, one in list(self._running.items()):
            late = time.monotonic() >= one.deadline
            if one.process.poll() is None and not late:
                continue
            if one.process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(one.process.pid, signal.SIGKILL)
                one.process.wait()
            else:
                late = False
            self._unrecorded.append(self._judge(attempt, one, late))
            one.said.close()
            os.close(one.handle)
            del self._running[attempt]
        if self._unrecorded:
            with connection.transaction():
                server_scripts.end(connection, self._unrecorded)
            self._ended |= {(one.job, one.attempt): one for one in self._unrecorded}
            self._unrecorded = []

    def _judge(self, attempt: Attempt, one: _Process, late: bool) -> ScriptOutcome:
        one.said.seek(0, os.SEEK_END)
        one.said.seek(max(0, one.said.tell() - _KEPT))
        text = one.said.read(_KEPT).decode(errors="replace").replace("\0", "").strip()
        if late:
            return self._outcome(attempt, TIMEOUT, f"took more than {self.timeout:g} s: {text}".removesuffix(": "))
        status = one.process.returncode
        if status == 0:
            return self._outcome(attempt, OK, "")
        how = f"exit status {status}" if status > 0 else f"signal {-status}"
        return self._outcome(attempt, FAILED, f"ended with {how}: {text}".removesuffix(": "))

    def _outcome(self, attempt: Attempt, outcome: str, detail: str) -> ScriptOutcome:
        """Return the record of an end. Of an epilogue an event tells; a prologue ends its job, which tells of it."""
        event = "" if outcome == OK or self.kind == PROLOGUE else f"SERVER_EPILOGUE_{EVENTS[outcome]}"
        return ScriptOutcome(*attempt, self.kind, outcome, f"server {self.kind} {detail}" if detail else "", event)
