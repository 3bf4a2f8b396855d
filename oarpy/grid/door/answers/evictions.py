"""Eviction of local jobs for parts, as far as the owner of the cluster allows it (``door.evict``)."""

from __future__ import annotations

from oarpy.grid.calls.parts import EvictableJob, PartRequest
from oarpy.grid.calls.table import CallRefused, Evict, Evictable
from oarpy.grid.door import grants
from oarpy.grid.door.answers import planned_queues
from oarpy.grid.door.answers.idle_processors import fitting
from oarpy.grid.door.call_context import CallContext
from oarpy.model.errors import NotAllowed
from oarpy.model.job_types import BESTEFFORT
from oarpy.store.grid import door_parts, local_jobs

_NOBODY = "none"


def evictable(context: CallContext, call: Evictable) -> list[EvictableJob]:
    """Answer ``evictable``."""
    return [EvictableJob(str(job), procs) for job, procs in _giving_way(context, call.request)]


def evict(context: CallContext, call: Evict) -> list[str]:
    """Answer ``evict``. The freed processors are for the next part of the transaction.

    Only that part waits for them.
    """
    state = door_parts.transaction_state(context.connection, context.broker, call.transaction, begin=True)
    if state != "Prepared":
        raise CallRefused(f"transaction '{call.transaction}' is {str(state).lower()}", hint="nobody was evicted")
    _check(context, call)
    chosen, gain = [], 0
    for job, procs in _giving_way(context, call.request):
        if gain >= call.procs:
            break
        chosen.append(job)
        gain += procs
    if gain < call.procs:
        return []
    reason = f"evicted: a job on several clusters needs its place (broker {context.broker}, {call.transaction})"
    local_jobs.evict(context.connection, chosen, reason)
    return [str(job) for job in chosen]


def _check(context: CallContext, call: Evict) -> None:
    """Raise :class:`NotAllowed` for more processors than the grant lets a part have."""
    with grants.acting(context, call.request.user) as (grant, _):
        if grant.most_resources is not None and call.procs > grant.most_resources:
            raise NotAllowed(
                f"{call.procs} processors are above the {grant.most_resources} of the grant for '{grant.broker_user}'",
                hint="nobody was evicted; oargridctl grants shows it",
            )


def _giving_way(context: CallContext, request: PartRequest) -> list[tuple[int, int]]:
    """Return (job, its processors that fit) for the jobs that may be evicted, in the order of eviction."""
    words = {word.strip() for word in context.configuration.door.evict.split(",")} - {"", _NOBODY}
    if not words:
        return []
    planned = planned_queues.queues(context, 0)
    useful = fitting(planned, planned_queues.behind_all(context, planned, request))
    platform = planned.snapshot.platform
    rows = local_jobs.giving_way(context.connection, sorted(words - {BESTEFFORT}), besteffort=BESTEFFORT in words)
    jobs = [(job, (platform.bits_of(resources) & useful).bit_count()) for job, resources in rows]
    return [entry for entry in jobs if entry[1]]
