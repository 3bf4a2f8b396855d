"""The server of applications that negotiate, on counted hosts: its inputs, and the times of its passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from oarpy.model.states import NegotiationState
from oarpy.negotiation.core.applications import Application, CountedRequest, NegotiationRules, in_line
from oarpy.negotiation.core.events import Event, StateMove, ViewChange
from oarpy.negotiation.core.ghosts import Ghost, settle
from oarpy.negotiation.core.occupation import CountedOccupation, KnownPlaces
from oarpy.negotiation.core.service import Service, renew_ghosts
from oarpy.negotiation.profiles import BusyHosts, Time, Visits

EndReason = Literal["done", "walltime"]


class CountedServer:
    """Serves applications on clusters of ``sizes`` hosts, with at least ``timer`` between two passes.

    Each message of an application is a method; it returns the events that follow at once. ``waste`` is in hosts times
    time.
    """

    def __init__(self, sizes: Mapping[str, int], rules: NegotiationRules, timer: Time) -> None:
        self.visits = Visits()
        self.passes = 0
        self.waste: Time = 0
        self._sizes, self._rules, self._timer = sizes, rules, timer
        self._applications: dict[int, Application] = {}
        self._ghosts: list[Ghost] = []
        self._occupied = {cluster: BusyHosts() for cluster in sizes}
        self._known = KnownPlaces(sizes)
        self._last_pass: Time | None = None
        self._noted: Time | None = None
        self._planned: Time | None = None

    def subscribe(self, application: Application, now: Time) -> list[Event]:
        """Take in an application, and show it the view of the last-ranked application."""
        if self._rules.rank == "submission":
            application.ranked = now
        self._applications[application.id] = application
        application.shown = {cluster: self._occupied[cluster] for cluster in application.clusters}
        application.serial = 1
        return [
            StateMove(application.id, application.state),
            ViewChange(application.id, application.serial, application.shown),
        ]

    def request(self, application: Application, request: CountedRequest, serial: int, now: Time) -> list[Event]:
        """Take a request, which answers view ``serial`` and earlier views (0: none)."""
        settle(self._ghosts, application.id, serial)
        self._note(now)
        return [StateMove(application.id, application.state)] if application.ask(request, now) else []

    def keep(self, application: Application, serial: int, now: Time) -> None:
        """Take the answer that the present request stays."""
        if settle(self._ghosts, application.id, serial):
            self._note(now)

    def end(self, application: Application, now: Time) -> list[Event]:
        """Note that an application is over."""
        application.end()
        self._note(now)
        return [StateMove(application.id, application.state)]

    def next_pass(self) -> Time | None:
        """Return when the next pass is due, None if none is needed."""
        events = [instant for instant in (self._noted, self._planned) if instant is not None]
        if not events:
            return None
        first = min(events)
        return first if self._last_pass is None else max(first, self._last_pass + self._timer)

    def run_pass(self, now: Time) -> list[Event]:
        """Run a pass, and return its events."""
        everybody = self._applications.values()
        line = in_line(everybody, self._rules.most)
        ended = [application for application in everybody if application.state is NegotiationState.FINISH_SENT]
        self._ghosts, over, events = renew_ghosts(self._ghosts, ended, line, self._rules, now)
        for ghost in over:
            self._count(ghost, ghost.hosts, now)
            del self._applications[ghost.of.id]
            self._known.forget(ghost.of)
        started = [application for application in everybody if application.state is NegotiationState.STARTED]
        held = [(ghost, dict(ghost.hosts)) for ghost in self._ghosts]
        occupation = CountedOccupation(self._sizes, started, self._ghosts, self._rules, now, self.visits, self._known)
        service = Service(occupation, self._ghosts, self._rules, now)
        for application in line:
            service.turn(application)
        events += service.close()
        for ghost, before in held:
            self._count(ghost, {cluster: hosts - ghost.hosts.get(cluster, 0) for cluster, hosts in before.items()}, now)
        self._occupied = occupation.profiles
        self._plan(now)
        return events

    def _note(self, now: Time) -> None:
        """Remember the first event since the last pass."""
        if self._noted is None:
            self._noted = now

    def _count(self, ghost: Ghost, hosts: Mapping[str, int], now: Time) -> None:
        """Count as waste the hosts that a ghost had up to now."""
        self.waste += sum(hosts.values()) * (now - ghost.made)

    def _plan(self, now: Time) -> None:
        """Find the reason and the instant of the next pass."""
        unwanted = self._rules.ghosts == "needed" and any(not ghost.viewers for ghost in self._ghosts)
        self._noted = now if unwanted else None
        waiting = [
            application for application in self._applications.values() if application.state is NegotiationState.WAITING
        ]
        planned = [application.start for application in waiting if application.start is not None]
        instants = (*planned, *(ghost.latest_end for ghost in self._ghosts))
        self._planned = min((instant for instant in instants if instant > now), default=None)
        self._last_pass = now
        self.passes += 1
