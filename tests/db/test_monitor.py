"""The monitor: lost nodes are suspected, their jobs end, and they come back by themselves."""

from __future__ import annotations

from datetime import datetime

import psycopg
import pytest

from oarpy.store import notifications
from oarpy.wire.messages import Kill
from tests.harness.small_cluster import Connection, SmallCluster, with_settings

pytestmark = [pytest.mark.db, pytest.mark.oldest, pytest.mark.kept]

SILENCE = 60.0


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection, with_settings(nodes={"lost_timeout": SILENCE}))
    made.add_nodes("n1", "n2")
    made.settle()
    return made


def lose(cluster: SmallCluster, name: str, seconds: float = SILENCE + 1) -> None:
    """A node that has not answered for ``seconds``."""
    cluster.node(name).unreachable = f"cannot reach node {name}"
    cluster.nodes.lose(name)
    cluster.launch()
    cluster.sql(
        "UPDATE nodes SET channel_since = channel_since - %s * interval '1 second' WHERE network_address = %s",
        seconds,
        name,
    )


def bring_back(cluster: SmallCluster, name: str) -> None:
    cluster.node(name).unreachable = ""
    cluster.reconnect(name)


def resource_states(cluster: SmallCluster) -> dict[str, str]:
    return dict(cluster.sql("SELECT DISTINCT network_address, state FROM resources"))


def test_a_node_lost_for_a_moment_keeps_its_job(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.settle()
    lose(cluster, "n1", SILENCE - 30)
    cluster.settle()
    assert resource_states(cluster)["n1"] == "Alive"
    bring_back(cluster, "n1")
    cluster.settle()
    assert cluster.state(job) == "Running"
    cluster.end(job)
    cluster.settle()
    assert cluster.state(job) == "Terminated"


def test_properties_may_be_called_as_columns_of_other_tables(cluster: SmallCluster) -> None:
    names = cluster.sql(
        "SELECT DISTINCT column_name::text FROM information_schema.columns WHERE table_schema = 'public' EXCEPT"
        " SELECT column_name::text FROM information_schema.columns WHERE table_name = 'resources'"
    )
    assert ("job_id",) in names
    for (name,) in names:
        cluster.sql(f'ALTER TABLE resources ADD COLUMN "{name}" integer')
    job, lost = cluster.submit("/nodes=1"), cluster.submit("{host = 'n2'}/nodes=1", types=("idempotent",))
    cluster.settle()
    assert cluster.states([job, lost]) == ["Running", "Running"]
    lose(cluster, "n2")
    cluster.settle()
    assert cluster.states([job, lost]) == ["Running", "Error"]
    bring_back(cluster, "n2")
    cluster.end(job)
    cluster.settle()
    assert cluster.state(job) == "Terminated"
    assert resource_states(cluster) == {"n1": "Alive", "n2": "Alive"}


def test_a_lost_node_is_suspected_and_its_job_ends_with_the_reason(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.settle()
    lose(cluster, "n1")
    cluster.settle()
    assert resource_states(cluster) == {"n1": "Suspected", "n2": "Alive"}
    assert cluster.state(job) == "Error"
    assert cluster.job(job, "message") == "node n1 was lost while the job was there"
    assert cluster.events(job) == ["NODE_LOST"]
    hosts = cluster.sql("SELECT hosts FROM event_logs WHERE type = 'PING_CHECKER_NODE_SUSPECTED'")
    assert hosts == [(["n1"],)]


def test_a_suspected_node_that_answers_is_alive_again(cluster: SmallCluster) -> None:
    lose(cluster, "n1")
    cluster.settle()
    bring_back(cluster, "n1")
    cluster.settle()
    assert resource_states(cluster) == {"n1": "Alive", "n2": "Alive"}
    job = cluster.submit("/nodes=2")
    cluster.settle()
    assert cluster.state(job) == "Running"


def test_what_an_admin_suspects_stays_so(cluster: SmallCluster) -> None:
    cluster.sql("UPDATE resources SET state = 'Suspected', state_by = 'admin' WHERE network_address = 'n1'")
    cluster.settle()
    assert resource_states(cluster)["n1"] == "Suspected"


def test_a_job_that_lost_another_node_is_killed_where_it_can_be_reached(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2")
    cluster.settle()
    lose(cluster, "n2")
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "message")) == ("Error", "killed: node n2 was lost")
    assert cluster.events(job) == ["NODE_LOST", "KILLED"]
    assert [name for name, _ in cluster.sent(Kill)] == ["n1"]


@pytest.mark.parametrize("lost", ["n1", "n2"])
def test_an_idempotent_job_is_submitted_again_once(cluster: SmallCluster, lost: str) -> None:
    job = cluster.submit("/nodes=2", types=("idempotent",))
    cluster.settle()
    lose(cluster, lost)
    cluster.settle()
    assert cluster.state(job) == "Error"
    ((copy,),) = cluster.sql("SELECT job_id FROM jobs WHERE resubmit_of = %s", job)
    assert cluster.state(copy) == "Waiting"
    bring_back(cluster, lost)
    cluster.settle()
    assert cluster.state(copy) == "Running"
    lose(cluster, lost)
    cluster.settle()
    assert cluster.state(copy) == "Error"
    assert cluster.sql("SELECT count(*) FROM jobs") == [(2,)]
    bring_back(cluster, lost)
    by_hand = cluster.submit("/nodes=2", types=("idempotent",))
    cluster.sql("UPDATE jobs SET resubmit_of = %s WHERE job_id = %s", copy, by_hand)
    cluster.settle()
    assert cluster.state(by_hand) == "Running"
    lose(cluster, lost)
    cluster.settle()
    assert cluster.sql("SELECT count(*) FROM jobs WHERE resubmit_of = %s", by_hand) == [(1,)]


def test_a_job_about_to_be_launched_on_a_lost_node_waits_again(cluster: SmallCluster) -> None:
    cluster.plan()
    lose(cluster, "n1", 0)
    job = cluster.submit("/core=1")
    cluster.plan()
    assert (cluster.state(job), cluster.hosts(job)) == ("toLaunch", ["n1"])
    cluster.launch()
    assert cluster.state(job) == "toLaunch"
    lose(cluster, "n1")
    cluster.settle()
    assert (cluster.state(job), cluster.hosts(job)) == ("Running", ["n2"])
    assert cluster.job(job, "attempt") == 1


def test_nothing_is_said_of_nodes_while_no_launcher_runs(cluster: SmallCluster, dsn: str) -> None:
    job = cluster.submit()
    cluster.settle()
    lose(cluster, "n1")
    # the lock of leadership is this session's: a monitor elsewhere sees it until it is given back
    cluster.sql("SELECT pg_advisory_unlock_all()")
    with psycopg.connect(dsn, autocommit=True) as other:
        cluster.monitor.run_once(other, datetime.now().astimezone())
        assert resource_states(cluster)["n1"] == "Alive"
        notifications.try_lead(cluster.connection, "launcher")
        cluster.monitor.run_once(other, datetime.now().astimezone())
        assert resource_states(cluster)["n1"] == "Suspected"
    cluster.settle()
    assert cluster.state(job) == "Error"


def test_a_new_launcher_gives_lost_nodes_their_time_again(cluster: SmallCluster) -> None:
    lose(cluster, "n1")
    cluster.restart_launcher()
    cluster.settle()
    assert cluster.sql("SELECT channel FROM nodes ORDER BY network_address") == [("lost",), ("connected",)]
    assert resource_states(cluster)["n1"] == "Alive"


def test_a_second_suspicion_by_hand_made_alive(cluster: SmallCluster) -> None:
    """An admin who sets a node Alive that does not answer is overruled."""
    lose(cluster, "n1")
    cluster.settle()
    cluster.sql("UPDATE resources SET state = 'Alive', state_by = 'admin'")
    cluster.settle()
    assert resource_states(cluster)["n1"] == "Suspected"


@pytest.mark.parametrize("state", ["Absent", "Dead"])
def test_jobs_on_resources_taken_away_by_hand_end(cluster: SmallCluster, state: str) -> None:
    job = cluster.submit(types=("idempotent",))
    other = cluster.submit("{network_address = 'n2'}/core=1")
    cluster.settle()
    cluster.sql("UPDATE resources SET state = %s WHERE network_address = 'n1'", state)
    cluster.settle()
    assert cluster.states([job, other]) == ["Error", "Running"]
    assert cluster.job(job, "message") == f"killed: n1 set {state}"
    assert cluster.sql("SELECT count(*) FROM jobs") == [(2,)]


@pytest.mark.parametrize("launched", [False, True])
def test_a_resource_taken_away_while_a_job_was_placed_on_it(cluster: SmallCluster, launched: bool) -> None:
    """The pass that placed the job did not see the change, which was made before and committed after it."""
    job = cluster.submit()
    cluster.plan()
    assert cluster.state(job) == "toLaunch"
    if launched:
        cluster.launch()
    cluster.sql("UPDATE resources SET state = 'Absent' WHERE network_address = 'n1'")
    cluster.sql("UPDATE resources SET state_since = now() - interval '1 hour' WHERE network_address = 'n1'")
    cluster.watch()
    cluster.settle()
    if launched:
        assert (cluster.state(job), cluster.job(job, "message")) == ("Error", "killed: n1 set Absent")
    else:
        assert (cluster.state(job), cluster.hosts(job)) == ("Running", ["n2"])


def test_a_job_that_its_node_does_not_end_is_killed(cluster: SmallCluster) -> None:
    late, held = cluster.submit("/core=1"), cluster.submit("/core=1")
    cluster.settle()
    for job, since in ((late, "2 hours"), (held, "1 hour 10 seconds")):
        cluster.sql(
            "UPDATE jobs SET started_at = now() - %s::interval, submitted_at = now() - interval '1 day'"
            " WHERE job_id = %s",
            since,
            job,
        )
    cluster.watch()
    cluster.settle()
    assert cluster.states([late, held]) == ["Error", "Running"]
    assert cluster.job(late, "message") == "killed: its walltime is over and its node did not end it"


def test_a_drained_node_keeps_its_job(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.settle()
    cluster.sql("UPDATE resources SET drain = true WHERE network_address = 'n1'")
    cluster.settle()
    assert cluster.state(job) == "Running"
