"""The state of an application that negotiates, and the rules that hold for all applications."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from oarpy.model.setting_values import GhostRule, RankRule
from oarpy.model.states import IN_LINE_STATES, NEGOTIATION_ALLOWED, NegotiationState
from oarpy.negotiation.free_groups import FreeGroups
from oarpy.negotiation.profiles import BusyHosts, Time


@dataclass(frozen=True, slots=True)
class NegotiationRules:
    """Settings of the negotiation. ``fair_start`` and ``security`` are durations, ``most`` is how many are in line."""

    fair_start: Time = 5
    security: Time = 0
    ghosts: GhostRule = "needed"
    rank: RankRule = "first-request"
    most: int = 200


@dataclass(frozen=True, slots=True)
class CountedRequest:
    """Numbers of hosts on clusters, the walltime, and the name that the launcher gave the request."""

    hosts: Mapping[str, int]
    walltime: Time
    tag: int | str


class ApplicationView(NamedTuple):
    """The hosts that an application cannot have, by cluster, and the hosts free throughout, if it asks for these."""

    profiles: dict[str, BusyHosts]
    groups: Mapping[str, FreeGroups] = MappingProxyType({})


@dataclass(slots=True, eq=False)
class Application:
    """An application: its identity, its request, and the messages sent to it.

    ``ranked`` is the instant that ranks it, None before there is one. ``answers`` says whether its launcher answers
    views. ``start`` is planned in state Waiting, and a fact from Started on. ``shown`` and ``groups`` are the view that
    it was sent, with message ``serial`` as the last. ``told`` are the tag and the start of the last estimate.
    """

    id: int
    clusters: tuple[str, ...]
    answers: bool = True
    ranked: Time | None = None
    state: NegotiationState = NegotiationState.SUBMITTED
    request: CountedRequest | None = None
    start: Time | None = None
    serial: int = 0
    shown: dict[str, BusyHosts] = field(default_factory=dict)
    groups: Mapping[str, FreeGroups] = field(default_factory=dict)
    told: tuple[int | str, Time] | None = None

    def move(self, state: NegotiationState) -> None:
        """Change the state. Raises ``ValueError`` for a move that is not allowed."""
        if (self.state, state) not in NEGOTIATION_ALLOWED:
            raise ValueError(f"application {self.id} cannot move from {self.state} to {state}")
        self.state = state

    def end(self) -> None:
        """Note that it is over; only a started application leaves hosts behind."""
        if self.state is not NegotiationState.STARTED:
            self.start = None
        self.move(NegotiationState.FINISH_SENT)

    @property
    def asked(self) -> CountedRequest:
        """The request. There is one from RequestSent on."""
        assert self.request is not None
        return self.request

    def ask(self, request: CountedRequest, now: Time) -> bool:
        """Take a request, in place of the one before; return whether the state has changed."""
        moved = self.state is not NegotiationState.REQUEST_SENT
        if moved:
            self.move(NegotiationState.REQUEST_SENT)
        self.request = request
        self.ranked = now if self.ranked is None else self.ranked
        return moved

    def releases(self, rules: NegotiationRules) -> Time:
        """Return the instant up to which a started application occupies its hosts."""
        assert self.start is not None
        return self.start + self.asked.walltime + rules.security


def in_line(applications: Iterable[Application], most: int) -> list[Application]:
    """Return the first ``most`` applications in line, by rank."""
    asking = [application for application in applications if application.state in IN_LINE_STATES]
    return sorted(asking, key=lambda application: (application.ranked, application.id))[:most]
