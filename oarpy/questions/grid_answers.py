"""Questions to a broker of several clusters: parallel jobs over clusters, and bags from offers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import get_args

from msgspec import UNSET

from oarpy.grid.core.bags.composition import BagPolicy, ClusterOffer, Strengths, compose
from oarpy.grid.core.coallocation.common_start import (
    EARLIEST,
    CommonPlace,
    CoProvider,
    ParallelRequest,
    in_turn,
    placed_by,
)
from oarpy.grid.core.coallocation.early_end import Metajob, PlannedClusters
from oarpy.model.plugins import COALLOCATIONS, COMPOSITIONS
from oarpy.model.typed_values import Exact, check_named, refuse
from oarpy.profiles.planned import plan_at
from oarpy.profiles.profile import CountedHold, Profile
from oarpy.questions.cluster_answers import Answer
from oarpy.questions.fields import (
    MOST,
    CoallocateFile,
    ComposeFile,
    CompressFile,
    MetajobEntry,
    ParallelEntry,
    PlannedProviderEntry,
    ProviderEntry,
)
from oarpy.questions.possible_states import HeldMachine, Ids, check_known, check_length, check_name, check_span


def answer_coallocate(file: CoallocateFile) -> Answer:
    """Tell when and where a parallel job can start."""
    profiles: dict[str, Profile] = {}
    for place, provider in enumerate(file.providers, 1):
        check_name(place, provider.name, profiles)
        profiles[provider.name] = _held_profile(place, provider, file.now)
    names = list(profiles)
    first = names[0] if file.first is UNSET else file.first
    check_known("file", "first", [first], names)
    check_known("job", "at_most", file.job.at_most, names)
    _check_lengths("job", file.job, file.providers)
    lo = _ready(file.job.ready, file.now)
    ends = {hold.end for provider in file.providers for hold in provider.holds}
    speeds = {provider.name: provider.speed for provider in file.providers}
    providers = [CoProvider(name, speeds[name], profiles[name]) for name in in_turn(names, first)]
    check_named("file", "coallocation", file.coallocation, (EARLIEST,), COALLOCATIONS)
    instants = [lo, *sorted(end for end in ends if end > lo)]
    common = placed_by(file.coallocation, providers, _request(file.job, file.job.end_by), instants)
    if common is None:
        return {"start": None, "end": None, "parts": {}}
    return _place(common)


def _held_profile(place: int, provider: ProviderEntry, now: float) -> Profile:
    machine = HeldMachine(provider.procs, now)
    for number, hold in enumerate(provider.holds, 1):
        owner = f"providers {place}: holds {number}"
        check_span(owner, hold.start, hold.end)
        machine.hold(owner, hold.start, hold.end, hold.procs)
    return machine.profile


def _check_lengths(
    owner: str, job: ParallelEntry | MetajobEntry, providers: Iterable[ProviderEntry | PlannedProviderEntry]
) -> None:
    request = _request(job)
    for provider in providers:
        check_length(owner, "time", job.time, request.spread(provider.speed))


def _request(job: ParallelEntry | MetajobEntry, end_by: float | None = None) -> ParallelRequest:
    return ParallelRequest(job.procs, job.time, job.overhead, job.at_most, inf if end_by is None else end_by)


def _ready(ready: float | None, now: float) -> float:
    return now if ready is None else max(ready, now)


def _place(place: CommonPlace) -> Answer:
    return {"start": place.start, "end": place.end, "parts": dict(place.parts)}


def answer_compress(file: CompressFile) -> Answer:
    """Tell which jobs move forward when a job ended early on one of several clusters."""
    names = [provider.name for provider in file.providers]
    check_known("file", "provider", [file.provider], names)
    places = _checked_places(file, names)
    profiles = {
        provider.name: Profile(provider.procs, file.now, [(held.end, held.procs) for held in provider.running])
        for provider in file.providers
    }
    clusters = PlannedClusters(
        [CoProvider(provider.name, provider.speed, profiles[provider.name]) for provider in file.providers],
        {
            provider.name: [
                plan_at(profiles[provider.name], job.id, job.procs, job.start, job.time) for job in provider.local
            ]
            for provider in file.providers
        },
        [_metajob(job, place, names, profiles) for job, place in zip(file.metajobs, places, strict=True)],
    )
    clusters.after_early_end(file.provider, file.operation, file.now)
    return {
        "local": {str(job.id): job.start for jobs in clusters.local.values() for job in jobs},
        "metajobs": {str(metajob.id): _place(metajob.place) for metajob in clusters.metajobs},
    }


def _metajob(
    job: MetajobEntry, place: CommonPlace, names: Sequence[str], profiles: Mapping[str, Profile]
) -> Metajob[CountedHold]:
    return Metajob(
        id=job.id,
        request=_request(job),
        ready=-inf if job.ready is None else job.ready,
        first=names[0] if job.first is UNSET else job.first,
        place=place,
        holds={name: profiles[name].hold(procs, place.start, place.end) for name, procs in place.parts.items()},
    )


def _checked_places(file: CompressFile, names: Sequence[str]) -> list[CommonPlace]:
    """Check the file; return where its metajobs are planned."""
    ids = Ids()
    machines: dict[str, HeldMachine] = {}
    for place, provider in enumerate(file.providers, 1):
        check_name(place, provider.name, machines)
        machine = machines[provider.name] = HeldMachine(provider.procs, file.now)
        where = f"providers {place}"
        for number, held in enumerate(provider.running, 1):
            check_span(f"{where}: running {number}", held.start, held.end)
            machine.run(f"{where}: running {number}", held.start, held.end, held.procs)
        for number, local in enumerate(provider.local, 1):
            owner = ids.owner(f"{where}: local", number, local.id)
            machine.plan(owner, local.start, local.start + local.time, local.procs)
    places = []
    for place, job in enumerate(file.metajobs, 1):
        owner = ids.owner("metajobs", place, job.id)
        check_known(owner, "parts", job.parts, names)
        check_known(owner, "first", [] if job.first is UNSET else [job.first], names)
        check_known(owner, "at_most", job.at_most, names)
        if sum(job.parts.values()) != job.procs:
            refuse(owner, "parts", sum(job.parts.values()), f"do not add up to procs, {job.procs}", "mend one of them")
        _check_lengths(owner, job, file.providers)
        places.append(_planned_place(job, {provider.name: provider.speed for provider in file.providers}))
        for name, procs in job.parts.items():
            machines[name].plan(owner, places[-1].start, places[-1].end, procs)
    return places


def _planned_place(job: MetajobEntry, speeds: Mapping[str, float]) -> CommonPlace:
    used = [speeds[name] for name in job.parts]
    time = _request(job).alone(used[0]) if len(used) == 1 else _request(job).spread(min(used))
    return CommonPlace(job.start, job.start + time, job.parts)


def answer_compose(file: ComposeFile) -> Answer:
    """Tell how the tasks of a bag are shared out among clusters that made offers."""
    check_named("file", "policy", file.policy, get_args(BagPolicy), COMPOSITIONS)
    _check_compose(file)
    offers = [ClusterOffer(offer.provider, offer.tasks, offer.end) for offer in file.offers]
    composition = compose(file.policy, file.tasks, file.deadline, offers, Strengths(file.power, file.pending))
    parts = [{"provider": part.provider, "tasks": part.tasks, "end": part.end} for part in composition.parts]
    meets = None if file.deadline is None else composition.end is not None and composition.end <= file.deadline
    return {"policy": composition.policy, "parts": parts, "end": composition.end, "meets": meets}


def _check_compose(file: ComposeFile) -> None:
    _check_exact("file", "deadline", file.deadline, -MOST)
    for place, offer in enumerate(file.offers, 1):
        owner = f"offers {place}"
        if not offer.provider:
            refuse(owner, "provider", offer.provider, "is no name", "name the provider")
        _check_exact(owner, "end", offer.end, -MOST)
    for key, values in (("power", file.power), ("pending", file.pending)):
        for name, value in values.items():
            if not name:
                refuse(key, name, value, "belongs to no provider", "name the provider")
            _check_exact(key, name, value, 0)
            if key == "power" and not value:
                refuse(key, name, value, "is not above 0", "give a number above 0")
    needed = {"power": file.policy in ("dplb", "dplbv2"), "pending": file.policy == "dplbv2"}
    for place, offer in enumerate(file.offers, 1):
        for key, values in (("power", file.power), ("pending", file.pending)):
            if needed[key] and offer.provider not in values:
                problem = f"has no value in key '{key}', which {file.policy} needs"
                refuse(f"offers {place}", "provider", offer.provider, problem, "give one")


def _check_exact(owner: str, key: str, value: Exact | None, least: float) -> None:
    if value is not None and not least <= value <= MOST:
        refuse(owner, key, value, f"is not from {least:g} to {MOST:g}", "give another number")
