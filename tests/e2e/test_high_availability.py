"""A second server and a standby of the database take over; what ran goes on and nothing is lost."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.high_availability import Pair, run, run_pair

pytestmark = pytest.mark.e2e


@pytest.fixture
def pair() -> Iterator[Pair]:
    """In a folder that the database's user may pass through."""
    directory = Path(tempfile.mkdtemp(prefix="oarpy-ha-"))
    directory.chmod(0o755)
    try:
        with run_pair(directory) as running:
            yield running
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def test_servers_and_database_are_taken_over(pair: Pair) -> None:
    """Three blows in turn: after each one new jobs run, and every job ends exactly once."""
    assert run(pair) == []
