"""A second server and a standby of the database take over; what ran goes on and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.campaigns.high_availability import Pair, run, run_pair
from tests.campaigns.namespace_nodes import can_isolate, run_module
from tests.campaigns.replicated_database import ReplicatedDatabase
from tests.harness.passable_folder import passable_folder

pytestmark = pytest.mark.e2e


@pytest.fixture
def pair() -> Iterator[tuple[Pair, ReplicatedDatabase]]:
    """In a folder that the database's user may pass through."""
    with passable_folder("oarpy-ha-") as directory, run_pair(directory) as running:
        yield running


def test_servers_and_database_are_taken_over(pair: tuple[Pair, ReplicatedDatabase]) -> None:
    """Three blows in turn: after each one new jobs run, and every job ends exactly once."""
    assert run(*pair) == []


@pytest.mark.skipif(not can_isolate(), reason="namespaces cannot be made here (root with ip and unshare can)")
def test_a_server_without_network_is_replaced_and_comes_back() -> None:
    """In a process of its own, which moves into namespaces."""
    done = run_module("tests.campaigns.cut_off_server")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("all jobs ended exactly once, books in order\n")
