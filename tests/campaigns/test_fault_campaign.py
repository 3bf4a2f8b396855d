"""A short fault campaign: everything that can break is broken once while jobs are in flight."""

from __future__ import annotations

import pytest

from tests.campaigns.namespace_nodes import can_isolate, run_module

pytestmark = pytest.mark.e2e


@pytest.mark.skipif(not can_isolate(), reason="namespaces cannot be made here (root with ip and unshare can)")
def test_nothing_is_lost_whatever_breaks() -> None:
    """In a process of its own, which moves into namespaces."""
    options = ["--jobs", "60", "--faults", "36", "--batch", "60", "--cut", "20", "--longest", "3", "--seed", "3"]
    done = run_module("tests.campaigns.fault_campaign", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "39 faults" in done.stdout
    assert done.stdout.endswith("nothing lost, nothing run twice, nothing left behind\n")
