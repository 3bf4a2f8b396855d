"""The view of karma is what the scheduler orders by: settings, past and jobs that hold resources, of any kind."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from oarpy.cluster_state.snapshot_reader import SnapshotReader
from oarpy.configuration import Configuration, Priority, load
from oarpy.modules.metascheduler.metascheduler import Metascheduler
from oarpy.scheduler.order.priorities import karma
from oarpy.store import accounting
from tests.harness.sample_cluster import Connection, add_job, add_nodes

pytestmark = [pytest.mark.db, pytest.mark.oldest]

DAY = 86400
USERS, PROJECTS = ("ann", "bob", "cyd"), ("air", "sea", "default")


def account(connection: Connection, user: str, project: str, used: int, *, days: float, queue: str = "default") -> None:
    """Add what ended jobs used, and twice as much that they asked for, in the window that began so many days ago."""
    begin = datetime.now(UTC) - timedelta(days=days)
    for kind, amount in (("USED", used), ("ASKED", 2 * used)):
        connection.execute(
            "INSERT INTO accounting VALUES (%s, %s, %s, %s, %s, %s, %s)",
            (begin, begin + timedelta(days=1), user, project, queue, kind, amount),
        )


def configured(**priority: Any) -> Configuration:
    settings = load()
    return replace(settings, priority=Priority(**priority))


def one_pass(connection: Connection, configuration: Configuration) -> None:
    Metascheduler(configuration).run_once(connection, datetime.now().astimezone())


def view(connection: Connection) -> dict[tuple[str, str], float]:
    return {
        (kind, name): value
        for kind, name, value in connection.execute("SELECT kind, name, karma FROM oar_report.karma")
    }


def suspend(connection: Connection, job: int, *, gives_back: bool) -> None:
    connection.execute("UPDATE jobs SET state = 'Suspended' WHERE job_id = %s", [job])
    if gives_back:
        connection.execute(
            "UPDATE assigned_resources SET suspended = true, during = held_until(during, statement_timestamp())"
            " WHERE job_id = %s",
            [job],
        )


@pytest.mark.parametrize("seed", range(12))
def test_the_view_is_what_the_scheduler_computes(connection: Connection, seed: int) -> None:
    random = Random(seed)
    connection.execute("UPDATE queues SET policy = 'fairshare'")
    free = [*add_nodes(connection, "n1", cores=16)]
    connection.execute("INSERT INTO resources (type) VALUES ('licence'), ('licence')")
    free += [row[0] for row in connection.execute("SELECT resource_id FROM resources WHERE type = 'licence'")]
    random.shuffle(free)
    for _ in range(random.randrange(12)):
        who = random.choice(USERS), random.choice(PROJECTS)
        queue = random.choice(("default", "default", "admin", "besteffort"))
        account(connection, *who, random.randrange(1, DAY), days=random.uniform(0, 70), queue=queue)
    for _ in range(random.randrange(6)):
        state = random.choice(("toLaunch", "Launching", "Running", "Running", "Finishing"))
        freely = random.random() < 0.3
        job = add_job(
            connection,
            state,
            user=random.choice(USERS),
            project=random.choice(PROJECTS),
            resources=[free.pop() for _ in range(random.randint(1, 3))],
            started=datetime.now(UTC) - timedelta(days=random.uniform(0, 20)),
            walltime=timedelta(hours=random.randint(1, 900)),
            types=["besteffort"] if freely else [],
            queue_name="besteffort" if freely and random.random() < 0.7 else "default",
        )
        if state == "Running" and random.random() < 0.5:
            suspend(connection, job, gives_back=random.random() < 0.7)
    for user in USERS:
        for project in PROJECTS:
            add_job(connection, "Hold", user=user, project=project)
    configuration = configured(
        window=random.choice((3, 15, 30, 60)) * DAY,
        karma_project=random.choice((0.0, 1.5)),
        karma_user=random.choice((0.0, 2.0)),
        karma_asked=random.choice((0.0, 0.5)),
        user_targets=random.choice(((), ("ann=60", "bob=12.5"))),
        other_users_target=random.choice((0.0, 10.0)),
        project_targets=random.choice(((), ("sea=75",))),
        other_projects_target=random.choice((0.0, 5.0)),
    )
    one_pass(connection, configuration)
    with connection.transaction():  # one instant for both
        snapshot = SnapshotReader(configuration).read(connection, int(time.time())).snapshot
        told = view(connection)
    known = snapshot.priorities
    assert {name for kind, name in told if kind == "user"} == set(known.usage.used_by_user)
    assert {name for kind, name in told if kind == "project"} == set(known.usage.used_by_project)
    compared = [one for one in snapshot.waiting if ("user", one.user) in told and ("project", one.project) in told]
    assert compared or not told
    for one in compared:
        assert told["user", one.user] + told["project", one.project] == pytest.approx(karma(one, known), abs=1e-9)


def test_what_jobs_hold_counts_as_it_will_be_accounted(connection: Connection) -> None:
    """Suspended jobs too, licences and best-effort jobs not, and no more than the window of what was used."""
    nodes = add_nodes(connection, "n1", cores=6)
    connection.execute("INSERT INTO resources (resource_id, type) VALUES (99, 'licence')")
    before = datetime.now(UTC) - timedelta(days=10)
    hours = timedelta(hours=10)
    add_job(connection, "Running", user="ann", resources=[nodes[0], 99], started=before, walltime=hours)
    stopped = add_job(connection, "Running", user="bob", resources=nodes[1:3], started=before, walltime=hours)
    suspend(connection, stopped, gives_back=True)
    add_job(connection, "toLaunch", user="cyd", resources=nodes[3:4], walltime=hours)
    add_job(connection, "Running", user="dan", resources=nodes[4:5], started=before, types=["besteffort"])
    account(connection, "ann", "default", DAY, days=3)
    one_pass(connection, configured(window=2 * DAY, karma_user=2.0, karma_asked=1.0, user_targets=("ann=50",)))
    rows = connection.execute(
        "SELECT name, asked_seconds, used_seconds, target, karma FROM oar_report.karma"
        " WHERE kind = 'user' ORDER BY name"
    ).fetchall()
    assert rows == [
        ("ann", 36000, 2 * DAY, 0.5, pytest.approx(2 * (1 / 3 - 0.5) + (1 / 4 - 0.5))),
        ("bob", 72000, 4 * DAY, 0, pytest.approx(2 * 2 / 3 + 2 / 4)),
        ("cyd", 36000, 0, 0, pytest.approx(1 / 4)),
    ]


def test_settings_that_change_are_recorded_by_the_next_process(connection: Connection) -> None:
    account(connection, "ann", "default", 100, days=5)
    assert view(connection) == {("user", "ann"): 3, ("project", "default"): 0}
    one_pass(connection, configured(karma_user=5.0, karma_project=1.0, karma_asked=0.0))
    assert view(connection) == {("user", "ann"): 5, ("project", "default"): 1}
    one_pass(connection, configured(window=DAY))
    assert view(connection) == {}
    one_pass(connection, configured(window=10**15))
    assert view(connection) == {("user", "ann"): 3, ("project", "default"): 0}


def test_the_query_uses_the_index(connection: Connection) -> None:
    connection.execute(
        "INSERT INTO accounting SELECT d, d + interval '1 day', 'u' || u, 'p', 'default', 'USED', 1"
        " FROM generate_series(now() - interval '10 years', now(), '1 day') AS d, generate_series(1, 20) AS u"
    )
    connection.execute("ANALYZE accounting")
    for query in (accounting._ACCOUNTED, "SELECT * FROM oar_report.karma"):
        plan = connection.execute(f"EXPLAIN {query}").fetchall()
        assert "accounting_pkey" in "\n".join(row[0] for row in plan)
