"""The applications in line for a pass, and the hosts that are kept back for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oarpy.model.reasons import Reason
from oarpy.model.setting_values import GhostRule
from oarpy.negotiation.core.clusters import HOST, HostCluster
from oarpy.scheduler.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class NegotiatingJob:
    """An application in line: the instant that ranks it, its request, and the messages last sent to it.

    ``shown`` has the profiles that were sent, and ``groups`` the groups of hosts free throughout, if it wants these
    (``exact``). ``told`` are the tag and the start of the last estimate. ``answers`` is true if its launcher is there.
    It counts hosts, or blocks of another ``level``.
    """

    id: int
    state: str
    ranked: float
    clusters: tuple[str, ...]
    hosts: Mapping[str, int]
    walltime: float
    tag: int | str
    serial: int = 0
    shown: Mapping[str, Sequence[float]] = field(default_factory=dict)
    told: tuple[int | str, float] | None = None
    answers: bool = True
    level: str = HOST
    exact: bool = False
    groups: Mapping[str, Sequence[Sequence[Any]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KeptHosts:
    """Resources (``bits``) that job ``of`` has freed, kept back from ``made`` to ``latest_end``.

    ``viewers`` are the applications that owe an answer, each with the number of the view that showed it to them, 0
    before it was sent.
    """

    of: int
    bits: int
    made: float
    latest_end: float
    viewers: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FreedHosts:
    """Resources (``bits``) that job ``of`` has freed since the last pass, and until when it might have kept them."""

    of: int
    bits: int
    end: float


@dataclass(frozen=True, slots=True)
class KeptPlace:
    """The decision of the last pass for applications about one of them, from its placement."""

    verdict: Verdict
    reason: Reason
    start: float | None = None
    end: float | None = None
    bits: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """The applications in line, the clusters that they choose from, and the hosts kept back for them.

    A pass that is not ``telling`` is for batch jobs alone. Applications keep their ``places`` (by job). Hosts kept back
    for them stay unused until the next pass that tells, at ``next_telling``. ``fair_start`` is in seconds.
    """

    line: tuple[NegotiatingJob, ...]
    clusters: tuple[HostCluster, ...]
    view_steps: int = 1000
    ghosts: tuple[KeptHosts, ...] = ()
    freed: tuple[FreedHosts, ...] = ()
    rule: GhostRule = "needed"
    fair_start: float = 0
    telling: bool = True
    next_telling: float = 0
    places: Mapping[int, KeptPlace] = field(default_factory=dict)
