"""The settings of nodes reach the programs that run there, or are refused."""

from __future__ import annotations

import marshal

import pytest

from oarpy.configuration import Nodes
from oarpy.model.errors import UsageError
from oarpy.modules.launcher.addresses import channel_config
from oarpy.transport.bundle import agent_program
from oarpy.transport.node import NodeAddress


@pytest.mark.parametrize("entry", ["service", "steps.step"])
def test_limits_of_jobs_are_in_the_programs_that_start_them(entry: str) -> None:
    config = channel_config(
        Nodes(pids_limit=4711, pam_service="oarpy-site", private_directories=("/tmp",), limit_swap=True), "test"
    )
    _, _, settings = marshal.loads(agent_program(NodeAddress("n1", "/state"), config, entry))
    assert settings["pids_limit"] == 4711
    assert ("/dev/kfd", "any") in settings["device_rules"]
    assert settings["pam_service"] == "oarpy-site"
    assert settings["limit_swap"] is True
    assert settings["private_directories"] == ("/tmp",)


def test_fewer_processes_than_a_start_takes_are_refused() -> None:
    with pytest.raises(UsageError, match=r"nodes\.pids_limit is 3"):
        channel_config(Nodes(pids_limit=3), "test")
    assert channel_config(Nodes(pids_limit=4), "test").pids_limit == 4
    assert channel_config(Nodes(pids_limit=0), "test").pids_limit == 0
