"""The supervisor of a server: what cannot be started is tried again ever later."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pytest

from oarpy import configuration
from oarpy.configuration import Configuration
from oarpy.model.errors import OarpyError
from oarpy.modules.supervisor import ModuleSupervisor
from oarpy.postgres import embedded_server


def test_a_database_that_cannot_be_started_is_tried_ever_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    now, tries = [0.0], []

    def start(_: Path) -> str:
        tries.append(now[0])
        raise OarpyError("no room")

    monkeypatch.setattr(embedded_server, "is_running", lambda _: False)
    monkeypatch.setattr(embedded_server, "start", start)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    server = ModuleSupervisor(Configuration(database=configuration.Database(directory=str(tmp_path))))
    while now[0] < 600:
        server._keep_database()
        now[0] += 0.25
    pauses = [later - earlier for earlier, later in pairwise(tries)]
    assert pauses[:6] == [0.5, 1, 2, 4, 8, 16]
    assert set(pauses[6:]) == {30}
