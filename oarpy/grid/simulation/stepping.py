"""A run event by event: what happened, whom it changed, and what is the case after it.

An event is one end, arrival, begin, try or pass, with all that follows from it at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple, Protocol, TextIO

from oarpy.simulation.event_loop import Happening


class Told(NamedTuple):
    """An event: its name, its job, and the other jobs whose planned start or parts changed; jobs by their ids."""

    event: str
    job: int | str | None
    changed: list[int | str]


class SteppedRun(Protocol):
    """A run of a file."""

    def events(self, until: float = inf) -> Iterator[Happening]:
        """Let things happen one by one, up to an instant."""

    def told(self, happening: Happening) -> Told:
        """Return what the last event was; asked once after each event."""

    def state(self) -> Mapping[str, Any]:
        """Return what is the case after the last event, with the jobs first."""

    def outcome(self) -> Mapping[str, Any]:
        """Return what became of everything after the last event of all."""


@dataclass(frozen=True, slots=True)
class Stop:
    """After how many events, and after which instant, a run stops; None: at its end."""

    steps: int | None = None
    until: float | None = None

    @property
    def early(self) -> bool:
        """Whether the state is asked for, instead of the outcome."""
        return self.steps is not None or self.until is not None


def play(run: SteppedRun, stop: Stop, log: TextIO | None, file: str | None) -> Mapping[str, Any]:
    """Play a run until it is to stop; return the object to print. Events are lines of ``log``, with their ``file``."""
    count, now = 0, None
    for happening in run.events(inf if stop.until is None else stop.until) if stop.steps != 0 else ():
        count, now = count + 1, happening[0]
        if log is not None:
            told = run.told(happening)
            line = {"step": count, "at": now, "event": told.event, "job": told.job, "changed": told.changed}
            log.write(json.dumps(plain(line if file is None else {"file": file, **line})) + "\n")
        if count == stop.steps:
            break
    return {"now": now, "steps": count, **run.state()} if stop.early else run.outcome()


def plain(value: Any) -> Any:
    """Return a value of JSON with whole numbers as such."""
    match value:
        case dict():
            return {key: plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value
