"""Profiles of bags for brokers: jobs of the local user measure how long a task takes, before offers are made."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from oarpy.client.submission.profiled import profiling_jobs
from oarpy.client.submission.submission import store_measuring
from oarpy.grid.calls.parts import ProfiledType
from oarpy.grid.calls.table import Profiled, TakeProfile
from oarpy.grid.door.answers import part_submission
from oarpy.grid.door.answers.bag_offers import require_promises
from oarpy.grid.door.call_context import CallContext
from oarpy.store.jobs import bag_profiles


def take_profile(context: CallContext, call: TakeProfile) -> None:
    """Answer ``take_profile``. Raises as ``oarsub``."""
    connection, settings = context.connection, context.configuration
    require_promises(settings)
    latest = math.floor(time.time() + min(call.limit, settings.scheduler.profile_limit))
    with part_submission.measuring(context, call) as measured:
        submission = measured.admitted.submission.changed(profile=call.script)
        new = profiling_jobs(connection, settings.scheduler, submission, measured.admitted.requested)
        types = (f"expire={latest}",)
        dated = [replace(one, requested=one.requested.changed(types=types)) for one in new]
        jobs = store_measuring(measured.session, dated, measured.check)
    bag_profiles.insert_for_broker(connection, context.broker, call.profile, jobs)


def profiled(context: CallContext, call: Profiled) -> list[ProfiledType]:
    """Answer ``profiled``, for the types of nodes in the order of their names."""
    rows = bag_profiles.for_broker(context.connection, context.broker, call.profile)
    return [
        ProfiledType(row.node_type, row.seconds, "" if row.seconds is not None else row.why_none, row.live)
        for row in rows
    ]
