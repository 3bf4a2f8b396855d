"""The number of jobs that each pass looks at, and the jobs whose turn it is if that is not all of them.

Half of a limited pass goes to the best-ranked jobs, shared fairly between users. The other half goes to all jobs in
turn, by their ids. So every job is looked at within one round over all jobs::

    limit 4, jobs 1 to 7     turn      best-ranked
    first pass               1 2       3 4
    second pass              3 4       1 2
    third pass               5 6       1 2
    fourth pass              7 1       2 3
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from oarpy.configuration import SchedulerSettings
from oarpy.scheduler.snapshot import PassShare, WaitingJob


class PassLimits:
    """The limits of one pass after the other. A new process begins with the lowest ids."""

    def __init__(self, settings: SchedulerSettings) -> None:
        self._jobs, self._jobs_per_user = settings.jobs_per_pass, settings.jobs_per_user
        self._last = 0
        """The id of the last job whose turn it was."""

    def next(self, waiting: Sequence[WaitingJob]) -> PassShare:
        """Return the limits of a pass, and let other jobs have their turn in the next one."""
        ration = self.current(waiting)
        self._last = ration.turn[-1] if ration.turn else self._last
        return ration

    def current(self, waiting: Sequence[WaitingJob]) -> PassShare:
        """Return the limits of a pass; none if they leave out no job, so that the next pass can continue this one."""
        jobs = [job for job in waiting if job.reservation is None and not job.held]
        if not self._leave_out(jobs):
            return PassShare()
        size = (min(limit for limit in (self._jobs, self._jobs_per_user) if limit) + 1) // 2
        ids = sorted(job.id for job in jobs)
        ahead = [number for number in ids if number > self._last]
        return PassShare(self._jobs, self._jobs_per_user, (*ahead, *ids)[:size])

    def _leave_out(self, jobs: Sequence[WaitingJob]) -> bool:
        """Tell whether the limits leave a job out."""
        if 0 < self._jobs < len(jobs):
            return True
        if not 0 < self._jobs_per_user < len(jobs):
            return False
        return max(Counter(job.user for job in jobs).values()) > self._jobs_per_user
