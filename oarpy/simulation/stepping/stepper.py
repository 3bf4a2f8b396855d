"""Goes to any event of a run: forward by playing it, back by a copy of the run that was kept before.

::

    0 ........ c1 ..... c2 .. c3 [here]       back by one: the copy c3 is played forward to there
               copies of the run, pickled

A copy is kept whenever playing on from the last one would take too long. While a long stretch is run through, making
copies takes at most a fifth of the time. So behind such a stretch the first step back may take longer; it leaves
copies where it passes by. When copies need too much memory, every second of them goes.
"""

from __future__ import annotations

import io
import pickle
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from time import perf_counter, thread_time
from typing import Any

from oarpy.simulation.event_loop import Happening
from oarpy.simulation.stepping.chart import Chart, bar_entry
from oarpy.simulation.stepping.places import Bar
from oarpy.simulation.stepping.stepped_run import SteppedRun, event_document

_FORWARD = 0.03
"""Seconds of processor time that playing on from a copy may take."""
_SHARE = 4
"""The least ratio of the time between two copies to the time of a copy, while a long stretch is played."""
_MOST_BYTES = 96 << 20
"""Bytes of all copies."""


@dataclass(frozen=True, slots=True)
class _Copy:
    """The run after ``step`` events, the last of which was at ``now``."""

    step: int
    now: float | None
    data: bytes


class Stepper:
    """A run that is gone through. ``step`` is how many events there were, ``now`` the instant of the last."""

    def __init__(self, start: Callable[[], SteppedRun], most_bytes: int = _MOST_BYTES) -> None:
        self.step = 0
        self.now: float | None = None
        self.event: dict[str, Any] | None = None
        """The description of the last event; None before the first, and if the run was not watched."""
        self.ended = False
        """Whether no event follows."""
        self._run = start()
        self._chart = Chart(self._run)
        self._over: list[Bar] = self._chart.over
        self._lasting: dict[int, Any] = {}
        self._most_bytes = most_bytes
        self._copies: list[_Copy] = []
        self._playing = self._run.events()
        self._since, self._copying = 0.0, 0.0
        self._keep()

    @property
    def copies(self) -> tuple[int, int]:
        """The number of copies, and their bytes."""
        return len(self._copies), sum(len(copy.data) for copy in self._copies)

    def go_to(self, step: int, seconds: float = inf) -> bool:
        """Go to an event, or to the last one; return False if that takes longer than ``seconds``."""
        began = perf_counter()
        untold = step == self.step and self.event is None and step > 0
        if step < self.step or untold or self._copies[self._place(step - 1)].step > self.step:
            self._restore(step - 1)
        while self.step < step - 1:
            if not self._forward():
                return self._tell_last()
            if perf_counter() - began > seconds:
                return False
        if self.step < step:
            self._run.watch()
            happening = self._forward()
            if happening is None:
                return self._tell_last()
            self.event = event_document(self._run, happening)
        return True

    def run_until(self, until: float, seconds: float = inf) -> bool:
        """Go on to the last event up to an instant; return False if that takes longer than ``seconds``."""
        began = perf_counter()
        self._playing = self._run.events(until)
        over = True
        while self._forward(dense=False):
            if perf_counter() - began > seconds:
                over = False
                break
        self._playing, self.ended = self._run.events(), over and until == inf
        return over and self._tell_last()

    def state(self) -> dict[str, Any]:
        """Return the object that the run prints when it is stopped here."""
        return {"now": self.now, "steps": self.step, **self._run.state()}

    def view(self, since: int = 0) -> dict[str, Any]:
        """Return the last event, the broker's tables and the bars; past bars from number ``since`` on."""
        return {
            "event": self.event,
            "broker": self._run.tables(),
            "over": {
                "count": self._chart.count,
                "bars": [bar_entry(bar) | {"cluster": bar.cluster} for bar in self._chart.past(since)],
            },
            "clusters": self._chart.clusters(self._run, past=False),
        }

    def _tell_last(self) -> bool:
        """Take the last event once more if the run was not watched."""
        if self.event is None and self.step:
            ended = self.ended
            self.go_to(self.step)
            self.ended = ended
        return True

    def _forward(self, *, dense: bool = True) -> Happening | None:
        """Play one event; return it, or None at the end."""
        began = thread_time()
        happening = next(self._playing, None)
        if happening is None:
            self.ended = True
            return None
        self.step, self.now, self.event = self.step + 1, happening[0], None
        self._chart.follow(self._run, happening[0])
        self._since += thread_time() - began
        if self._since >= max(_FORWARD, self._copying * (1 if dense else _SHARE)):
            self._keep()
        return happening

    def _place(self, step: int) -> int:
        """Return the place of the last copy up to an event."""
        return bisect_right(self._copies, max(step, 0), key=lambda copy: copy.step) - 1

    def _restore(self, step: int) -> None:
        """Take the last copy up to an event."""
        copy = self._copies[self._place(step)]
        reader = _Reader(io.BytesIO(copy.data), self._lasting)
        self._run, self._chart = reader.load()
        self._chart.over = self._over
        self.step, self.now, self.event, self.ended = copy.step, copy.now, None, False
        self._playing, self._since = self._run.events(), 0.0

    def _keep(self) -> None:
        """Keep a copy of the present run, unless there is one."""
        self._since = 0.0
        place = bisect_right(self._copies, self.step, key=lambda copy: copy.step)
        if place and self._copies[place - 1].step == self.step:
            return
        began = thread_time()
        data = io.BytesIO()
        _Writer(data, self._run.lasting, self._lasting).dump((self._run, self._chart))
        self._copies.insert(place, _Copy(self.step, self.now, data.getvalue()))
        while len(self._copies) > 2 and self.copies[1] > self._most_bytes:
            del self._copies[1::2]
        self._copying = thread_time() - began


class _Writer(pickle.Pickler):
    """Writes a copy of a run; values that do not change any more stand in it by their number."""

    def __init__(self, out: io.BytesIO, types: Mapping[type, Any], lasting: dict[int, Any]) -> None:
        super().__init__(out, pickle.HIGHEST_PROTOCOL)
        self._types, self._lasting = types, lasting

    def persistent_id(self, value: Any) -> int | None:
        """Return the number of a value that copies have in common."""
        lasts = self._types.get(type(value))
        if lasts is None or not lasts(value):
            return None
        self._lasting[id(value)] = value
        return id(value)


class _Reader(pickle.Unpickler):
    """Reads a copy of a run."""

    def __init__(self, data: io.BytesIO, lasting: Mapping[int, Any]) -> None:
        super().__init__(data)
        self._lasting = lasting

    def persistent_load(self, number: int) -> Any:
        """Return a value that copies have in common."""
        return self._lasting[number]


def always(_value: object) -> bool:
    """Tell that a value never changes."""
    return True
