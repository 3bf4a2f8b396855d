"""A small number of the fuzz of a door."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable

import pytest

from tests.e2e.grid_fuzz import ACCOUNT, SETTINGS, fuzz
from tests.harness.grid_door import door
from tests.harness.oarsub_cluster import build
from tests.harness.sample_cluster import Connection

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(os.getuid() != 0, reason="only root can become other users")]


def test_each_line_is_refused_and_nothing_changes(
    connection: Connection,
    cluster_environment: dict[str, str],
    dsn: str,
    record_property: Callable[[str, object], None],
) -> None:
    build(connection)
    with door(cluster_environment, ACCOUNT, pwd.getpwnam(ACCOUNT).pw_uid, **SETTINGS) as here:
        outcomes, wrong = fuzz(here, dsn, 3000, 1)
    record_property("counts", ", ".join(f"{what} {times}" for what, times in sorted(outcomes.items())))
    assert not wrong, "\n".join(wrong)
    assert {"answered", "refused 2"} <= set(outcomes)
