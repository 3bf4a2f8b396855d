"""A database that was restored from an older state gives no id twice, refuses no new job, and says what it lost.

A dump is a copy of the database here, which takes the place of what is lost. ``tests/e2e/test_disaster.py`` has a real
dump and real processes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from oarpy.modules.canceller import Canceller
from oarpy.modules.metascheduler.metascheduler import Metascheduler
from oarpy.modules.monitor import Monitor
from oarpy.store.platform import site
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import Ready, Recall, Recalled, RecalledJob
from tests.db.test_module_loop import leader, running
from tests.harness.hand_written import rewrite
from tests.harness.small_cluster import SETTINGS, Connection, SmallCluster
from tests.harness.waiting import DEADLINE, until

pytestmark = [pytest.mark.db, pytest.mark.oldest]

GAP = 1_000_000
LOST = "UPDATE generations SET copy = 'the one that is lost'"


@dataclass(slots=True)
class Site:
    """A cluster whose database can be dumped and restored; the nodes live on."""

    dsn: str
    connection: Connection
    cluster: SmallCluster
    dumps: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The database."""
        return str(conninfo_to_dict(self.dsn)["dbname"])

    def dump(self) -> None:
        """Keep the database as it is now, when some module has run on it."""
        site.generation(self.connection)
        self.cluster.sql(
            "INSERT INTO module_runs (module, pid, host, at) VALUES ('test', 1, 'here', clock_timestamp())"
            " ON CONFLICT (module) DO UPDATE SET at = excluded.at"
        )
        self.dumps.append(f"dump_{uuid.uuid4().hex}")
        self._replace("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy", self.dumps[-1], self.name)

    def restore(self, *, noticed: bool) -> None:
        """Lose the database and restore the last dump: elsewhere, or unnoticed, as from a copy of the whole disk."""
        self._replace("DROP DATABASE {}", self.name)
        self._replace("ALTER DATABASE {} RENAME TO {}", self.dumps.pop(), self.name)
        if noticed:
            rewrite(self.connection, LOST)
            assert site.generation(self.connection).number > 0  # as every module does first
        self.cluster.connection = self.connection
        self.cluster.scheduler = Metascheduler(SETTINGS)
        self.cluster.canceller, self.cluster.monitor = Canceller(SETTINGS), Monitor(SETTINGS)
        self.cluster.restart_launcher()

    def _replace(self, statement: str, *names: str) -> None:
        self.connection.close()
        with psycopg.connect(self.dsn, dbname="postgres", autocommit=True) as maintenance:
            maintenance.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
            exists = maintenance.execute("SELECT FROM pg_database WHERE datname = %s", [self.name]).fetchall()
        if exists:
            self.connection = self.cluster.connection = psycopg.connect(self.dsn, autocommit=True)

    def lost(self) -> list[tuple[Any, ...]]:
        """What the report names: job, attempt, node, user, resources, outcome, whether it is known."""
        return self.cluster.sql(
            "SELECT job_id, attempt, network_address, user_name, resources, outcome, known"
            " FROM oar_report.lost_jobs ORDER BY 1, 2, 3"
        )


@pytest.fixture
def place(dsn: str, connection: Connection) -> Iterator[Site]:
    cluster = SmallCluster(connection)
    cluster.add_nodes("n1", "n2")
    made = Site(dsn, connection, cluster)
    yield made
    made.connection.close()
    for name in made.dumps:
        made._replace("DROP DATABASE IF EXISTS {}", name)


def settled(cluster: SmallCluster, job: int) -> tuple[str, str]:
    cluster.settle()
    return cluster.state(job), cluster.job(job, "message")


@pytest.mark.parametrize("noticed", [True, False], ids=["elsewhere", "the same disk"])
def test_ids_that_were_given_after_the_dump_do_not_come_again(place: Site, noticed: bool) -> None:
    cluster = place.cluster
    before = cluster.submit(command="true")
    cluster.settle()
    place.dump()
    given = cluster.submit_array(5, command="true")
    cluster.settle()
    assert set(cluster.states(given)) == {"Terminated"}
    place.restore(noticed=noticed)
    cluster = place.cluster
    cluster.settle()
    new = cluster.submit_array(5, command="true")
    assert min(new) > max(given)
    assert min(new) == (before // GAP + 2) * GAP + 1
    cluster.settle()
    assert cluster.states(new) == ["Terminated"] * 5
    events = cluster.sql("SELECT type, hosts FROM event_logs WHERE job_id IS NULL ORDER BY event_id")
    assert events[0] == ("RESTORED", [])
    assert {kind for kind, _ in events[1:]} == {"JOBS_LOST"}
    assert [row[0] for row in place.lost()] == given


def test_a_job_submitted_before_any_module_runs_gets_no_old_id(place: Site) -> None:
    """The statement itself looks first, whoever sends it."""
    place.dump()
    given = place.cluster.submit()
    place.restore(noticed=False)
    rewrite(place.connection, LOST)
    assert place.cluster.submit_array(3)[0] > given + GAP


def test_a_new_job_with_an_old_id_is_started_all_the_same(place: Site) -> None:
    """Submitted before any node could say that there was a restore."""
    cluster = place.cluster
    place.dump()
    given = cluster.submit(command="true")
    cluster.settle()
    place.restore(noticed=False)
    cluster = place.cluster
    again = cluster.submit(command="true")
    assert again == given
    assert settled(cluster, again)[0] == "Terminated"
    cluster.restart_launcher()
    assert cluster.submit() > again


def test_what_waited_at_the_dump_and_began_since_does_not_begin_again(place: Site) -> None:
    cluster = place.cluster
    once, twice, untouched = cluster.submit(), cluster.submit(types=("idempotent",)), cluster.submit("/core=4")
    place.dump()
    cluster.settle()
    for job in (once, twice):
        cluster.end(job)
    cluster.sql("UPDATE jobs SET state = 'Hold' WHERE job_id = %s", untouched)
    cluster.settle()
    assert cluster.states([once, twice]) == ["Terminated"] * 2
    starts = len(cluster.node("n1").starts) + len(cluster.node("n2").starts)
    place.restore(noticed=True)
    cluster = place.cluster
    state, message = settled(cluster, once)
    assert state == "Error"
    assert message.startswith("killed: it ran on n1 from 20")
    assert message.endswith("and the database has lost what came of it")
    assert "Launching" not in cluster.path(once)
    assert (cluster.state(twice), cluster.job(twice, "attempt")) == ("Running", 100)
    cluster.end(twice)
    cluster.settle()
    assert cluster.states([twice, untouched]) == ["Terminated", "Running"]
    assert len(cluster.node("n1").starts) + len(cluster.node("n2").starts) == starts + 2
    assert [(row[0], row[1], row[6]) for row in place.lost()] == [(once, 1, True), (twice, 1, True)]


def test_what_ran_at_the_dump_runs_on_or_ends_as_its_node_says(place: Site) -> None:
    cluster = place.cluster
    on, ended, killed, gone = (cluster.submit() for _ in range(4))
    cluster.settle()
    assert cluster.states([on, ended, killed, gone]) == ["Running"] * 4
    place.dump()
    cluster.end(ended, 7 << 8)
    cluster.delete(killed)
    cluster.settle()
    node, key = cluster.hosts(gone)[0], cluster.key(gone)
    del cluster.node(node).jobs[key]  # as when the disk of a node was replaced, too
    place.restore(noticed=True)
    cluster = place.cluster
    cluster.settle()
    assert cluster.states([on, ended, killed, gone]) == ["Running", "Terminated", "Error", "Error"]
    assert cluster.job(ended, "exit_status") == 7 << 8
    assert cluster.events(gone) == ["NODE_LOST"]
    assert place.lost() == []
    cluster.end(on)
    assert settled(cluster, on)[0] == "Terminated"


def test_what_runs_on_a_node_and_was_lost_is_ended_and_named(place: Site) -> None:
    cluster = place.cluster
    place.dump()
    stray = cluster.submit("/nodes=2/core=2")
    cluster.settle()
    assert cluster.state(stray) == "Running"
    place.restore(noticed=True)
    cluster = place.cluster
    cluster.settle()
    assert place.lost() == [(stray, 1, "n1", "ann", 4, "killed", False)]
    ((seconds, used),) = cluster.sql(
        "SELECT extract(epoch FROM ended_at - began_at)::float8, used_seconds FROM oar_report.lost_jobs"
    )
    assert used == pytest.approx(4 * seconds)
    assert cluster.held() == {}


def test_a_node_that_was_away_tells_when_it_is_back(place: Site) -> None:
    cluster = place.cluster
    place.dump()
    away, here = cluster.submit("/nodes=1/core=2"), cluster.submit("/nodes=1/core=2")
    cluster.settle()
    assert cluster.hosts(away)[0] == "n1"
    place.restore(noticed=True)
    cluster = place.cluster
    cluster.node("n1").unreachable = "no route"
    cluster.sql("UPDATE resources SET state = 'Suspected', state_by = 'monitor' WHERE network_address = 'n1'")
    cluster.settle()
    assert [row[0] for row in place.lost()] == [here]
    new = cluster.submit("/nodes=1/core=2", command="true")
    assert settled(cluster, new)[0] == "Terminated"
    cluster.node("n1").unreachable = ""
    cluster.reconnect("n1")
    cluster.settle()
    assert [row[0] for row in place.lost()] == [away, here]
    cluster.restart_launcher()
    cluster.settle()
    assert len(cluster.sent(Recall)) == 2  # each node once
    assert len(place.lost()) == 2


def test_a_second_restore_of_the_same_dump_goes_on_from_what_nodes_know(place: Site) -> None:
    cluster = place.cluster
    waiting = cluster.submit(types=("idempotent",))
    place.dump()
    place.dump()
    attempts, ids = [], []
    for _ in range(2):
        place.restore(noticed=True)
        cluster = place.cluster
        cluster.settle()
        attempts.append(cluster.job(waiting, "attempt"))
        ids.append(cluster.submit(command="true"))
        assert settled(cluster, ids[-1])[0] == "Terminated"
        cluster.end(waiting)
        cluster.settle()
    assert attempts == [100, 200]
    assert ids[1] > ids[0]


def test_a_node_that_lies_about_the_highest_id_does_not_use_them_up(place: Site) -> None:
    cluster = place.cluster
    cluster.settle()
    highest = cluster.submit(command="true")
    cluster.settle()
    cluster.nodes.inbox.put("n1", [Ready(1, "boot-1", "boot-1:n1", 1.0, (), 1 << 46)])
    cluster.settle()
    assert cluster.submit() == highest + 1
    for _ in range(3):
        cluster.nodes.inbox.put(
            "n2", [Ready(1, "boot-1", "boot-1:n2", 1.0, (), site.highest_job(cluster.connection) + 9)]
        )
        cluster.settle()
    assert cluster.submit() == 2 * GAP + 1  # believed once


def test_a_node_may_not_recall_unasked(place: Site) -> None:
    cluster = place.cluster
    waiting = cluster.submit("/core=4", command="sleep 1")
    cluster.nodes.inbox.put("n1", [Recalled((RecalledJob(JobKey(waiting, 5), "eve", 1, 1.0, 2.0, 0, "exited"),))])
    cluster.settle()
    assert (cluster.state(waiting), place.lost()) == ("Running", [])


def test_a_module_begins_afresh_on_a_restored_database(place: Site, cluster_environment: dict[str, str]) -> None:
    """What it remembers is of the database that is lost; whoever supervises it starts it again."""
    with running(cluster_environment, "canceller") as process:
        found = "SELECT pid FROM pg_stat_activity WHERE application_name = 'oarpy canceller' AND datname = %s"
        until(lambda: leader(place.connection, "canceller"), "it leads")
        (session,) = place.cluster.sql(found, place.name)[0]
        rewrite(place.connection, LOST)
        place.cluster.sql("SELECT pg_terminate_backend(%s)", session)
        assert process.wait(DEADLINE) == 0
        assert process.stderr is not None
        assert b"the database was restored" in process.stderr.read()
