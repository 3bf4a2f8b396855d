"""The input of a run: a platform, rules, and applications with their future actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from oarpy.negotiation.core.applications import NegotiationRules
from oarpy.negotiation.launchers import ApplicationLauncher
from oarpy.negotiation.profiles import Time


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """A request that is sent ``after`` so long from arrival, whatever the views show."""

    after: Time
    hosts: Mapping[str, int]
    walltime: Time


@dataclass(frozen=True, slots=True)
class Participant:
    """An application of a run: when it comes, and either a launcher or a script that speaks for it.

    ``delay`` is the time from a view to the launcher's answer. ``lasts`` is how long it runs; None for as long as the
    launcher says, or up to the walltime.
    """

    id: int
    arrives: Time
    clusters: tuple[str, ...]
    delay: Time = 0
    lasts: Time | None = None
    launcher: ApplicationLauncher | None = None
    script: tuple[ScriptedRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """All of a run. ``sizes`` are the hosts of each cluster; a second has ``ticks`` units of time."""

    sizes: Mapping[str, int]
    participants: tuple[Participant, ...]
    rules: NegotiationRules = field(default_factory=NegotiationRules)
    timer: Time = 1
    ticks: int = 1


def whole(time: Time) -> Time:
    """Return the same time, as an integer if it is whole: integers are fast."""
    return time.numerator if isinstance(time, Fraction) and time.denominator == 1 else time
