"""A cluster of oarpy promises a broker what every cluster promises: through the answers of its door and its modules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.cluster_conformance import ClusterConformance
from tests.harness.oarpy_stage import OarpyStage, oarpy_stage
from tests.harness.small_cluster import Connection

pytestmark = [pytest.mark.db, pytest.mark.kept]


@pytest.fixture
def stage(connection: Connection, dsn: str) -> Iterator[OarpyStage]:
    with oarpy_stage(connection, dsn) as made:
        yield made


class TestClusterOfOarpy(ClusterConformance):
    """The suite, on a cluster of oarpy."""
