"""Tests of commands and of calls from nodes run beside a decoy of an installed cluster, which hears nothing of them."""

from __future__ import annotations

import pytest

from tests.campaigns.namespace_nodes import can_isolate, run_module

pytestmark = pytest.mark.e2e


@pytest.mark.skipif(not can_isolate(), reason="namespaces cannot be made here (root with ip and unshare can)")
def test_the_cluster_of_this_machine_hears_nothing() -> None:
    """In a process of its own, which moves into namespaces; a longer run is a command."""
    tests = ("tests/unit/transport/test_node_calls.py", "tests/unit/gateway", "tests/unit/client/test_session.py")
    done = run_module("tests.campaigns.beside_a_cluster", *tests)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("the decoy heard nothing\n")
