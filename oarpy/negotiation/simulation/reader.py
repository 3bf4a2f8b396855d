"""Reads a file of ``oarpy negotiate`` (JSON) as a workload with exact times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cache
from math import lcm
from typing import Any, TypeVar

from msgspec import UNSET, UnsetType

from oarpy.model.errors import UsageError
from oarpy.model.typed_values import Misfit, from_exact_json, from_exact_values, refuse, shown
from oarpy.negotiation.core.applications import NegotiationRules
from oarpy.negotiation.launchers import ApplicationLauncher, Complex, Moldable
from oarpy.negotiation.run_times import AmdahlTime, Cluster, IterativeTime
from oarpy.negotiation.simulation.fields import ApplicationEntry, ClusterEntry, ComplexEntry, NegotiationFile
from oarpy.negotiation.simulation.workload import Participant, ScriptedRequest, Workload, whole

_LARGEST = 2**53
_DIVIDED_HOSTS = 1024
_LARGEST_SCALE = 2**4096
"""Most ticks of a second; beyond that, the run times of launchers stay fractions of a tick."""

Value = TypeVar("Value")


def read_workload(text: str) -> Workload:
    """Read the text of a file. Raises :class:`UsageError` that names the application, the key and the value."""
    file = _converted("file", from_exact_json, text, NegotiationFile)
    for key in ("fair_start", "timer", "security"):
        _check_number("file", key, getattr(file, key), least=0)
    _check_count("file", "most", file.most)
    clusters = {name: _cluster(name, entry) for name, entry in file.clusters.items()}
    latencies = _latencies(file, clusters)
    entries = [_application(place, entry, clusters) for place, entry in enumerate(file.applications, 1)]
    seen: set[int] = set()
    for entry in entries:
        if entry.id in seen:
            refuse(f"application {entry.id}", "id", entry.id, "is there twice", "give each application its own number")
        seen.add(entry.id)
    ticks = _ticks(file, entries, clusters, latencies)
    return Workload(
        sizes={name: cluster.hosts for name, cluster in clusters.items()},
        participants=tuple(_participant(entry, clusters, latencies, ticks) for entry in entries),
        rules=NegotiationRules(
            fair_start=whole(file.fair_start * ticks),
            security=whole(file.security * ticks),
            ghosts=file.ghosts,
            rank=file.rank,
            most=file.most,
        ),
        timer=whole(file.timer * ticks),
        ticks=ticks,
    )


# The contents of a file


def _converted(owner: str, convert: Callable[[Any, type[Value]], Value], values: Any, kind: type[Value]) -> Value:
    try:
        return convert(values, kind)
    except Misfit as misfit:
        raise misfit.error(owner) from None


def _check_number(
    owner: str, key: str, value: Fraction | UnsetType, *, least: int | None = None, above: int | None = None
) -> None:
    """Raise :class:`UsageError` for a number below ``least``, or not above ``above``."""
    if value is UNSET:
        return
    assert isinstance(value, Fraction)
    if least is not None and value < least:
        refuse(owner, key, value, f"is below {least}", f"give a number of at least {least}")
    if above is not None and value <= above:
        refuse(owner, key, value, f"is not above {above}", f"give a number above {above}")
    if value > _LARGEST:
        refuse(owner, key, value, "is too large", f"give a number of at most {_LARGEST}")


def _check_count(owner: str, key: str, value: int) -> None:
    if not 1 <= value <= _LARGEST:
        refuse(owner, key, value, "is not above 0" if value < 1 else "is too large", "give a whole number from 1 on")


def _cluster(name: str, values: Any) -> Cluster:
    owner = f"cluster {shown(name)}"
    if not name:
        refuse("file", "clusters", name, "is no name of a cluster", "give each cluster a name")
    entry = _converted(owner, from_exact_values, values, ClusterEntry)
    _check_count(owner, "hosts", entry.hosts)
    _check_number(owner, "speed", entry.speed, above=0)
    return Cluster(name, entry.hosts, whole(entry.speed))


def _latencies(file: NegotiationFile, clusters: Mapping[str, Cluster]) -> dict[frozenset[str], Fraction]:
    known: dict[frozenset[str], Fraction] = {}
    for cluster, other, seconds in file.latency:
        for name in (cluster, other):
            _check_name("file", "latency", name, clusters)
        _check_number("file", "latency", seconds, least=0)
        if cluster == other:
            refuse("file", "latency", cluster, "is named twice in one entry", "name two clusters")
        if known.setdefault(frozenset((cluster, other)), seconds) != seconds:
            refuse(
                "file", "latency", seconds, f"is a second latency of {cluster} and {other}", "give one for each pair"
            )
    return known


def _check_name(owner: str, key: str, name: str, clusters: Iterable[str]) -> None:
    if name not in clusters:
        refuse(owner, key, name, "is no cluster that it may use", f"known: {', '.join(clusters)}")


def _application(place: int, values: Any, clusters: Mapping[str, Cluster]) -> ApplicationEntry:
    """Return the application at a place of the list, its own clusters filled in, with everything checked."""
    number = values.get("id") if isinstance(values, dict) else None
    owner = f"application {number}" if type(number) is int else f"application at place {place}"
    entry = _converted(owner, from_exact_values, values, ApplicationEntry)
    _check_count(owner, "id", entry.id)
    for key in ("arrives", "delay", "lasts"):
        _check_number(owner, key, getattr(entry, key), least=0)
    if entry.clusters is UNSET:
        entry.clusters = tuple(clusters)
    for at, name in enumerate(entry.clusters):
        _check_name(owner, "clusters", name, clusters)
        if name in entry.clusters[:at]:
            refuse(owner, "clusters", name, "is there twice", "name each cluster once")
    if not entry.clusters:
        refuse(owner, "clusters", [], "names no cluster", f"known: {', '.join(clusters)}")
    given = [key for key in ("script", "rigid", "moldable", "complex") if getattr(entry, key) is not UNSET]
    if len(given) != 1:
        what = f"has {' and '.join(given)}" if given else "has none of script, rigid, moldable, complex"
        raise UsageError(f"{owner}: key '{(given or ['script'])[-1]}': it {what}", hint="give exactly one of them")
    own = {name: clusters[name] for name in entry.clusters}
    _check_script(owner, entry, own)
    _check_launcher(owner, entry, own)
    return entry


def _check_script(owner: str, entry: ApplicationEntry, clusters: Mapping[str, Cluster]) -> None:
    if entry.script is UNSET:
        return
    if entry.delay is not UNSET:
        refuse(owner, "delay", entry.delay, "does not go with a script", "leave it out: scripts answer no view")
    before: Fraction = Fraction(0)
    for after, hosts, walltime in entry.script:
        _check_number(owner, "script", after, least=0)
        _check_number(owner, "script", walltime, above=0)
        if after < before:
            refuse(owner, "script", after, "comes after a later request", "write requests in ascending order")
        before = after
        if not hosts:
            refuse(owner, "script", hosts, "asks for no host", "name a cluster and a number of hosts")
        for name, number in hosts.items():
            _check_name(owner, "script", name, clusters)
            if type(number) is not int or not 1 <= number <= clusters[name].hosts:
                advice = f"give a whole number from 1 to {clusters[name].hosts}"
                refuse(owner, "script", number, f"is no number of hosts of {name}", advice)


def _check_launcher(owner: str, entry: ApplicationEntry, clusters: Mapping[str, Cluster]) -> None:
    """Raise :class:`UsageError` for a launcher that cannot be meant, or that fits on no cluster."""
    largest = max(cluster.hosts for cluster in clusters.values())
    too_many = f"are more hosts than any of its clusters has; give at most {largest}"
    if entry.rigid is not UNSET:
        _check_count(owner, "rigid: hosts", entry.rigid.hosts)
        _check_number(owner, "rigid: duration", entry.rigid.duration, above=0)
        _check_number(owner, "rigid: margin", entry.rigid.margin, least=1)
        if entry.rigid.hosts > largest:
            refuse(owner, "rigid: hosts", entry.rigid.hosts, *too_many.split("; "))
    if entry.moldable is not UNSET:
        _check_count(owner, "moldable: min", entry.moldable.min)
        _check_number(owner, "moldable: P", entry.moldable.P, least=0)
        if entry.moldable.P > 1:
            refuse(owner, "moldable: P", entry.moldable.P, "is above 1", "give a number from 0 to 1")
        _check_number(owner, "moldable: single", entry.moldable.single, above=0)
        _check_number(owner, "moldable: margin", entry.moldable.margin, least=1)
        if not entry.moldable.min <= entry.moldable.max <= _LARGEST:
            refuse(owner, "moldable: max", entry.moldable.max, "is below min", "give a number of at least min")
        if entry.moldable.min > largest:
            refuse(owner, "moldable: min", entry.moldable.min, *too_many.split("; "))
    if entry.complex is not UNSET:
        _check_number(owner, "complex: work", entry.complex.work, above=0)
        _check_number(owner, "complex: iterations", entry.complex.iterations, least=0)
        _check_number(owner, "complex: margin", entry.complex.margin, least=1)


# Exact times


def _ticks(
    file: NegotiationFile,
    entries: Iterable[ApplicationEntry],
    clusters: Mapping[str, Cluster],
    latencies: Mapping[frozenset[str], Fraction],
) -> int:
    """Return how many ticks a second has, so that all times of the file, and most of launchers, are whole."""
    times = [file.fair_start, file.timer, file.security, *latencies.values()]
    for entry in entries:
        times += [time for time in (entry.arrives, entry.delay, entry.lasts) if not isinstance(time, UnsetType)]
        if not isinstance(entry.script, UnsetType):
            times += [time for after, _, walltime in entry.script for time in (after, walltime)]
    ticks = lcm(*(time.denominator for time in times))
    for entry in entries:
        for part in _parts_of_run_times(entry, clusters):
            finer = lcm(ticks, part)
            ticks = finer if finer < _LARGEST_SCALE else ticks
    return ticks


def _parts_of_run_times(entry: ApplicationEntry, clusters: Mapping[str, Cluster]) -> Iterator[int]:
    """Yield the parts of a second that run times and walltimes on one cluster consist of."""
    assert not isinstance(entry.clusters, UnsetType)
    for cluster in (clusters[name] for name in entry.clusters):
        speed = Fraction(cluster.speed)
        if entry.rigid is not UNSET:
            yield from _parts(entry.rigid.duration / speed, entry.rigid.margin)
        if entry.moldable is not UNSET:
            mold = entry.moldable
            divided = mold.P * mold.single / speed
            yield from _parts((1 - mold.P) * mold.single / speed, mold.margin)
            yield from (part * _up_to(min(mold.max, cluster.hosts)) for part in _parts(divided, mold.margin))


def _parts(time: Fraction, margin: Fraction) -> tuple[int, int]:
    return time.denominator, (time * margin).denominator


@cache
def _up_to(hosts: int) -> int:
    """Return a number that all numbers up to ``hosts`` divide; for many hosts, not all of them."""
    return lcm(*range(1, min(hosts, _DIVIDED_HOSTS) + 1))


def _participant(
    entry: ApplicationEntry,
    clusters: Mapping[str, Cluster],
    latencies: Mapping[frozenset[str], Fraction],
    ticks: int,
) -> Participant:
    assert not isinstance(entry.clusters, UnsetType)
    script = () if isinstance(entry.script, UnsetType) else entry.script
    return Participant(
        id=entry.id,
        arrives=whole(entry.arrives * ticks),
        clusters=entry.clusters,
        delay=0 if isinstance(entry.delay, UnsetType) else whole(entry.delay * ticks),
        lasts=None if isinstance(entry.lasts, UnsetType) else whole(entry.lasts * ticks),
        launcher=_launcher(entry, clusters, latencies, ticks),
        script=tuple(
            ScriptedRequest(whole(after * ticks), hosts, whole(walltime * ticks)) for after, hosts, walltime in script
        ),
    )


def _launcher(
    entry: ApplicationEntry,
    clusters: Mapping[str, Cluster],
    latencies: Mapping[frozenset[str], Fraction],
    ticks: int,
) -> ApplicationLauncher | None:
    """Return the launcher that speaks for an application, None for a script; its times are ticks."""
    assert not isinstance(entry.clusters, UnsetType)
    own = [clusters[name] for name in entry.clusters]
    if entry.rigid is not UNSET:
        rigid = entry.rigid
        time = AmdahlTime(1, whole(rigid.duration * rigid.hosts * ticks), rounded=whole)
        return Moldable(own, time, rigid.hosts, rigid.hosts, whole(rigid.margin))
    if entry.moldable is not UNSET:
        mold = entry.moldable
        time = AmdahlTime(mold.P, whole(mold.single * ticks), rounded=whole)
        return Moldable(own, time, mold.min, mold.max, whole(mold.margin))
    if entry.complex is not UNSET:
        return _complex(entry.complex, own, latencies, ticks)
    return None


def _complex(
    entry: ComplexEntry, own: list[Cluster], latencies: Mapping[frozenset[str], Fraction], ticks: int
) -> Complex:
    scaled = {pair: whole(seconds * ticks) for pair, seconds in latencies.items()}
    work, iterations = whole(entry.work * ticks), whole(entry.iterations)
    return Complex(IterativeTime(work, iterations, own, scaled, rounded=whole), whole(entry.margin))
