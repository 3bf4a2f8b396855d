"""The fields of a file of ``oarpy grid simulate``: a struct for each of its objects. Times are seconds.

:mod:`oarpy.grid.simulation.reader` checks the values that types cannot. Null stands for infinity alone; a field that a
job does not have is left out.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from oarpy.grid.core.broker_state import AlgorithmNumber, EvictionInstant, HeuristicName, JobId, MappingRule
from oarpy.grid.simulation.scenario import EngineName, QueuePolicy

Number = int | float


class GridClusterEntry(Struct, forbid_unknown_fields=True):
    """A cluster."""

    name: str
    procs: int
    speed: Number = 1
    policy: QueuePolicy = "conservative"
    evict: bool = True


class GridJobEntry(Struct, forbid_unknown_fields=True):
    """A job: local with ``cluster``, co-allocated with ``components`` and ``deadline``, else mapped.

    ``recorded`` is when it really started, and changes nothing.
    """

    id: JobId
    procs: int
    run: Number
    submit: Number = 0
    walltime: Number | UnsetType = UNSET
    cluster: str | UnsetType = UNSET
    components: int | UnsetType = UNSET
    deadline: Number | UnsetType = UNSET
    recorded: Number | UnsetType = UNSET


class DeadlinesEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Rules for co-allocated jobs; a ``wait`` of None is infinite."""

    lp: Number = 0.7
    tries: int = 10
    wait: Number | None = None
    evict_at: EvictionInstant = "deadline"


class ReallocationEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Rules for mapped jobs; an ``age_limit`` of None is none."""

    mapping: MappingRule = "mct"
    algorithm: AlgorithmNumber = 0
    heuristic: HeuristicName = "mct"
    period: Number = 3600
    threshold: Number = 60
    age_limit: Number | None = None
    seed: int = 1


class GridFile(Struct, forbid_unknown_fields=True):
    """The whole file."""

    clusters: tuple[Any, ...]
    jobs: tuple[Any, ...]
    engine: EngineName = "production"
    deadlines: DeadlinesEntry = DeadlinesEntry()
    reallocation: ReallocationEntry = ReallocationEntry()
