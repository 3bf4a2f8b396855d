"""How many jobs a pass looks at: the best-ranked first, so that a bound leaves out the last ones."""

from __future__ import annotations

from collections import Counter

from oarpy.scheduler.snapshot import Ration, WaitingJob


class Rations:
    """Counts the jobs looked at while a plan is made."""

    def __init__(self, ration: Ration) -> None:
        self._ration = ration
        self._jobs = 0
        self._by_user: Counter[str] = Counter()

    def refusal(self, job: WaitingJob) -> str:
        """Count ``job``, or say why it is not looked at in this pass."""
        if 0 < self._ration.jobs <= self._jobs:
            return f"not looked at in this pass, which stops after {self._ration.jobs} jobs"
        if 0 < self._ration.jobs_per_user <= self._by_user[job.user]:
            return f"not looked at in this pass, which takes {self._ration.jobs_per_user} jobs of a user"
        self._jobs += 1
        self._by_user[job.user] += 1
        return ""
