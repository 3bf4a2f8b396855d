"""Clusters and a broker beside them, whose accounts are made for the test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from oarpy.grid.local.local_grid import LocalGrid, local_grid
from tests.harness.ordinary_users import ordinary_users
from tests.harness.passable_folder import passable_folder


@contextmanager
def brokered_clusters(
    cores: Mapping[str, int], database: Callable[[], dict[str, str]], **settings: Any
) -> Iterator[LocalGrid]:
    """Run clusters of one node each, with so many cores, and a broker; ``settings`` are keys of ``[grid]``.

    ``database`` makes a section ``[database]`` for each of them.
    """
    if os.getuid() != 0:
        pytest.skip("only root can make users")
    with ExitStack() as stack:
        account, user = stack.enter_context(ordinary_users("broker", "ann"))
        folder = stack.enter_context(passable_folder("oarpy-grid-"))
        yield stack.enter_context(local_grid(folder, cores, account, user, database=database, **settings))
