"""The processes of a job on a node beside its program: steps, and processes that carry its mark and came in other ways.

On a node that is not the first of a job there are no others.
"""

from __future__ import annotations

import signal
import time

from oarpy.transport.agent.job import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from oarpy.transport.agent.job.node_jobs import NodeJobs


def send(pids: list[int], number: int) -> None:
    """Signal processes of a job.

    A shell around a program has processes of the job below it and none above. It gets the signal only when it handles
    it: else it would die, though the program below it wanted to act.
    """
    parents = {pid: processes.parent(pid) for pid in pids}
    above = set(parents.values())
    processes.send(
        [pid for pid in pids if pid not in above or parents[pid] in parents or processes.catches(pid, number)], number
    )


def terminate(pids: list[int]) -> None:
    """Ask processes to end; shells at terminals, which do not hear that, as if these were closed."""
    processes.send(pids, signal.SIGTERM)
    processes.send([pid for pid in pids if processes.leads_terminal(pid)], signal.SIGHUP)
    processes.send(pids, signal.SIGCONT)


class ForeignProcesses:
    """The processes here of jobs whose program runs on another node, as far as an agent has to end them."""

    def __init__(self, jobs: NodeJobs) -> None:
        self._jobs = jobs
        self._asked: dict[str, float] = {}
        self._awaited: dict[str, float] = {}

    def signal(self, key: str, number: int) -> None:
        """Send a signal to the processes of the job here."""
        send(self._find(key), number)

    def terminate(self, key: str) -> None:
        """Ask the processes of the job here to end, once."""
        if key not in self._asked:
            self._asked[key] = time.monotonic()
            self._jobs.thaw(key)
            terminate(self._find(key))

    def hold_back(self, keys: list[str], grace: float) -> list[str]:
        """Return the jobs that have nothing here; the others are asked to end, and awaited for ``grace`` seconds."""
        for key in keys:
            self.terminate(key)
            self._awaited[key] = self._asked[key] + grace
        return self.due()

    def due(self) -> list[str]:
        """Return the awaited jobs that have no process here any more, or whose time is over, and forget them."""
        now = time.monotonic()
        over = [key for key, until in self._awaited.items() if now >= until or not self._find(key)]
        self.forget(over)
        return over

    def forget(self, keys: list[str]) -> None:
        """Stop waiting for these processes: they are being killed."""
        for key in keys:
            self._awaited.pop(key, None)
            self._asked.pop(key, None)

    def _find(self, key: str) -> list[int]:
        return self._jobs.guests(key)
