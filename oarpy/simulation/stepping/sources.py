"""The sources of stepped runs: a scenario or a trace, with the choices that it offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from oarpy.simulation.stepping.stepped_run import SteppedRun

Choices = Mapping[str, str]
"""Values by the keys of choices; a missing key means the value of the file."""


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
        """The name of the scenario."""

    @property
    def system(self) -> str:
        """The system that it is about."""

    @property
    def text(self) -> str | None:
        """The text that can be edited, None if there is none."""

    def choices(self) -> Sequence[Choice]:
        """Return the choices."""

    def start(self, choices: Choices) -> SteppedRun:
        """Return the run with some choices, before its first event."""

    def jobs(self) -> Sequence[Mapping[str, Any]]:
        """Return the facts known about jobs beforehand: ``id``, ``submit``, ``estimate``, ``procs`` and more."""

    def edited(self, text: str) -> Source:
        """Return the same with another text."""
