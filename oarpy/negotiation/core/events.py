"""The events of applications and the messages to them; a list of these is in the order of their occurrence."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from oarpy.model.states import NegotiationState
from oarpy.negotiation.free_groups import FreeGroups
from oarpy.negotiation.profiles import BusyHosts, Time


class StateMove(NamedTuple):
    """An application has another state."""

    application: int
    state: NegotiationState


class ViewChange(NamedTuple):
    """The clusters of its view that changed for an application, with their new profiles, and groups if it has these."""

    application: int
    serial: int
    changes: Mapping[str, BusyHosts]
    groups: Mapping[str, FreeGroups] = MappingProxyType({})


class EstimatedStart(NamedTuple):
    """When an application that waits will start with the request of this tag."""

    application: int
    tag: int | str
    start: Time


class GivenHosts(NamedTuple):
    """An application starts with the request of this tag, on these numbers of hosts."""

    application: int
    tag: int | str
    hosts: Mapping[str, int]


Event = StateMove | ViewChange | EstimatedStart | GivenHosts
