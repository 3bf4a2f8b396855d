"""Every table, and the rows that it has from the start."""

from __future__ import annotations

from typing import Any, TypeAlias

from sqlalchemy import Boolean, Integer, Table, Text
from sqlalchemy.dialects.postgresql import TIMESTAMP

from oarpy.model.states import (
    DOOR_PART_MOVES,
    DOOR_TRANSACTION_MOVES,
    EXTENSION_MOVES,
    FINAL_STATES,
    GRID_JOB_MOVES,
    GRID_PART_MOVES,
    GRID_TRANSACTION_MOVES,
    HOLDING_STATES,
    NEGOTIATION_MOVES,
    PASSAGES,
    TRANSITIONS,
    JobState,
    NegotiationState,
    ResourceState,
)
from oarpy.store.schema import (
    assignments,
    bags,
    jobs,
    journal,
    mappings,
    negotiation,
    platform,
    projects,
    recurrence,
    requests,
    rules,
    submissions,
    windows,
)
from oarpy.store.schema.grid import broker, door

# a table that another refers to is in the same module, or in a module before it
_AREAS = (
    platform,
    rules,
    projects,
    submissions,
    recurrence,
    jobs,
    assignments,
    requests,
    windows,
    bags,
    mappings,
    negotiation,
    door,
    broker,
    journal,
)
TABLES = tuple(dict.fromkeys(thing for area in _AREAS for thing in vars(area).values() if isinstance(thing, Table)))
"""In an order in which they can be created."""

Rows: TypeAlias = dict[Table, list[dict[str, Any]]]

LOOKUP_ROWS: Rows = {
    jobs.job_states: [
        {
            "state": state.value,
            "letter": state.letter,
            "final": state in FINAL_STATES,
            "holding": state in HOLDING_STATES,
        }
        for state in JobState
    ],
    jobs.job_transitions: [
        {"from_state": move.source.value, "to_state": move.target.value, "event": move.event, "who": move.who}
        for move in TRANSITIONS
    ],
    jobs.job_passages: [
        {"from_state": source.value, "to_state": target.value, "through": [state.value for state in through]}
        for (source, target), through in PASSAGES.items()
    ],
    platform.resource_states: [{"state": state.value} for state in ResourceState],
    negotiation.application_states: [{"state": state.value} for state in NegotiationState],
    negotiation.application_moves: [
        {"from_state": move.source.value, "to_state": move.target.value, "event": move.event}
        for move in NEGOTIATION_MOVES
    ],
    negotiation.extension_moves: [
        {"from_state": move.source.value, "to_state": move.target.value, "event": move.event}
        for move in EXTENSION_MOVES
    ],
    door.door_moves: [
        {"subject": subject, "from_state": move.source.value, "to_state": move.target.value, "event": move.event}
        for subject, moves in (("part", DOOR_PART_MOVES), ("transaction", DOOR_TRANSACTION_MOVES))
        for move in moves
    ],
    broker.grid_transitions: [
        {"subject": subject, "from_state": move.source.value, "to_state": move.target.value, "event": move.event}
        for subject, moves in (
            ("job", GRID_JOB_MOVES),
            ("part", GRID_PART_MOVES),
            ("transaction", GRID_TRANSACTION_MOVES),
        )
        for move in moves
    ],
}
"""Rows that are part of this version: no more and no fewer may be there."""

_KINDS = {Integer: "integer", Text: "text", Boolean: "boolean", TIMESTAMP: "timestamptz"}

FIRST_ROWS: Rows = {
    platform.site: [{}],
    rules.queues: [
        {"queue_name": "admin", "priority": 10},
        {"queue_name": "default", "priority": 3},
        {"queue_name": "besteffort", "priority": 0},
    ],
    platform.resource_properties: [
        {
            "name": column.name,
            "kind": _KINDS[type(column.type)],
            "protected": column.name not in platform.REMOVABLE_PROPERTIES,
        }
        for column in platform.resources.columns
        if column.name not in platform.NO_PROPERTIES
    ],
    assignments.scheduling_passes: [{}],
}
"""Rows that a new database has; an admin's changes of them count."""
