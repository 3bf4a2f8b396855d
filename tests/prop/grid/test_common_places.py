"""The common start of a job over clusters: the first instant that a naive search finds, without a look at every one."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from random import Random

from oarpy.grid.core.coallocation.common_start import (
    CommonPlace,
    CoProvider,
    ParallelRequest,
    common_place,
    instants_from,
)
from oarpy.profiles.profile import CountedHold, Profile
from tests.harness.examples import examples

Clusters = Sequence[CoProvider[CountedHold]]


class WatchedProfile(Profile):
    """A profile that counts how often somebody asks for what is free."""

    looks = 0

    def free(self, start: float, duration: float = 0) -> int:
        """Return how many processors are free."""
        self.looks += 1
        return super().free(start, duration)


def naive_place(providers: Clusters, request: ParallelRequest) -> CommonPlace | None:
    """Look at all clusters at every instant."""
    slowest = min(provider.speed for provider in providers)
    for start in instants_from(providers, 0):
        for provider in providers:
            end = start + request.alone(provider.speed)
            most = request.at_most.get(provider.name, request.procs)
            if most >= request.procs <= provider.timeline.free(start, end - start) and end <= request.end_by:
                return CommonPlace(start, end, {provider.name: request.procs})
        parts: dict[str, int] = {}
        for provider in providers:
            most = min(request.at_most.get(provider.name, request.procs), request.procs - sum(parts.values()))
            if here := min(most, provider.timeline.free(start, request.spread(slowest))):
                parts[provider.name] = here
        if sum(parts.values()) == request.procs:
            end = start + request.spread(min(provider.speed for provider in providers if provider.name in parts))
            if end <= request.end_by:
                return CommonPlace(start, end, parts)
    return None


def busy_clusters(dice: Random) -> Clusters:
    """Return clusters on which a lot is held, at times that meet often."""
    clusters = []
    for name in "ABCD"[: dice.randint(1, 4)]:
        profile = Profile(dice.randint(1, 8), 0)
        for _ in range(dice.randint(0, 40)):
            start, length = dice.randint(0, 60), dice.randint(1, 12)
            if free := profile.free(start, length):
                profile.hold(dice.randint(1, free), start, start + length)
        clusters.append(CoProvider(name, dice.choice([1, 1, 2, 0.5]), profile))
    return clusters


def test_a_place_is_the_first_of_a_naive_search() -> None:
    for seed in range(examples(3000)):
        dice = Random(seed)
        clusters = busy_clusters(dice)
        at_most = {one.name: dice.randint(0, 6) for one in clusters if dice.random() < 0.3}
        end_by = dice.choice([inf, inf, 30, 50, 80])
        request = ParallelRequest(dice.randint(1, 16), dice.choice([1, 3, 8]), dice.choice([0, 0.25]), at_most, end_by)
        found, expected = common_place(clusters, request, instants_from(clusters, 0)), naive_place(clusters, request)
        assert found == expected, seed
        assert found is None or list(found.parts) == list(expected.parts if expected else ())


def test_instants_at_which_no_cluster_has_more_than_before_are_passed_over() -> None:
    clusters = []
    for name in "ABC":
        profile = WatchedProfile(1000, 0)
        for end in range(1, 1001):
            profile.hold(1, end - 1, 2000)
        clusters.append(CoProvider(name, 1, profile))
    found = common_place(clusters, ParallelRequest(2500, 1000), instants_from(clusters, 0))
    assert found == CommonPlace(2000, 3000, {"A": 1000, "B": 1000, "C": 500})
    assert sum(one.timeline.looks for one in clusters if isinstance(one.timeline, WatchedProfile)) < 30
