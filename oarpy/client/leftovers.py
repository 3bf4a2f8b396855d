"""What jobs of a cluster in a folder leave running when that cluster is thrown away: nobody would ever end it."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from oarpy.transport.agent.processes import NODE

_POLL = 0.01


def end_jobs(nodes: Path, timeout: float) -> None:
    """Kill every process that was started on a node whose state is kept below ``nodes``, for up to ``timeout`` seconds.

    Their supervisors end with them, as no agent is there to give them more work.
    """
    until = time.monotonic() + timeout
    while (left := _started_below(nodes)) and time.monotonic() < until:
        for pid in left:
            with suppress(OSError):  # gone meanwhile, or it became another user's
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL)


def _started_below(nodes: Path) -> list[int]:
    wanted = os.fsencode(f"{NODE}={os.path.abspath(nodes)}{os.sep}")
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if any(variable.startswith(wanted) for variable in entry.read_bytes().split(b"\0")):
                found.append(int(entry.parent.name))
    return found
