"""Odd values in the rows of an application, written by hand: it alone suffers, passes and other launchers go on."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from psycopg.types.json import Jsonb

from tests.harness.gateway_process import GatewayProcess, gateway
from tests.harness.launchers import LauncherProcess, launcher, negotiator
from tests.harness.oarsub_cluster import build, decide, let_run, settings
from tests.harness.sample_cluster import Connection
from tests.harness.waiting import until

pytestmark = pytest.mark.db

ODD = {
    "filter": ["3", "[]", '{"colour": 1}', '{"clusters": 3}', '{"properties": "x ="}', '{"min_hosts": -1}'],
    "hosts": ["3", "[]", "{}", '{"all#1": "x"}', '{"all#1": [1]}', '{"nowhere": 1}', '{"all#1": -1}', '{"all#1": 1e9}'],
    "tag": ["true", "[]", "{}", "1.5", '""'],
    "view": ["3", "[]", '{"all#1": 3}', '{"all#1": []}', '{"all#1": [1, "x"]}', '{"all#1": ["x", [1]]}',
             '{"all#1": [1, [1, 2]]}', '{"all#1": [1, []]}', '{"all#1": [1, ["a", "b", "c"]]}', '{"no": [1, [1]]}'],
    "told": ["3", "[]", "{}", '{"tag": 1}', '{"tag": 1, "start": "x"}', '{"start": 1}', '{"tag": {}, "start": []}'],
    "walltime": ["1 microsecond", "178000000 years"],
    "level": ["x", "core"],
    "free_groups": ["3", "[]", '{"all#1": 3}', '{"all#1": []}', '{"all#1": [1, 3]}', '{"all#1": [1, [[1, [[1]]]]]}'],
    "informed": ["3", "[]", '{"all#1": 3}', '{"all#1": [1, 2]}', '{"all#1": ["x", 1, 2, 3]}'],
    "exact": ["true"],
    "requests": ["2147483647"],
    "serial": ["9007199254740991"],
    "first_asked_at": ["infinity", "-infinity"],
    "subscribed_at": ["infinity", "-infinity"],
    "lost_since": ["infinity", "-infinity"],
    "token_hash": ["x", "é"],
    "ended": ["walltime", "lost"],
}  # fmt: skip
OTHERS = [
    "INSERT INTO ghosts VALUES (1, now(), 'infinity', '{[1,3)}', '{999}', '{1}')",
    "INSERT INTO ghosts VALUES (1, '-infinity', 'infinity', '{[1,3)}', '{}', '{}')",
    "INSERT INTO ghosts VALUES (1, now(), now(), '{[900,901)}', '{1}', '{9007199254740991}')",
    "INSERT INTO ghosts VALUES (1, now(), now() + interval '1 hour', '{}', '{1,1}', '{1,2}')",
    "INSERT INTO extensions (job_id, kind, hosts) VALUES (1, 'firm', '{\"all#1\": \"x\"}')",
    "INSERT INTO extensions (job_id, kind, hosts) VALUES (1, 'firm', '{\"all#1\": -1}')",
    "INSERT INTO extensions (job_id, kind, hosts) VALUES (1, 'revocable', '{\"nowhere\": 1}')",
    "INSERT INTO extensions (job_id, kind, hosts) VALUES (1, 'revocable', '{}')",
    "INSERT INTO extensions (job_id, kind, hosts, told) VALUES (1, 'firm', '{\"all#1\": 1}', '3')",
    "INSERT INTO extensions (job_id, kind, hosts, told, tag) VALUES (1, 'firm', '{\"all#1\": 1}', '{}', '[]')",
    "INSERT INTO extensions (job_id, kind, hosts, asked_at) VALUES (1, 'firm', '{\"all#1\": 1}', 'infinity')",
]


@pytest.fixture
def running(connection: Connection, cluster_environment: dict[str, str]) -> Iterator[GatewayProcess]:
    """A gateway and a negotiator."""
    build(connection)
    environment = {**cluster_environment, **settings(), "TZ": "UTC"}
    with gateway(environment, workers=2) as found, negotiator(environment, found, message_rate=1000):
        yield found


def waiting(running: GatewayProcess, connection: Connection) -> tuple[LauncherProcess, int]:
    """An application that waits for hosts that a batch job holds."""
    running.run("oarsub", "-l", "/nodes=2,walltime=1:0:0", "-p", "host IN ('n2', 'n3')", "sleep 1")
    decide(connection)
    let_run(connection)
    one = launcher(running)
    one.say("subscribe")
    job = int(one.hear("subscribed")["job"])
    one.hear("changeNotify")
    one.say("request", tag=1, hosts={"all#1": 1}, walltime=60)
    asked = "SELECT state FROM applications"
    until(lambda: connection.execute(asked).fetchone() == ("RequestSent",), "the request is stored")
    decide(connection)
    one.hear("estimate")
    return one, job


def changed(connection: Connection, job: int) -> Iterator[str]:
    """Change something by hand, each thing that the database lets through."""
    change = SQL("UPDATE applications SET {} = {} WHERE job_id = {}")
    changes = [change.format(Identifier(name), value, job) for name, values in ODD.items() for value in values]
    for one in (*(change.as_string(connection) for change in changes), *OTHERS):
        try:
            connection.execute(one.encode())
        except (psycopg.errors.IntegrityError, psycopg.errors.DataError):
            continue
        yield one


def test_passes_place_the_others(running: GatewayProcess, connection: Connection) -> None:
    _, job = waiting(running, connection)
    batch = int(running.run("oarsub", "-l", "/nodes=1", "-p", "host = 'n4'", "sleep 1").out.rpartition("=")[2])
    before = kept(connection, job)
    tried = 0
    for change in changed(connection, job):
        tried += 1
        with connection.transaction(force_rollback=True):
            decide(connection)
            found = connection.execute("SELECT state FROM jobs WHERE job_id = %s", [batch]).fetchone()
            assert found == ("toLaunch",), change
        restore(connection, job, before)
    assert tried > 20


def test_other_launchers_are_answered(running: GatewayProcess, connection: Connection) -> None:
    _, job = waiting(running, connection)
    other = launcher(running)
    other.say("subscribe")
    other.hear("subscribed")
    other.hear("changeNotify")
    again = launcher(running)
    before = kept(connection, job)
    tried = 0
    for change in changed(connection, job):
        tried += 1
        again.say("attach", job=job)
        while again.hear()["message"] not in ("attached", "refused"):
            continue
        other.say("listClustersInfo")
        assert other.hear()["message"] == "clustersInfo", change
        restore(connection, job, before)
    assert tried > 20
    again.say("attach", job=job)
    while again.hear()["message"] != "attached":
        continue


def kept(connection: Connection, job: int) -> Jsonb:
    """Return a row as it is."""
    row = connection.execute("SELECT to_jsonb(a) FROM applications a WHERE job_id = %s", [job]).fetchone()
    assert row is not None
    return Jsonb(row[0])


def restore(connection: Connection, job: int, row: Jsonb) -> None:
    """Write a row again as it was."""
    with connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.execute("DELETE FROM ghosts")
        connection.execute("DELETE FROM extensions")
        connection.execute("DELETE FROM applications WHERE job_id = %s", [job])
        connection.execute(
            "INSERT INTO applications SELECT * FROM jsonb_populate_record(NULL::applications, %s)", [row]
        )
