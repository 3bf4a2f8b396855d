"""What clusters offer for the tasks of a bag: which are asked, and what they told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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
_NOT_HEARD = "it was not heard yet"


@dataclass(frozen=True, slots=True)
class OffersFound:
    """What clusters told: for the core, in words, and what offers are called. ``silent``: some said nothing.

    ``names`` has by cluster and end what an offer is called there.
    """

    told: OffersTold
    words: Mapping[str, str]
    names: Mapping[tuple[str, float], str]
    silent: bool

    @property
    def policy(self) -> str:
        """By what the tasks are shared out, as clusters told enough for it."""
        bag = self.told.bag
        return bag.policy if bag.policy == SLOTS else usable_policy(bag.policy, self.told)


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
    """Return what a task asks a cluster for, with its walltime there."""
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
    asked = [row for row in rows if row.name not in words]
    patience = _PATIENCE + _PATIENCE_A_TASK * bag.tasks
    calls = [ClusterCall(row.name, _question(task_request(job, component, row), bag, now), patience) for row in asked]
    answers = (yield CallBatch(calls, patience)) if calls else ()
    offers: list[ClusterOffer] = []
    power, pending, free = dict[str, float](), dict[str, float](), dict[str, FreeProcessors]()
    names: dict[tuple[str, float], str] = {}
    silent = _NOT_HEARD in words.values()
    for row, answer in zip(asked, answers, strict=True):
        if not isinstance(answer, tuple):
            words[row.name], silent = str(answer), silent or isinstance(answer, ClusterSilent)
            continue
        told, slots = answer
        assert isinstance(told, BagOffers)
        offers += [ClusterOffer(row.name, one.tasks, one.end) for one in told.offers]
        names |= {(row.name, one.end): one.name for one in told.offers}
        power |= {} if told.power is None else {row.name: told.power}
        pending |= {} if told.pending is None else {row.name: told.pending}
        if slots:
            free[row.name] = FreeProcessors([(one.begin, one.procs) for one in slots], job.walltime / row.speed)
        words[row.name] = _words(told, bag.policy)
    event = OffersTold(bag, () if bag.policy == SLOTS else offers, power, pending, free)
    return OffersFound(event, words, names, silent)


def _question(request: PartRequest, bag: BagAsked, now: float) -> Callable[[Cluster], object]:
    """Return what asks a cluster for offers and, if the bag goes by them and it tells them, for free slots."""

    def ask(cluster: Cluster) -> tuple[BagOffers, Sequence[FreeSlot]]:
        told = cluster.ask(Offers(request, bag.tasks, bag.deadline))
        slots = bag.policy == SLOTS and told.slots
        return told, cluster.ask(Slots(request, now, now + _HORIZON)) if slots else ()

    return ask


def _words(told: BagOffers, policy: str) -> str:
    """Return what a cluster told, for people."""
    if policy == SLOTS:
        return "it tells free slots" if told.slots else "it tells no free slots"
    return ", ".join(f"{one.tasks} by {local_instant(one.end)}" for one in told.offers) or "it has no room"
