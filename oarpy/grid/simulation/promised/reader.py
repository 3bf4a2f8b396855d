"""A file of a system with planned starts (JSON) becomes a scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from msgspec import UNSET

from oarpy.grid.core.bags.composition import BagPolicy
from oarpy.grid.core.coallocation.common_start import EARLIEST
from oarpy.grid.simulation.promised.fields import (
    BagsJobEntry,
    ClusterEntry,
    FlexcoJobEntry,
    JobEntry,
    OffersJobEntry,
    WindowJobEntry,
)
from oarpy.grid.simulation.promised.world import PromisedScenario
from oarpy.grid.simulation.reader import LONGEST, check_count, check_number, owner_of, read_entry
from oarpy.model.plugins import COALLOCATIONS, COMPOSITIONS, RESERVATION_ORDERS
from oarpy.model.typed_values import Misfit, check_named, from_json, refuse, shown
from oarpy.scheduler.windows.window_jobs import Criterion

_MOST = 10**9

Clusters = Mapping[str, ClusterEntry]


@dataclass(frozen=True, slots=True)
class FileKinds:
    """The kinds of a system's file, its clusters and its jobs; ``check`` raises :class:`UsageError` for a wrong job."""

    file: type[Any]
    cluster: type[ClusterEntry]
    job: type[JobEntry]
    check: Callable[[str, Any, Clusters, Any], None]


def read_promised(text: str, system: str, kinds: FileKinds) -> PromisedScenario[Any, Any]:
    """Read the text of a file. Raises :class:`UsageError` that names the cluster or job, the key and the value."""
    try:
        file = from_json(text, kinds.file)
    except Misfit as misfit:
        raise misfit.error("file") from None
    for key, values in (("clusters", file.clusters), ("jobs", file.jobs)):
        if not values:
            refuse("file", key, [], f"names no {key[:-1]}", "give at least one")
    if file.measure is not None:
        for instant in file.measure:
            check_number("file", "measure", instant, most=LONGEST)
        if file.measure[1] <= file.measure[0]:
            refuse("file", "measure", file.measure[1], f"is not after {shown(file.measure[0])}", "give a later end")
    rules = getattr(file, system)
    _check_rules(system, rules)
    clusters = _clusters(file.clusters, kinds.cluster)
    jobs: dict[int | str, Any] = {}
    for place, values in enumerate(file.jobs, 1):
        owner = owner_of("job", "id", place, values)
        job = read_entry(owner, values, kinds.job)
        _check_job(owner, job, clusters)
        kinds.check(owner, job, clusters, rules)
        if job.id in jobs:
            refuse(owner, "id", job.id, "is there twice", "give each job its own id")
        jobs[job.id] = job
    _check_times(clusters, list(jobs.values()))
    return PromisedScenario(system, list(clusters.values()), list(jobs.values()), file.measure, rules)


def _clusters(entries: Sequence[Any], kind: type[ClusterEntry]) -> dict[str, ClusterEntry]:
    clusters: dict[str, ClusterEntry] = {}
    for place, values in enumerate(entries, 1):
        owner = owner_of("cluster", "name", place, values)
        entry = read_entry(owner, values, kind)
        if not entry.name:
            refuse(owner, "name", entry.name, "is no name of a cluster", "give each cluster a name")
        check_count(owner, "procs", entry.procs, _MOST)
        check_number(owner, "speed", entry.speed, above=0, most=LONGEST)
        if entry.name in clusters:
            refuse(owner, "name", entry.name, "is there twice", "give each its own name")
        clusters[entry.name] = entry
    return clusters


_NAMES: Mapping[str, tuple[str, Sequence[str], str]] = {
    "windows": ("order", get_args(Criterion), RESERVATION_ORDERS),
    "flexco": ("coallocation", (EARLIEST,), COALLOCATIONS),
    "offers": ("policy", (*get_args(BagPolicy), "slots"), COMPOSITIONS),
    "bags": ("policy", ("nolb", "plb", "dplb"), COMPOSITIONS),
}
"""For each system: the rule that may name a plug-in, the other values of the rule, and the group of the plug-ins."""


def _check_rules(system: str, rules: Any) -> None:
    key, known, group = _NAMES[system]
    check_named(f"file: {system}", key, getattr(rules, key), known, group)
    bound = getattr(rules, "bound", None)
    check_number(system, "bound", bound, above=0, most=LONGEST)


def _check_job(owner: str, job: JobEntry, clusters: Clusters) -> None:
    check_count(owner, "procs", job.procs, _MOST)
    check_number(owner, "run", job.run, above=0, most=LONGEST)
    check_number(owner, "walltime", job.walltime, above=0, most=LONGEST)
    check_number(owner, "submit", job.submit, most=LONGEST)
    check_number(owner, "recorded", job.recorded, most=LONGEST)
    if job.cluster is not UNSET and job.cluster not in clusters:
        refuse(owner, "cluster", job.cluster, "is no cluster", f"known: {', '.join(clusters)}")
    if job.cluster is not UNSET:
        _check_size(owner, job, [clusters[job.cluster]])


def _check_size(owner: str, job: JobEntry, clusters: Sequence[ClusterEntry]) -> None:
    largest = max(cluster.procs for cluster in clusters)
    if job.size > largest:
        refuse(owner, "procs", job.size, f"is more than there is where it may run, {largest}", "ask for less")


def _check_times(clusters: Clusters, jobs: Sequence[Any]) -> None:
    """Refuse a speed with which times cannot be added up."""
    slowest = min(clusters.values(), key=lambda cluster: cluster.speed)
    whole = sum(getattr(job, "count", 1) * job.planned * (1 + (getattr(job, "overhead", 0) or 0)) for job in jobs)
    if whole > LONGEST * slowest.speed:
        problem = f"makes more than {LONGEST:g} seconds of all walltimes"
        refuse(f"cluster {shown(slowest.name)}", "speed", slowest.speed, problem, "give a higher speed")


def _need_procs(owner: str, job: JobEntry) -> None:
    if job.procs is UNSET:
        refuse(owner, "procs", None, "is missing", "give a whole number")


def _refuse_given(owner: str, job: Any, keys: Sequence[str]) -> None:
    """Refuse keys that a local job does not have."""
    for key in keys:
        if getattr(job, key) is not UNSET:
            refuse(owner, key, getattr(job, key), "is given beside cluster", "leave one of them out")


def check_window_job(owner: str, job: WindowJobEntry, clusters: Clusters, _rules: Any) -> None:
    """Check a job of ``windows``."""
    _need_procs(owner, job)
    check_number(owner, "deadline", job.deadline, most=LONGEST)
    check_number(owner, "ready", job.ready, most=LONGEST)
    check_number(owner, "accept", job.accept, most=LONGEST)
    if job.cluster is UNSET and len(clusters) > 1:
        refuse(owner, "cluster", None, "is missing", f"known: {', '.join(clusters)}")
    cluster = next(iter(clusters.values())) if job.cluster is UNSET else clusters[job.cluster]
    _check_size(owner, job, [cluster])
    lo = job.submit if job.ready is None else max(job.submit, job.ready)
    if job.deadline - job.planned / cluster.speed < lo:
        refuse(owner, "deadline", job.deadline, f"leaves no start from {shown(lo)} on", "give a later one")


def check_flexco_job(owner: str, job: FlexcoJobEntry, clusters: Clusters, _rules: Any) -> None:
    """Check a job of ``flexco``."""
    _need_procs(owner, job)
    if job.cluster is not UNSET:
        _refuse_given(owner, job, ("overhead", "ready", "at_most"))
        return
    check_number(owner, "overhead", job.overhead, least=0, most=LONGEST)
    check_number(owner, "ready", job.ready, most=LONGEST)
    at_most = job.at_most or {}
    for name, most in at_most.items():
        if name not in clusters:
            refuse(owner, "at_most", name, "is no cluster", f"known: {', '.join(clusters)}")
        check_number(owner, "at_most", most, least=0, most=_MOST)
    room = sum(min(cluster.procs, at_most.get(name, cluster.procs)) for name, cluster in clusters.items())
    if job.size > room:
        refuse(owner, "procs", job.size, f"is more than all clusters together give it, {room}", "ask for less")


def check_offers_job(owner: str, job: OffersJobEntry, clusters: Clusters, rules: Any) -> None:
    """Check a job of ``offers``."""
    check_number(owner, "deadline", job.deadline, most=LONGEST)
    if job.deadline <= job.submit:
        refuse(owner, "deadline", job.deadline, f"is not above submit, {shown(job.submit)}", "give a later one")
    _check_bag(owner, job, clusters, (100,) if rules.policy == "slots" else rules.shares)


def check_bags_job(owner: str, job: BagsJobEntry, clusters: Clusters, rules: Any) -> None:
    """Check a job of ``bags``."""
    check_number(owner, "predicted", job.predicted, least=job.length, above=0, most=LONGEST)
    check_number(owner, "profiling", job.profiling, least=0, most=LONGEST)
    if job.cluster is not UNSET:
        _refuse_given(owner, job, ("predicted", "profiling"))
    _check_bag(owner, job, clusters, rules.shares)


def _check_bag(owner: str, job: Any, clusters: Clusters, shares: Sequence[int]) -> None:
    if job.cluster is not UNSET:
        _need_procs(owner, job)
        _refuse_given(owner, job, ("tasks",))
        return
    if job.tasks is UNSET:
        refuse(owner, "tasks", None, "is missing", "give a whole number, or a cluster")
    check_count(owner, "tasks", job.tasks, _MOST)
    _check_size(owner, job, list(clusters.values()))
    able = sum(cluster.procs >= job.size for cluster in clusters.values())
    if able * -(-job.tasks * max(shares, default=0) // 100) < job.tasks:
        refuse(owner, "tasks", job.tasks, "are more than shares let clusters offer", "give a share of 100")
