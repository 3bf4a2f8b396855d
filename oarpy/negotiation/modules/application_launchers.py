"""Running the launchers of applications on the host of the site, again whenever an application has lost its launcher.

The rows of applications record this, so no killed process leaves a launcher out. While a row says that its launcher is
lost, the host is asked to run it; the host leaves alone launchers that already run there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from oarpy.configuration import Configuration
from oarpy.modules.launcher.channels import Channels
from oarpy.modules.launcher.parts import Hears, Part, Round
from oarpy.negotiation.store import unattended
from oarpy.negotiation.store.unattended import UnattendedRow
from oarpy.store.database import Connection
from oarpy.store.jobs.execution import Agenda
from oarpy.wire.jobs import JobSpec
from oarpy.wire.messages import ChannelLost, LauncherEnded, Ready, RunLaunchers

VARIABLE = "OAR_LAUNCHER"
"""The variable that marks a program whose standard input and output carry the lines."""
ERRORS = "OAR.{job}.launcher"
"""The file, in the directory of the submission, that launchers write their errors to."""

_REPEAT = 10.0
"""Seconds after which a silent host is asked again: its launcher may not have attached yet."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 15.0
"""Seconds before an ended launcher is run again; each pause is twice as long as the one before."""
_LASTING = 60.0
"""Seconds after which the end of a known launcher counts like its first end."""


@dataclass(slots=True)
class _Run:
    """A launcher: the times of the last and of the next request to run it, by the monotonic clock."""

    asked: float
    again: float
    pause: float = _FIRST_PAUSE


class ApplicationLaunchers(Part):
    """The requests to the host, with their times. If they are forgotten, they are only repeated."""

    def __init__(self, configuration: Configuration) -> None:
        self._host = configuration.negotiation.launcher_host
        self._grace = float(math.ceil(configuration.jobs.kill_grace))
        self._runs: dict[int, _Run] = {}
        self._ended: list[tuple[int, str]] = []
        self._next = float("inf")

    @property
    def awaits(self) -> bool:
        """Whether a report is still to be recorded, or a launcher is to be asked for again."""
        return bool(self._ended) or self._next < float("inf")

    def wait(self) -> float:
        """Return the seconds until a launcher is to be asked for again."""
        return max(0.0, self._next - time.monotonic())

    def hears(self) -> Hears:
        """Return the method for each report handled here."""
        return {LauncherEnded: self._over, Ready: self._lose, ChannelLost: self._lose}

    def _over(self, node: str, report: LauncherEnded) -> None:
        if node == self._host:
            self._ended.append((report.key.job, report.detail))

    def _lose(self, node: str, _report: Ready | ChannelLost) -> None:
        """Ask for everything again when the channel to the host was lost."""
        if node == self._host:
            self._runs.clear()

    def act(self, turn: Round, agenda: Agenda) -> None:
        """Ask for the launchers to run, and handle reports."""
        if agenda.launchers or self.awaits:
            self._tend(turn.connection, turn.channels)

    def _tend(self, connection: Connection, channels: Channels) -> None:
        """Log the launchers that are over, and ask for those of applications without a launcher."""
        moment = time.monotonic()
        if self._ended:
            with connection.transaction():
                unattended.log_ends(connection, self._host, self._ended)
            for job, _ in self._ended:
                self._rest(job, moment)
            self._ended = []
        rows = unattended.unattended(connection) if self._host else []
        missing = {row.job for row in rows}
        self._runs = {job: run for job, run in self._runs.items() if job in missing or moment - run.asked < _LASTING}
        self._ask([row for row in rows if row.job not in self._runs or self._runs[row.job].again <= moment],
                  channels, moment)  # fmt: skip
        self._next = min((run.again for job, run in self._runs.items() if job in missing), default=float("inf"))

    def _rest(self, job: int, moment: float) -> None:
        """Let a launcher that is over be run again after a pause, a longer one each time."""
        run = self._runs.get(job)
        if run is not None:
            run.again, run.pause = moment + run.pause, min(2 * run.pause, _LONGEST_PAUSE)

    def _ask(self, rows: Sequence[UnattendedRow], channels: Channels, moment: float) -> None:
        if rows and channels.send(self._host, RunLaunchers(tuple(map(self._specification, rows)))):
            for row in rows:
                run = self._runs.setdefault(row.job, _Run(moment, moment))
                run.asked, run.again = moment, moment + _REPEAT

    def _specification(self, row: UnattendedRow) -> JobSpec:
        return JobSpec(
            job=row.job,
            attempt=0,
            user=row.user,
            command=row.launcher,
            directory=row.directory,
            stderr=ERRORS.format(job=row.job),
            name=row.name,
            project=row.project,
            environment=dict(row.environment),
            kill_grace=self._grace,
            allow_root=row.user == "root",
            variables={VARIABLE: "1"},
        )
