"""The central automaton: receives events, merges repeats, and alone decides when a module runs.

It keeps no truth. Per module it is in one of three states; :data:`TABLE` is the whole machine and
``docs/automaton.md`` is generated from it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from oarpy.configuration import Configuration
from oarpy.modules.loop.module import Outcome
from oarpy.modules.registry import enabled_modules
from oarpy.store import notifications
from oarpy.store.database import Connection


class Activity(StrEnum):
    """The state of a module as the automaton knows it."""

    IDLE = "idle"
    RUNNING = "running"
    AGAIN = "running, wanted again"


class Stimulus(StrEnum):
    """The events of a module as the automaton sees them."""

    WANTED = "wanted"
    DONE = "done"
    OVERDUE = "overdue"


@dataclass(frozen=True, slots=True)
class EventStep:
    """The next activity after a stimulus, and whether the module is told to run."""

    target: Activity
    tell: bool


TABLE: dict[tuple[Activity, Stimulus], EventStep] = {
    (Activity.IDLE, Stimulus.WANTED): EventStep(Activity.RUNNING, tell=True),
    (Activity.IDLE, Stimulus.DONE): EventStep(Activity.IDLE, tell=False),
    (Activity.IDLE, Stimulus.OVERDUE): EventStep(Activity.RUNNING, tell=True),
    (Activity.RUNNING, Stimulus.WANTED): EventStep(Activity.AGAIN, tell=False),
    (Activity.RUNNING, Stimulus.DONE): EventStep(Activity.IDLE, tell=False),
    (Activity.RUNNING, Stimulus.OVERDUE): EventStep(Activity.RUNNING, tell=True),
    (Activity.AGAIN, Stimulus.WANTED): EventStep(Activity.AGAIN, tell=False),
    (Activity.AGAIN, Stimulus.DONE): EventStep(Activity.RUNNING, tell=True),
    (Activity.AGAIN, Stimulus.OVERDUE): EventStep(Activity.RUNNING, tell=True),
}

REACTIONS: dict[str, tuple[str, ...]] = {
    "job Waiting": ("metascheduler", "canceller"),
    "job Hold": ("metascheduler", "canceller"),
    "job changed": ("metascheduler",),
    "job toLaunch": ("launcher",),
    "job Launching": (),
    "job Running": (),
    "job toAckReservation": ("metascheduler",),
    "job Suspended": ("metascheduler", "launcher"),
    "job Resuming": ("metascheduler", "launcher"),
    "job Finishing": ("launcher",),
    "job toError": ("canceller",),
    "job Terminated": ("metascheduler", "accounting"),
    "job Error": ("metascheduler", "accounting"),
    "kill requested": ("canceller",),
    "kill decided": ("launcher",),
    "signal requested": ("launcher",),
    "suspend requested": ("launcher",),
    "suspend changed": ("metascheduler", "launcher"),
    "resources returned": ("metascheduler", "launcher"),
    "walltime asked": ("metascheduler",),
    "walltime changed": ("metascheduler", "launcher"),
    "platform changed": ("metascheduler", "launcher", "monitor"),
    "queues changed": ("metascheduler",),
    "quotas changed": ("metascheduler",),
    "projects changed": ("metascheduler",),
    "usage changed": ("metascheduler",),
    "power changed": ("metascheduler",),
    "nodes changed": ("launcher", "monitor"),
    "notice queued": ("notifier",),
    "application changed": ("metascheduler",),
    "links changed": ("metascheduler",),
    "extension changed": ("metascheduler",),
    "resize asked": ("launcher",),
    "part changed": ("canceller",),
    "gate changed": ("metascheduler", "launcher"),
    "recurring jobs changed": ("recurrence",),
    "grid job submitted": ("mapper", "claimer", "mover"),
    "grid job changed": ("claimer",),
    "grid delete asked": ("mapper", "claimer"),
    "grid part changed": ("claimer",),
    "grid part placed": ("watcher",),
    "grid part to end": ("watcher",),
    "grid processors idle": ("claimer",),
    "grid bag asked": ("watcher",),
    "grid bag changed": ("claimer",),
    "grid clusters changed": ("mapper", "claimer", "mover", "watcher"),
    "grid cluster heard": ("mapper", "claimer", "mover"),
    "grid pass asked": ("mover",),
}
"""The modules that each event of the database concerns. Unknown events concern none."""

REACTING = frozenset(name for names in REACTIONS.values() for name in names)
"""The modules that some event concerns."""

PATIENT = frozenset({"accounting"})
"""Modules whose work can wait: run at most once every :data:`PATIENCE` seconds."""
PATIENCE = 2.0
_PERIOD_OF_OTHERS = 10.0


@dataclass(slots=True)
class _Charge:
    period: float
    activity: Activity = Activity.IDLE
    since: float = float("-inf")
    wanted_later: bool = False


class EventMachine:
    """The machine over all modules, without input and output: stimuli in, names of modules that must run out.

    ``periods`` (seconds, by module) say after how long a module is told to run even without an event. Moments are
    seconds on any one axis.
    """

    def __init__(self, periods: Mapping[str, float]) -> None:
        self._charges = {name: _Charge(period) for name, period in periods.items()}

    def begin(self, moment: float) -> list[str]:
        """Start again: earlier events do not count, and every module is told to run."""
        self._charges = {name: _Charge(charge.period) for name, charge in self._charges.items()}
        return self.stimulate([(name, Stimulus.WANTED) for name in self._charges], moment)

    def stimulate(self, stimuli: Iterable[tuple[str, Stimulus]], moment: float) -> list[str]:
        """Advance by events, repeats dropped; return the modules that are to be told to run, once each."""
        due: set[str] = set()
        for name, stimulus in dict.fromkeys(stimuli):
            charge = self._charges.get(name)
            if charge is None:
                continue
            if stimulus is Stimulus.WANTED and name in PATIENT and moment - charge.since < PATIENCE:
                charge.wanted_later = True
                continue
            step = TABLE[charge.activity, stimulus]
            charge.activity = step.target
            if step.tell:
                charge.since = moment
                charge.wanted_later = False
                due.add(name)
        return sorted(due)

    def overdue(self, moment: float) -> list[str]:
        """Advance by the passing of time alone; return the modules that are to be told to run."""
        late = [
            (name, Stimulus.OVERDUE)
            for name, charge in self._charges.items()
            if moment - charge.since >= (min(charge.period, PATIENCE) if charge.wanted_later else charge.period)
        ]
        return self.stimulate(late, moment)


class Automaton:
    """The automaton as a module: the holder of its lock receives the events and makes modules run."""

    name = "automaton"
    period = 0.5

    def __init__(self, configuration: Configuration) -> None:
        told = [name for name in enabled_modules(configuration) if name in REACTING]
        periods = configuration.modules
        self._machine = EventMachine({name: getattr(periods, name, _PERIOD_OF_OTHERS) for name in told})
        self._ear: notifications.Ear | None = None
        self._listening_on: Connection | None = None

    def files(self) -> Sequence[int]:
        """Return the connection that hears events."""
        return [self._ear.fileno()] if self._ear else []

    def run_once(self, connection: Connection, now: datetime) -> Outcome:
        """Take the events, and tell the modules that they concern to run."""
        names: list[str] = []
        if self._listening_on is not connection:
            self._ear = notifications.Ear(connection, notifications.EVENTS)
            self._listening_on = connection
            names = self._machine.begin(time.monotonic())
        assert self._ear is not None
        self._ear.listen()
        names += self._machine.stimulate(_stimuli(self._ear.drain()), time.monotonic())
        names += self._machine.overdue(time.monotonic())
        for name in dict.fromkeys(names):
            notifications.tell(connection, name)
        return Outcome(word="")


def _stimuli(heard: Iterable[str]) -> Iterable[tuple[str, Stimulus]]:
    for payload in heard:
        if payload.startswith("done "):
            yield payload.removeprefix("done "), Stimulus.DONE
        for name in REACTIONS.get(payload, ()):
            yield name, Stimulus.WANTED
