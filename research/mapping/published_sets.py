"""The questions of the experiment on mapped programs: the sets of nodes of table 5.2 with the rates of table 5.3.

Each is a file of ``oarpy decide``, so anybody can ask it alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from oarpy.questions.table import answer
from research.runs.experiment import Parameters, RunList, Values

VERSION = 1
MODELS = ("sync", "async")
TRANSFERS = (0.0, 0.8)
"""Seconds that it takes to pass on a result: nothing, or what the thesis has between sites."""
_PROCESSES, _ITERATIONS = 480, 200
SIZES = ("Regular-2D", "Scale-Free", "Small-World", "Random")
RATES = {
    "paradent": (10.87, 11.36, 3.57, 3.29),
    "paramount": (10.00, 10.42, 3.33, 3.05),
    "paraquad": (10.00, 10.42, 3.33, 3.05),
    "sol": (9.26, 9.62, 3.09, 2.81),
    "bordemer": (7.81, 7.81, 2.60, 2.38),
    "azur": (7.14, 7.35, 2.34, 2.14),
    "bordeplage": (5.81, 6.10, 1.89, 1.68),
}
"""Iterations a second, by type of node and in the order of the sizes."""
SETS: Mapping[int, Mapping[str, int]] = {
    1: {"paradent": 32, "paramount": 4, "paraquad": 4},
    2: {"paraquad": 20, "sol": 12, "bordemer": 2, "azur": 6},
    3: {"paramount": 20, "sol": 12, "bordemer": 8},
    4: {"sol": 20, "bordemer": 20},
    5: {"sol": 20, "bordemer": 8, "azur": 6, "bordeplage": 6},
    6: {"paramount": 4, "sol": 12, "bordemer": 6, "azur": 10, "bordeplage": 8},
    7: {"bordemer": 20, "bordeplage": 20},
}
"""Cores by type of node; each set has 40."""


def mapping_runs() -> RunList:
    """Return a run for each set, model and transfer."""
    runs: list[Parameters] = [
        {"set": number, "model": model, "transfer": transfer}
        for transfer in TRANSFERS
        for model in MODELS
        for number in SETS
    ]
    return RunList("mapping", VERSION, mapping_run, runs)


def mapping_run(run: Parameters, places: Mapping[str, str]) -> Values:
    """Ask one question; return its stages and seconds."""
    reply = answer(json.dumps(question(run)))
    return {"stages": reply["stages"], "seconds": reply["seconds"]}


def question(run: Parameters) -> dict[str, Any]:
    """Return the file of a run."""
    cores = SETS[int(run["set"])]
    return {
        "ask": "map",
        "model": run["model"],
        "iterations": _ITERATIONS,
        "processes": _PROCESSES,
        "resources": dict(cores),
        "throughput": {kind: dict(zip(SIZES, RATES[kind], strict=True)) for kind in cores},
        "transfer": run["transfer"],
    }
