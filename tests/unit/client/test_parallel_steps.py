"""Where the processes of one call run, and how their lines come out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarpy.client.jobs.job_ranks import checked
from oarpy.client.jobs.job_steps import RunningJob
from oarpy.client.jobs.parallel_steps import StepOutcome, StepPlace, labelled, places, worst
from oarpy.configuration import Configuration
from oarpy.model.errors import UsageError
from oarpy.store.jobs.execution import Launch
from oarpy.transport.node import NodeAddress
from oarpy.wire.jobs import JobSpec

NODES = (NodeAddress("n1", "/n1"), NodeAddress("n2", "/n2"))
LAUNCH = Launch(JobSpec(1, 1, "ann", "", "/"), "Running", (), (1, 0), "", "PASSIVE", (), (), "", None, None, None)


def job(*cores: str, kind: str = "default") -> RunningJob:
    """A job with these cores, by node."""
    resources: tuple[dict[str, object], ...] = tuple({"network_address": node, "type": kind} for node in cores)
    return RunningJob(replace(LAUNCH, held=resources), {}, NODES, "test", Configuration())


def test_one_on_each_node() -> None:
    found = places(job("n1", "n1", "n2"))
    assert found == (StepPlace(0, NODES[0], "n1"), StepPlace(1, NODES[1], "n2"))


@pytest.mark.parametrize("text", ["0", "-1", "x", "4097", ""])
def test_counts_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="-n"):
        checked(text, None, None, [])


def test_what_belongs_to_ranks_needs_their_number() -> None:
    assert checked(None, None, None, []) is None
    with pytest.raises(UsageError, match="--overcommit without -n"):
        checked(None, None, None, ["--overcommit"])


def test_the_worst_status_is_the_highest() -> None:
    place = StepPlace(0, NODES[0], "n1")
    assert worst([StepOutcome(place, 3), StepOutcome(place, 137), StepOutcome(place, 0)]) == 137


@given(st.lists(st.binary().filter(lambda line: b"\n" not in line), min_size=1))
def test_every_line_has_its_label_and_nothing_is_lost(lines: list[bytes]) -> None:
    came = labelled("n1", b"".join(line + b"\n" for line in lines))
    assert came == b"".join(b"n1: " + line + b"\n" for line in lines)
