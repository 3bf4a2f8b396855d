"""One run of a prologue or epilogue, in a process of its own that outlives the agent until the script's end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

from oarpy.transport.agent.job import processes
from oarpy.transport.agent.job.environment import remove_files
from oarpy.transport.agent.job.spawning import LaunchFailure, spawn
from oarpy.transport.agent.job.supervisor import detach
from oarpy.wire.messages import FAILED, OK, TIMEOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from oarpy.transport.agent.job.record import Record
    from oarpy.transport.agent.statedir import StateDir

_PATIENCE = 20.0
_RETRY_DISK = 1.0
_KEPT = 400
_TICK = 0.2
_MOST_READS = 64
SITE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs of the site find others."""


class ScriptRun:
    """A run of a script: the site's program with its arguments, environment, and time limit in seconds."""

    __slots__ = ("_said", "arguments", "environment", "kind", "program", "timeout")

    def __init__(
        self, kind: str, program: str, timeout: float, arguments: list[str], environment: dict[str, str]
    ) -> None:
        self.kind = kind
        self.program = program
        self.timeout = timeout
        self.arguments = arguments
        self.environment = environment
        self._said = b""

    def run(self) -> tuple[str, str]:
        """Return (outcome, detail) after the script's end, when nothing of it is left."""
        source, sink = os.pipe()
        os.set_blocking(source, False)
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, sink, 1),
            (os.POSIX_SPAWN_DUP2, sink, 2),
        ]
        try:
            main = spawn(self.program, [self.program, *self.arguments], self.environment, actions)
        except LaunchFailure as failure:
            return FAILED, f"{self.kind} {failure}"
        os.close(sink)
        statuses: dict[int, int] = {}
        in_time = self._wait(main, source, statuses)
        left = processes.kill_descendants(_PATIENCE, statuses)
        self._listen(source)
        text = self._said.decode(errors="replace").strip()
        if not in_time:
            return TIMEOUT, f"{self.kind} took more than {self.timeout:g} s: {text}".removesuffix(": ")
        if left:
            return FAILED, f"{self.kind}: {left} of its processes resist SIGKILL"
        status = os.waitstatus_to_exitcode(statuses[main])
        if status == 0:
            return OK, ""
        how = f"exit status {status}" if status > 0 else f"signal {-status}"
        return FAILED, f"{self.kind} ended with {how}: {text}".removesuffix(": ")

    def _wait(self, main: int, source: int, statuses: dict[int, int]) -> bool:
        """Wait for the script itself, not for its background processes; return False when its time is over."""
        deadline = time.monotonic() + self.timeout
        while processes.reap_children(statuses) and main not in statuses:
            if time.monotonic() >= deadline:
                return False
            # Its output wakes this up, and so does its end, when no process of it holds the stream any more.
            select.select([source], [], [], min(_TICK, max(0.0, deadline - time.monotonic())))
            if not self._listen(source):
                time.sleep(_TICK / 20)
        return True

    def _listen(self, source: int) -> bool:
        """Keep the end of its output; return False at the end of the stream."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_MOST_READS):  # a script that never stops writing does not outlive its time limit
                content = os.read(source, 1 << 16)
                if not content:
                    return False
                self._said = (self._said + content)[-_KEPT:]
        return True


def start_runner(state: StateDir, script_record: Record, run: ScriptRun) -> int:
    """Fork the process that runs a script, begun in its record, whose lock goes with it; return its process id."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        detach(script_record.fd)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        _carry_out(state, script_record, run)
        status = 0
    finally:
        os._exit(status)


def _carry_out(state: StateDir, script_record: Record, run: ScriptRun) -> None:
    # Only a script that is known on disk may run: a power cut must not make it run again.
    os.fsync(script_record.fd)
    state.sync(state.scripts)
    outcome, detail = run.run()
    if run.kind == "epilogue":
        remove_files(state, script_record.key.rpartition(".")[0])
    while True:
        try:
            script_record.append("ended", time.time(), outcome=outcome, detail=detail)
            break
        except OSError:
            time.sleep(_RETRY_DISK)  # a full disk: nothing can be reported before it is kept
    script_record.close()
    state.ring()
