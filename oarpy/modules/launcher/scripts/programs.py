"""Programs of the site on the server: processes of the launcher, some at a time, each with a time limit."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Generic, TypeVar

from oarpy.wire.messages import FAILED, OK, TIMEOUT

_AT_ONCE = 16
_KEPT = 400
_OVERDUE = 5.0

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """How a run ended: ``ok``, ``failed`` or ``timeout``, with a text about it."""

    outcome: str
    detail: str


@dataclass(slots=True)
class _Process:
    process: subprocess.Popen[bytes]
    said: IO[bytes]
    handle: int
    deadline: float


@dataclass(slots=True)
class Programs(Generic[Key]):
    """Runs of one ``program``, each for a job; ``timeout`` in seconds."""

    program: str
    timeout: float
    _running: dict[Key, _Process] = field(default_factory=dict)
    _failed: dict[Key, ProgramEnd] = field(default_factory=dict)

    @property
    def running(self) -> set[Key]:
        """The programs that were started and have not been collected."""
        return {*self._running, *self._failed}

    @property
    def room(self) -> int:
        """How many more may be started now."""
        return max(0, _AT_ONCE - len(self._running))

    def files(self) -> list[int]:
        """Return descriptors that are readable when a program has ended."""
        return [program.handle for program in self._running.values()]

    @property
    def next_deadline(self) -> float | None:
        """When (monotonic seconds) the time of a running program is over."""
        return min((program.deadline for program in self._running.values()), default=None)

    def start(self, key: Key, job: int) -> None:
        """Run the program with the id of a job; it gets nothing else."""
        command = [self.program, str(job)]
        limiter = shutil.which("timeout")
        if limiter:
            # It must end even if this process is gone by then.
            command = [limiter, "--signal=KILL", f"{self.timeout + _OVERDUE:g}", *command]
        output = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the program has ended
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                env={"PATH": os.environ.get("PATH", os.defpath), "OAR_JOB_ID": str(job)},
                start_new_session=True,
            )
        except OSError as error:
            output.close()
            self._failed[key] = ProgramEnd(FAILED, f"{self.program}: {error.strerror}")
            return
        deadline = time.monotonic() + self.timeout
        self._running[key] = _Process(process, output, os.pidfd_open(process.pid), deadline)

    def collect(self) -> dict[Key, ProgramEnd]:
        """Return the ends of programs since the last look. Programs whose time is over are killed now."""
        ended, self._failed = self._failed, {}
        for key, program in list(self._running.items()):
            late = time.monotonic() >= program.deadline
            if program.process.poll() is None and not late:
                continue
            if program.process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(program.process.pid, signal.SIGKILL)
                program.process.wait()
            else:
                late = False
            ended[key] = self._judge(program, late)
            program.said.close()
            os.close(program.handle)
            del self._running[key]
        return ended

    def close(self) -> None:
        """Let running programs go: each has a limit of its own."""
        for program in self._running.values():
            program.said.close()
            os.close(program.handle)
        self._running.clear()

    def _judge(self, process: _Process, late: bool) -> ProgramEnd:
        process.said.seek(0, os.SEEK_END)
        process.said.seek(max(0, process.said.tell() - _KEPT))
        text = process.said.read(_KEPT).decode(errors="replace").replace("\0", "").strip()
        if late:
            return ProgramEnd(TIMEOUT, f"took more than {self.timeout:g} s: {text}".removesuffix(": "))
        status = process.process.returncode
        if status == 0:
            return ProgramEnd(OK, "")
        how = f"exit status {status}" if status > 0 else f"signal {-status}"
        return ProgramEnd(FAILED, f"ended with {how}: {text}".removesuffix(": "))
