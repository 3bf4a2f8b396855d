"""The broker as one function, from an event to actions, by the table of its systems.

::

    system         takes                                    asks for
    mapping        a mapped job, ECTs of its question       AskEcts, JoinQueue
    reallocation   the instant of a pass, ECTs for it       AskEcts, WithdrawJobs, MoveJob, JoinQueue
    deadlines      a co-allocated job, the instant of a try TryAt, ClaimParts, MissJob
    metajobs       what is free for a parallel job          ReserveParts, AmendParts, RefuseJob
    mapped         rates, and what is free for a program    ReserveMapped, AmendMapped, RefuseJob
    programs       whose processes are mapped
    bags           offers for tasks of a bag                AwardTasks, RefuseBag

A new system is a module with its events, actions and row, and a place here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from oarpy.grid.core import bag_awards, deadlines, mapped_programs, mapping, metajobs, reallocation
from oarpy.grid.core.broker_state import BrokerState
from oarpy.grid.core.exchanges import Action, Event, System, Take

SYSTEMS = (
    mapping.SYSTEM,
    reallocation.SYSTEM,
    deadlines.SYSTEM,
    metajobs.SYSTEM,
    mapped_programs.SYSTEM,
    bag_awards.SYSTEM,
)


def step(state: BrokerState, event: Event, now: float) -> list[Action]:
    """Take an event at ``now`` (seconds): change the state, and return the actions, in order.

    The same state and the same event always give the same actions.
    """
    return _routes(SYSTEMS)[event.route](state, event, now)


def exchanged() -> Mapping[str, type]:
    """Return by name the classes in exchanges and in the memory of systems."""
    return _exchanged(SYSTEMS)


@cache
def _routes(systems: tuple[System, ...]) -> Mapping[object, Take]:
    return {route: _remembering(system, take) for system in systems for route, take in system.takes.items()}


def _remembering(system: System, take: Take) -> Take:
    """Return ``take`` for a state that may lack the memory of the system."""
    if (memory := system.memory) is None:
        return take

    def act(state: BrokerState, event: Any, now: float) -> list[Action]:
        if system.name not in state.memory:
            state.memory[system.name] = memory()
        return take(state, event, now)

    return act


@cache
def _exchanged(systems: tuple[System, ...]) -> Mapping[str, type]:
    classes: dict[str, type] = {}
    for system in systems:
        events = [route[0] if isinstance(route, tuple) else route for route in system.takes]
        for event in (*events, *system.asks, *system.values):
            assert isinstance(event, type)
            classes[event.__name__] = event
    return classes
