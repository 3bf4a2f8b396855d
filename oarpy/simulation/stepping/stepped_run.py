"""A run event by event: the event, the jobs that it changed, and the state after it.

An event is one end, arrival, begin, try or pass, with all its immediate consequences.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TextIO

from oarpy.model.errors import UsageError
from oarpy.simulation.event_loop import Happening
from oarpy.simulation.stepping.chart import Chart
from oarpy.simulation.stepping.places import ClusterState, Place


class EventDescription(NamedTuple):
    """An event: its name, its job, and the other jobs whose planned start or parts changed; jobs by their ids."""

    event: str
    job: int | str | None
    changed: list[int | str]


class Rule(NamedTuple):
    """Why something changed: a sentence, and the page and section of the documentation that it is from."""

    sentence: str
    section: str


class SteppedRun(Protocol):
    """A run of a file. It can be pickled between events, and the copy goes on as the run itself does."""

    lasting: Mapping[type, Any]
    """Types of values that copies may share; a function tells which of them do not change any more."""

    def events(self, until: float = inf) -> Iterator[Happening]:
        """Yield the events one by one, up to an instant; a further call goes on after the last event."""

    def watch(self) -> None:
        """Note the places of jobs, so that the next event can be described."""

    def description(self, happening: Happening) -> EventDescription:
        """Return the description of the last event, if the run was watched, or the last description made, before it."""

    def digested(self, happening: Happening) -> Any:
        """Return the data of the last event, beside its changed jobs, that tells runs apart.

        Call this after :meth:`description`.
        """

    def why(self, happening: Happening) -> Rule:
        """Return the rule by which the last event changed something."""

    def state(self) -> Mapping[str, Any]:
        """Return the state after the last event, with the jobs first."""

    def outcome(self) -> Mapping[str, Any]:
        """Return the outcome of everything after the very last event."""

    def holders(self) -> Mapping[str, Set[Any]]:
        """Return, by cluster, keys of the present holders of processors."""

    def held(self, cluster: str, key: Any) -> Place:
        """Return the place of a holder of processors, by its key."""

    def clusters_now(self) -> Sequence[ClusterState]:
        """Return the waiting jobs and the planned places of each cluster."""

    def tables(self) -> Mapping[str, Any]:
        """Return the tables that the broker keeps between events."""


@dataclass(frozen=True, slots=True)
class Stop:
    """After how many events, and after which instant, a run stops; None: at its end.

    With ``places`` the state has the processors of running and planned jobs.
    """

    steps: int | None = None
    until: float | None = None
    places: bool = False

    @property
    def early(self) -> bool:
        """Whether the state is wanted, instead of the outcome."""
        return self.steps is not None or self.until is not None


def play(
    run: SteppedRun, stop: Stop, log: TextIO | None = None, named: Mapping[str, str] = MappingProxyType({})
) -> Mapping[str, Any]:
    """Play a run until its stop; return the object to print.

    Events are lines of ``log``. With several runs in one log, ``named`` identifies the run.
    """
    count, now, last = 0, None, None
    chart = Chart(run) if stop.places else None
    for happening in run.events(inf if stop.until is None else stop.until) if stop.steps != 0 else ():
        count, now = count + 1, happening[0]
        if chart is not None:
            chart.follow(run, now)
        if log is not None or chart is not None:
            last = event_document(run, happening)
        if log is not None and last is not None:
            line = {"step": count, **{key: last[key] for key in ("at", "event", "job", "changed")}}
            log.write(json.dumps(plain({**named, **line})) + "\n")
        if count == stop.steps:
            break
    if not stop.early:
        return run.outcome()
    outcome = {"now": now, "steps": count, **run.state()}
    if chart is not None:
        outcome |= {"event": last, "clusters": chart.clusters(run), "broker": run.tables()}
    return outcome


def event_document(run: SteppedRun, happening: Happening) -> dict[str, Any]:
    """Return the last event and its reason as an object of JSON."""
    description, rule = run.description(happening), run.why(happening)
    return {"at": happening[0], **description._asdict(), **rule._asdict()}


def plain(value: Any) -> Any:
    """Return a value of JSON with whole numbers as such."""
    match value:
        case dict():
            return {key: plain(content) for key, content in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


def refuse_input(log: str, inputs: Iterable[str | Path]) -> None:
    """Raise :class:`UsageError` if the file of a log is one of ``inputs``, which it would replace."""
    for path in inputs:
        with suppress(OSError):
            if os.path.samefile(log, path):
                raise UsageError(f"--log {log}: that is the file to read", hint="name another file")


def opened_log(path: str) -> TextIO:
    """Open the file of a log. Raises :class:`UsageError` when it cannot be written."""
    try:
        return open(path, "w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--log {path}: cannot be written: {error.strerror}", hint="name another file") from None
