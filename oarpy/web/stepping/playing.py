"""Runs that are open in a browser: the step of each page, and the changes between steps.

Several browsers may look at one run. Each names its present step and the step that it wants, and gets the differences
between them.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from threading import Lock
from typing import Any

from msgspec import Struct

from oarpy.model.errors import NotFound
from oarpy.simulation.stepping.parting import Parting
from oarpy.simulation.stepping.sources import Choices, Source
from oarpy.simulation.stepping.stepped_run import plain
from oarpy.simulation.stepping.stepper import Stepper

_OPEN = 4
"""Runs, and comparisons, that are kept open."""
_MOST_BYTES = 32 << 20
"""Bytes of the copies of each run."""
_EDITED = 16
"""Texts that were sent by pages and are kept."""
_SECONDS = 0.25
"""Seconds for which a long run goes on in one call; the page then sees the progress and calls again."""


class Wish(Struct):
    """A page's request: to go from one step to another, or to the last event up to an instant.

    ``over`` is the number of bars of ended jobs that it has.
    """

    scenario: str
    choices: dict[str, str] = {}
    here: int | None = None
    step: int | None = None
    until: float | None = None
    over: int = 0


class OpenRun:
    """A run with the jobs as they were at the steps that were last shown."""

    def __init__(self, source: Source, choices: Choices) -> None:
        self._stepper = Stepper(partial(source.start, choices), _MOST_BYTES)
        self._shown: OrderedDict[int, Sequence[Mapping[str, Any]]] = OrderedDict()
        self._last: int | None = None
        self._lock = Lock()

    def go(self, wish: Wish) -> dict[str, Any]:
        """Go to the wanted place of a page, or as far as the time allows; return the differences.

        A page that asked for a step gets only ``done`` while it is not reached.
        """
        with self._lock:
            stepper = self._stepper
            if wish.step is not None:
                if not stepper.go_to(max(wish.step, 0), _SECONDS):
                    return {"done": False}
                done = True
            else:
                if stepper.step != (wish.here or 0):
                    stepper.go_to(wish.here or 0)
                done = stepper.run_until(inf if wish.until is None else wish.until, _SECONDS)
            if stepper.ended:
                self._last = stepper.step
            return self._difference(wish, done)

    def _difference(self, wish: Wish, done: bool) -> dict[str, Any]:
        stepper = self._stepper
        state = stepper.state()
        jobs = state.pop("jobs")
        before = None if wish.here is None else self._shown.get(wish.here)
        if before is None:
            changed = {str(place): plain(entry) for place, entry in enumerate(jobs)}
        else:
            pairs = enumerate(zip(before, jobs, strict=True))
            changed = {str(place): plain(new) for place, (old, new) in pairs if old != new}
        self._shown[stepper.step] = jobs
        self._shown.move_to_end(stepper.step)
        while len(self._shown) > _OPEN:
            self._shown.popitem(last=False)
        # the bars of ended jobs only grow: after fewer events they are the beginning of the later ones
        since = wish.over if before is not None else 0
        return {
            "done": done,
            "whole": before is None,
            "last": self._last,
            "jobs": changed,
            "state": plain(state),
            "since": since,
            **stepper.view(since),
        }


class Playing:
    """Everything that is open: scenarios by their ids, including scenarios that pages sent, runs and comparisons."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._given = {str(place): source for place, source in enumerate(sources)}
        self._edited: OrderedDict[str, Source] = OrderedDict()
        self._runs: OrderedDict[tuple[Any, ...], OpenRun] = OrderedDict()
        self._partings: OrderedDict[tuple[Any, ...], Parting] = OrderedDict()
        self._lock = Lock()

    @property
    def given(self) -> Mapping[str, Source]:
        """The scenarios of the command line, by their ids."""
        return self._given

    def source(self, scenario: str) -> Source:
        """Return a scenario. Raises :class:`NotFound`."""
        source = self._given.get(scenario) or self._edited.get(scenario)
        if source is None:
            raise NotFound("this scenario is not open any more", hint="send its text again")
        return source

    def edit(self, scenario: str, text: str) -> str:
        """Take another text of a scenario, and return its id.

        Raises :class:`UsageError` for a text that is no scenario.
        """
        edited = self.source(scenario).edited(text)
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        with self._lock:
            self._edited[name] = edited
            self._edited.move_to_end(name)
            if len(self._edited) > _EDITED:
                self._edited.popitem(last=False)
        return name

    def go(self, wish: Wish) -> dict[str, Any]:
        """Go to where a page wants to."""
        key = wish.scenario, *sorted(wish.choices.items())
        with self._lock:
            run = self._runs.get(key)
            if run is None:
                run = self._runs[key] = OpenRun(self.source(wish.scenario), wish.choices)
            _keep(self._runs, key)
        try:
            return run.go(wish)
        except Exception:
            # it stopped half-way: the next wish gets a fresh one
            with self._lock:
                self._runs.pop(key, None)
            raise

    def part(self, scenario: str, left: Choices, right: Choices) -> dict[str, Any]:
        """Look for the first event at which two choices differ."""
        key = scenario, tuple(sorted(left.items())), tuple(sorted(right.items()))
        source = self.source(scenario)
        with self._lock:
            parting = self._partings.get(key)
            if parting is None:
                parting = self._partings[key] = Parting(partial(source.start, left), partial(source.start, right))
            _keep(self._partings, key)
            try:
                done = parting.seek(_SECONDS)
            except Exception:
                # it stopped half-way: the next wish gets a fresh one
                self._partings.pop(key)
                raise
            return {"done": done, "compared": parting.compared, "step": parting.first() if done else None}


def _keep(some: OrderedDict[Any, Any], key: Any) -> None:
    """Note that an entry is used; the entry that was not used for longest goes."""
    some.move_to_end(key)
    if len(some) > _OPEN:
        some.popitem(last=False)
