"""The line after a submission that proposes a smaller request, when past jobs of the same kind used far less.

The job is stored and its number is printed before. Usually one look by a primary key ends it. Only where that finds
something, and at most once an hour for a kind, are the start of the job and that of the smaller one looked for.
"""

from __future__ import annotations

import time

from msgspec import structs

from oarpy.client.jobs.views.efficiency import size
from oarpy.client.rendering import elapsed, local_date
from oarpy.client.session import Session
from oarpy.client.submission.submission import Submitted
from oarpy.model.request import ResourceRequest
from oarpy.scheduler.forecast.fitting_requests import FEWEST_JOBS, PastUse, asked_cores, fitting
from oarpy.store.analytics import job_kinds

_PAUSE = 3600
"""Seconds for which a kind is not considered again."""
_MOST_WAITING = 2000
"""With more waiting jobs nothing is proposed: looking for starts takes too long."""
_TIME_LIMIT = "SET LOCAL statement_timeout = '2s'"


def better_request(session: Session, submitted: Submitted) -> str:
    """Return a line that proposes a request with an earlier start, ``""`` if there is none. Raises nothing."""
    if submitted.kind is None or submitted.request is None:
        return ""
    try:
        past = job_kinds.use(session.connection, submitted.kind, FEWEST_JOBS, _PAUSE)
        use = None if past is None else PastUse(*past)
        better = None if use is None else fitting(submitted.request, use)
        if use is None or better is None or not job_kinds.consider(session.connection, submitted.kind):
            return ""
        starts = _starts(session, submitted.job_ids[0], better)
    except Exception:  # the job is submitted: a failure here concerns no user
        return ""
    return "" if starts is None else _line(submitted.request, better, use, *starts)


def _starts(session: Session, job_id: int, better: ResourceRequest) -> tuple[float, float] | None:
    """Return when the job starts, and when with another request; None unless that is a minute earlier."""
    # imported here: the scheduler, with the numpy under it
    from oarpy.cluster_state.order_plugins import SiteOrders
    from oarpy.cluster_state.what_if import foreseen, read_only
    from oarpy.scheduler.decide import keep_promises
    from oarpy.scheduler.passes.probe import Probe, Stale
    from oarpy.scheduler.snapshot import Alternative

    with session.connection.transaction():
        session.connection.execute(_TIME_LIMIT)
        reader = session.snapshot_reader()
        snapshot = keep_promises(read_only(session.connection, reader).snapshot).snapshot
        job = next((waiting for waiting in snapshot.waiting if waiting.id == job_id and not waiting.held), None)
        if job is None or len(snapshot.waiting) > _MOST_WAITING:
            return None
        places = foreseen(session.connection, snapshot.platform)
    orders = SiteOrders()
    try:
        probe = Probe(snapshot, job, orders, reader.matchers, places)
    except Stale:
        probe = Probe(snapshot, job, orders, reader.matchers)
    usual = probe.trial(job)
    way = Alternative(better.groups, better.walltime or 0, better.consumes)
    other = probe.trial(structs.replace(job, alternatives=(way,)))
    if usual is None or other is None or usual.claim.start - other.claim.start < 60:
        return None
    return usual.claim.start, max(other.claim.start, snapshot.now)


def _line(request: ResourceRequest, better: ResourceRequest, use: PastUse, usual: float, earlier: float) -> str:
    used, changes = [], []
    if better.walltime != request.walltime:
        used.append(f"{elapsed(use.seconds)} of {elapsed(request.walltime or 0)}")
        changes.append(f"walltime={elapsed(better.walltime or 0)}")
    if better.groups != request.groups:
        used.append(f"{use.busy_cores or 0:.1f} of {asked_cores(request.groups)} cores")
        changes.append(f"core={asked_cores(better.groups)}")
    for before, after in zip(request.consumes, better.consumes, strict=True):
        if before != after:
            used.append(f"{size(use.memory)} of {size(before.amount)} of {before.name}")
            changes.append(str(after))
    dates = local_date(earlier), local_date(usual)
    if dates[0][:10] == dates[1][:10] == local_date(time.time())[:10]:
        dates = dates[0][11:16], dates[1][11:16]
    return (
        f"hint: {use.jobs} past jobs like this used at most {', '.join(used)}; "
        f"with {', '.join(changes)} this one would start at {dates[0]} instead of {dates[1]}"
    )
