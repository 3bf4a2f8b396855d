"""The parts of the launcher, which a round calls in the order of a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from oarpy.modules.launcher.channels import Channels
from oarpy.store.database import Connection
from oarpy.store.jobs.execution import Agenda, LiveRow
from oarpy.wire.messages import Report

Hears = dict[type[Report], Callable[[str, Any], None]]
"""The handlers of a part: by kind of report, a function of the name of a node and its report."""


@dataclass(slots=True)
class Round:
    """One round: where parts write, the channels to nodes, and the results so far."""

    connection: Connection
    channels: Channels
    now: float
    """When it began, in epoch seconds."""
    attention: Sequence[LiveRow] = ()
    """The jobs about which something is to be done; known once every part has recorded its reports."""
    started: list[int] = field(default_factory=list)
    """Jobs that were claimed."""
    ended: list[int] = field(default_factory=list)
    """Jobs whose end a node has reported."""


class Part:
    """One subject of the launcher. A part overrides the methods that concern it; the others do nothing.

    Its memory only saves repetitions: a part that forgets everything repeats its messages to nodes.
    """

    def hears(self) -> Hears:
        """Return the method for each kind of report that it hears; such a method takes a note and does no more."""
        return {}

    def begin(self, connection: Connection) -> None:
        """Prepare, before the first channel opens."""

    def record(self, turn: Round) -> None:
        """Write down its reports, before anything is begun."""

    def looks(self) -> bool:
        """Tell whether the part needs the live jobs even if the database has no work for the launcher."""
        return False

    def act(self, turn: Round, agenda: Agenda) -> None:
        """Do the work on the agenda, and send messages to nodes."""

    def wait(self) -> float:
        """Return the seconds after which it wants the next round."""
        return math.inf

    def files(self) -> Sequence[int]:
        """Return descriptors that are readable when it wants a round."""
        return ()

    def close(self) -> None:
        """Close its files and programs; jobs go on."""
