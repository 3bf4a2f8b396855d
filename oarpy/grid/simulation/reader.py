"""A file of ``oarpy grid simulate`` (JSON) becomes a scenario."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from oarpy.grid.core.broker_state import DeadlineRules, GridCluster, ReallocationRules
from oarpy.grid.simulation.fields import DeadlinesEntry, GridClusterEntry, GridFile, GridJobEntry, ReallocationEntry
from oarpy.grid.simulation.scenario import GridJob, GridScenario
from oarpy.grid.simulation.system_of_file import QUEUES, system_of
from oarpy.model.typed_values import Misfit, from_json, from_values, refuse, shown

MOST_NAMED = 1_000_000
"""Most processors of a cluster whose planner names each, and components of a job that may find room."""
MOST_COUNTED = 10**15
"""Most processors of a cluster that only counts them."""

_LARGEST, _PRECISION = sys.float_info.max, sys.float_info.epsilon
LONGEST = 1e15
"""Most seconds of a file, all walltimes together included: larger sums would lose their last seconds."""
_MOST_PASSES = 100_000_000
"""Passes up to the last submission, and for the longest walltime behind it."""

Value = TypeVar("Value")


def read_grid(text: str) -> GridScenario:
    """Read the text of a file. Raises :class:`UsageError` that names the cluster or job, the key and the value."""
    try:
        file = _file(text)
    except Misfit as misfit:
        raise misfit.error("file") from None
    if not file.clusters:
        refuse("file", "clusters", [], "names no cluster", "give at least one")
    if not file.jobs:
        refuse("file", "jobs", [], "names no job", "give at least one")
    most = MOST_COUNTED if file.engine == "counting" else MOST_NAMED
    entries = [_cluster(place, values, most) for place, values in enumerate(file.clusters, 1)]
    clusters: dict[str, GridCluster] = {}
    for entry in entries:
        if entry.name in clusters:
            refuse(f"cluster {shown(entry.name)}", "name", entry.name, "is there twice", "give each its own name")
        clusters[entry.name] = GridCluster(entry.name, entry.procs, float(entry.speed), entry.evict)
    jobs: dict[int | str, GridJob] = {}
    for place, values in enumerate(file.jobs, 1):
        job = _job(place, values, clusters)
        if job.id in jobs:
            refuse(f"job {shown(job.id)}", "id", job.id, "is there twice", "give each job its own id")
        jobs[job.id] = job
    reallocation = _reallocation(file.reallocation)
    _check_times(tuple(clusters.values()), tuple(jobs.values()), file.reallocation)
    return GridScenario(
        clusters=tuple(clusters.values()),
        policies=tuple(entry.policy for entry in entries),
        jobs=tuple(jobs.values()),
        engine=file.engine,
        deadlines=_deadlines(file.deadlines),
        reallocation=reallocation,
        period=float(file.reallocation.period),
    )


def _file(text: str) -> GridFile:
    """Read the whole file, which may name its system."""
    if system_of(text, default="") != QUEUES:
        return from_json(text, GridFile)
    document = from_json(text, dict[str, Any])
    return from_values({key: value for key, value in document.items() if key != "system"}, GridFile)


def read_entry(owner: str, values: Any, kind: type[Value]) -> Value:
    try:
        return from_values(values, kind)
    except Misfit as misfit:
        raise misfit.error(owner) from None


def check_number(
    owner: str,
    key: str,
    value: float | UnsetType | None,
    *,
    least: float = -inf,
    above: float = -inf,
    most: float = _LARGEST,
) -> None:
    """Raise :class:`UsageError` for a number below ``least``, not above ``above``, or further from 0 than ``most``."""
    if value is None or value is UNSET:
        return
    if abs(value) > most:
        refuse(owner, key, value, "is too large", f"give a number of at most {most:g}")
    if value < least:
        refuse(owner, key, value, f"is below {least:g}", f"give a number from {least:g} on")
    if value <= above:
        refuse(owner, key, value, f"is not above {above:g}", f"give a number above {above:g}")


def check_count(owner: str, key: str, value: int | UnsetType, most: int | None = None) -> None:
    if value is UNSET:
        return
    if value < 1:
        refuse(owner, key, value, "is below 1", "give a number from 1 on")
    if most is not None and value > most:
        refuse(owner, key, value, "is too large", f"give a number from 1 to {most}")


def owner_of(what: str, key: str, place: int, values: Any) -> str:
    """Return the name of an object in errors: its own name if it has one, else its place."""
    name = values.get(key) if isinstance(values, dict) else None
    return f"{what} {shown(name)}" if type(name) in (int, str) and name != "" else f"{what} at place {place}"


def _cluster(place: int, values: Any, most: int) -> GridClusterEntry:
    """Read a cluster, which has ``most`` processors at most."""
    owner = owner_of("cluster", "name", place, values)
    entry = read_entry(owner, values, GridClusterEntry)
    if not entry.name:
        refuse(owner, "name", entry.name, "is no name of a cluster", "give each cluster a name")
    check_count(owner, "procs", entry.procs, most)
    check_number(owner, "speed", entry.speed, above=0)
    return entry


def _job(place: int, values: Any, clusters: Mapping[str, GridCluster]) -> GridJob:
    owner = owner_of("job", "id", place, values)
    entry = read_entry(owner, values, GridJobEntry)
    check_count(owner, "procs", entry.procs)
    check_count(owner, "components", entry.components)
    check_number(owner, "run", entry.run, above=0, most=LONGEST)
    check_number(owner, "walltime", entry.walltime, above=0, most=LONGEST)
    check_number(owner, "submit", entry.submit, most=LONGEST)
    check_number(owner, "deadline", entry.deadline, most=LONGEST)
    check_number(owner, "recorded", entry.recorded, most=LONGEST)
    _check_kind(owner, entry)
    _check_size(owner, entry, clusters)
    return GridJob(
        id=entry.id,
        submit=float(entry.submit),
        procs=entry.procs,
        run=float(entry.run),
        walltime=float(entry.run if entry.walltime is UNSET else entry.walltime),
        cluster=None if entry.cluster is UNSET else entry.cluster,
        components=entry.components or 0,
        deadline=float(entry.deadline or 0),
    )


def _check_kind(owner: str, entry: GridJobEntry) -> None:
    """Raise :class:`UsageError` for a job that is neither local, mapped nor co-allocated."""
    if entry.deadline is UNSET:
        if entry.components is not UNSET:
            refuse(owner, "components", entry.components, "is given without deadline", "give both or none of them")
        return
    if entry.cluster is not UNSET:
        refuse(owner, "cluster", entry.cluster, "is given beside deadline", "leave one of them out")
    if entry.components is UNSET:
        refuse(owner, "deadline", entry.deadline, "is given without components", "give both or none of them")
    if entry.deadline < entry.submit:
        refuse(owner, "deadline", entry.deadline, f"is before submit ({shown(entry.submit)})", "give a later one")


def _check_size(owner: str, entry: GridJobEntry, clusters: Mapping[str, GridCluster]) -> None:
    """Raise :class:`UsageError` for a job that fits on no cluster where it may run.

    A co-allocated job that never fits is missed. A co-allocated job that may fit has at most as many components as can
    be listed.
    """
    if entry.components is not UNSET:
        if entry.components <= sum(cluster.procs // entry.procs for cluster in clusters.values()):
            check_count(owner, "components", entry.components, MOST_NAMED)
        return
    if entry.cluster is not UNSET and entry.cluster not in clusters:
        refuse(owner, "cluster", entry.cluster, "is no cluster", f"known: {', '.join(clusters)}")
    largest = max(
        cluster.procs for cluster in clusters.values() if entry.cluster is UNSET or cluster.name == entry.cluster
    )
    if entry.procs > largest:
        where = f"cluster {shown(entry.cluster)}" if entry.cluster is not UNSET else "the largest cluster"
        refuse(owner, "procs", entry.procs, f"is more than {where} has", f"at most {largest}")


def _check_times(clusters: Sequence[GridCluster], jobs: Sequence[GridJob], rules: ReallocationEntry) -> None:
    """Raise :class:`UsageError` for a speed or a period with which times cannot be added up, or never end."""
    slowest = min(clusters, key=lambda cluster: cluster.speed)
    if sum(job.walltime for job in jobs) > LONGEST * slowest.speed:
        advice = "give a higher speed, or shorter walltimes"
        problem = f"makes more than {LONGEST:g} seconds of all walltimes"
        refuse(f"cluster {shown(slowest.name)}", "speed", slowest.speed, problem, advice)
    last = max(job.deadline if job.components else job.submit for job in jobs)
    span = last - min(job.submit for job in jobs) + max(job.walltime for job in jobs) / slowest.speed
    if rules.algorithm and span > _MOST_PASSES * rules.period:
        problem = f"makes more than {_MOST_PASSES:,} passes"
        refuse("reallocation", "period", rules.period, problem, f"give a number above {span / _MOST_PASSES:.3g}")
    latest = max(abs(job.submit) for job in jobs) + span
    if rules.algorithm and latest + rules.period == latest:
        problem = f"is lost beside instants of {latest:.3g} seconds"
        refuse("reallocation", "period", rules.period, problem, f"give a number above {latest * _PRECISION:.3g}")


def _deadlines(entry: DeadlinesEntry) -> DeadlineRules:
    check_number("deadlines", "lp", entry.lp, above=0)
    if entry.lp > 1:
        refuse("deadlines", "lp", entry.lp, "is above 1", "give a number above 0, at most 1")
    check_number("deadlines", "tries", entry.tries, least=0, most=inf)
    check_number("deadlines", "wait", entry.wait, least=0)
    wait = inf if entry.wait is None else float(entry.wait)
    return DeadlineRules(float(entry.lp), entry.tries, wait, entry.evict_at)


def _reallocation(entry: ReallocationEntry) -> ReallocationRules:
    check_number("reallocation", "period", entry.period, above=0)
    check_number("reallocation", "threshold", entry.threshold, least=0)
    check_number("reallocation", "age_limit", entry.age_limit, least=0)
    limit = inf if entry.age_limit is None else float(entry.age_limit)
    return ReallocationRules(entry.mapping, entry.algorithm, entry.heuristic, float(entry.threshold), limit, entry.seed)
