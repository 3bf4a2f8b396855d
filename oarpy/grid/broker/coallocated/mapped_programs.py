"""Programs whose processes are mapped over clusters: rates and free slots are asked for, and parts get their processes.

Clusters first measure what rates are missing, by jobs of the user there. Then they tell the rates of each type of
nodes. For each type that has rates, they are asked for its free cores alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import floor, inf
from typing import Any

from msgspec import structs

from oarpy.grid.broker.coallocated.free_slots import HORIZON, LEFT, PATIENCE, objection, part_request
from oarpy.grid.broker.conversations import CallBatch, ClusterCall, Conversation
from oarpy.grid.calls.parts import FreeSlot, PartRequest, ProcessesOfPart, ProgramFile, RatedType
from oarpy.grid.calls.table import ClusterSilent, Measure, Rates, Slots, StopMeasuring
from oarpy.grid.core.coallocation.common_start import CommonPlace
from oarpy.grid.core.mapped_programs import MappedPlace, MappedProgram, TypeTold
from oarpy.processes.dealing import Share
from oarpy.processes.models import SHORTEST
from oarpy.store.grid.broker_jobs import GridComponentRow, GridJobRow
from oarpy.store.grid.clusters import GridClusterRow
from oarpy.store.grid.metajobs import MetajobRow
from oarpy.store.grid.programs import GridProgramRow
from oarpy.store.platform.cluster_links import Link

UNIT = "/core"
"""What such a job asks for."""
_AWAITED = 300.0
"""Seconds after the submission for which rates that are being measured are awaited, if other types have some."""
_UNABLE = "it measures no rates of programs"


@dataclass(frozen=True, slots=True)
class ProgramFound:
    """The answers of clusters: rates and free cores by type of nodes, and the condition that says each type.

    ``words`` are about each cluster. ``measuring``: rates are being measured; ``silent``: some clusters were silent.
    """

    told: Mapping[str, Mapping[str, TypeTold]]
    conditions: Mapping[str, Mapping[str, str]]
    words: Mapping[str, str]
    measuring: bool
    silent: bool

    def of(self, rows: Sequence[GridClusterRow]) -> ProgramFound:
        """Return the answers of these clusters: any other one was disabled since it was asked, and counts as silent."""
        names = {row.name for row in rows}
        left = {name: LEFT for name in self.told if name not in names}
        told = {name: types for name, types in self.told.items() if name not in left}
        return replace(self, told=told, words={**self.words, **left}, silent=self.silent or bool(left))


@dataclass(frozen=True, slots=True)
class PlacedParts:
    """The place of a job. If its processes are mapped, ``resources`` and ``maps`` have the requests of its parts.

    ``noted`` is the map as it is stored.
    """

    place: CommonPlace
    resources: Mapping[str, str] = field(default_factory=dict)
    maps: Mapping[str, ProcessesOfPart] = field(default_factory=dict)
    noted: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Asking:
    """The questions about the program of a job."""

    request: PartRequest
    program: GridProgramRow
    job: GridJobRow

    def measure(self, name: str) -> ClusterCall:
        row, job = self.program, self.job
        key = _measure_key(job.id, job.submitted)
        call = Measure(self.request, self.file, tuple(row.sizes), row.script, job.directory, key=key)
        return ClusterCall(name, call, 2 * PATIENCE)

    def rates(self, name: str) -> ClusterCall:
        return ClusterCall(name, Rates(self.request, self.file, tuple(self.program.sizes)), 2 * PATIENCE)

    @property
    def file(self) -> ProgramFile:
        row = self.program
        return ProgramFile(row.program, row.program_size, row.program_date, row.arguments)


def measurers(rows: Sequence[GridClusterRow], user: str, metajob: MetajobRow, tolerance: float) -> list[str]:
    """Return the clusters that :func:`look_for_program` has measure the program of a job without a place."""
    return [row.name for row in rows if not _objection(row, user, metajob, tolerance)]


def stop_measuring(cluster: str, job: int, submitted: float) -> Conversation[object]:
    """Tell a cluster that a job is over, which was submitted then; return the answer."""
    key = _measure_key(job, submitted)
    (answer,) = yield CallBatch([ClusterCall(cluster, StopMeasuring(key, key=f"stop-{key}"))], PATIENCE)
    return answer


def _measure_key(job: int, submitted: float) -> str:
    return f"measure:{job}:{submitted:.3f}"


def look_for_program(
    rows: Sequence[GridClusterRow],
    job: GridJobRow,
    component: GridComponentRow,
    metajob: MetajobRow,
    program: GridProgramRow,
    own: Mapping[str, Sequence[str]],
    tolerance: float,
    now: float,
) -> Conversation[object]:
    """Ask clusters for the rates of a program, then for free cores of each type that has rates.

    A program without a place is measured first where it has no rates. Its ``own`` parts count as free.
    """
    words = {row.name: reason for row in rows if (reason := _objection(row, job.user, metajob, tolerance))}
    silent = "it was not heard yet" in words.values()
    asking = _Asking(part_request(job, component, metajob.unit, 1, SHORTEST), program, job)
    names = [row.name for row in rows if row.name not in words]
    if not own:
        answers = yield CallBatch([asking.measure(name) for name in names], PATIENCE)
        refused = {name: answer for name, answer in zip(names, answers, strict=True) if answer is not None}
        words |= {name: str(answer) for name, answer in refused.items()}
        silent = silent or any(isinstance(answer, ClusterSilent) for answer in refused.values())
        names = [name for name in names if name not in refused]
    answers = yield CallBatch([asking.rates(name) for name in names], PATIENCE)
    types: dict[str, list[RatedType]] = {}
    for name, answer in zip(names, answers, strict=True):
        if isinstance(answer, Sequence):
            types[name] = [one for one in answer if isinstance(one, RatedType)]
        else:
            words[name] = str(answer)
            silent = silent or isinstance(answer, ClusterSilent)
    measuring = not own and _is_awaited([one for its in types.values() for one in its], now - job.submitted)
    rated = [] if measuring else [(name, one) for name, its in types.items() for one in its if one.rates]
    slots = yield CallBatch([_slots(asking.request, name, one, own, now) for name, one in rated], PATIENCE)
    told: dict[str, dict[str, TypeTold]] = {}
    for (name, one), answer in zip(rated, slots, strict=True):
        if isinstance(answer, Sequence) and answer:
            steps = [(slot.begin, slot.procs) for slot in answer if isinstance(slot, FreeSlot)]
            told.setdefault(name, {})[one.name] = TypeTold(one.rates, steps)
        else:
            words[name] = str(answer)
            silent = silent or isinstance(answer, ClusterSilent)
    for name, its in types.items():
        words.setdefault(name, "; ".join(_word(one, told.get(name, {})) for one in its) or "it has no such nodes")
    conditions = {name: {one.name: one.condition for one in its} for name, its in types.items()}
    return ProgramFound(told, conditions, words, measuring, silent)


def _is_awaited(types: Sequence[RatedType], waited: float) -> bool:
    """Tell whether rates that are being measured are awaited: not for ever, once other types have some."""
    measuring = any(one.measuring for one in types)
    return measuring and (waited < _AWAITED or not any(one.rates for one in types))


def _objection(row: GridClusterRow, user: str, metajob: MetajobRow, tolerance: float) -> str:
    """Say why a cluster is not asked; empty if it is."""
    if metajob.at_most.get(row.name) == 0:
        return "it is to give nothing (--at-most)"
    return objection(row, user, tolerance) or ("" if "rate" in row.abilities else _UNABLE)


def _slots(
    request: PartRequest, name: str, one: RatedType, own: Mapping[str, Sequence[str]], now: float
) -> ClusterCall:
    """Ask for the free cores of a type."""
    properties = " AND ".join(f"({text})" for text in (request.properties, one.condition) if text)
    begin = floor(now)
    of_type = structs.replace(request, properties=properties)
    return ClusterCall(name, Slots(of_type, begin, begin + HORIZON, own.get(name, ())), 2 * PATIENCE)


def _word(one: RatedType, told: Mapping[str, TypeTold]) -> str:
    """Return a cluster's answer about a node type, as text."""
    if not one.rates:
        return f"{one.name}: {one.reason}"
    rates = ", ".join(f"{size} {rate:.4g}" for size, rate in one.rates.items())
    if (found := told.get(one.name)) is None:
        return f"{one.name}: {rates} iterations a second"
    most = max(procs for _, procs in found.free)
    return f"{one.name}: {rates} iterations a second, {found.free[0][1]} cores free now, {most} at most"


def mapped_program(
    row: GridProgramRow,
    metajob: MetajobRow,
    first: str,
    *,
    transfer: float,
    margin: int,
    links: Mapping[str, Mapping[str, float]],
) -> MappedProgram:
    """Return a program as the core knows it."""
    return MappedProgram(
        row.job,
        row.processes,
        row.iterations,
        row.model,
        metajob.procs,
        transfer,
        margin,
        first,
        metajob.at_most or {},
        inf if metajob.end_by is None else metajob.end_by,
        links,
    )


def transfers(links: Sequence[Link], size: float) -> dict[str, dict[str, float]]:
    """Return the seconds to pass on a result of ``size`` bytes, by the two clusters of each link."""
    found: dict[str, dict[str, float]] = {}
    for cluster, other, latency, bandwidth in links:
        found.setdefault(cluster, {})[other] = latency + size / bandwidth
    return found


def placed_parts(row: GridProgramRow, mapped: MappedPlace, conditions: Mapping[str, Mapping[str, str]]) -> PlacedParts:
    """Return the requests of the parts of a program in its place: so many cores of each type, and their processes."""
    resources = {
        cluster: "+".join(_group(conditions[cluster][kind], count) for kind, count in kinds.items())
        for cluster, kinds in mapped.cores.items()
    }
    program = ProgramFile(row.program, row.program_size, row.program_date, row.arguments)
    maps = {
        cluster: ProcessesOfPart(
            program,
            row.processes,
            row.iterations,
            tuple(row.sizes),
            row.model,
            mapped.seconds,
            dict(kinds),
            {kind: tuple(runs) for kind, runs in mapped.assigned[cluster].items()},
        )
        for cluster, kinds in mapped.cores.items()
    }
    noted = {"seconds": mapped.seconds, "cores": mapped.cores, "assigned": mapped.assigned}
    return PlacedParts(mapped.place, resources, maps, noted)


def _group(condition: str, count: int) -> str:
    return f"{{{condition}}}{UNIT}={count}" if condition else f"{UNIT}={count}"


def noted_map(row: GridProgramRow, place: CommonPlace) -> MappedPlace | None:
    """Return the present place of a program with its map."""
    if row.map is None:
        return None
    assigned = {
        cluster: {kind: tuple(Share(*run) for run in runs) for kind, runs in kinds.items()}
        for cluster, kinds in row.map["assigned"].items()
    }
    return MappedPlace(place, row.map["cores"], row.map["seconds"], assigned)
