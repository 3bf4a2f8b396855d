"""Bad input about bags gets one line and its status, and changes nothing: words of users, and settings of admins.

What brokers may not do with offers is tried at the door of a cluster, in ``tests/db/test_bags_of_brokers.py``. Scripts
that print no time are warnings: ``tests/e2e/test_profiles_of_bags.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from oarpy.store.grid import clusters
from tests.harness.dumps import dumped
from tests.harness.gateway_process import GatewayProcess, gateway
from tests.harness.grid_job_cases import refused
from tests.harness.oarsub_cluster import build, process, settings
from tests.harness.refusals import Refusal, not_refused

pytestmark = pytest.mark.e2e

_ONE = ("-l", "/core=1,walltime=0:10:0", "--answer-timeout", "0")
_BAG = ("--bag", "3", *_ONE)
OARSUB: list[Refusal] = [
    (("--bag", "0", *_ONE, "date"), 2, "--bag"),
    (("--bag", "-1", *_ONE, "date"), 2, "--bag"),
    (("--bag", "ten", *_ONE, "date"), 2, "--bag"),
    (("--bag", "10000000", *_ONE, "date"), 2, "10000"),
    (_BAG, 2, "no command"),
    ((*_BAG, "--array", "3", "date"), 2, "--bag with --array"),
    ((*_BAG, "-r", "2035-01-01 12:00", "date"), 2, "--bag with -r"),
    (("--bag", "3", "-I"), 2, "-I"),
    ((*_BAG, "-l", "/core=2,walltime=0:5:0", "date"), 2, "--bag with several -l"),
    ((*_BAG, "--slack", "2h", "date"), 2, "--bag with --slack"),
    ((*_BAG, "--hold", "date"), 2, "--bag with --hold"),
    ((*_BAG, "-t", "besteffort", "date"), 2, "--bag with -t besteffort"),
    ((*_BAG, "-t", "container", "date"), 2, "--bag with -t container"),
    ((*_BAG, "--until", "2020-01-01", "date"), 2, "before one task can be"),
    ((*_BAG, "--until", "+5m", "date"), 2, "before one task can be"),
    ((*_BAG, "--until", "2090-01-01", "date"), 2, "too far away"),
    ((*_BAG, "--until", "someday", "date"), 2, "not a date"),
    ((*_BAG, "--strict", "date"), 2, "--strict without --until"),
    ((*_ONE, "--strict", "date"), 2, "--strict without --bag"),
    ((*_ONE, "-t", "bag", "date"), 2, "-t bag without --bag"),
    ((*_BAG, "--dry-run", "date"), 2, "--dry-run with --bag"),
    (("--bag", "3", "-l", "/core=999,walltime=0:10:0", "date"), 3, "can never run: needs 999 cores"),
    (("--bag", "3", "-l", "/nodes=9/core=1,walltime=0:10:0", "date"), 3, "can never run"),
    ((*_BAG, "-p", "host = 'nowhere'", "date"), 3, "can never run"),
    ((*_BAG, "--profile", "./missing", "date"), 2, "--profile './missing' is no program"),
    ((*_BAG, "--profile", "plain", "date"), 2, "--profile 'plain' is no program"),
    ((*_BAG, "--profile", ".", "date"), 2, "--profile '.' is no program"),
    ((*_BAG, "--profile", "", "date"), 2, "--profile"),
    ((*_ONE, "--profile", "./seconds", "date"), 2, "--profile without --bag"),
    ((*_ONE, "--array", "3", "--profile", "./seconds", "date"), 2, "--profile without --bag"),
    ((*_BAG, "--profile", "./seconds", "-a", "1", "date"), 2, "-a"),
]
OTHERS: list[tuple[str, list[Refusal]]] = [
    ("oarstat", [(("--bag", "99999"), 4, "99999"), (("--bag", "ten"), 2, "ten")]),
    ("oardel", [(("--bag", "99999"), 4, "99999"), (("--bag", "ten"), 2, "ten")]),
]
WRONG_SETTINGS = [
    ("OARPY_SCHEDULER_PREDICTION", "oracle"),
    ("OARPY_GRID_BAG_POLICY", "best"),
    ("OARPY_DOOR_DISCLOSE", "secrets"),
    ("OARPY_SCHEDULER_PROMISED_SHARE", "120"),
    ("OARPY_SCHEDULER_BAG_TASKS", "0"),
]


@pytest.fixture
def site(dsn: str) -> Iterator[GatewayProcess]:
    """The gateway of a cluster that is a broker's own computer too; its folder has a program and a plain file."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        build(connection)
        clusters.put(connection, "north", "oarpy", ["false"], place=1)
    with gateway({"OARPY_DATABASE_URL": dsn, **settings()}, workers=1) as found:
        (found.folder / "plain").write_text("60", encoding="utf-8")
        (found.folder / "seconds").write_text("#!/bin/sh\necho 60\n", encoding="utf-8")
        (found.folder / "seconds").chmod(0o755)
        yield found


def test_users_get_one_line_and_nothing_changes(site: GatewayProcess, dsn: str) -> None:
    before = dumped(dsn)

    def run(*words: str) -> Any:
        return site.run(*words, cwd=site.folder)

    grid = [case for case in refused() if "--bag" in case.words]
    over_clusters = [(case.words[1:], int(case.cells[0]), case.cells[1]) for case in grid]
    for command, table in (("oarsub", OARSUB), ("oargridsub", over_clusters), *OTHERS):
        assert not_refused(run, command, table) == []
    assert dumped(dsn) == before
    assert len(OARSUB) + len(over_clusters) >= 40


@pytest.mark.parametrize(("name", "value"), WRONG_SETTINGS)
def test_a_wrong_setting_is_named_in_one_line(
    cluster_environment: dict[str, str], dsn: str, name: str, value: str
) -> None:
    before = dumped(dsn)
    result = process({**cluster_environment, name: value}, "oarsub", *_BAG, "date")
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1), result
    assert repr(value) in result.err or value in result.err
    assert dumped(dsn) == before


def test_a_cluster_that_promises_nothing_takes_no_bag(cluster_environment: dict[str, str], dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        build(connection)
    before = dumped(dsn)
    result = process({**cluster_environment, "OARPY_SCHEDULER_PROMISES": "false"}, "oarsub", *_BAG, "date")
    assert (result.status, result.out, result.err.count("\n")) == (3, "", 1), result
    assert "makes no promises" in result.err
    assert dumped(dsn) == before
