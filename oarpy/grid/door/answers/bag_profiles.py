"""Profiles of bags for brokers: jobs of the local user measure how long a task takes, before offers are made."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import partial

from oarpy.client.submission.feasibility import KnownNeeds
from oarpy.client.submission.profiled import profiling_jobs
from oarpy.client.submission.submission import store_measuring
from oarpy.grid.calls.parts import ProfiledType
from oarpy.grid.calls.table import CallRefused, Profiled, TakeProfile
from oarpy.grid.door import grants
from oarpy.grid.door.answers import part_submission
from oarpy.grid.door.answers.bag_offers import require_promises
from oarpy.grid.door.call_context import CallContext
from oarpy.store.jobs import bag_profiles


def take_profile(context: CallContext, call: TakeProfile) -> None:
    """Answer ``take_profile``. Raises as ``oarsub``."""
    connection, settings = context.connection, context.configuration
    require_promises(settings)
    if not settings.gateway.calls:
        raise CallRefused("jobs here cannot tell what they measure (gateway.calls)", hint="ask another cluster")
    latest = math.floor(time.time() + min(call.limit, settings.scheduler.profile_limit))
    with grants.acting(context, call.request.user) as (grant, session):
        admitted = part_submission.measuring(session, call)
        check = partial(grants.check, grant, KnownNeeds(session))
        check(admitted.submission)
        submission = admitted.submission.changed(profile=call.script)
        new = profiling_jobs(connection, settings.scheduler, submission, admitted.requested)
        types = (f"expire={latest}",)
        dated = [replace(one, requested=one.requested.changed(types=types)) for one in new]
        jobs = store_measuring(session, dated, check)
    bag_profiles.insert_for_broker(connection, context.broker, call.profile, jobs)


def profiled(context: CallContext, call: Profiled) -> list[ProfiledType]:
    """Answer ``profiled``, for the types of nodes in the order of their names."""
    rows = bag_profiles.for_broker(context.connection, context.broker, call.profile)
    return [
        ProfiledType(row.node_type, row.seconds, "" if row.seconds is not None else row.why_none, row.live)
        for row in rows
    ]
