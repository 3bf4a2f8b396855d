"""Bags over clusters: which tasks of a bag go where, by the offers of clusters, and when the whole is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from oarpy.grid.core.bags.composition import ClusterOffer, Strengths, compose
from oarpy.grid.core.bags.free_slots import SLOTS, FreeProcessors, fill_slots
from oarpy.grid.core.broker_state import BrokerState, JobId
from oarpy.grid.core.exchanges import Action, Event, System

_NEEDS = {"dplbv2": ("power", "pending"), "dplb": ("power",)}
_WEAKER = {"dplbv2": "dplb", "dplb": "plb"}


@dataclass(frozen=True, slots=True)
class BagAsked:
    """So many ``tasks`` of a bag, of ``procs`` processors each, that have no place; ``deadline`` may be None."""

    id: JobId
    tasks: int
    procs: int
    deadline: float | None
    strict: bool
    policy: str


@dataclass(frozen=True, slots=True)
class OffersTold(Event):
    """The offers of clusters, and facts about them; under the policy ``slots`` their ``free`` processors instead."""

    bag: BagAsked
    offers: Sequence[ClusterOffer]
    power: Mapping[str, float] = field(default_factory=dict)
    pending: Mapping[str, float] = field(default_factory=dict)
    free: Mapping[str, FreeProcessors] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AwardTasks(Action):
    """Give tasks to clusters: ``parts`` in their order, shared out by ``policy``."""

    job: JobId
    policy: str
    parts: Sequence[ClusterOffer]


@dataclass(frozen=True, slots=True)
class RefuseBag(Action):
    """The tasks have no place, or none in time: ``end`` is the earliest that can be had, None: never."""

    job: JobId
    end: float | None = None


def share(state: BrokerState, event: OffersTold, now: float) -> list[Action]:
    """Share the tasks of a bag out."""
    bag = event.bag
    if bag.policy == SLOTS:
        composition = fill_slots(bag.tasks, bag.procs, bag.deadline, event.free, now)
    else:
        policy = usable_policy(bag.policy, event)
        composition = compose(policy, bag.tasks, bag.deadline, event.offers, Strengths(event.power, event.pending))
    end = None if composition.end is None else float(composition.end)
    late = end is not None and bag.deadline is not None and end > bag.deadline
    if end is None or (late and bag.strict):
        return [RefuseBag(bag.id, end)]
    return [AwardTasks(bag.id, composition.policy, tuple(composition.parts))]


def usable_policy(policy: str, event: OffersTold) -> str:
    """Return a policy for which every cluster with an offer told enough: the requested policy, or a weaker one."""
    names = {offer.provider for offer in event.offers}
    while not all(names <= getattr(event, need).keys() for need in _NEEDS.get(policy, ())):
        policy = _WEAKER[policy]
    return policy


SYSTEM = System(
    "bags",
    {OffersTold: share},
    (AwardTasks, RefuseBag),
    values=(BagAsked, ClusterOffer, FreeProcessors),
)
