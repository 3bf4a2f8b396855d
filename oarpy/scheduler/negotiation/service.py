"""A pass over applications in line: each has its turn, by rank; then starts and views are told.

``Service`` is driven turn by turn, because on a cluster batch jobs have their turns in between.
"""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.model.states import NegotiationState
from oarpy.negotiation.profiles import BusyHosts, Time, Visits
from oarpy.scheduler.negotiation.applications import Application, NegotiationRules
from oarpy.scheduler.negotiation.events import EstimatedStart, Event, GivenHosts, StateMove, ViewChange
from oarpy.scheduler.negotiation.ghosts import Ghost, make_ghost
from oarpy.scheduler.negotiation.occupation import HostOccupation


def renew_ghosts(
    ghosts: Sequence[Ghost],
    ended: Sequence[Application],
    line: Sequence[Application],
    rules: NegotiationRules,
    now: Time,
) -> tuple[list[Ghost], list[Ghost], list[Event]]:
    """Make the ghosts of those that ended, and end ghosts; return those that stay, those that are over, and events."""
    events: list[Event] = []
    made = []
    for application in sorted(ended, key=lambda one: one.id):
        application.move(NegotiationState.GHOST)
        events.append(StateMove(application.id, application.state))
        made.append(make_ghost(application, line, rules, now))
    stay: list[Ghost] = []
    over: list[Ghost] = []
    for ghost in (*ghosts, *made):
        (over if ghost.over(rules, now) else stay).append(ghost)
    for ghost in sorted(over, key=lambda one: one.of.id):
        ghost.of.move(NegotiationState.FINISHED)
        events.append(StateMove(ghost.of.id, ghost.of.state))
    return stay, over, events


class Service:
    """One pass at instant ``now`` over an occupation that holds what has started; ``ghosts`` are those that stay."""

    def __init__(
        self, occupation: HostOccupation, ghosts: Sequence[Ghost], rules: NegotiationRules, now: Time, visits: Visits
    ) -> None:
        self._occupation, self._rules, self._now, self._visits = occupation, rules, now, visits
        self._ghosts = ghosts
        self._unseen = sorted(ghosts, key=lambda ghost: (ghost.made, ghost.of.id))
        self._line: list[Application] = []
        self._views: list[dict[str, BusyHosts]] = []
        self._events: list[Event] = []
        if rules.ghosts == "always":
            self._show(self._unseen)

    def turn(self, application: Application) -> None:
        """Give an application its view and its place; call it by rank."""
        self._show([ghost for ghost in self._unseen if application.id in ghost.viewers])
        self._line.append(application)
        self._views.append(self._occupation.view(application.clusters))
        application.start = self._occupation.place(application)
        if application.start == self._now:
            self._occupation.give_way(self._unseen)
        if application.state is not NegotiationState.WAITING:
            self._move(application, NegotiationState.WAITING)

    def close(self) -> list[Event]:
        """End the turns: start who can, send views and estimates; return what happened."""
        self._show(self._unseen)
        started = [one for one in self._line if one.start == self._now]
        for application in started:
            self._move(application, NegotiationState.STARTED)
            asked = application.asked
            self._events.append(GivenHosts(application.id, asked.tag, asked.hosts))
        self._add_started_behind()
        for application, view in zip(self._line, self._views, strict=True):
            if application.state is NegotiationState.WAITING:
                self._tell(application, view)
        waiting = {one.id for one in self._line if one.state is NegotiationState.WAITING}
        for ghost in self._ghosts:
            ghost.viewers = {one: serial for one, serial in ghost.viewers.items() if serial and one in waiting}
        return self._events

    def _show(self, ghosts: Sequence[Ghost]) -> None:
        """Add ghosts to the occupation: everybody sees them from here on."""
        for ghost in ghosts:
            self._occupation.keep(ghost)
        self._unseen = [ghost for ghost in self._unseen if ghost not in ghosts]

    def _move(self, application: Application, state: NegotiationState) -> None:
        application.move(state)
        self._events.append(StateMove(application.id, state))

    def _add_started_behind(self) -> None:
        """Add what started to the views of those ahead of it."""
        behind: list[Application] = []
        for application, view in zip(reversed(self._line), reversed(self._views), strict=True):
            for one in behind:
                for cluster in one.asked.hosts.keys() & view.keys():
                    number, end = one.asked.hosts[cluster], one.releases(self._rules)
                    view[cluster] = view[cluster].added(self._now, end, number, self._visits)
            if application.state is NegotiationState.STARTED:
                behind.append(application)

    def _tell(self, application: Application, view: dict[str, BusyHosts]) -> None:
        """Send a view that is not the same as the last one, and an estimate if it is another one."""
        shown = application.shown
        changes = {cluster: profile for cluster, profile in view.items() if not profile.same(shown[cluster], self._now)}
        if changes:
            application.shown = view
            application.serial += 1
            self._events.append(ViewChange(application.id, application.serial, changes))
            for ghost in self._ghosts:
                if ghost.viewers.get(application.id) == 0 and not ghost.hosts.keys().isdisjoint(changes):
                    ghost.viewers[application.id] = application.serial
        assert application.start is not None
        told = application.asked.tag, application.start
        if told != application.told:
            application.told = told
            self._events.append(EstimatedStart(application.id, *told))
