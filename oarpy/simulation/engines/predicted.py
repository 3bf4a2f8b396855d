"""Replays in which the planner uses predicted run times.

The prediction of a running job is fixed at its begin. The prediction of a waiting job changes whenever a job of the
same user ends.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from oarpy.model.errors import UsageError
from oarpy.model.setting_values import POLICIES, PolicyName
from oarpy.scheduler.decide import decide
from oarpy.scheduler.plan import Plan
from oarpy.scheduler.predictors.predicted_pass import PredictedStep
from oarpy.scheduler.predictors.run_times import PREDICTORS, JobToPredict, PastRun, predicted_run
from oarpy.scheduler.snapshot import Snapshot
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.production import FullPasses
from oarpy.simulation.traces.trace import TraceJob

PERFECT = "perfect"
"""The predictor that knows each job's run time: a bound for all learning ones."""
PREDICTIONS = (*PREDICTORS, PERFECT)

_REMEMBERED = 30
"""Runs of a user that a predictor looks at, at most."""


class Predicted(FullPasses):
    """A pass over the whole queue after every event, by the predictions of that moment."""

    def __init__(
        self, jobs: Sequence[TraceJob], order: str, machine: Machine, policy: PolicyName, prediction: str
    ) -> None:
        super().__init__(jobs, order, machine, policy)
        self._jobs, self._prediction = jobs, prediction
        self._runs: dict[int, float] = {}
        self._histories: defaultdict[str, deque[PastRun]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))
        self._outlived = self._ended = 0

    @property
    def underestimated(self) -> float:
        """The share of jobs that ran longer than was predicted when they began, 0 to 1."""
        return self._outlived / max(self._ended, 1)

    def arrive(self, job: int, now: float) -> None:
        """Queue ``job``."""
        super().arrive(job, now)
        self._predict(job, now)

    def complete(self, job: int, now: float) -> None:
        """Free the resources of ``job``, and learn from it."""
        held, user = self._running[job], self._requests[job].user
        super().complete(job, now)
        run = now - held.start
        self._ended += 1
        self._outlived += run > self._runs.pop(job)
        self._histories[user].appendleft(PastRun(user, "", held.walltime, run, now))
        for waiting in self._waiting.values():
            if waiting.user == user:
                self._predict(waiting.id, now)

    def _predict(self, job: int, now: float) -> None:
        request = self._requests[job]
        walltime = request.alternatives[0].walltime
        if self._prediction == PERFECT:
            run = self._jobs[job].run
        else:
            unknown = JobToPredict(request.user, "", walltime)
            run = predicted_run(PREDICTORS[self._prediction], unknown, self._histories[request.user], now)
        self._runs[job] = min(max(ceil(run), 1), walltime)

    def _plan(self, snapshot: Snapshot) -> Plan:
        """Plan by the predictions."""
        step = PredictedStep(self._runs)
        return decide(replace(snapshot, step=step), None, self._orders, self._matchers).plan


def predicted(policy: str, prediction: str, order: str, jobs: Sequence[TraceJob], machine: Machine) -> Predicted:
    """Return a fresh scheduler. Raises :class:`UsageError` for a policy that the planner itself does not have."""
    if policy not in POLICIES:
        raise UsageError(
            f"policy '{policy}' does not go with the prediction '{prediction}'", hint=f"one of {', '.join(POLICIES)}"
        )
    return Predicted(jobs, order, machine, policy, prediction)
