"""Predicted run times as a part of the state of the cluster: if configured, passes use them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from math import ceil

import structlog

from oarpy.cluster_state.state_part import StatePart
from oarpy.configuration import Configuration
from oarpy.model.plugins import PluginFailed
from oarpy.scheduler.decide import Decisions
from oarpy.scheduler.placing import PlacingStep
from oarpy.scheduler.predictors.predicted_pass import PredictedStep, is_predictable
from oarpy.scheduler.predictors.run_times import JobToPredict, PastRun, predicted_run, predictor_named
from oarpy.scheduler.snapshot import Snapshot
from oarpy.store.database import Connection
from oarpy.store.passes import run_predictions

log = structlog.get_logger()

_WALLTIME = "walltime"


class RunPredictions(StatePart):
    """How long jobs are predicted to run."""

    def __init__(self, configuration: Configuration) -> None:
        self._predictor = configuration.scheduler.prediction
        self._runs: dict[int, float] = {}

    def step(self, connection: Connection, snapshot: Snapshot) -> PlacingStep | None:
        """Return the step that places jobs by predictions, None if the site does not use them."""
        if self._predictor == _WALLTIME:
            return None
        running = run_predictions.known(connection, [job.id for job in snapshot.holding])
        try:
            self._runs = self._predicted(connection, snapshot)
        except PluginFailed as failed:
            log.error("scheduler.prediction: this pass goes by walltimes", reason=str(failed))
            self._runs = {}
            return None
        return PredictedStep(running | self._runs)

    def _predicted(self, connection: Connection, snapshot: Snapshot) -> dict[int, float]:
        """Return how long jobs that wait are predicted to run, by job: whole seconds, one at least."""
        predictor = predictor_named(self._predictor)
        waiting = [job for job in snapshot.waiting if is_predictable(job)]
        histories: defaultdict[str, list[PastRun]] = defaultdict(list)
        for row in run_predictions.runs(connection, [job.id for job in waiting]) if waiting else ():
            histories[row.user].append(PastRun(row.user, row.name, row.walltime, row.run, row.end))
        run_times: dict[JobToPredict, float] = {}
        predicted = {}
        for job in waiting:
            to_predict = JobToPredict(job.user, job.name, max((way.walltime for way in job.alternatives), default=0))
            if to_predict not in run_times:
                run = predicted_run(predictor, to_predict, histories[job.user], snapshot.now)
                run_times[to_predict] = max(ceil(run), 1)
            predicted[job.id] = run_times[to_predict]
        return predicted

    def write(self, connection: Connection, decided: Decisions, snapshot: Snapshot, gone: Collection[int]) -> None:
        """Store the predictions of the jobs that start."""
        started = {job: self._runs[job] for job in gone if job in self._runs}
        run_predictions.write(connection, self._predictor, started)
