"""Decisions of the core, kept with their inputs, as values of JSON, and taken again.

A value of the core has its fields, and ``is``, the name of its class. Values that JSON lacks are written so::

    {"pairs": [[12, [30, {"infinite": 1}]]]}     a mapping, by any keys, with an infinite number

The actions of the core at an event follow from its inputs. Above some length only their digest is kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from hashlib import sha256
from math import inf, isinf
from typing import Any

from oarpy.grid.core import broker_state
from oarpy.grid.core.broker_state import BrokerState
from oarpy.grid.core.exchanges import Action, Event
from oarpy.grid.core.step import exchanged, step

_CLASSES: Mapping[str, type] = {
    name: kind for name, kind in vars(broker_state).items() if is_dataclass(kind) and isinstance(kind, type)
}
"""The classes of the state; the systems have the classes of their exchanges."""
_CHANCE = "chance"
_LONGEST = 1000
"""The number of letters of JSON that are kept of the actions at one event."""


@dataclass(slots=True)
class TakenDecision:
    """A decision as it is stored: the state before, the events with their instants, and the actions at each event."""

    state: Any
    events: list[Any] = field(default_factory=list)
    actions: list[Any] = field(default_factory=list)


class DrivenCore:
    """The core with a state, which notes its exchanges until they are taken as one decision."""

    def __init__(self, state: BrokerState) -> None:
        self.state = state
        self._noted = TakenDecision(as_json(state))

    def tell(self, event: Event, now: float) -> list[Action]:
        """Give the core an event at ``now`` (epoch seconds); return its actions."""
        actions = step(self.state, event, now)
        self._noted.events.append({"now": now, "event": as_json(event)})
        self._noted.actions.append(as_noted([as_json(action) for action in actions]))
        return actions

    def taken(self) -> TakenDecision:
        """Return the noted decision, and begin another from the present state."""
        noted, self._noted = self._noted, TakenDecision(as_json(self.state))
        return noted


def taken_again(state: Any, events: Sequence[Any]) -> list[Any]:
    """Take a stored decision again; return the actions, as they are stored. Raises the errors of a wrong record."""
    before: BrokerState = of_json(state)
    taken = (step(before, of_json(event["event"]), event["now"]) for event in events)
    return [as_noted([as_json(action) for action in actions]) for actions in taken]


def as_noted(actions: Any) -> Any:
    """Return the actions at an event as they are kept: ``{"sha256": DIGEST}`` if they are long."""
    text = json.dumps(actions)
    return actions if len(text) <= _LONGEST else {"sha256": sha256(text.encode()).hexdigest()}


def as_json(value: Any) -> Any:
    """Return a value of the core as one of JSON."""
    if isinstance(value, float) and isinf(value):
        return {"infinite": 1 if value > 0 else -1}
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, BrokerState):
        return _state_as_json(value)
    if is_dataclass(value):
        return {
            "is": type(value).__name__,
            **{field.name: as_json(getattr(value, field.name)) for field in fields(value)},
        }
    if isinstance(value, Mapping):
        return {"pairs": [[key, as_json(entry)] for key, entry in value.items()]}
    return [as_json(entry) for entry in value]


def of_json(value: Any) -> Any:
    """Return the value of the core that ``value`` stands for."""
    if isinstance(value, list):
        return tuple(of_json(entry) for entry in value)
    if not isinstance(value, dict):
        return value
    if "infinite" in value:
        return inf * value["infinite"]
    if "pairs" in value:
        return {key: of_json(entry) for key, entry in value["pairs"]}
    name = value["is"]
    kind = _CLASSES[name] if name in _CLASSES else exchanged()[name]
    if kind is BrokerState:
        return _state_of_json(value)
    return kind(**{name: of_json(entry) for name, entry in value.items() if name != "is"})


def _state_as_json(state: BrokerState) -> Any:
    """Return the parts of a state. Random numbers go on where they were, if any are drawn."""
    names = [field.name for field in fields(state) if field.init]
    written = {"is": "BrokerState", **{name: as_json(getattr(state, name)) for name in names}}
    if state.reallocation.mapping == "random":
        written[_CHANCE] = as_json(state.chance.getstate())
    return written


def _state_of_json(value: Mapping[str, Any]) -> BrokerState:
    given = {name: of_json(entry) for name, entry in value.items() if name not in ("is", _CHANCE)}
    state = BrokerState(**given)
    if _CHANCE in value:
        state.chance.setstate(of_json(value[_CHANCE]))
    return state
