"""Maintenance windows from the command to the pass; when nodes are away, who did it and why."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from tests.harness.sample_cluster import ME, Connection, Shell, add_job, add_nodes
from tests.harness.small_cluster import SmallCluster, with_settings

pytestmark = [pytest.mark.db, pytest.mark.kept]


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection)
    made.add_nodes("n1", "n2")
    made.settle()
    return made


def planned(cluster: SmallCluster, begin: int, end: int, *nodes: str, reason: str = "new disks") -> int:
    """Plan a window by SQL, from ``begin`` to ``end`` seconds from now."""
    ((window,),) = cluster.sql(
        "INSERT INTO maintenance_windows (during, reason) SELECT tstzrange(now() + %s, now() + %s), %s"
        " RETURNING window_id",
        *(timedelta(seconds=seconds) for seconds in (begin, end)),
        reason,
    )
    cluster.sql("INSERT INTO maintenance_nodes SELECT %s, unnest(%s::text[])", window, list(nodes))
    return int(window)


def test_no_job_starts_that_would_cross_a_window(cluster: SmallCluster) -> None:
    planned(cluster, 3600, 7200, "n1", "n2")
    long, short = cluster.submit("/nodes=1,walltime=2:0:0"), cluster.submit("/nodes=1,walltime=0:30:0")
    cluster.settle()
    assert cluster.states([long, short]) == ["Waiting", "Running"]
    verdict, reason = cluster.verdict(long)
    assert (verdict, reason.partition(" from ")[0]) == ("resources_down", "maintenance of n1, n2 (new disks)")
    start = cluster.predicted(long)
    assert start is not None
    assert 7100 < start <= 7202


def test_jobs_run_on_into_a_window_and_none_starts_until_its_end(cluster: SmallCluster) -> None:
    running = cluster.submit("/nodes=1,walltime=2:0:0")
    cluster.settle()
    planned(cluster, -10, 3600, "n1", "n2")
    job = cluster.submit("/nodes=1,walltime=0:10:0")
    cluster.settle()
    assert cluster.states([running, job]) == ["Running", "Waiting"]
    cluster.offset = 3601
    cluster.settle()
    assert cluster.state(job) == "Running"


def test_a_cancelled_window_is_announced_and_planned_with_no_more(cluster: SmallCluster, dsn: str) -> None:
    window = planned(cluster, -10, 3600, "n1", "n2")
    job = cluster.submit("/nodes=2")
    cluster.settle()
    assert cluster.state(job) == "Waiting"
    with psycopg.connect(dsn, autocommit=True) as listener:
        listener.execute("LISTEN oarpy_events")
        cluster.sql(
            "UPDATE maintenance_windows SET cancelled_by = 'root', cancelled_at = now() WHERE window_id = %s", window
        )
        assert next(iter(listener.notifies(timeout=60))).payload == "platform changed"
    cluster.settle()
    assert cluster.state(job) == "Running"


@pytest.mark.parametrize(
    "values",
    [
        "tstzrange(NULL, now())",
        "tstzrange(now(), NULL)",
        "tstzrange(now(), 'infinity')",
        "'empty'::tstzrange",
    ],
)
def test_a_window_has_two_ends(connection: Connection, values: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute(f"INSERT INTO maintenance_windows (during) VALUES ({values})")  # noqa: S608


def test_windows_are_planned_listed_shown_and_cancelled(connection: Connection, shell: Shell) -> None:
    cores = add_nodes(connection, "node1", "node2", cores=1)
    job = add_job(connection, "Running", resources=cores[:1], started=datetime.now(UTC))
    said = shell.done("oarnodesetting", "--maintenance", "now..+2h", "--reason", "new  disks", "node1")
    assert said == f"maintenance window 1: node1\njobs and reservations that may run into it: {job}\n"
    later = shell.done("oarnodesetting", "-m", "2100-01-01..2100-01-02", "-h", "node[1-2]", "-J")
    assert json.loads(later) == {"resources": cores, "killed_jobs": [], "window": 2, "crossed_jobs": []}
    assert connection.execute("SELECT state FROM jobs").fetchall() == [("Running",)]
    first, other = shell.done("oarnodes", "--maintenance").splitlines()
    assert first.startswith("1 from 2")
    assert first.endswith(f": new disks ({ME}); node1")
    assert other == f"2 from 2100-01-01 00:00:00 to 2100-01-02 00:00:00 ({ME}); node1, node2"
    assert shell.done("oarnodes", "--maintenance", "node2") == f"{other}\n"
    (window, _) = json.loads(shell.done("oarnodes", "--maintenance", "-J"))
    assert (window["nodes"], window["reason"], window["author"], window["under_way"]) == (
        ["node1"],
        "new disks",
        ME,
        True,
    )
    assert window["end"] - window["begin"] == 7200
    assert abs(window["planned_at"] - time.time()) < 600
    assert shell.done("oarnodes", "-s", "node1") == "node1\n    1 : Alive (maintenance)\n"
    assert "state: Alive (maintenance)\nmaintenance: 1 from " in shell.done("oarnodes", "node1")
    assert [one["window"] for one in json.loads(shell.done("oarnodes", "-J"))["1"]["maintenance"]] == [1, 2]
    assert shell.done("oarnodesetting", "--cancel-maintenance", "1") == "maintenance cancelled: 1\n"
    assert shell.done("oarnodes", "-s", "node1") == "node1\n    1 : Alive\n"
    assert shell.done("oarnodes", "--maintenance") == f"{other}\n"
    texts = shell.done("oarnodes", "-e", "node1")
    assert f"NODE_MAINTENANCE: maintenance 1 planned by {ME} from " in texts
    assert f"NODE_MAINTENANCE: maintenance 1 cancelled by {ME}" in texts


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["-m", "perhaps", "node1"], 2, "'perhaps' is no value of -m"),
        (["-m", "now..", "node1"], 2, "is no value of -m"),
        (["-m", "2100-01-02..2100-01-01", "node1"], 2, "is empty"),
        (["-m", "2020-01-01..2020-01-02", "node1"], 2, "is over"),
        (["-m", "now..soon", "node1"], 2, "'soon' is not a date"),
        (["-m", "now..+2h"], 2, "no resource given"),
        (["-m", "now..+2h", "nosuch"], 4, "there is no node nosuch"),
        (["-a", "-m", "now..+2h", "node9"], 2, "-m START..END does not go with -a"),
        (["--cancel-maintenance", "7"], 4, "there is no maintenance window 7 to cancel"),
        (["--cancel-maintenance", "7", "-d", "on"], 2, "--cancel-maintenance goes with no other option"),
    ],
)
def test_what_is_no_window_is_refused(
    connection: Connection, shell: Shell, arguments: list[str], status: int, complaint: str
) -> None:
    add_nodes(connection, "node1")
    result = shell("oarnodesetting", *arguments)
    assert (result.status, complaint in result.err) == (status, True), result
    assert connection.execute("SELECT count(*) FROM maintenance_windows").fetchall() == [(0,)]


def absences(connection: Connection) -> list[tuple[object, ...]]:
    return connection.execute(
        "SELECT network_address, reason, author, back_at IS NOT NULL FROM oar_report.node_absences ORDER BY away_at"
    ).fetchall()


def test_every_node_that_goes_away_has_an_author_and_a_date_and_history_keeps_them(
    connection: Connection, shell: Shell
) -> None:
    add_nodes(connection, "node1", "node2")
    shell.done("oarnodesetting", "-h", "node1", "-d", "on")
    assert f"state: Alive (drain)\nreason: none given ({ME}, 20" in shell.done("oarnodes", "node1")
    document = json.loads(shell.done("oarnodes", "-J"))
    assert (document["1"]["away_reason"], document["1"]["away_by"]) == ("", ME)
    assert abs(document["1"]["away_since"] - time.time()) < 600
    assert document["3"]["away_by"] is None
    shell.done("oarnodesetting", "-h", "node1", "-d", "on", "--reason", "a fan is loud")
    shell.done("oarnodesetting", "-h", "node1", "-s", "Absent")
    shell.done("oarnodesetting", "-h", "node1", "-s", "Alive", "-d", "off")
    assert absences(connection) == [("node1", "", ME, True), ("node1", "a fan is loud", ME, True)]


def test_what_sql_and_modules_do_has_an_author_too(cluster: SmallCluster) -> None:
    cluster.sql("UPDATE resources SET state = 'Absent', state_by = 'admin' WHERE network_address = 'n1'")
    cluster.sql("UPDATE nodes SET channel = 'lost', channel_since = now() - interval '1 day', channel_message = 'gone'")
    cluster.watch()
    ((user,),) = cluster.sql("SELECT session_user::text")
    assert absences(cluster.connection) == [("n1", "", user, False), ("n2", "no answer: gone", "monitor", False)]
    cluster.sql("UPDATE resources SET state = 'Alive'")
    assert [back for *_, back in absences(cluster.connection)] == [True, True]


def test_a_node_that_sleeps_is_not_down(connection: Connection) -> None:
    cluster = SmallCluster(connection, with_settings(energy={"enabled": True, "sleep_command": "cat"}))
    cluster.add_nodes("n1")
    cluster.sql("UPDATE resources SET available_upto = now() + interval '1 year'")
    cluster.sql("UPDATE resources SET state = 'Absent', state_by = 'monitor'")
    assert cluster.sql("SELECT away_since FROM nodes") == [(None,)]
