"""What one user can do to the queue: so many jobs may wait, quotas hold for all, and a copy is a submission."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator

import pytest

from oarpy.model.states import GridJobState
from oarpy.store.grid import broker_jobs, clusters
from tests.harness.gateway_process import GatewayProcess, gateway
from tests.harness.oarsub_cluster import build, settings
from tests.harness.sample_cluster import Connection

pytestmark = [
    pytest.mark.db,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can submit as several users"),
]

GAMES, NOBODY = (pwd.getpwnam(name).pw_uid for name in ("games", "nobody"))


@pytest.fixture
def running(connection: Connection, cluster_environment: dict[str, str]) -> Iterator[GatewayProcess]:
    build(connection)
    limits = {
        **settings(),
        "OARPY_SUBMISSION_WAITING_JOBS_PER_USER": "5",
        "OARPY_GRID_WAITING_PER_USER": "4",
    }
    with gateway({**cluster_environment, **limits}, workers=1) as found:
        yield found


def test_a_user_has_so_many_waiting_jobs(running: GatewayProcess, connection: Connection) -> None:
    """Whatever others submit in between; held ones count, and those that wait no more do not."""
    alone = running.run("oarsub", "--array", "6", "date", uid=GAMES)
    assert (alone.status, alone.err) == (
        3,
        "oarsub: an array of 6 jobs, and at most 5 jobs of a user may wait "
        "(submit smaller ones one after the other (submission.waiting_jobs_per_user))\n",
    )
    assert running.run("oarsub", "--array", "3", "date", uid=GAMES).status == 0
    for _ in range(3):
        assert running.run("oarsub", "--array", "2", "date").status == 0
        assert running.run("oarsub", "date", uid=NOBODY).status == 0
    assert running.run("oarsub", "--hold", "date", uid=GAMES).status == 0
    assert running.run("oarsub", "date", uid=GAMES).status == 0
    refused = running.run("oarsub", "date", uid=GAMES)
    assert (refused.status, refused.err) == (
        3,
        "oarsub: 5 jobs of yours wait already, 5 may "
        "(submit again when some have started (submission.waiting_jobs_per_user))\n",
    )
    assert connection.execute("SELECT count(*) FROM jobs WHERE user_name = 'games'").fetchone() == (5,)
    connection.execute("UPDATE jobs SET state = 'Error', ended_at = now() WHERE job_id = 2")
    assert running.run("oarsub", "date", uid=GAMES).status == 0


def test_a_user_has_so_many_grid_jobs_that_wait(running: GatewayProcess, connection: Connection) -> None:
    """Whatever they wait for; those that run or are over do not count, nor those of others."""
    clusters.put(connection, "north", "oarpy", ["oargriddoor", "campus"])
    words = ("oargridsub", "-l", "/core=1", "date")
    assert running.run(*words, "--array", "3", uid=GAMES).status == 0
    refused = running.run(*words, "--array", "2", uid=GAMES)
    assert (refused.status, refused.err) == (
        3,
        "oargridsub: 3 grid jobs of 'games' wait, with 2 more they would be over 4 "
        "(submit fewer, or when some have started (grid.waiting_per_user))\n",
    )
    together = ("oargridsub", "-l", "/core=1", "--components", "2", "--deadline", "+1h", "date")
    assert running.run(*together, uid=GAMES).status == 0
    assert running.run(*words, uid=GAMES).status == 3
    assert [running.run(*words, "--array", number, uid=uid).status for number, uid in (("4", NOBODY), ("9", 0))] == [
        0,
        0,
    ]
    broker_jobs.move(connection, [1], GridJobState.ERROR, "no")
    assert running.run(*words, uid=GAMES).status == 0
    assert running.run(*words, uid=GAMES).status == 3


def test_a_copy_counts_among_waiting_jobs(running: GatewayProcess, connection: Connection) -> None:
    assert running.run("oarsub", "date", uid=GAMES).status == 0
    connection.execute("UPDATE jobs SET state = 'Error', ended_at = now()")
    assert running.run("oarsub", "--array", "4", "date", uid=GAMES).status == 0
    assert running.run("oarsub", "date", uid=GAMES).status == 0
    assert running.run("oarsub", "--resubmit", "1", uid=GAMES).status == 3


def test_rules_of_today_hold_for_a_copy(running: GatewayProcess, connection: Connection) -> None:
    assert running.run("oarsub", "-t", "idempotent", "date", uid=GAMES).status == 0
    connection.execute("UPDATE jobs SET state = 'Error', ended_at = now()")
    text = "if 'idempotent' in job.types:\n    refuse('not again')"
    connection.execute("INSERT INTO admission_rules (name, priority, rule_text) VALUES ('no', 50, %s)", [text])
    refused = running.run("oarsub", "--resubmit", "1", uid=GAMES)
    assert refused.status == 3
    assert "not again" in refused.err
    connection.execute("UPDATE admission_rules SET rule_text = 'job.project = \"other\"' WHERE name = 'no'")
    changed = running.run("oarsub", "--resubmit", "1", uid=GAMES)
    assert (changed.status, changed.err) == (
        3,
        "oarsub: the admission rules would now change the project of job 1 (submit it as a new job)\n",
    )
    connection.execute("DELETE FROM admission_rules WHERE name = 'no'")
    assert running.run("oarsub", "--resubmit", "1", uid=GAMES).status == 0


def test_a_copy_of_every_kind_of_submission_passes_the_same_rules(
    running: GatewayProcess, connection: Connection
) -> None:
    """The default rules change requests, types and queues; run again over what was asked, they change the same."""
    options = [
        ("-t", "besteffort"),
        ("-l", "/nodes=1", "-p", "drain = 'NO'"),
        ("-t", "idempotent", "-n", "name", "--project", "mine"),
        ("-q", "default", "-l", "/core=1,walltime=1"),
    ]
    for number, words in enumerate(options, 1):
        assert running.run("oarsub", *words, "date", uid=GAMES).status == 0
        connection.execute("UPDATE jobs SET state = 'Error', ended_at = now() WHERE state = 'Waiting'")
        done = running.run("oarsub", "--resubmit", str(2 * number - 1), uid=GAMES)
        assert done.status == 0, done.err
        connection.execute("UPDATE jobs SET state = 'Error', ended_at = now() WHERE state = 'Waiting'")


def test_quotas_hold_for_all_but_admins(running: GatewayProcess) -> None:
    refused = running.run("oarsub", "-t", "no_quotas", "date", uid=GAMES)
    assert refused.status == 3
    assert "job type no_quotas is for administrators" in refused.err
    assert running.run("oarsub", "-t", "no_quotas", "date").status == 0
