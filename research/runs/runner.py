"""Does the runs of an experiment that are missing, keeps each, and says how far it is."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from oarpy.model.durations import format_duration
from oarpy.simulation.reports.output_files import writing
from research.runs.experiment import FailedRun, RunList, Values
from research.runs.kept_runs import KeptRuns
from research.runs.pools import Pool


@dataclass(frozen=True, slots=True)
class RunsDone:
    """The values of the runs by their places in the list; those that failed are missing there."""

    values: Mapping[int, Values]
    failed: Sequence[FailedRun]


def do_runs(experiment: RunList, folder: Path, pool: Pool, err: TextIO, *, fresh: bool = False) -> RunsDone:
    """Do what is missing in ``folder``. What comes out does not depend on the pool, nor on interruptions.

    Raises :class:`OarpyError` when the folder cannot be written.
    """
    with writing(folder):
        kept = KeptRuns(folder, experiment)
        if fresh:
            kept.forget()
        known: dict[int, Values] = {}
        for place, run in enumerate(experiment.runs):
            values = kept.find(run)
            if values is not None:
                known[place] = values
    missing = [place for place in range(len(experiment.runs)) if place not in known]
    failed = []
    progress = _Progress(len(known), len(experiment.runs), err)
    wanted = [experiment.runs[place] for place in missing]
    if not wanted:
        progress.tell()
    for number, outcome, seconds in pool(experiment.function, wanted, experiment.places) if wanted else ():
        if isinstance(outcome, str):
            failed.append((missing[number], outcome))
        else:
            # as it comes out of the file, for whoever reads it later
            known[missing[number]] = json.loads(json.dumps(outcome))
            with writing(folder):
                kept.keep(wanted[number], outcome, seconds)
        progress.count_ended()
    return RunsDone(
        dict(sorted(known.items())), [FailedRun(experiment.runs[place], reason) for place, reason in sorted(failed)]
    )


def run_experiment(experiment: RunList, folder: Path, pool: Pool, err: TextIO, *, fresh: bool = False) -> RunsDone:
    """Make the folder, do the runs that are missing there, and name those that failed. Raises as :func:`do_runs`."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    done = do_runs(experiment, folder, pool, err, fresh=fresh)
    _tell_failed(done.failed, err)
    return done


def _tell_failed(failed: Sequence[FailedRun], err: TextIO) -> None:
    """Name the runs that failed, with their parameters."""
    for run in failed:
        named = ", ".join(f"{name} {value}" for name, value in run.parameters.items())
        err.write(f"failed: {named}: {run.reason}\n")


class _Progress:
    """Says on a line how many runs are done: on a terminal after each, else once in a while."""

    _PAUSE = 30.0

    def __init__(self, kept: int, total: int, err: TextIO) -> None:
        self._kept, self._total, self._err = kept, total, err
        self._done = 0
        self._began = self._written = time.monotonic()
        self._shown = err.isatty()

    def count_ended(self) -> None:
        """Note that a run has ended."""
        self._done += 1
        now = time.monotonic()
        left = self._total - self._kept - self._done
        if not self._shown and left and now - self._written < self._PAUSE:
            return
        self._written = now
        self.tell(f", about {format_duration(int((now - self._began) / self._done * left))} left" if left else "")

    def tell(self, rest: str = "") -> None:
        """Say how many runs are done, and the ``rest``; without one none is left."""
        text = f"runs: {self._done} done, {self._kept} kept from before, {self._total} in all{rest}"
        self._err.write(f"\r\x1b[K{text}" if self._shown else f"{text}\n")
        if self._shown and not rest:
            self._err.write("\n")
        self._err.flush()
