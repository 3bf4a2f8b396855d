"""When the launcher of the site looks after the programs that speak for applications."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import pytest

from oarpy.modules.launcher.channels import Channels
from oarpy.modules.launcher.parts import Round
from oarpy.negotiation.modules.application_launchers import ApplicationLaunchers
from oarpy.negotiation.store import unattended
from oarpy.negotiation.store.unattended import UnattendedRow
from oarpy.store.database import Connection
from oarpy.store.jobs.execution import Agenda
from tests.harness.small_cluster import with_settings

IDLE = Agenda(
    launch=False,
    settle=False,
    signal=False,
    walltimes=False,
    pauses=False,
    resizes=False,
    launchers=False,
    noop_end=None,
    due_in=None,
)
ROW = UnattendedRow(7, "ann", "/bin/speak", "/home/ann", "", "default", {})


class Host:
    """The channel to the host of launchers: it takes all that is sent."""

    def __init__(self) -> None:
        self.sent: list[object] = []

    def send(self, _node: str, command: object) -> bool:
        self.sent.append(command)
        return True


def test_nothing_is_waited_for_when_somebody_speaks_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = [ROW]
    monkeypatch.setattr(unattended, "unattended", lambda _connection: list(missing))
    launchers = ApplicationLaunchers(with_settings(negotiation={"launcher_host": "n1"}))
    nothing, host = cast("Connection", None), Host()
    channels = cast("Channels", cast("Any", host))
    turn = Round(nothing, channels, 0.0)
    launchers.act(turn, replace(IDLE, launchers=True))
    assert len(host.sent) == 1
    assert 0 < launchers.wait() < math.inf
    missing.clear()
    assert launchers.awaits, "somebody looks whether it has attached"
    launchers.act(turn, IDLE)
    assert (launchers.awaits, launchers.wait(), len(host.sent)) == (False, math.inf, 1)
