"""A pass over applications in line: each has its turn, by rank; then starts and views are sent.

``Service`` is driven turn by turn, because on a cluster batch jobs have their turns in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from oarpy.model.states import NegotiationState
from oarpy.negotiation.core.applications import Application, ApplicationView, NegotiationRules
from oarpy.negotiation.core.events import EstimatedStart, Event, GivenHosts, StateMove, ViewChange
from oarpy.negotiation.core.ghosts import Ghost, make_ghost
from oarpy.negotiation.core.occupation import HostOccupation, Look
from oarpy.negotiation.free_groups import FreeGroups
from oarpy.negotiation.profiles import BusyHosts, Time

Seen = TypeVar("Seen", BusyHosts, FreeGroups)
"""The form in which an application sees a cluster."""


def renew_ghosts(
    ghosts: Sequence[Ghost],
    ended: Sequence[Application],
    line: Sequence[Application],
    rules: NegotiationRules,
    now: Time,
) -> tuple[list[Ghost], list[Ghost], list[Event]]:
    """Make the ghosts of ended applications, and end ghosts; return the ghosts that stay, those over, and events."""
    events: list[Event] = []
    new = []
    for application in sorted(ended, key=lambda application: application.id):
        application.move(NegotiationState.GHOST)
        events.append(StateMove(application.id, application.state))
        new.append(make_ghost(application, line, rules, now))
    stay: list[Ghost] = []
    over: list[Ghost] = []
    for ghost in (*ghosts, *new):
        (over if ghost.over(rules, now) else stay).append(ghost)
    for ghost in sorted(over, key=lambda ghost: ghost.of.id):
        ghost.of.move(NegotiationState.FINISHED)
        events.append(StateMove(ghost.of.id, ghost.of.state))
    return stay, over, events


class Service(Generic[Look]):
    """One pass at ``now`` over an occupation that holds all started jobs; ``ghosts`` are those that stay."""

    def __init__(
        self, occupation: HostOccupation[Look], ghosts: Sequence[Ghost], rules: NegotiationRules, now: Time
    ) -> None:
        self._occupation, self._rules, self._now = occupation, rules, now
        self._ghosts = ghosts
        self._unseen = sorted(ghosts, key=lambda ghost: (ghost.made, ghost.of.id))
        self._line: list[Application] = []
        self._looks: list[Look] = []
        self._events: list[Event] = []
        if rules.ghosts == "always":
            self._show(self._unseen)

    def turn(self, application: Application) -> None:
        """Give an application its view and its place; call it by rank."""
        if self._unseen:
            self._show([ghost for ghost in self._unseen if application.id in ghost.viewers])
        self._line.append(application)
        self._looks.append(self._occupation.look(application))
        application.start = self._occupation.place(application)
        if application.start == self._now:
            self._occupation.give_way(self._unseen)
        if application.state is not NegotiationState.WAITING:
            self._move(application, NegotiationState.WAITING)

    def give_way(self) -> None:
        """Let ghosts that no application has seen give way: a batch job has started."""
        self._occupation.give_way(self._unseen)

    def close(self) -> list[Event]:
        """End the turns: start the applications that can, send views and estimates; return the events."""
        self._show(self._unseen)
        started = [application for application in self._line if application.start == self._now]
        for application in started:
            self._move(application, NegotiationState.STARTED)
            request = application.asked
            self._events.append(GivenHosts(application.id, request.tag, request.hosts))
        for application, view in self._views():
            self._tell(application, view)
        waiting = {application.id for application in self._line if application.state is NegotiationState.WAITING}
        for ghost in self._ghosts:
            ghost.viewers = {viewer: serial for viewer, serial in ghost.viewers.items() if serial and viewer in waiting}
        return self._events

    def _show(self, ghosts: Sequence[Ghost]) -> None:
        """Add ghosts to the occupation: every application sees them from here on."""
        for ghost in ghosts:
            self._occupation.keep(ghost)
        self._unseen = [ghost for ghost in self._unseen if ghost not in ghosts]

    def _move(self, application: Application, state: NegotiationState) -> None:
        application.move(state)
        self._events.append(StateMove(application.id, state))

    def _views(self) -> list[tuple[Application, ApplicationView]]:
        """Return the waiting applications by rank, each with its view, which includes the starts behind it."""
        views: list[tuple[Application, ApplicationView]] = []
        behind: list[Application] = []
        for application, look in zip(reversed(self._line), reversed(self._looks), strict=True):
            if application.state is NegotiationState.STARTED:
                behind.append(application)
            else:
                views.append((application, self._occupation.view(application, look, behind)))
        return views[::-1]

    def _tell(self, application: Application, view: ApplicationView) -> None:
        """Send a view that differs from the last one, and an estimate that differs from the last one."""
        changes = _changed(view.profiles, application.shown, self._now)
        groups = _changed(view.groups, application.groups, self._now) if view.groups else view.groups
        if changes or groups:
            application.shown, application.groups = view.profiles, view.groups
            application.serial += 1
            self._events.append(ViewChange(application.id, application.serial, changes, groups))
            named = {*changes, *groups}
            for ghost in self._ghosts:
                if ghost.viewers.get(application.id) == 0 and not ghost.hosts.keys().isdisjoint(named):
                    ghost.viewers[application.id] = application.serial
        assert application.start is not None
        estimate = application.asked.tag, application.start
        if estimate != application.told:
            application.told = estimate
            self._events.append(EstimatedStart(application.id, *estimate))


def _changed(seen: Mapping[str, Seen], shown: Mapping[str, Seen], now: Time) -> dict[str, Seen]:
    """Return the present state of the clusters whose state at ``now`` differs from the one shown last."""
    return {
        cluster: state
        for cluster, state in seen.items()
        if (before := shown.get(cluster)) is not state and (before is None or not state.same(before, now))
    }
