"""The negotiator has files for its connections, or takes fewer of them."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from oarpy.negotiation.modules import handover


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    """The limits of this process, which it has again afterwards."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_low_limit_is_raised_to_what_connections_need(limits: tuple[int, int]) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    assert handover.room(500) == 500
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (1064, limits[1])


def test_what_may_not_be_raised_bounds_the_connections(limits: tuple[int, int]) -> None:
    assert handover.room(limits[1]) == (limits[1] - 64) // 2


def test_a_high_limit_stays(limits: tuple[int, int]) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, limits[1]))
    assert handover.room(10) == 10
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (1000, limits[1])
