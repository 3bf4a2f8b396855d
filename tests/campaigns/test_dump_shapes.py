"""One shape of the campaign of dumps, between all versions of PostgreSQL here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from oarpy.postgres.binaries import available_versions
from tests.campaigns.dump_shapes import servers, travel

pytestmark = pytest.mark.db


def test_a_dump_comes_back_between_all_versions(
    fast_directory: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    versions = available_versions()
    with servers(fast_directory, versions) as there:
        journeys = list(travel(there, "site_tables", tmp_path))
    record_property("journeys", ", ".join(f"{one.source} -> {one.target}: {one.told or 'equal'}" for one in journeys))
    assert len(journeys) == len(versions) ** 2
    assert [one.differences for one in journeys] == [()] * len(journeys)
    # an older server may not understand what a newer one wrote; then it says so
    assert [one for one in journeys if one.told and int(one.source) <= int(one.target)] == []
