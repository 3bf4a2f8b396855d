"""The models by which processes are mapped, ours and plug-ins, and the walltime that follows from a map."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from math import ceil, inf
from typing import Any

from oarpy.model.plugins import MAPPINGS, PluginFailed, looking_at, plugin
from oarpy.processes.mapping import MAPPERS, Mapper, ProcessMap, Program, Rates

ROUNDS = 5
"""How often jobs are placed with walltimes that follow from their places before."""
SHORTEST = 60
"""Seconds: the least walltime."""
LONGEST = 10 * 366 * 86400
"""Seconds: the greatest walltime that anybody may ask for."""
_USUAL = "sync"
"""The model that is taken where a plug-in fails."""


def walltime_of(seconds: float, margin: int) -> int:
    """Return the walltime for a prediction: it exceeds the prediction by ``margin`` percent, within bounds.

    >>> walltime_of(600, 10), walltime_of(7, 10)
    (660, 60)
    """
    return max(min(ceil(min(seconds, LONGEST) * (100 + margin) / 100), LONGEST), SHORTEST)


def bounded(process_map: ProcessMap) -> ProcessMap:
    """Return a map whose time can be stored, whatever the rates."""
    return process_map if process_map.seconds < LONGEST else replace(process_map, seconds=float(LONGEST))


def mapped_or_usual(model: str, cores: Mapping[str, int], rates: Rates, program: Program) -> tuple[ProcessMap, str]:
    """Map a program; where a plug-in fails, by the usual model, with the words of the failure."""
    try:
        return mapped(model, cores, rates, program), ""
    except PluginFailed as failed:
        return mapped(_USUAL, cores, rates, program), str(failed)


def mapped(model: str, cores: Mapping[str, int], rates: Rates, program: Program) -> ProcessMap:
    """Map a program by one of our models, or by the plug-in of that name. Raises :class:`PluginFailed`."""
    own = MAPPERS.get(model)
    mapper: Mapper = own or plugin(MAPPINGS, model)
    process_map = mapper(cores, rates, program)
    if own is None:
        with looking_at(model):
            _check_plugged(model, process_map, cores, rates, program)
    return process_map


def _check_plugged(model: str, process_map: Any, cores: Mapping[str, int], rates: Rates, program: Program) -> None:
    """Raise :class:`PluginFailed` for an answer that is no map of the program."""
    if not isinstance(process_map, ProcessMap):
        raise PluginFailed(f"plug-in '{model}' gives no map")
    if not isinstance(process_map.stages, int | None) or not _is_time(process_map.seconds):
        raise PluginFailed(f"plug-in '{model}' gives {process_map.stages} stages of {process_map.seconds} seconds")
    counts: list[int] = []
    for kind, assigned in process_map.assigned.items():
        possible = assigned.keys() <= rates[kind].keys() if cores[kind] else not assigned
        if not possible or not all(isinstance(count, int) and count >= 0 for count in assigned.values()):
            raise PluginFailed(f"plug-in '{model}' gives '{kind}' what it cannot run: {dict(assigned)}")
        counts += assigned.values()
        if kind in process_map.turns and not _turns_are(process_map.turns[kind], assigned):
            raise PluginFailed(f"plug-in '{model}' gives '{kind}' turns of other processes than {dict(assigned)}")
    if sum(counts) != program.processes:
        raise PluginFailed(f"plug-in '{model}' maps {sum(counts)} of {program.processes} processes")


def _turns_are(turns: Any, assigned: Mapping[str, int]) -> bool:
    """Tell whether the turns of cores are those of the processes that they are assigned."""
    counts: Counter[str] = Counter()
    for size, cores, stages in turns:
        if not all(isinstance(number, int) and number >= 1 for number in (cores, stages)):
            return False
        counts[size] += cores * stages
    return counts == Counter(assigned)


def _is_time(seconds: Any) -> bool:
    return isinstance(seconds, int | float) and 0 < seconds < inf
