"""The shares of clusters in a bag, by their offers, each a number of tasks by an instant.

Up to an instant t each cluster counts with one offer: the offer with most tasks among its offers that end by t. The
least t at which these have room for the whole bag is t*: no composition ends earlier.

- If t* is by the deadline, the tasks are balanced over all clusters that offer something by it: by the sizes of the
  offers (plb), or by sizes and, among offers of one size, by power (dplb) and pending work (dplbv2).
- Otherwise the offers are used in turn, the largest of the offers in time first (nolb).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import groupby
from math import floor
from typing import Literal, get_args

from oarpy.model.plugins import COMPOSITIONS, PluginFailed, looking_at, plugin

BagPolicy = Literal["nolb", "plb", "dplb", "dplbv2"]
Number = Fraction | int | float
_HOUR = 3600


@dataclass(frozen=True, slots=True)
class ClusterOffer:
    """The number of tasks that a cluster would end by an instant."""

    provider: str
    tasks: int
    end: Number


@dataclass(frozen=True, slots=True)
class Strengths:
    """Further facts of clusters: their power, in any measure, and the processor seconds that wait."""

    power: Mapping[str, Number] = field(default_factory=dict)
    pending: Mapping[str, Number] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Composition:
    """The parts of a bag; empty if the offers do not suffice. ``policy`` is the policy that was used."""

    policy: str
    parts: Sequence[ClusterOffer]

    @property
    def end(self) -> Number | None:
        """When the last part ends."""
        return max((part.end for part in self.parts), default=None)


def compose(
    policy: str, tasks: int, deadline: Number | None, offers: Sequence[ClusterOffer], strengths: Strengths
) -> Composition:
    """Return how many tasks each cluster gets; a policy that is none of ours is a plug-in."""
    earliest = next(
        (end for end in sorted({offer.end for offer in offers}) if _room(_best(offers, end)) >= tasks), None
    )
    if earliest is None:
        return Composition(policy, ())
    if policy not in get_args(BagPolicy):
        return Composition(policy, _as_plugged(policy, tasks, deadline, offers, strengths))
    if policy == "nolb" or (deadline is not None and earliest > deadline):
        return Composition("nolb", _taken(_best(offers, earliest), tasks, deadline))
    best = _best(offers, earliest if deadline is None else deadline)
    best.sort(key=lambda offer: (-offer.tasks, -strengths.power.get(offer.provider, 0), offer.provider))
    sizes = [offer.tasks for offer in best]
    if policy == "plb":
        counts = share_out(tasks, _shares(tasks, sizes), sizes)
    else:
        counts = _by_groups(tasks, best, [_weight(policy, offer.provider, strengths) for offer in best])
    return Composition(policy, [replace(offer, tasks=n) for offer, n in zip(best, counts, strict=True) if n])


def _as_plugged(
    name: str, tasks: int, deadline: Number | None, offers: Sequence[ClusterOffer], strengths: Strengths
) -> list[ClusterOffer]:
    """Return the parts by a plug-in's numbers of tasks: of each cluster the earliest-ending offer with enough tasks."""
    counts: Mapping[str, int] = plugin(COMPOSITIONS, name)(tasks, deadline, tuple(offers), strengths)
    with looking_at(name):
        return _parts(name, tasks, counts, offers)


def _parts(name: str, tasks: int, counts: Mapping[str, int], offers: Sequence[ClusterOffer]) -> list[ClusterOffer]:
    parts = []
    for provider, count in counts.items():
        fitting = [offer for offer in offers if offer.provider == provider and offer.tasks >= count > 0]
        if not isinstance(count, int) or not fitting:
            raise PluginFailed(f"plug-in '{name}' gives {count} tasks to '{provider}', which offers no such number")
        parts.append(replace(min(fitting, key=lambda offer: offer.end), tasks=count))
    if sum(part.tasks for part in parts) != tasks:
        raise PluginFailed(f"plug-in '{name}' gives {sum(part.tasks for part in parts)} of {tasks} tasks")
    return parts


def share_out(tasks: int, shares: Sequence[Fraction], caps: Sequence[int]) -> list[int]:
    """Return whole shares of ``tasks``, none above its cap.

    Each place gets the whole part of its share. Then each place with room gets one more, the greatest remainder first.
    The rest goes to the places with room, in their order.

    >>> share_out(12, [Fraction(48, 5), Fraction(12, 5)], [16, 4])
    [10, 2]
    """
    counts = [min(floor(share), cap) for share, cap in zip(shares, caps, strict=True)]
    left = tasks - sum(counts)
    for place in sorted(range(len(shares)), key=lambda place: -(shares[place] - floor(shares[place]))):
        if left and counts[place] < caps[place]:
            counts[place] += 1
            left -= 1
    for place, cap in enumerate(caps):
        more = min(left, cap - counts[place])
        counts[place] += more
        left -= more
    return counts


def _shares(tasks: int, weights: Sequence[Number]) -> list[Fraction]:
    whole = sum(Fraction(weight) for weight in weights)
    return [Fraction(weight) * tasks / whole for weight in weights]


def _by_groups(tasks: int, best: Sequence[ClusterOffer], weights: Sequence[Fraction]) -> list[int]:
    """Share tasks out among groups of offers of one size, then inside each by weight."""
    sizes = [offer.tasks for offer in best]
    groups = [(size, len(list(group))) for size, group in groupby(sizes)]
    totals = [size * members for size, members in groups]
    counts: list[int] = []
    for (size, members), share in zip(groups, share_out(tasks, _shares(tasks, totals), totals), strict=True):
        own = weights[len(counts) : len(counts) + members]
        counts += share_out(share, _shares(share, own), [size] * members)
    return counts


def _weight(policy: str, provider: str, strengths: Strengths) -> Fraction:
    """Return the power of a cluster.

    If two have equal power, the cluster with more hours of waiting work counts less.
    """
    power = Fraction(strengths.power[provider])
    if policy == "dplb":
        return power
    return power / (1 + Fraction(strengths.pending[provider]) / (_HOUR * power))


def _best(offers: Iterable[ClusterOffer], by: Number) -> list[ClusterOffer]:
    """Return for each cluster the offer with most tasks among those that end by an instant; ties: the earlier."""
    best: dict[str, ClusterOffer] = {}
    for offer in offers:
        known = best.get(offer.provider)
        if offer.end <= by and (known is None or (-offer.tasks, offer.end) < (-known.tasks, known.end)):
            best[offer.provider] = offer
    return list(best.values())


def _room(offers: Iterable[ClusterOffer]) -> int:
    return sum(offer.tasks for offer in offers)


def _taken(best: Iterable[ClusterOffer], tasks: int, deadline: Number | None) -> list[ClusterOffer]:
    """Return the used offers in turn: the offers in time first, the largest of them first; then the others by end."""

    def order(offer: ClusterOffer) -> tuple[bool, int, Number, str]:
        late = deadline is None or offer.end > deadline
        return late, 0 if late else -offer.tasks, offer.end, offer.provider

    parts = []
    for offer in sorted(best, key=order):
        here = min(offer.tasks, tasks)
        tasks -= here
        if here:
            parts.append(replace(offer, tasks=here))
    return parts
