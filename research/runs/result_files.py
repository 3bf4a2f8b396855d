"""The files of experiments: rows as CSV, and the scenarios of runs, a JSON line each."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

from oarpy.simulation.reports.output_files import write_file
from research.runs.experiment import Parameters, RunList

ScenarioOfRun = Callable[[Parameters, Mapping[str, str]], dict[str, Any]]
"""The file that is read for a run, from the places of its inputs."""


def write_rows(path: Path, rows: Iterable[Iterable[object]]) -> None:
    """Write rows as CSV. Raises :class:`OarpyError` when they cannot be written."""

    def lines(file: TextIO) -> None:
        csv.writer(file, lineterminator="\n").writerows(rows)

    write_file(path, lines)


def write_scenarios(path: Path, experiment: RunList, scenario: ScenarioOfRun, what: str = "scenarios") -> str:
    """Write the files of all runs, which are ``what``; return a line about it. Raises :class:`OarpyError`."""

    def lines(file: TextIO) -> None:
        for run in experiment.runs:
            file.write(json.dumps(scenario(run, experiment.places)) + "\n")

    write_file(path, lines)
    return f"{len(experiment.runs)} {what} written to {path}\n"
