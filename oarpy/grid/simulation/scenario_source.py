"""A file of ``oarpy grid simulate`` for stepping through: its choices, and its jobs before the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO, get_args

from oarpy.grid.core.broker_state import HeuristicName, MappingRule
from oarpy.grid.core.coallocation.common_start import EARLIEST
from oarpy.grid.core.coallocation.early_end import Operation
from oarpy.grid.simulation.command import run_of
from oarpy.grid.simulation.scenario import EngineName, QueuePolicy
from oarpy.grid.simulation.system_of_file import QUEUES, system_of
from oarpy.model.errors import UsageError
from oarpy.model.plugins import COALLOCATIONS, COMPOSITIONS, RESERVATION_ORDERS, names
from oarpy.scheduler.windows.window_jobs import Criterion
from oarpy.simulation.scenarios.input_file import text_of
from oarpy.simulation.stepping.sources import Choice, Choices
from oarpy.simulation.stepping.stepped_run import SteppedRun

_ALL = "clusters"
"""Choices below it hold for every cluster."""
_POLICIES = ("plb", "nolb", "dplb")
_CHOICES: Mapping[str, Sequence[tuple[str, str, Sequence[str]]]] = {
    QUEUES: (
        ("engine", "Engine", get_args(EngineName)),
        ("clusters.policy", "Policy of all queues", get_args(QueuePolicy)),
        ("reallocation.mapping", "Mapping", get_args(MappingRule)),
        ("reallocation.algorithm", "Algorithm of passes", ("0", "1", "2")),
        ("reallocation.heuristic", "Heuristic", get_args(HeuristicName)),
    ),
    "windows": (
        ("windows.order", "Order", get_args(Criterion)),
        ("windows.farther", "Offers farther away", ("false", "true")),
    ),
    "flexco": (
        ("flexco.operation", "Operation", get_args(Operation)),
        ("flexco.coallocation", "Co-allocation", (EARLIEST,)),
    ),
    "offers": (("offers.policy", "Policy", (*_POLICIES, "dplbv2", "slots")),),
    "bags": (
        ("bags.policy", "Policy", _POLICIES),
        ("bags.coordinated", "Coordinated", ("true", "false")),
        ("clusters.estimates", "Predictor of all clusters", ("walltime", "predicted")),
    ),
}

_PLUGINS = {
    "windows.order": RESERVATION_ORDERS,
    "flexco.coallocation": COALLOCATIONS,
    "offers.policy": COMPOSITIONS,
    "bags.policy": COMPOSITIONS,
}
"""The groups whose plug-ins are choices, too."""


class ScenarioSource:
    """A scenario by its name and its text. Raises :class:`UsageError` when the text is none."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        self.system = system_of(text)
        run_of(text)
        self._jobs = _facts(text)

    def choices(self) -> Sequence[Choice]:
        """Return the choices, each with its value in the file."""
        document = json.loads(self.text)
        return [
            Choice(key, label, (*values, *_plugged(key)), _value_of(document, key) or "")
            for key, label, values in _CHOICES[self.system]
        ]

    def start(self, choices: Choices) -> SteppedRun:
        """Return the run with some choices, before its first event."""
        document = json.loads(self.text)
        known = {key for key, _, _ in _CHOICES[self.system]}
        for key, value in choices.items():
            if key in known:
                _set(document, key, value)
        return run_of(json.dumps(document))

    def jobs(self) -> Sequence[Mapping[str, Any]]:
        """Return the facts of the jobs that are known beforehand."""
        return self._jobs

    def edited(self, text: str) -> ScenarioSource:
        """Return the same with another text."""
        return ScenarioSource(self.name, text)


def _plugged(key: str) -> Sequence[str]:
    """Return the plug-ins that may be chosen."""
    return names(_PLUGINS[key]) if key in _PLUGINS else ()


def _value_of(document: Mapping[str, Any], key: str) -> str | None:
    """Return a value of the file; for all clusters only if they agree."""
    owner, _, name = key.rpartition(".")
    if owner == _ALL:
        values = {_text(cluster.get(name)) for cluster in document["clusters"]}
        return values.pop() if len(values) == 1 else None
    place = document.get(owner, {}) if owner else document
    return _text(place.get(name))


def _set(document: dict[str, Any], key: str, value: str) -> None:
    owner, _, name = key.rpartition(".")
    meant: Any = {"true": True, "false": False}.get(value, int(value) if value.isdigit() else value)
    if owner == _ALL:
        for cluster in document["clusters"]:
            cluster[name] = meant
    elif owner:
        document[owner] = {**document.get(owner, {}), name: meant}
    else:
        document[name] = meant


def _text(value: Any) -> str | None:
    return json.dumps(value) if isinstance(value, bool) else None if value is None else str(value)


def _facts(text: str) -> list[dict[str, Any]]:
    """Return the facts of the jobs in a text that was read."""
    return [
        {
            "id": job["id"],
            "submit": job.get("submit", 0),
            "estimate": job.get("walltime", job["run"]),
            "procs": job.get("procs", 1) * job.get("tasks", job.get("components", 1)),
            "cluster": job.get("cluster"),
            "deadline": job.get("deadline"),
            "recorded": job.get("recorded"),
        }
        for job in json.loads(text)["jobs"]
    ]


def read_sources(paths: Sequence[str], err: TextIO) -> list[ScenarioSource]:
    """Read files to be stepped through. Each wrong file gets a line on ``err``, and then none is returned."""
    sources, wrong = [], False
    for path in paths:
        try:
            sources.append(ScenarioSource(Path(path).name, text_of(path)))
        except UsageError as error:
            err.write(f"{path}: {error}\n")
            wrong = True
    return [] if wrong else sources
