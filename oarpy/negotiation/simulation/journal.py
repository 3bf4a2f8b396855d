"""The events of a run, as JSON objects, one a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TextIO

from oarpy.negotiation.core.events import EstimatedStart, Event, GivenHosts, StateMove, ViewChange
from oarpy.negotiation.profiles import BusyHosts, Time
from oarpy.negotiation.simulation.run import Totals

_DECIMALS = 9


class Journal:
    """Writes lines to ``out``; a second has ``ticks`` units of time."""

    def __init__(self, out: TextIO, ticks: int) -> None:
        self._out, self._ticks = out, ticks

    def note(self, now: Time, application: int, what: Event | Mapping[str, Any]) -> None:
        """Write an event of an application."""
        fields = self._fields(what, now)
        self._write({"t": self._seconds(now), "app": application, **fields})

    def total(self, totals: Totals) -> None:
        """Write the last line."""
        operations = totals.rms_operations + totals.application_operations
        self._write(
            {
                "totals": {
                    "bytes": totals.bytes,
                    "waste": self._seconds(totals.waste),
                    "passes": totals.passes,
                    "unique_configurations": sum(totals.configurations.values()),
                    "configurations": {
                        str(application): number for application, number in totals.configurations.items()
                    },
                    "rms_operations": totals.rms_operations,
                    "application_operations": totals.application_operations,
                    "operations": operations,
                    "seconds": totals.seconds,
                }
            }
        )

    def _fields(self, what: Event | Mapping[str, Any], now: Time) -> dict[str, Any]:
        match what:
            case StateMove():
                return {"state": what.state}
            case ViewChange():
                changes = {cluster: self._profile(profile, now) for cluster, profile in what.changes.items()}
                return {"message": "changeNotify", "serial": what.serial, "changes": changes}
            case EstimatedStart():
                return {"message": "estimate", "tag": what.tag, "start": self._seconds(what.start)}
            case GivenHosts():
                return {"message": "startNotify", "tag": what.tag, "hosts": dict(what.hosts)}
        return {key: self._seconds(value) if key == "walltime" else value for key, value in what.items()}

    def _profile(self, profile: BusyHosts, now: Time) -> list[int | float]:
        """Return the flat list, in seconds."""
        flat = profile.flat(now)
        return [int(number) if at and at % 2 == 0 else self._seconds(number) for at, number in enumerate(flat)]

    def _seconds(self, time: Time) -> int | float:
        return in_seconds(Fraction(time) / self._ticks)

    def _write(self, line: Mapping[str, Any]) -> None:
        self._out.write(json.dumps(line) + "\n")


def in_seconds(seconds: Fraction) -> int | float:
    """Return seconds as a JSON number, an integer if they are whole."""
    return seconds.numerator if seconds.denominator == 1 else float(round(seconds, _DECIMALS))
