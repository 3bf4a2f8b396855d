"""What is stepped through: a scenario or a trace, and what may be chosen about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from oarpy.simulation.stepping.stepped_run import SteppedRun

Choices = Mapping[str, str]
"""Values by the keys of choices; what is not there is as in the file."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Something that may be chosen: an order, an operation, a policy, a predictor. ``value`` is that of the file."""

    key: str
    label: str
    values: Sequence[str]
    value: str


class Source(Protocol):
    """A scenario or a trace. Each method raises :class:`UsageError` for choices or a text that cannot be meant."""

    @property
    def name(self) -> str:
        """What the scenario is called."""

    @property
    def system(self) -> str:
        """The system that it is about."""

    @property
    def text(self) -> str | None:
        """What can be edited, None where nothing can."""

    def choices(self) -> Sequence[Choice]:
        """Return what may be chosen."""

    def start(self, choices: Choices) -> SteppedRun:
        """Return the run with some choices, before its first event."""

    def jobs(self) -> Sequence[Mapping[str, Any]]:
        """Return what is known of the jobs beforehand: ``id``, ``submit``, ``estimate``, ``procs`` and more."""

    def edited(self, text: str) -> Source:
        """Return the same with another text."""
