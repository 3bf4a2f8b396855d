"""Waiting for descriptors, and the limit on their number."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from oarpy.negotiation.line_streams import LineStreams
from oarpy.transport.agent.descriptors import allow_many, restore
from oarpy.transport.wakeup import WakeupBell, readable

BEYOND_SELECT = 1100


@pytest.fixture
def limit() -> Iterator[tuple[int, int]]:
    """The limit this process has; it has that again afterwards."""
    given = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield given
    resource.setrlimit(resource.RLIMIT_NOFILE, given)


def test_a_descriptor_may_have_any_number(limit: tuple[int, int]) -> None:
    if allow_many() <= BEYOND_SELECT:
        pytest.skip(f"this machine allows {limit[1]} descriptors at most")
    reader, writer = os.pipe()
    os.dup2(reader, BEYOND_SELECT)
    try:
        assert readable([BEYOND_SELECT, reader], 0) == []
        os.write(writer, b"x")
        assert set(readable([BEYOND_SELECT, reader], 30)) == {BEYOND_SELECT, reader}
    finally:
        for file in (reader, writer, BEYOND_SELECT):
            os.close(file)


def test_a_launcher_reads_from_a_descriptor_of_any_number(limit: tuple[int, int]) -> None:
    if allow_many() <= BEYOND_SELECT:
        pytest.skip(f"this machine allows {limit[1]} descriptors at most")
    reader, writer = os.pipe()
    os.dup2(reader, BEYOND_SELECT)
    os.close(reader)
    streams = LineStreams(BEYOND_SELECT, writer)
    assert streams.read(0) is None
    streams.write(b"said\n")
    assert streams.read(30) == b"said\n"
    streams.end()


def test_a_bell_rings_until_it_is_quieted_and_leaves_no_descriptor() -> None:
    bell = WakeupBell()
    file = bell.fileno()
    assert readable([bell.fileno()], 0) == []
    bell.ring()
    bell.ring()
    assert readable([bell.fileno()], 0) == [bell.fileno()]
    bell.quiet()
    bell.quiet()
    assert readable([bell.fileno()], 0) == []
    del bell
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(file)


def test_the_limit_is_raised_here_and_not_in_children(limit: tuple[int, int]) -> None:
    soft, hard = limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    assert allow_many() == hard
    program = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, preexec_fn=restore)
    assert int(told.stdout) == soft
