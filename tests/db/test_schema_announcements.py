"""Every change by hand that matters is announced to the automaton, and no other."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.harness.hand_written import Connection, add_job, add_resource, insert, move
from tests.harness.small_cluster import SmallCluster

pytestmark = [pytest.mark.db, pytest.mark.oldest, pytest.mark.kept]

LAST = "last"


@pytest.fixture
def listener(dsn: str) -> Iterator[Connection]:
    """A second connection that listens."""
    with psycopg.connect(dsn, autocommit=True) as opened:
        opened.execute("LISTEN oarpy_events")
        yield opened


def heard(connection: Connection, listener: Connection) -> list[str]:
    """What was announced since the last call: notifications come in order, so an own one marks the end."""
    connection.execute("SELECT pg_notify('oarpy_events', %s)", [LAST])
    kinds: list[str] = []
    for note in listener.notifies(timeout=60):
        if note.payload == LAST:
            return kinds
        kinds.append(note.payload)
    pytest.fail("the mark was not heard within a minute")


@pytest.fixture
def job(connection: Connection, listener: Connection) -> int:
    """A waiting job on a platform of one resource, all of it announced and forgotten."""
    number = add_job(connection)
    add_resource(connection)
    assert heard(connection, listener) == ["job Waiting", "nodes changed", "platform changed"]
    return number


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        ("UPDATE jobs SET state = 'Hold'", ["job Hold"]),
        ("UPDATE jobs SET queue_name = 'admin'", ["job changed"]),
        ("UPDATE jobs SET types = '{besteffort}'", ["job changed"]),
        ("UPDATE jobs SET properties = 'core > 1'", ["job changed"]),
        ("UPDATE jobs SET message = 'hello'", []),
        ("UPDATE jobs SET state = 'Hold' WHERE false", []),
        ("INSERT INTO kill_requests (job_id) SELECT job_id FROM jobs", ["kill requested"]),
        ("INSERT INTO signal_requests (job_id, signal) SELECT job_id, 12 FROM jobs", ["signal requested"]),
        ("UPDATE resources SET state = 'Absent'", ["platform changed"]),
        ("UPDATE resources SET core = 9", ["platform changed"]),
        (
            "ALTER TABLE resources ADD gpu integer; INSERT INTO resource_properties VALUES ('gpu', 'integer')",
            ["platform changed"],
        ),
        ("INSERT INTO resizes (job_id, kind, resource_ids) SELECT job_id, 'take', '{1}' FROM jobs", ["resize asked"]),
        ("INSERT INTO cluster_links VALUES ('blue', 'red', 0.01, 1e9)", ["links changed"]),
        ("INSERT INTO extensions (job_id, kind, hosts) SELECT job_id, 'firm', '{}' FROM jobs", ["extension changed"]),
        ("UPDATE nodes SET channel = 'lost'", ["nodes changed"]),
        ("UPDATE nodes SET port = 2222", ["nodes changed"]),
        ("UPDATE nodes SET channel_message = 'still lost'", []),
        ("UPDATE queues SET active = false", ["queues changed"]),
        ("DELETE FROM queues WHERE queue_name = 'admin'", ["queues changed"]),
        ("INSERT INTO quotas (max_jobs) VALUES (1)", ["quotas changed"]),
        ("INSERT INTO projects (project) VALUES ('fire')", ["projects changed"]),
        ("INSERT INTO quota_sets VALUES ('night')", ["quotas changed"]),
        ("UPDATE quota_periods SET label = 'late'", []),
        ("DELETE FROM resource_properties WHERE name = 'cpu'", ["platform changed"]),
        ("UPDATE resources SET state = 'Absent' WHERE false", []),
        ("UPDATE nodes SET channel = 'lost' WHERE false", []),
        ("UPDATE queues SET active = false WHERE false", []),
        (
            "INSERT INTO recurring_jobs (user_name, rule, submission, next_due_at) VALUES ('ann', '2h', '{}', now())",
            ["recurring jobs changed"],
        ),
        ("UPDATE recurring_jobs SET next_due_at = now()", []),
        ("DELETE FROM quotas", []),
        ("INSERT INTO kill_requests (job_id) SELECT job_id FROM jobs WHERE false", []),
        ("INSERT INTO signal_requests (job_id, signal) SELECT job_id, 12 FROM jobs WHERE false", []),
    ],
)
def test_change_is_announced(connection: Connection, listener: Connection, change: str, kinds: list[str]) -> None:
    connection.execute(change)
    assert heard(connection, listener) == kinds


def test_decided_kill_is_announced(connection: Connection, listener: Connection, job: int) -> None:
    insert(connection, "kill_requests", job_id=job)
    connection.execute("UPDATE kill_requests SET state = 'decided'")
    assert heard(connection, listener) == ["kill requested", "kill decided"]


def test_every_step_of_a_job_is_announced(connection: Connection, listener: Connection, job: int) -> None:
    way = ["toLaunch", "Launching", "Running", "Finishing", "Terminated"]
    move(connection, job, *way)
    assert heard(connection, listener) == [f"job {state}" for state in way]


def test_a_transaction_of_many_says_it_once(connection: Connection, listener: Connection, job: int) -> None:
    with connection.transaction():
        for _ in range(20):
            add_job(connection)
        connection.execute("UPDATE jobs SET state = 'Hold' WHERE job_id <> %s", [job])
    assert heard(connection, listener) == ["job Waiting", "job Hold"]


def test_what_is_rolled_back_is_not_announced(connection: Connection, listener: Connection, job: int) -> None:
    with connection.transaction(force_rollback=True):
        move(connection, job, "Hold")
    assert heard(connection, listener) == []


def test_modules_that_find_nothing_to_do_wake_nobody(connection: Connection, listener: Connection) -> None:
    cluster = SmallCluster(connection)
    cluster.add_nodes("n1", "n2")
    cluster.settle()
    heard(connection, listener)
    cluster.settle()
    assert heard(connection, listener) == []
