"""The offers of this cluster to brokers for bags of tasks, on the plan of the last pass; nothing is held for an offer.

An offer has a name, by which the part that takes it up is known: plan, instant until which it holds, tasks, end, a
word of the answer, and a digest that only this cluster can make. So offers need no rows, and changed ones are refused.

When an offer is taken up on the plan that it was made on, it holds. After another pass it is made anew: it has changed
if that is worse. A pass decides in either case.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf
from secrets import token_hex
from typing import Self

import msgspec
from msgspec import UNSET, structs

from oarpy.cluster_state.bags import profile_of
from oarpy.cluster_state.what_if import foreseen
from oarpy.configuration import Configuration
from oarpy.grid.calls.parts import BagOffers, BagPart, PartRequest, TaskOffer
from oarpy.grid.calls.table import CallRefused, Offers
from oarpy.grid.door.answers import planned_queues
from oarpy.grid.door.answers.planned_queues import PlannedQueues
from oarpy.grid.door.call_context import CallContext
from oarpy.model.errors import AdmissionRefused
from oarpy.model.job_types import BAG
from oarpy.model.reasons import ACCEPTED, local_instant
from oarpy.scheduler.bags.bag_pass import ends_of_tasks, expected_ends
from oarpy.scheduler.bags.offers import BagOffer, sizes_of, worth_telling
from oarpy.scheduler.gantt.gantt import Claim
from oarpy.scheduler.plan import Placement, Plan
from oarpy.scheduler.snapshot import Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict
from oarpy.store.grid import part_events
from oarpy.store.passes import last_answer
from oarpy.store.platform import site

TELLS = ("offers", "power", "load", "slots")
"""The values of ``door.disclose``: each tells all that the values before it tell, and more."""
_CHANGED = "offer_changed"


class OfferChanged(CallRefused):
    """An offer cannot be had any more: its broker asks for new offers."""

    code = _CHANGED


def offers(context: CallContext, call: Offers) -> BagOffers:
    """Answer ``offers``. Raises as ``oarsub`` for a refused request."""
    settings = context.configuration
    require_promises(settings)
    count = max((size for size in sizes_of(call.tasks, call.shares) if size <= settings.scheduler.bag_tasks), default=0)
    if not count:
        raise AdmissionRefused(f"a bag has {settings.scheduler.bag_tasks} tasks here at most", hint="a smaller bag")
    planned = planned_queues.queues(context, 0)
    snapshot = planned.snapshot
    places = foreseen(context.connection, snapshot.platform)
    deadline = inf if call.end_by is None else call.end_by
    plan, until = last_answer.number(context.connection), time.time() + settings.door.offer_time
    tasks = _tasks(context, planned, call.request, count)
    ends = _ends(context, snapshot, places, tasks, until, deadline)
    seconds = None if call.profile is UNSET else call.profile
    expected = ends if seconds is None else _expected(context, snapshot, places, tasks, until, seconds)
    told = expected if call.end_by is None else ends
    sizes = [size for size in sizes_of(call.tasks, call.shares) if size <= min(len(ends), len(expected))]
    worth = worth_telling(BagOffer(size, float(ceil(told[size - 1]))) for size in sizes)
    names = _OfferNames(context, call.request, plan, until, token_hex(4))
    level = TELLS.index(settings.door.disclose)
    power = len(snapshot.platform.ids_of(snapshot.usable & snapshot.platform.default_type)) * settings.door.speed
    return BagOffers(
        plan,
        until,
        tuple(names.offer(size, ends[size - 1], None if seconds is None else expected[size - 1]) for size, _ in worth),
        power if level >= TELLS.index("power") else None,
        _pending(snapshot, places) if level >= TELLS.index("load") else None,
        level >= TELLS.index("slots"),
    )


def told(context: CallContext, call: Offers, answer: BagOffers) -> BagOffers:
    """Note, after the transaction of :func:`offers`, that a broker has offers: it hears of newer plans."""
    with context.connection.transaction():
        part_events.note_offers(context.connection, context.broker, answer.plan, answer.until)
    return answer


def require_promises(settings: Configuration) -> None:
    """Raise :class:`AdmissionRefused` where no bag is promised."""
    if not settings.scheduler.promises:
        raise AdmissionRefused("this cluster makes no promises (scheduler.promises)", hint="ask another one")


def check_offer(context: CallContext, request: PartRequest, bag: BagPart) -> None:
    """Raise :class:`CallRefused` for an offer that is none, is over, or offered less than is taken up.

    An offer is for tasks with an equal ``request`` of the same user.
    """
    if not bag.offer:
        return
    names = _OfferNames.of(context, request, bag.offer)
    count, end = names.offered(bag.offer)
    if names.until < time.time():
        raise OfferChanged(f"the time of offer '{bag.offer[:40]}' is over", hint="ask for offers anew")
    if len(bag.tasks) > count or bag.end_by < end:
        raise CallRefused(
            f"{len(bag.tasks)} tasks by {bag.end_by:.0f}, and {count} by {end:.0f} were offered", hint="take no more"
        )


def check_plan(context: CallContext, request: PartRequest, bag: BagPart) -> None:
    """Raise :class:`OfferChanged` for an offer that was made on another plan, and cannot be made any more.

    A bag that may be late takes what there is.
    """
    if not bag.offer or not bag.strict:
        return
    if _OfferNames.of(context, request, bag.offer).plan == last_answer.number(context.connection):
        return
    planned = planned_queues.queues(context, 0)
    places = foreseen(context.connection, planned.snapshot.platform)
    tasks, by = _tasks(context, planned, request, len(bag.tasks)), floor(bag.end_by)
    ends = _ends(context, planned.snapshot, places, tasks, time.time(), by)
    if not ends or ends[-1] > by:
        would = f"they would be done by {local_instant(ends[-1])}" if ends else "there is no place for them"
        raise OfferChanged(
            f"{len(bag.tasks)} tasks by {local_instant(by)} cannot be had any more: {would}",
            hint="ask for offers anew",
        )


def _tasks(context: CallContext, planned: PlannedQueues, request: PartRequest, count: int) -> Sequence[WaitingJob]:
    """Return the tasks as jobs that join behind all others."""
    jobs = planned_queues.equal_jobs(context, planned, request, count)
    return [structs.replace(job, types=(*job.types, BAG)) for job in jobs]


def _ends(
    context: CallContext,
    snapshot: Snapshot,
    places: dict[int, Claim],
    tasks: Sequence[WaitingJob],
    ready: float,
    deadline: float,
) -> list[float]:
    """Return by when tasks that start at ``ready`` at the earliest could be promised, one after the other."""
    matchers, share = context.reader.get().matchers, context.configuration.scheduler.promised_share
    return ends_of_tasks(snapshot, matchers, share, tasks, _plan(snapshot, places), ceil(ready), deadline)


def _expected(
    context: CallContext,
    snapshot: Snapshot,
    places: dict[int, Claim],
    tasks: Sequence[WaitingJob],
    ready: float,
    seconds: Mapping[str, float],
) -> list[float]:
    """Return when they are expected to be done, each after so many ``seconds`` on nodes of a type."""
    settings, matchers = context.configuration.scheduler, context.reader.get().matchers
    profile = profile_of(snapshot.platform, settings.node_type, seconds)
    plan = _plan(snapshot, places)
    return expected_ends(snapshot, matchers, settings.promised_share, tasks, plan, ceil(ready), profile)


def _plan(snapshot: Snapshot, places: dict[int, Claim]) -> Plan:
    """Return the plan of the last pass for the jobs that wait."""
    placements = (
        Placement(job.id, Verdict.RESOURCES_BUSY, ACCEPTED, snapshot.platform, 0, claim.start, claim.end, claim.bits)
        for job in snapshot.asking
        if (claim := places.get(job.id)) is not None
    )
    return Plan(tuple(placements), (), 0)


def _pending(snapshot: Snapshot, places: dict[int, Claim]) -> float:
    """Return the processor seconds of the jobs that run, are promised, and wait, as they are planned."""
    held = sum(
        (snapshot.platform.bits_of(job.resources) if job.bits is None else job.bits).bit_count()
        * max(0.0, job.end - max(job.start, snapshot.now))
        for job in snapshot.holding
    )
    waiting = (places[job.id] for job in snapshot.asking if job.id in places)
    return float(held + sum(claim.bits.bit_count() * (claim.end - claim.start) for claim in waiting))


@dataclass(frozen=True, slots=True)
class _OfferNames:
    """The names of the offers in an answer."""

    context: CallContext
    request: PartRequest
    plan: int
    until: float
    answer: str
    """What tells answers apart that are equal."""

    @classmethod
    def of(cls, context: CallContext, request: PartRequest, offer: str) -> Self:
        """Return those of the answer in which an offer was made.

        Raises :class:`CallRefused` for a name that this cluster did not give to an offer for ``request``.
        """
        try:
            plan, until, tasks, end, answer, _ = offer.split("-")
            names = cls(context, request, int(plan), int(until), answer)
            if hmac.compare_digest(names.name(int(tasks), int(end)), offer):
                return names
        except ValueError:
            pass
        raise CallRefused(
            f"'{offer[:40]}' is no offer of this cluster for such tasks", hint="name the offer as it was told"
        )

    def offer(self, tasks: int, end: float, expected: float | None) -> TaskOffer:
        """Return an offer of so many tasks by ``end``, which are ``expected`` earlier if there is a profile."""
        by = float(ceil(end))
        return TaskOffer(tasks, by, self.name(tasks, by), None if expected is None else float(ceil(min(expected, by))))

    def offered(self, offer: str) -> tuple[int, float]:
        """Return how many tasks an offer is about, and by when they are done."""
        _, _, tasks, end, _, _ = offer.split("-")
        return int(tasks), float(end)

    def name(self, tasks: int, end: float) -> str:
        """Return the name of an offer of so many tasks by ``end``."""
        text = f"{self.plan}-{self.until:.0f}-{tasks}-{end:.0f}-{self.answer}"
        key = site.instance(self.context.connection).encode()
        content = f"{self.context.broker} {text} ".encode() + msgspec.json.encode(self.request)
        digest = hmac.new(key, content, "sha256").hexdigest()
        return f"{text}-{digest[:24]}"
