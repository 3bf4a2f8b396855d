"""Supervisors that hang: stopped by a signal, or held up by a file system that does not answer.

::

    start handed over ----- nothing told in time --------> killed
    stopped --------------- for some seconds ------------> told, and continued
    job to be killed ------ not ended in time -----------> killed, as all that is left of the job then
    killed ---------------- lives on (state D) ----------> told; the node is unfit until it is gone
"""

from __future__ import annotations

import signal
import time

from oarpy.transport.agent.job import processes, record, requests
from oarpy.wire.messages import Stuck

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from oarpy.transport.agent.job.job_run import RunSettings
    from oarpy.transport.agent.outbox import Outbox
    from oarpy.transport.agent.statedir import StateDir

_MARGIN = 5.0
"""Seconds beyond the time that a supervisor takes when all is well."""
_STOPPED = 1 / 6
"""The part of the time for a start for which a supervisor may be stopped, so that its debugger can look at it."""
_AGAIN = 5.0
"""Seconds between two tries to kill a supervisor."""


class HungSupervisors:
    """Watches the supervisors of jobs, of this agent and of others; a job is named by the name of its record.

    ``pid_of`` returns the process of a supervisor of this agent, 0 for any other.
    """

    def __init__(self, state: StateDir, outbox: Outbox, settings: RunSettings, pid_of: Callable[[str], int]) -> None:
        self._state = state
        self._pid_of = pid_of
        self._outbox = outbox
        self._settings = settings
        self._silent: dict[str, float] = {}
        """Until when the start of a job must be reported."""
        self._ending: dict[str, float] = {}
        """Until when a job that is to be killed must have ended."""
        self._stopped: dict[str, float] = {}
        """Since when a supervisor is stopped."""
        self._killed: dict[str, str] = {}
        """Why a supervisor was killed."""
        self._problems: dict[str, str] = {}

    def assigned(self, key: str) -> None:
        """Note that a supervisor got a job, and must report soon."""
        self._silent.setdefault(key, time.monotonic() + self._settings.start + _MARGIN)

    def heard(self, key: str) -> None:
        """Note that its start was reported."""
        self._silent.pop(key, None)

    def must_end(self, key: str, grace: float) -> None:
        """Note that a job is to end: ``grace`` seconds after TERM, and a margin, it must be over."""
        # its processes, its steps and its group may resist, one after the other
        self._ending.setdefault(key, time.monotonic() + grace + 3 * self._settings.kill + _MARGIN)

    def over(self, key: str) -> None:
        """Forget a job that has ended."""
        for notes in (self._silent, self._ending, self._stopped, self._killed, self._problems):
            notes.pop(key, None)

    def reason(self, key: str) -> str:
        """Return why the supervisor of a job was killed here; empty when it was not."""
        return self._killed.get(key, "")

    def was_to_end(self, key: str) -> bool:
        """Tell whether a job is to end."""
        return key in self._ending

    def problem(self) -> str:
        """Return the reason why a supervisor of this node hangs; empty when none does."""
        return next(iter(self._problems.values()), "")

    def look(self) -> None:
        """Kill the supervisors whose time is over."""
        now = time.monotonic()
        for key in [key for key, until in self._silent.items() if now >= until]:
            self._end(key, f"not started within {self._settings.start + _MARGIN:g} s", self._silent)
        for key in [key for key, until in self._ending.items() if now >= until]:
            self._end(key, "not ended in time", self._ending)

    def look_at(self, key: str, pid: int) -> None:
        """Report a supervisor that has been stopped for long, and continue it."""
        if processes.state(pid) not in ("T", "t"):
            if self._stopped.pop(key, None) is not None and key not in self._killed:
                self._problems.pop(key, None)
            return
        now = time.monotonic()
        since = self._stopped.setdefault(key, now)
        if now - since >= self._settings.start * _STOPPED:
            self._tell(key, f"its supervisor, process {pid}, was stopped by a signal")
            job_record, held = record.lock_record(self._state.jobs, key, create=False)
            if job_record is not None:
                if not held:
                    requests.rouse(job_record, pid, signal.SIGCONT)
                job_record.close()

    def _end(self, key: str, why: str, deadlines: dict[str, float]) -> None:
        """Kill the supervisor of a job; the follower of the job then finds its record free, and ends its processes."""
        job_record, held = record.lock_record(self._state.jobs, key, create=False)
        if job_record is None or held:
            del deadlines[key]
            if job_record is not None:
                job_record.close()
            return
        deadlines[key] = time.monotonic() + _AGAIN
        if self._state.problem():
            job_record.close()
            return  # it waits for room to write how the job ended
        history = job_record.history()
        if history.started is not None:
            pid = int(history.started["pid"])
        else:
            pid = self._pid_of(key) or next(iter(processes.holders(job_record.fd)), 0)
        if not pid:
            self._continue_all(key)
            job_record.close()
            return
        if key in self._killed:
            self._tell(key, f"its supervisor, process {pid}, cannot be killed (state {processes.state(pid) or 'gone'})")
        else:
            self._tell(key, f"{why}: its supervisor, process {pid}, does not come on")
        self._killed.setdefault(key, why)
        if pid:
            requests.rouse(job_record, pid, signal.SIGKILL)
        job_record.close()

    def _continue_all(self, key: str) -> None:
        """Let all stopped supervisors of this node go on: one of them has not even taken the job that it was given."""
        self._tell(key, "a supervisor was stopped by a signal before it took the job")
        with open(self._state.bell, "rb") as bell:
            stopped = [pid for pid in processes.holders(bell.fileno()) if processes.state(pid) in ("T", "t")]
        processes.send(stopped, signal.SIGCONT)

    def _tell(self, key: str, problem: str) -> None:
        if self._problems.get(key) != problem:
            self._problems[key] = problem
            self._outbox.say(Stuck(record.job_of(key), problem))
