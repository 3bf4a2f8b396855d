"""The offers of clusters for the tasks of a bag: the questions to clusters, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import UNSET

from oarpy.grid.broker.conversations import CallBatch, ClusterCall, Conversation
from oarpy.grid.calls.parts import BagOffers, BagPart, FreeSlot, PartRequest, TaskOffer
from oarpy.grid.calls.table import Cluster, ClusterSilent, Offers, Slots
from oarpy.grid.core.bag_awards import BagAsked, OffersTold, usable_policy
from oarpy.grid.core.bags.composition import ClusterOffer
from oarpy.grid.core.bags.free_slots import SLOTS, FreeProcessors
from oarpy.model.reasons import local_instant
from oarpy.store.grid.broker_jobs import GridComponentRow, GridJobRow, NewGridComponent, NewGridJob
from oarpy.store.grid.clusters import GridClusterRow

_PATIENCE, _PATIENCE_A_TASK = 20.0, 0.01
"""Seconds that a cluster has for its answer, and for each task: it plans them."""
_TO_AWARD = 2.0
"""Seconds for which an offer is to hold still when tasks are shared out."""
_HORIZON = 366 * 86_400.0
_LEFT = "it is not in use any more"
_NOT_HEARD = "it was not heard yet"


@dataclass(frozen=True, slots=True)
class ClusterAnswer:
    """The offers of a cluster, and its free slots; a task takes ``walltime`` seconds there.

    ``known`` is the number of its newest plan that was known when it was asked. Offers tell when tasks are expected to
    be done if the ``profile``, the seconds of a task by type of nodes, is known there.
    """

    offered: BagOffers
    slots: Sequence[FreeSlot]
    walltime: float
    known: int
    profile: Mapping[str, float] = field(default_factory=dict)

    def is_older_than(self, plan: int) -> bool:
        """Tell whether a plan that the cluster told of was made after the offers."""
        return plan > max(self.known, self.offered.plan)


@dataclass(frozen=True, slots=True)
class OffersFound:
    """The answers of clusters: for the core, and in words. ``silent``: some did not answer.

    ``answers`` has those with offers, ``times`` says how often clusters were asked.
    """

    told: OffersTold
    words: Mapping[str, str]
    answers: Mapping[str, ClusterAnswer]
    silent: bool
    times: int = 1
    profiles: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The seconds of a task by cluster and type of nodes, as far as they are known."""

    @property
    def policy(self) -> str:
        """The policy that shares the tasks out: clusters told enough for it."""
        bag = self.told.bag
        return bag.policy if bag.policy == SLOTS else usable_policy(bag.policy, self.told)

    def of(self, rows: Sequence[GridClusterRow]) -> OffersFound:
        """Return the offers of these clusters: any other one was disabled since it was asked, and counts as silent."""
        names = {row.name for row in rows}
        if not (left := self.answers.keys() - names):
            return self
        answers = {name: answer for name, answer in self.answers.items() if name in names}
        words = {**self.words, **dict.fromkeys(left, _LEFT)}
        return replace(self, told=_event(self.told.bag, answers), words=words, answers=answers, silent=True)

    def taken(self, part: ClusterOffer, tasks: Sequence[int], *, strict: bool) -> BagPart:
        """Return what a part takes up: by the offer that it counts with, or by its end, as where slots are filled."""
        answer, bag = self.answers[part.provider], self.told.bag
        offers = () if bag.policy == SLOTS else answer.offered.offers
        end = float(part.end)
        offer = next((offer for offer in offers if counted_end(offer, bag) == end), TaskOffer(part.tasks, end))
        profile = dict(answer.profile) or UNSET
        return BagPart(tuple(tasks), offer.end, offer.name, strict, profile)

    def outdated(self, rows: Sequence[GridClusterRow], now: float) -> frozenset[str]:
        """Return the clusters that told of a newer plan than that of their offers, or whose offers are over soon."""
        answers = self.answers
        return frozenset(
            row.name
            for row in rows
            if row.name in answers
            and (answers[row.name].is_older_than(row.plan) or answers[row.name].offered.until < now + _TO_AWARD)
        )


def objection(row: GridClusterRow, user: str, tolerance: float) -> str:
    """Say why a cluster gets no tasks; nothing if it may. Clocks may be off by ``tolerance`` seconds."""
    if closed := row.refusal_to(user):
        return closed
    if row.procs is None:
        return _NOT_HEARD
    if "offer" not in row.abilities:
        return "it makes no offers"
    offset = row.clock_offset or 0.0
    return f"its clock is {offset:+.1f} s off" if abs(offset) > tolerance else ""


def task_request(
    job: GridJobRow | NewGridJob, component: GridComponentRow | NewGridComponent, row: GridClusterRow
) -> PartRequest:
    """Return the request of a task to a cluster, with its walltime there."""
    return PartRequest(
        job.user,
        component.resources,
        component.procs,
        job.walltime / row.speed,
        job.queue,
        component.properties,
        job.project,
        component.types,
    )


def ask_for_offers(
    rows: Sequence[GridClusterRow],
    job: GridJobRow | NewGridJob,
    component: GridComponentRow | NewGridComponent,
    bag: BagAsked,
    refused: Mapping[str, str],
    tolerance: float,
    now: float,
    profiles: Mapping[str, Mapping[str, float]] | None = None,
) -> Conversation[object]:
    """Ask clusters for offers, all at the same time; ``refused`` are those that are left out, with why.

    ``profiles`` are the seconds of a task by cluster and type of nodes, as far as they are known.
    """
    words = {
        row.name: reason for row in rows if (reason := refused.get(row.name) or objection(row, job.user, tolerance))
    }
    silent = _NOT_HEARD in words.values()
    nothing = OffersFound(OffersTold(bag, ()), words, {}, silent, times=0, profiles=profiles or {})
    open_rows = [row for row in rows if row.name not in words]
    return (yield from ask_again(open_rows, job, component, nothing, now))


def ask_again(
    rows: Sequence[GridClusterRow],
    job: GridJobRow | NewGridJob,
    component: GridComponentRow | NewGridComponent,
    before: OffersFound,
    now: float,
) -> Conversation[object]:
    """Ask some clusters for offers; what others answered ``before`` counts."""
    bag = before.told.bag
    patience = _PATIENCE + _PATIENCE_A_TASK * bag.tasks
    requests = {row.name: task_request(job, component, row) for row in rows}
    profiles = before.profiles
    calls = [
        ClusterCall(row.name, _question(requests[row.name], bag, profiles.get(row.name, {}), now), patience)
        for row in rows
    ]
    results = (yield CallBatch(calls, patience)) if calls else ()
    words, answers, silent = dict(before.words), dict(before.answers), before.silent
    for row, result in zip(rows, results, strict=True):
        if isinstance(result, tuple):
            offered, slots = result
            profile = profiles.get(row.name, {})
            answers[row.name] = ClusterAnswer(offered, slots, requests[row.name].walltime, row.plan, profile)
            words[row.name] = _words(offered, bag.policy)
        else:
            answers.pop(row.name, None)
            words[row.name], silent = str(result), silent or isinstance(result, ClusterSilent)
    return OffersFound(_event(bag, answers), words, answers, silent, before.times + 1, profiles)


def _event(bag: BagAsked, answers: Mapping[str, ClusterAnswer]) -> OffersTold:
    """Return the offers of clusters as an event for the core."""
    told = {name: answer.offered for name, answer in answers.items()}
    offers = [
        ClusterOffer(name, one.tasks, counted_end(one, bag)) for name, offered in told.items() for one in offered.offers
    ]
    power = {name: offered.power for name, offered in told.items() if offered.power is not None}
    pending = {name: offered.pending for name, offered in told.items() if offered.pending is not None}
    free = {
        name: FreeProcessors([(slot.begin, slot.procs) for slot in answer.slots], answer.walltime)
        for name, answer in answers.items()
        if answer.slots
    }
    return OffersTold(bag, () if bag.policy == SLOTS else offers, power, pending, free)


def counted_end(offer: TaskOffer, bag: BagAsked) -> float:
    """Return the end with which an offer counts: a deadline is met by what is promised, tasks are shared by what is
    expected.
    """
    return offer.end if offer.expected is None or bag.deadline is not None else offer.expected


def _question(
    request: PartRequest, bag: BagAsked, profile: Mapping[str, float], now: float
) -> Callable[[Cluster], object]:
    """Return a call that asks a cluster for offers, and for free slots if the policy uses them and it tells them."""

    def ask(cluster: Cluster) -> tuple[BagOffers, Sequence[FreeSlot]]:
        offered = cluster.ask(Offers(request, bag.tasks, bag.deadline, profile=dict(profile) or UNSET))
        slots = bag.policy == SLOTS and offered.slots
        return offered, cluster.ask(Slots(request, now, now + _HORIZON)) if slots else ()

    return ask


def _words(offered: BagOffers, policy: str) -> str:
    """Return the answer of a cluster, for people."""
    if policy == SLOTS:
        return "it tells free slots" if offered.slots else "it tells no free slots"
    return ", ".join(map(_offer_words, offered.offers)) or "it has no room"


def _offer_words(offer: TaskOffer) -> str:
    sooner = "" if offer.expected is None else f" (expected by {local_instant(offer.expected)})"
    return f"{offer.tasks} by {local_instant(offer.end)}{sooner}"
