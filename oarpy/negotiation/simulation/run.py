"""Virtual time: the actions due at an instant run in order of id, then a pass, until nothing is due any more."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from heapq import heappop, heappush
from time import process_time
from typing import Any

from oarpy.model.states import IN_LINE_STATES, NegotiationState
from oarpy.negotiation.core.applications import Application, CountedRequest
from oarpy.negotiation.core.events import Event, GivenHosts, ViewChange
from oarpy.negotiation.profiles import BusyHosts, Time
from oarpy.negotiation.simulation.server import CountedServer
from oarpy.negotiation.simulation.workload import Participant, ScriptedRequest, Workload, whole

_WRONG_MOMENT = 1

Listener = Callable[[Time, int, Event | Mapping[str, Any]], None]
"""The listener: it is called with the instant, the application, and an event or the fields of a message."""


class _Turn(IntEnum):
    """The order of the actions of one application at an instant."""

    SUBSCRIBE = 0
    SPEAK = 1
    END = 2


@dataclass(frozen=True, slots=True)
class Totals:
    """The cost of a run. ``waste`` is in hosts times units of time, ``seconds`` are of this machine's processor."""

    bytes: int
    waste: Time
    passes: int
    configurations: Mapping[int, int]
    rms_operations: int
    application_operations: int
    seconds: float
    ends: Mapping[int, Time]


@dataclass(slots=True, eq=False)
class _Speaker:
    """A participant while it runs: its application, the number of its requests, and its unanswered views."""

    participant: Participant
    application: Application
    tags: int = 0


class NegotiationRun:
    """A run of a workload; ``listener`` gets its events."""

    def __init__(self, workload: Workload, listener: Listener | None = None) -> None:
        self._workload, self._listener = workload, listener
        self._server = CountedServer(workload.sizes, workload.rules, workload.timer)
        self._due: list[tuple[Time, int, _Turn, int, Callable[[Time], None]]] = []
        self._numbers = 0
        self._speakers: dict[int, _Speaker] = {}
        self._bytes = 0
        self._ends: dict[int, Time] = {}

    def run(self) -> Totals:
        """Run until nothing is due any more."""
        began = process_time()
        for participant in self._workload.participants:
            self._expect(participant)
        while (now := self._next()) is not None:
            while self._due and self._due[0][0] == now:
                heappop(self._due)[-1](now)
            if self._server.next_pass() == now:
                self._hear(self._server.run_pass(now), now)
        launchers = {participant.id: participant.launcher for participant in self._workload.participants}
        return Totals(
            bytes=self._bytes,
            waste=self._server.waste,
            passes=self._server.passes,
            configurations={
                application: launcher.configurations if launcher else 0 for application, launcher in launchers.items()
            },
            rms_operations=self._server.visits.steps,
            application_operations=sum(launcher.visits.steps for launcher in launchers.values() if launcher),
            seconds=process_time() - began,
            ends=self._ends,
        )

    def _next(self) -> Time | None:
        """Return the next instant at which something is due."""
        instants = [self._due[0][0]] if self._due else []
        due = self._server.next_pass()
        return min(instants if due is None else [*instants, due], default=None)

    def _schedule(self, instant: Time, application: int, turn: _Turn, action: Callable[[Time], None]) -> None:
        self._numbers += 1
        heappush(self._due, (instant, application, turn, self._numbers, action))

    def _expect(self, participant: Participant) -> None:
        """Schedule the arrival of a participant, and the messages of its script."""
        answers = participant.launcher is not None
        speaker = _Speaker(participant, Application(participant.id, participant.clusters, answers))
        self._speakers[participant.id] = speaker
        self._schedule(participant.arrives, participant.id, _Turn.SUBSCRIBE, partial(self._subscribe, speaker))
        for scripted in participant.script:
            instant = participant.arrives + scripted.after
            self._schedule(instant, participant.id, _Turn.SPEAK, partial(self._follow, speaker, scripted))

    def _subscribe(self, speaker: _Speaker, now: Time) -> None:
        self._tell(now, speaker.application.id, {"message": "subscribe"})
        self._hear(self._server.subscribe(speaker.application, now), now)

    def _follow(self, speaker: _Speaker, scripted: ScriptedRequest, now: Time) -> None:
        """Send a request of a script; after the start it is refused."""
        if speaker.application.state in IN_LINE_STATES or speaker.application.state is NegotiationState.SUBMITTED:
            self._request(speaker, scripted.hosts, scripted.walltime, 0, now)
        else:
            refused = {"message": "refused", "of": "request", "code": _WRONG_MOMENT}
            self._tell(now, speaker.application.id, refused)

    def _answer(self, speaker: _Speaker, view: Mapping[str, BusyHosts], serial: int, now: Time) -> None:
        """Have the launcher answer a view, unless the application has started since."""
        application, launcher = speaker.application, speaker.participant.launcher
        if application.state not in IN_LINE_STATES and application.state is not NegotiationState.SUBMITTED:
            return
        assert launcher is not None
        choice, present = launcher.choose(view, now), application.request
        if choice is None or (present and (present.hosts, present.walltime) == (choice.hosts, choice.walltime)):
            self._tell(now, application.id, {"message": "keep", "serial": serial})
            self._server.keep(application, serial, now)
        else:
            self._request(speaker, choice.hosts, whole(choice.walltime), serial, now)

    def _request(self, speaker: _Speaker, hosts: Mapping[str, int], walltime: Time, serial: int, now: Time) -> None:
        speaker.tags += 1
        message = {"message": "request", "tag": speaker.tags, "hosts": hosts, "walltime": walltime}
        self._tell(now, speaker.application.id, message | ({"serial": serial} if serial else {}))
        self._bytes += 4 + 5 * len(hosts)
        request = CountedRequest(hosts, walltime, speaker.tags)
        self._hear(self._server.request(speaker.application, request, serial, now), now)

    def _end(self, speaker: _Speaker, reason: str, now: Time) -> None:
        application = speaker.application
        if reason == "done":
            self._tell(now, application.id, {"message": "done"})
        self._ends[application.id] = now
        self._hear(self._server.end(application, now), now)
        self._tell(now, application.id, {"message": "ended", "reason": reason})

    def _tell(self, now: Time, application: int, what: Event | Mapping[str, Any]) -> None:
        if self._listener is not None:
            self._listener(now, application, what)

    def _hear(self, events: list[Event], now: Time) -> None:
        """Pass on events of the server, and let applications react to their messages."""
        for event in events:
            self._tell(now, event.application, event)
            speaker = self._speakers[event.application]
            if isinstance(event, ViewChange):
                self._bytes += sum(1 + 8 * _steps(profile, now) for profile in event.changes.values())
                self._read(speaker, event.serial, now)
            elif isinstance(event, GivenHosts):
                self._schedule_end(speaker, now)

    def _read(self, speaker: _Speaker, serial: int, now: Time) -> None:
        """Have the launcher, if there is one, answer the view that it was sent now."""
        if speaker.participant.launcher is not None:
            view, instant = speaker.application.shown, now + speaker.participant.delay
            answer = partial(self._answer, speaker, view, serial)
            self._schedule(instant, speaker.application.id, _Turn.SPEAK, answer)

    def _schedule_end(self, speaker: _Speaker, now: Time) -> None:
        request, lasts, launcher = speaker.application.asked, speaker.participant.lasts, speaker.participant.launcher
        if lasts is None:
            lasts = launcher.run_time(request.hosts) if launcher else request.walltime
        reason = "done" if lasts <= request.walltime else "walltime"
        instant = now + min(lasts, request.walltime)
        self._schedule(instant, speaker.application.id, _Turn.END, partial(self._end, speaker, reason))


def _steps(profile: BusyHosts, now: Time) -> int:
    return len(profile.ends) - bisect_right(profile.ends, now)
