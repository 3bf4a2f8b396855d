"""Requests to the supervisor of a running job: one small file each, then a signal that says "look".

The file carries the request, the signal nothing. So a lost signal does no harm, nor does a signal to a supervisor that
went on to another job. Any agent can ask, whichever agent started the job.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from oarpy.transport.agent.job.record import Record
    from oarpy.transport.agent.statedir import StateDir

KILL = "kill"
SIGNAL = "signal"
SUSPEND = "suspend"
RESUME = "resume"
WALLTIME = "walltime"

LOOK = signal.SIGUSR1


def leave_request(state: StateDir, key: str, verb: str, value: int, reason: str = "") -> None:
    """Put a request where the supervisor of ``key`` will find it; ``reason`` is for people."""
    name = f"{key}.{time.time_ns():020d}-{os.getpid()}"
    hidden = os.path.join(state.requests, "new-" + name)
    with open(hidden, "w", encoding="ascii") as file:
        json.dump({"do": verb, "value": value, "reason": reason}, file)
    os.rename(hidden, os.path.join(state.requests, name))


def take_requests(state: StateDir, key: str) -> list[tuple[str, int, str]]:
    """Read and remove the requests for ``key``, in the order they were left: (verb, value, reason)."""
    prefix = key + "."
    requests_left: list[tuple[str, int, str]] = []
    for name in sorted(name for name in os.listdir(state.requests) if name.startswith(prefix)):
        path = os.path.join(state.requests, name)
        try:
            with open(path, encoding="ascii") as file:
                entry = json.load(file)
            requests_left.append((str(entry["do"]), int(entry["value"]), str(entry.get("reason", ""))))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        finally:
            remove(path)
    return requests_left


def drop_requests(state: StateDir, keys: set[str]) -> None:
    """Remove all requests for jobs that are forgotten."""
    for name in os.listdir(state.requests):
        if name.rpartition(".")[0] in keys:
            remove(os.path.join(state.requests, name))


def remove(path: str) -> None:
    """Unlink a file that may be gone."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def rouse(record: Record, pid: int, number: int = LOOK) -> None:
    """Signal the supervisor ``pid``, which holds the lock of ``record``; by itself, make it look at its requests."""
    try:
        handle = os.pidfd_open(pid)
    except OSError as error:
        if error.errno == errno.ENOSYS and not record.try_lock():
            os.kill(pid, number)  # a kernel before 5.3 has no handles of processes
        return  # it ended; the next look at the record shows that
    try:
        # Still locked after the handle was taken: so it is the holder's, not that of a process that reuses its id.
        if not record.try_lock():
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)
