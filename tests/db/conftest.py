"""Commands run in the process of the test, on its database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.harness import small_cluster
from tests.harness.kept_database import KeptDatabase, KeptDatabases
from tests.harness.oarsub_cluster import Submitter, build, submitter
from tests.harness.sample_cluster import Connection, Shell


@pytest.fixture(autouse=True)
def _closed_clusters() -> Iterator[None]:
    """Leaves no descriptors of small clusters behind."""
    yield
    small_cluster.close_all()


@pytest.fixture(scope="module")
def unchanged(cluster_databases: Callable[[], dict[str, str]]) -> Iterator[Connection]:
    """A connection to one database for those tests of a file that try what is refused, and so leave it as it is."""
    with psycopg.connect(cluster_databases()["url"], autocommit=True) as opened:
        yield opened


@pytest.fixture
def shell(
    connection: Connection,
    cluster_environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    """Runs commands as the user of the tests, with dates in UTC."""
    monkeypatch.setenv("OARPY_CONFIG", cluster_environment["OARPY_CONFIG"])
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("OAR_JOB_ID", raising=False)
    monkeypatch.delenv("OAR_OARSTAT_OUTPUT_FORMAT", raising=False)
    return Shell(capsys)


@pytest.fixture
def kept_database(request: pytest.FixtureRequest, kept_databases: KeptDatabases) -> Iterator[KeptDatabase]:
    """The database of a test marked ``kept``; for those who submit it has the cluster of ``build``."""
    with kept_databases.lend(*[build] * ("oarsub" in request.fixturenames)) as database:
        yield database


@pytest.fixture
def oarsub(
    request: pytest.FixtureRequest,
    connection: Connection,
    cluster_environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Submitter:
    """Runs commands as somebody who may submit and is an admin, in an empty folder, on the cluster of ``build``."""
    if not request.node.get_closest_marker("kept"):
        build(connection)
    monkeypatch.chdir(tmp_path)
    return submitter(cluster_environment, monkeypatch, capsys)
