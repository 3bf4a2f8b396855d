"""Bad input gets one line and its status, and changes nothing: neither at the broker nor on a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from oarpy.store.grid import clusters
from tests.harness.dumps import dumped
from tests.harness.gateway_process import GatewayProcess, gateway
from tests.harness.grid_door import door
from tests.harness.grid_job_cases import GridJobCase, refused
from tests.harness.oarsub_cluster import build, settings
from tests.harness.ordinary_users import ordinary_users

pytestmark = pytest.mark.e2e
CASES = refused()
HOSTILE = [
    GridJobCase(("oargridsub", "north:rdef=/core=1:name=\x1b[31m"), ("2", "is not plain text")),
    GridJobCase(("oargridsub", "-l", "/core=1\n/core=2", "date"), ("2", "level named twice")),
    GridJobCase(("oargridsub", "north:rdef=" + "/core=1" * 15_000), ("2", "at most")),
    GridJobCase(("oargridsub", "," * 1000), ("2", "does not begin with the name of a cluster")),
    GridJobCase(("oargridsub", "-l", "/core=99999999999999999999", "date"), ("2", "core")),
    GridJobCase(
        ("oargridsub", "-l", "/core=8", "--components", "1" * 5000, "--deadline", "+1h", "date"), ("2", "range")
    ),
    GridJobCase(("oargridsub", "-l", "/core=8", "--array", "100001", "date"), ("2", "--array")),
    GridJobCase(("oargridsub", "-l", "/core=8", "date", "\udcff"), ("2", "UTF-8")),
    GridJobCase(("oargridstat", "99999999999999999999"), ("2", "99999999999999999999")),
    GridJobCase(("oargriddel", "-1"), ("2", "-1")),
    GridJobCase(("oargridctl", "passes", "list", "--count", "0"), ("2", "--count 0")),
]


@dataclass(frozen=True, slots=True)
class Grid:
    """The broker's gateway, and the databases of the broker and of a cluster."""

    broker: GatewayProcess
    databases: tuple[str, str]

    def dumps(self) -> list[str]:
        """Return all that both databases hold, sequences too."""
        return [dumped(dsn) for dsn in self.databases]


@pytest.fixture(scope="module")
def far(cluster_database: dict[str, str]) -> str:
    """The database of a cluster."""
    with psycopg.connect(cluster_database["url"], autocommit=True) as connection:
        build(connection)
    return cluster_database["url"]


@pytest.fixture
def grid(dsn: str, far: str) -> Iterator[Grid]:
    """A broker with a cluster that lets it in, and one that is disabled."""
    with (
        ordinary_users("grid") as (own,),
        door({"OARPY_DATABASE_URL": far}, own.pw_name, own.pw_uid) as way,
    ):
        with psycopg.connect(dsn, autocommit=True) as connection:
            clusters.put(connection, "north", "oarpy", way.words(), place=1)
            clusters.put(connection, "south", "oarpy", ["false"], place=2)
            clusters.set_active(connection, "south", active=False)
        with gateway({"OARPY_DATABASE_URL": dsn, **settings()}, workers=1) as broker:
            yield Grid(broker, (dsn, far))


def wrong(broker: GatewayProcess, case: GridJobCase) -> str:
    """Return how a refusal differs from what it should be; nothing if it is right."""
    status, said = case.cells
    result = broker.run(*case.words)
    right = result.status == int(status) and result.out == "" and result.err.count("\n") == 1 and said in result.err
    return "" if right else f"{' '.join(case.words)[:100]!r}: {result}"


def test_bad_input_gets_one_line_and_changes_nothing(grid: Grid) -> None:
    assert len(CASES) >= 30
    before = grid.dumps()
    assert [line for case in (*CASES, *HOSTILE) if (line := wrong(grid.broker, case))] == []
    assert grid.dumps() == before


def test_a_dry_run_that_a_cluster_refuses_changes_nothing_there(grid: Grid) -> None:
    before = grid.dumps()
    result = grid.broker.run("oargridsub", "--dry-run", "-l", "/core=1", "date")
    assert (result.status, result.err) == (3, "")  # nobody granted it there
    assert "It can never run.\n" in result.out
    assert "north" in result.out
    assert grid.dumps() == before
