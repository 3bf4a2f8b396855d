"""An experiment: a function, and the parameters of each of its runs, all of them plain values."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

Parameters = Mapping[str, str | int | float]
"""The parameters that identify a run: names and plain values."""
Values = dict[str, Any]
"""The results of a run: plain values, as JSON has them."""
RunFunction = Callable[[Parameters, Mapping[str, str]], Values]
"""A function of a module, of a run's parameters and of the places where its inputs are."""


def uncollected(function: RunFunction) -> RunFunction:
    """Do runs without Python's search for records that refer to each other in a circle.

    A simulation has millions of records and none of these, and the search takes up to a fifth of its time.
    """

    @wraps(function)
    def run(parameters: Parameters, places: Mapping[str, str]) -> Values:
        gc.disable()
        try:
            return function(parameters, places)
        finally:
            gc.enable()

    return run


@dataclass(frozen=True, slots=True)
class RunList:
    """An experiment: ``function`` is called for each of ``runs``, in any order and process.

    ``version`` changes whenever the same parameters would give other values. ``places`` do not change what comes out.
    """

    name: str
    version: int
    function: RunFunction
    runs: Sequence[Parameters]
    places: Mapping[str, str] = field(default_factory=dict)

    def title(self, run: Parameters) -> str:
        """Return the name of a run: its parameters, and the version of the experiment."""
        words = "-".join(str(value) for value in run.values() if value != "")
        return f"{words}-v{self.version}"


@dataclass(frozen=True, slots=True)
class FailedRun:
    """A run that has no values, and why."""

    parameters: Parameters
    reason: str
