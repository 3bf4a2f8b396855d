"""Bad input about GPUs, hours of projects and alterations gets one line and its status, and changes nothing.

Other words about projects are tried in ``tests/db/test_projects.py``, throttles and series in files of their own.
Programs that check nodes and hang, print without end or are missing: ``tests/e2e/test_checks_of_nodes.py``.
"""

from __future__ import annotations

import pytest

from tests.harness.dumps import dumped
from tests.harness.oarsub_cluster import Connection, Submitter, run_pass
from tests.harness.refusals import Refusal, not_refused
from tests.harness.sample_cluster import ME

pytestmark = pytest.mark.db

GPUS: list[Refusal] = [
    (("-l", "/gpuu=1/core=1", "date"), 2, "unknown resource level 'gpuu'"),
    (("-l", "gpu=9", "date"), 3, "can never run"),
    (("-l", "gpu=0", "date"), 2, "gpu"),
    (("-l", "/core=1,gpu_share=0", "date"), 2, "gpu_share"),
    (("-l", "/core=1,gpu_share=150", "date"), 3, "can never run"),
    (("-l", "/core=1,gpu_share=-1", "date"), 2, "gpu_share"),
    (("-l", "/core=1,gpu_share=half", "date"), 2, "gpu_share"),
]


def test_gpus_that_cannot_be(connection: Connection, oarsub: Submitter, dsn: str) -> None:
    connection.execute("UPDATE resources SET gpu = 'a' || cpu WHERE network_address = 'n2'")
    connection.execute("INSERT INTO consumables (name, level) VALUES ('gpu_share', 'gpu')")
    connection.execute(
        "INSERT INTO consumable_capacities (consumable, block, capacity)"
        " SELECT 'gpu_share', gpu, 100 FROM resources WHERE gpu IS NOT NULL GROUP BY gpu"
    )
    before = dumped(dsn)
    assert not_refused(oarsub.run, "oarsub", GPUS) == []
    assert dumped(dsn) == before


def test_hours_that_are_spent(
    connection: Connection, oarsub: Submitter, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OARPY_SUBMISSION_PROJECTS", "members")
    connection.execute("INSERT INTO projects (project, hours) VALUES ('fire', 1)")
    connection.execute("INSERT INTO project_members (project, user_name) VALUES ('fire', %s)", [ME])
    before = dumped(dsn)
    asked = ("--project", "fire", "-l", "/core=2,walltime=1:0:0", "date")
    assert not_refused(oarsub.run, "oarsub", [(asked, 3, "has 1 of 1 hours left, and this asks for 2")]) == []
    assert dumped(dsn) == before


def test_alterations_that_cannot_be(
    connection: Connection, oarsub: Submitter, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, ended = (oarsub.job_id("-l", "/nodes=1,walltime=1:0:0", "date") for _ in range(2))
    run_pass(connection)
    connection.execute(
        "UPDATE jobs SET state = 'Terminated', ended_at = now(), left_nothing = true WHERE job_id = %s", [ended]
    )
    foreign, waiting = (oarsub.job_id("-l", "/nodes=1,walltime=1:0:0", "--hold", "date") for _ in range(2))
    connection.execute("UPDATE jobs SET user_name = 'somebody' WHERE job_id = %s", [foreign])
    monkeypatch.setattr("oarpy.client.session.is_administrator", lambda *_: False)
    before = dumped(dsn)
    refusals: list[Refusal] = [
        ((str(running), "-l", "/nodes=2"), 1, "is Running"),
        ((str(foreign), "-n", "x"), 5, "belongs to 'somebody'"),
        ((str(ended), "-n", "x"), 1, "has already ended"),
        ((str(waiting), "-l", "/nodes=99"), 3, "can never run"),
        ((str(waiting), "--throttle", "0"), 2, "--throttle"),
    ]
    assert not_refused(oarsub.run, "oaralter", refusals) == []
    assert dumped(dsn) == before
