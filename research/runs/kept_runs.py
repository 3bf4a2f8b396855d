"""Finished runs, one file each, so that an interrupted experiment goes on where it was; and how long they took."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from research.runs.experiment import Parameters, RunList, Values

_TIMING = "timing.json"
_DRAFT = ".new"


class KeptRuns:
    """The folder of an experiment: ``runs/`` with a file a run, and ``timing.json`` with their seconds."""

    def __init__(self, folder: Path, experiment: RunList) -> None:
        self._folder, self._experiment = folder, experiment
        (folder / "runs").mkdir(parents=True, exist_ok=True)
        _remove_drafts(folder)
        self._seconds: dict[str, float] = _read(folder / _TIMING) or {}

    def forget(self) -> None:
        """Take away all finished runs."""
        for file in (self._folder / "runs").glob("*.json"):
            file.unlink()
        self._seconds.clear()
        _write(self._folder / _TIMING, self._seconds)

    def find(self, run: Parameters) -> Values | None:
        """Return the values of a finished run, None if it has not finished."""
        kept = _read(self._file(run))
        if kept is None or kept["parameters"] != dict(run):
            return None
        values: Values = kept["values"]
        return values

    def keep(self, run: Parameters, values: Values, seconds: float) -> None:
        """Keep a run; whoever is killed meanwhile leaves all of it or nothing."""
        _write(self._file(run), {"parameters": dict(run), "values": values})
        self._seconds[self._experiment.title(run)] = round(seconds, 3)
        _write(self._folder / _TIMING, dict(sorted(self._seconds.items())))

    def _file(self, run: Parameters) -> Path:
        return self._folder / "runs" / f"{self._experiment.title(run).replace('/', '_')}.json"


def _read(path: Path) -> Any:
    """Return what a file has, None if it is not there or was cut off."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def _write(path: Path, values: object) -> None:
    draft = path.with_name(f"{path.name}.{os.getpid()}{_DRAFT}")
    draft.write_text(json.dumps(values) + "\n", encoding="utf-8")
    draft.replace(path)


def _remove_drafts(folder: Path) -> None:
    """Remove what a process that was killed had begun to write."""
    for draft in folder.rglob(f"*.json.*{_DRAFT}"):
        draft.unlink()
