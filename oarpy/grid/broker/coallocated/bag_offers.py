"""The offers of clusters for the tasks of a bag: the questions to clusters, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from oarpy.grid.broker.conversations import CallBatch, ClusterCall, Conversation
from oarpy.grid.calls.parts import BagOffers, FreeSlot, PartRequest
from oarpy.grid.calls.table import Cluster, ClusterSilent, Offers, Slots
from oarpy.grid.core.bag_awards import BagAsked, OffersTold, usable_policy
from oarpy.grid.core.bags.composition import ClusterOffer
from oarpy.grid.core.bags.free_slots import SLOTS, FreeProcessors
from oarpy.model.reasons import local_instant
from oarpy.store.grid.broker_jobs import GridComponentRow, GridJobRow, NewGridComponent, NewGridJob
from oarpy.store.grid.clusters import GridClusterRow

_PATIENCE, _PATIENCE_A_TASK = 20.0, 0.01
"""Seconds that a cluster has for its answer, and for each task: it plans them."""
_HORIZON = 366 * 86_400.0
_LEFT = "it is not in use any more"
_NOT_HEARD = "it was not heard yet"


@dataclass(frozen=True, slots=True)
class OffersFound:
    """The answers of clusters: for the core, in words, and the names of offers. ``silent``: some did not answer.

    ``names`` has the name of an offer on its cluster, by cluster and end.
    """

    told: OffersTold
    words: Mapping[str, str]
    names: Mapping[tuple[str, float], str]
    silent: bool

    @property
    def policy(self) -> str:
        """The policy that shares the tasks out: clusters told enough for it."""
        bag = self.told.bag
        return bag.policy if bag.policy == SLOTS else usable_policy(bag.policy, self.told)

    def of(self, rows: Sequence[GridClusterRow]) -> OffersFound:
        """Return the offers of these clusters: any other one was disabled since it was asked, and counts as silent."""
        names, told = {row.name for row in rows}, self.told
        heard = {offer.provider for offer in told.offers} | told.free.keys()
        if not (left := heard - names):
            return self
        offers = [offer for offer in told.offers if offer.provider in names]
        free = {name: processors for name, processors in told.free.items() if name in names}
        kept = replace(told, offers=offers, free=free)
        return replace(self, told=kept, words={**self.words, **dict.fromkeys(left, _LEFT)}, silent=True)


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
) -> Conversation[object]:
    """Ask clusters for offers, all at the same time; ``refused`` are those that are left out, with why."""
    words = {
        row.name: reason for row in rows if (reason := refused.get(row.name) or objection(row, job.user, tolerance))
    }
    open_rows = [row for row in rows if row.name not in words]
    patience = _PATIENCE + _PATIENCE_A_TASK * bag.tasks
    calls = [
        ClusterCall(row.name, _question(task_request(job, component, row), bag, now), patience) for row in open_rows
    ]
    answers = (yield CallBatch(calls, patience)) if calls else ()
    offers: list[ClusterOffer] = []
    power, pending, free = dict[str, float](), dict[str, float](), dict[str, FreeProcessors]()
    names: dict[tuple[str, float], str] = {}
    silent = _NOT_HEARD in words.values()
    for row, answer in zip(open_rows, answers, strict=True):
        if not isinstance(answer, tuple):
            words[row.name], silent = str(answer), silent or isinstance(answer, ClusterSilent)
            continue
        offered, slots = answer
        assert isinstance(offered, BagOffers)
        offers += [ClusterOffer(row.name, offer.tasks, offer.end) for offer in offered.offers]
        names |= {(row.name, offer.end): offer.name for offer in offered.offers}
        power |= {} if offered.power is None else {row.name: offered.power}
        pending |= {} if offered.pending is None else {row.name: offered.pending}
        if slots:
            free[row.name] = FreeProcessors([(slot.begin, slot.procs) for slot in slots], job.walltime / row.speed)
        words[row.name] = _words(offered, bag.policy)
    event = OffersTold(bag, () if bag.policy == SLOTS else offers, power, pending, free)
    return OffersFound(event, words, names, silent)


def _question(request: PartRequest, bag: BagAsked, now: float) -> Callable[[Cluster], object]:
    """Return a call that asks a cluster for offers, and for free slots if the policy uses them and it tells them."""

    def ask(cluster: Cluster) -> tuple[BagOffers, Sequence[FreeSlot]]:
        offered = cluster.ask(Offers(request, bag.tasks, bag.deadline))
        slots = bag.policy == SLOTS and offered.slots
        return offered, cluster.ask(Slots(request, now, now + _HORIZON)) if slots else ()

    return ask


def _words(offered: BagOffers, policy: str) -> str:
    """Return the answer of a cluster, for people."""
    if policy == SLOTS:
        return "it tells free slots" if offered.slots else "it tells no free slots"
    return ", ".join(f"{offer.tasks} by {local_instant(offer.end)}" for offer in offered.offers) or "it has no room"
