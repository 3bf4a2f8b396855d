"""Run times predicted from runs of the same user. A prediction ends no job, and is at most its walltime.

``last2`` is that of D. Tsafrir, Y. Etsion and D. Feitelson, "Backfilling using system-generated predictions rather than
user runtime estimates" (IEEE TPDS 2007).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from oarpy.model.plugins import PREDICTORS as PREDICTOR_PLUGINS
from oarpy.model.plugins import PluginFailed, looking_at, plugin

_LAST = 30
"""The number of latest runs that are looked at."""
_FEWEST = 3
"""The number of runs needed for a prediction."""


@dataclass(frozen=True, slots=True)
class PastRun:
    """A job that ended: its user, its name, its walltime, its run time, and its end (seconds)."""

    user: str
    name: str
    walltime: float
    run: float
    end: float


@dataclass(frozen=True, slots=True)
class JobToPredict:
    """A job that has not run yet."""

    user: str
    name: str
    walltime: float


Predictor = Callable[[JobToPredict, Sequence[PastRun]], float]
"""Seconds that a job will run, from runs of its user, the latest first."""


def predicted_run(predictor: Predictor, job: JobToPredict, history: Sequence[PastRun], now: float) -> float:
    """Return the predicted seconds of a job's run, as known at an instant."""
    known = sorted((run for run in history if run.user == job.user and run.end <= now), key=lambda run: -run.end)
    return min(predictor(job, known), job.walltime)


def predictor_named(name: str) -> Predictor:
    """Return one of our predictors, or a plug-in. What that raises or gives may be :class:`PluginFailed`."""
    own = PREDICTORS.get(name)
    if own is not None:
        return own
    predictor = plugin(PREDICTOR_PLUGINS, name)

    def looked_at(job: JobToPredict, runs: Sequence[PastRun]) -> float:
        seconds = predictor(job, runs)
        with looking_at(name):
            usable = isinstance(seconds, int | float) and 0 <= seconds < inf
        if not usable:
            raise PluginFailed(f"plug-in '{name}' predicts {seconds} seconds"[:300])
        predicted: float = seconds
        return predicted

    return looked_at


def _walltime(job: JobToPredict, _runs: Sequence[PastRun]) -> float:
    return job.walltime


def _mean_of_last_two(job: JobToPredict, runs: Sequence[PastRun]) -> float:
    return (runs[0].run + runs[1].run) / 2 if len(runs) > 1 else job.walltime


def _ninth_decile_of_similar(job: JobToPredict, runs: Sequence[PastRun]) -> float:
    """Return the part of the walltime that nine of ten similar runs did not exceed."""
    similar = [run for run in runs if run.name == job.name][:_LAST]
    if len(similar) < _FEWEST:
        similar = list(runs[:_LAST])
    if len(similar) < _FEWEST:
        return job.walltime
    parts = sorted(run.run / run.walltime for run in similar)
    return job.walltime * parts[-(-9 * len(parts) // 10) - 1]


PREDICTORS: Mapping[str, Predictor] = {
    "walltime": _walltime,
    "last2": _mean_of_last_two,
    "similar": _ninth_decile_of_similar,
}
