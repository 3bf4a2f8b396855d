"""Bags of brokers: made with a promise, held until they are decided on, told when they are done over all clusters."""

from __future__ import annotations

import time

from msgspec import UNSET

from oarpy.grid.calls.parts import PreparedPart
from oarpy.grid.calls.table import CallRefused, Prepare, TellCompletions
from oarpy.grid.door.answers import part_submission
from oarpy.grid.door.answers.bag_offers import OfferChanged, check_offer, check_plan, require_promises
from oarpy.grid.door.call_context import CallContext
from oarpy.model.errors import UsageError
from oarpy.store.grid import door_parts, launch_gates
from oarpy.store.grid.door_parts import DoorPartRow, NewDoorPart
from oarpy.store.jobs import bag_profiles


def make(context: CallContext, call: Prepare) -> PreparedPart:
    """Submit the bag that a part is; no task of it is launched before the commit."""
    part, bag = call.part, call.part.bag
    require_promises(context.configuration)
    if bag is UNSET:
        raise UsageError("a part of kind bag without a bag", hint="say which tasks it has, and by when")
    if len(set(bag.tasks)) < len(bag.tasks):
        raise UsageError("a task is twice among those of a bag", hint="name each once")
    check_offer(context, part.request, bag)
    if bag.offer and door_parts.is_taken_up(context.connection, context.broker, bag.offer):
        raise OfferChanged(f"offer '{bag.offer[:40]}' was taken up already", hint="ask for offers anew")
    walltime = part_submission.walltime_of(part.request)
    if bag.end_by < time.time() + walltime:
        raise OfferChanged(f"no task can be done by {bag.end_by:.0f}", hint="ask for offers anew")
    check_plan(context, part.request, bag)
    job = part_submission.submit_bag(context, part, bag)
    new = NewDoorPart(part.name, call.transaction, job, part.kind, walltime)
    door_parts.add_bag(context.connection, context.broker, new, bag.tasks, bag.offer, call.ttl)
    if bag.profile is not UNSET:
        bag_profiles.give(context.connection, job, bag.profile)
    launch_gates.put_bag(context.connection, job, walltime)
    return PreparedPart(str(job))


def with_promise(context: CallContext, prepared: PreparedPart) -> PreparedPart:
    """Return the facts that are told of a promised bag."""
    return PreparedPart(prepared.job, end=door_parts.promise_of(context.connection, int(prepared.job)))


def refusal(row: DoorPartRow) -> CallRefused:
    """Return why a bag could not be had: it was worse than offered."""
    return OfferChanged(f"part '{row.name}' cannot be had as offered: {row.message}", hint="ask for offers anew")


def tell_completions(context: CallContext, call: TellCompletions) -> None:
    """Answer ``tell_completions``. Bags that are unknown here are left out: they are over."""
    if call.bags:
        completions = [(bag.part, bag.completion, bag.version) for bag in call.bags]
        door_parts.note_completions(context.connection, context.broker, completions)
