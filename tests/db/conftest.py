"""Commands run in the process of the test, on its database."""

from __future__ import annotations

import pytest

from tests.db.sample_cluster import Connection, Shell


@pytest.fixture
def shell(
    connection: Connection,
    cluster_environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    """Runs commands as the user of the tests, with dates in UTC."""
    monkeypatch.setenv("OARPY_CONFIG", cluster_environment["OARPY_CONFIG"])
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("OAR_JOB_ID", raising=False)
    monkeypatch.delenv("OAR_OARSTAT_OUTPUT_FORMAT", raising=False)
    return Shell(capsys)
