"""Waiting for descriptors, and the limit on their number."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from oarpy.modules.loop.module import readable
from oarpy.transport.agent.descriptors import allow_many, restore

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


def test_the_limit_is_raised_here_and_not_in_children(limit: tuple[int, int]) -> None:
    soft, hard = limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    assert allow_many() == hard
    program = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, preexec_fn=restore)
    assert int(told.stdout) == soft
