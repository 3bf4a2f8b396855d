"""The first phase of a claim: all clusters hold processors for the components of a job, or it is given up.

An attempt is an errand of calls to clusters. Nothing is lost with it: what is held is undone by an abort, or lapses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from oarpy.grid.broker.errands import CallBatch, ClusterCall, Errand
from oarpy.grid.calls.parts import GridPart, PartRequest, PreparedPart
from oarpy.grid.calls.table import CallRefused, Cluster, Evict, Prepare
from oarpy.model.errors import OarpyError


@dataclass(frozen=True, slots=True)
class PartClaim:
    """A part to be held on a cluster."""

    cluster: str
    part: GridPart


@dataclass(frozen=True, slots=True)
class Eviction:
    """Local jobs have to go until ``procs`` more processors are idle."""

    cluster: str
    request: PartRequest
    procs: int


@dataclass(frozen=True, slots=True)
class ClaimPlan:
    """What is claimed for a job. Parts on clusters of ``evictions`` are held when their victims have gone.

    ``ttl`` is called when a call goes out: seconds after which the part is dropped. ``limit`` is the instant at which
    victims have to be gone.
    """

    transaction: str
    claims: Sequence[PartClaim]
    ttl: Callable[[], float]
    limit: float
    evictions: Sequence[Eviction] = ()


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The parts that are held, by name; ``failure`` says which cluster did not hold its own, and why."""

    held: dict[str, PreparedPart] = field(default_factory=dict)
    failure: str = ""


_PATIENCE, _PATIENCE_A_PART = 7.0, 1.0
"""Seconds that a cluster has to hold parts, and for each of them: its next pass places it."""
_RETRY = 0.5
"""Seconds after which a part is prepared again, while victims end."""


def attempt(plan: ClaimPlan, clock: Callable[[], float]) -> Errand[ClaimResult]:
    """Hold all parts: first where there is room, so that nobody is evicted for a job that finds none elsewhere."""
    evicting = {one.cluster for one in plan.evictions}
    at_once = [one for one in plan.claims if one.cluster not in evicting]
    result = yield from _prepare(plan, at_once, Counter())
    if result.failure or not evicting:
        return result
    failure = yield from _evict(plan)
    if failure:
        return ClaimResult(result.held, failure)
    missing = [one for one in plan.claims if one.cluster in evicting]
    held, refused, pause = dict(result.held), Counter[str](), 0.0
    while True:
        found = yield from _prepare(plan, missing, refused, pause)
        held |= found.held
        missing = [one for one in missing if one.part.name not in held]
        if not missing or clock() + _RETRY >= plan.limit:
            return ClaimResult(held, found.failure if missing else "")
        pause = _RETRY


def _prepare(
    plan: ClaimPlan, claims: Sequence[PartClaim], refused: Counter[str], pause: float = 0.0
) -> Errand[ClaimResult]:
    """Have parts held. What was ``refused`` is asked for anew; what got no answer is the same call once more."""
    if not claims:
        return ClaimResult()
    longest = max(Counter(one.cluster for one in claims).values())
    patience = _PATIENCE + _PATIENCE_A_PART * longest
    calls = [_prepare_call(plan, one, refused[one.part.name]) for one in claims]
    answers = yield CallBatch(calls, patience, pause)
    held, failures = {}, []
    for one, answer in zip(claims, answers, strict=True):
        if isinstance(answer, PreparedPart):
            held[one.part.name] = answer
        else:
            refused[one.part.name] += isinstance(answer, CallRefused)
            failures.append(f"{one.cluster}: {answer}")
    return ClaimResult(held, "; ".join(dict.fromkeys(failures)))


def _prepare_call(plan: ClaimPlan, claim: PartClaim, number: int) -> ClusterCall:
    key = f"{plan.transaction}:{claim.part.name}:{number}"

    def ask(cluster: Cluster) -> PreparedPart:
        return cluster.ask(Prepare(plan.transaction, claim.part, plan.ttl(), key=key))

    return ClusterCall(claim.cluster, ask)


def _evict(plan: ClaimPlan) -> Errand[str]:
    """Have local jobs ended, cluster by cluster as long as each frees enough; return why one does not, or nothing."""
    for one in plan.evictions:
        call = Evict(plan.transaction, one.request, one.procs, key=f"{plan.transaction}:evict")
        (answer,) = yield CallBatch([ClusterCall(one.cluster, call)])
        if isinstance(answer, OarpyError) or not answer:
            return f"{one.cluster}: {answer or 'too few local jobs may give way'}"
    return ""
