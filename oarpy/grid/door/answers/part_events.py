"""The waiting parts of a broker, the events of all its parts, and newer plans than those of its offers."""

from __future__ import annotations

import os
from typing import cast

from oarpy.grid.calls.parts import (
    PART_EVENTS,
    ClusterEvent,
    KnownPart,
    PartCompletion,
    PartEventKind,
    PartTaskOver,
    PlanChanged,
)
from oarpy.grid.calls.table import Events, Waiting
from oarpy.grid.door.call_context import CallContext
from oarpy.store.grid import door_parts
from oarpy.store.grid import part_events as store


def waiting(context: CallContext, call: Waiting) -> list[KnownPart]:
    """Answer ``waiting``."""
    rows = door_parts.waiting(context.connection, context.broker)
    return [KnownPart(row.name, str(row.job), row.submitted) for row in rows]


def events(context: CallContext, call: Events) -> list[ClusterEvent]:
    """Answer ``events``. Processors that became idle since the last answer are an event, and so is news of bags.

    While offers are open, so is a newer plan.
    """
    store.note_idle(context.connection, context.broker, context.configuration.grid.hint_interval)
    store.note_bags(context.connection, context.broker)
    store.note_plan(context.connection, context.broker)
    return [_event(row) for row in store.events(context.connection, context.broker, call.after)]


def _event(row: store.PartEventRow) -> ClusterEvent:
    if row.plan is not None:
        return PlanChanged(row.number, row.at, row.plan)
    status = None if row.exit_status is None else os.waitstatus_to_exitcode(row.exit_status)
    kind = cast(PartEventKind, row.kind)
    what = (row.number, row.at, row.part, str(row.job), row.hosts, status, row.reason)
    if row.task is not None:
        return PartTaskOver(*what, task=row.task)
    if row.completion is not None:
        return PartCompletion(*what, completion=row.completion)
    return PART_EVENTS[kind](*what)
