"""Running jobs grow and shrink by passes; nodes confirm at once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from oarpy.negotiation.store import applications
from oarpy.store import notifications
from oarpy.store.jobs import extensions, resizes
from oarpy.store.jobs.details import details
from oarpy.store.jobs.scope import JobScope
from oarpy.store.pages import gantt_spans
from oarpy.store.passes import gantt
from oarpy.store.past import moving
from tests.harness.small_cluster import Connection, SmallCluster, with_settings

pytestmark = [pytest.mark.db, pytest.mark.kept]

HELD = "SELECT resource_id FROM assigned_resources WHERE job_id = %s AND upper_inf(during) ORDER BY 1"
NOTICE = 40


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    """Four nodes of one core."""
    made = SmallCluster(connection, with_settings(negotiation={"reclaim_notice": NOTICE}))
    made.add_nodes("n1", "n2", "n3", "n4", cores=1)
    return made


@pytest.fixture
def job(cluster: SmallCluster) -> int:
    """A job that runs on the first node."""
    number = cluster.submit("/nodes=1,walltime=1:0:0")
    cluster.settle()
    return number


def held(cluster: SmallCluster, job: int) -> list[int]:
    return [resource for (resource,) in cluster.sql(HELD, job)]


def ask(cluster: SmallCluster, job: int, hosts: int, kind: str = "firm", cluster_name: str = "") -> int:
    number = extensions.ask(cluster.connection, job, kind, "more", {cluster_name: hosts})
    assert number is not None
    return number


def confirm(cluster: SmallCluster) -> None:
    """What nodes do."""
    resizes.confirm(cluster.connection, [one.id for one in resizes.opened(cluster.connection)])


def extension(cluster: SmallCluster, number: int) -> extensions.ExtensionRow:
    (row,) = [one for one in extensions.of_jobs(cluster.connection, [1, 2, 3, 4]) if one.id == number]
    return row


def test_a_pass_gives_hosts_that_are_free_and_nodes_confirm(cluster: SmallCluster, job: int) -> None:
    number = ask(cluster, job, 2)
    cluster.plan()
    assert (extension(cluster, number).state, held(cluster, job)) == ("Granting", [1, 2, 3])
    assert [(one.kind, one.resources) for one in resizes.opened(cluster.connection)] == [("grant", (2, 3))]
    confirm(cluster)
    assert extension(cluster, number).state == "Granted"
    other = cluster.submit("/nodes=2,walltime=0:1:0")
    cluster.settle()
    assert cluster.states([other]) == ["Waiting"]
    cluster.delete(job)
    cluster.settle()
    assert extension(cluster, number).state == "Over"
    assert held(cluster, other) == [1, 2]


def test_one_of_a_job_that_is_being_started_is_given_hosts_once_it_runs(cluster: SmallCluster) -> None:
    number = cluster.submit("/nodes=1,walltime=1:0:0")
    cluster.plan()
    assert cluster.states([number]) == ["toLaunch"]
    ask(cluster, number, 1)
    outcome = cluster.plan()
    assert held(cluster, number) == [1]
    assert outcome.wake_at is None
    ear = notifications.Ear(cluster.connection, notifications.run_channel("metascheduler"))
    while cluster.states([number]) != ["Running"]:
        assert ear.drain() == []
        cluster.launch()
    assert len(ear.drain()) == 1
    cluster.settle()
    assert held(cluster, number) == [1, 2]


def test_one_that_waits_is_told_when_and_takes_its_turn(cluster: SmallCluster, job: int) -> None:
    other = cluster.submit("/nodes=3,walltime=0:20:0")
    cluster.settle()
    number = ask(cluster, job, 1)
    behind = cluster.submit("/nodes=4,walltime=0:1:0")
    cluster.plan()
    told = extension(cluster, number).told
    assert told is not None
    assert (told["tag"], told["verdict"]) == ("more", "resources_busy")
    assert f"job {other} should be over" in told["reason"]
    cluster.plan()
    assert extension(cluster, number).told == told
    cluster.end(other)
    cluster.settle()
    assert held(cluster, job) == [1, 2]
    assert cluster.states([behind]) == ["Waiting"]


def test_a_new_one_takes_the_place_of_one_that_waits_and_none_withdraws_it(cluster: SmallCluster, job: int) -> None:
    first, revocable = ask(cluster, job, 7), ask(cluster, job, 8, "revocable")
    second = ask(cluster, job, 9)
    assert extensions.ask(cluster.connection, job, "firm", "more", {}) is None
    found = cluster.sql("SELECT extension_id, state FROM extensions ORDER BY 1")
    assert found == [(first, "Withdrawn"), (revocable, "Waiting"), (second, "Withdrawn")]
    cluster.plan()
    assert held(cluster, job) == [1]
    told = extension(cluster, revocable).told
    assert told is not None
    assert told["verdict"] == "never"


def test_revocable_hosts_are_taken_back_one_by_one_after_their_notice(cluster: SmallCluster, job: int) -> None:
    number = ask(cluster, job, 3, "revocable")
    cluster.plan()
    confirm(cluster)
    assert held(cluster, job) == [1, 2, 3, 4]
    other = cluster.submit("/nodes=2,walltime=0:1:0")
    outcome = cluster.plan()
    assert held(cluster, job) == [1, 2, 3, 4]
    reclaimed = "SELECT resource_id, reclaim_at - now() > interval '35 s' FROM assigned_resources WHERE"
    assert cluster.sql(f"{reclaimed} reclaim_at IS NOT NULL ORDER BY 1") == [(2, True), (3, True)]
    ((start,),) = cluster.sql("SELECT extract(epoch FROM start_time)::float8 FROM gantt_predictions")
    assert outcome.wake_at == start
    cluster.plan()
    assert resizes.opened(cluster.connection) == []
    cluster.offset = NOTICE + 1
    cluster.plan()
    assert [(one.kind, one.resources) for one in resizes.opened(cluster.connection)] == [("take", (2, 3))]
    outcome = cluster.plan()
    assert outcome.wake_at is None or outcome.wake_at > cluster.now().timestamp() + NOTICE / 2
    assert cluster.sql("SELECT count(*) FROM assigned_resources WHERE reclaim_at IS NOT NULL") == [(2,)]
    confirm(cluster)
    cluster.settle()
    assert (held(cluster, job), held(cluster, other)) == ([1, 4], [2, 3])
    assert (cluster.states([job, other]), extension(cluster, number).state) == (["Running", "Running"], "Granted")


def test_hosts_on_their_way_out_are_not_reclaimed(cluster: SmallCluster, job: int) -> None:
    ask(cluster, job, 3, "revocable")
    cluster.plan()
    confirm(cluster)
    assert resizes.order(cluster.connection, job, "release", [3, 4]) is not None
    other = cluster.submit("/nodes=3,walltime=0:1:0")
    cluster.plan()
    assert cluster.sql("SELECT resource_id FROM assigned_resources WHERE reclaim_at IS NOT NULL") == [(2,)]
    confirm(cluster)
    cluster.offset = NOTICE + 1
    cluster.plan()
    confirm(cluster)
    cluster.settle()
    assert (held(cluster, job), held(cluster, other)) == ([1], [2, 3, 4])


def test_a_host_is_named_once_its_node_is_ready(cluster: SmallCluster, job: int) -> None:
    ask(cluster, job, 1)
    cluster.plan()
    assert [*applications.held_hosts(cluster.connection, [job])[job]] == ["n1"]
    confirm(cluster)
    assert [*applications.held_hosts(cluster.connection, [job])[job]] == ["n1", "n2"]


def test_a_host_that_was_given_back_may_come_again(cluster: SmallCluster, job: int) -> None:
    for _ in range(2):
        number = ask(cluster, job, 3, "revocable")
        cluster.plan()
        confirm(cluster)
        resizes.order(cluster.connection, job, "release", [2, 3, 4])
        confirm(cluster)
        assert (held(cluster, job), extension(cluster, number).state) == ([1], "Over")
    times = "SELECT (SELECT count(*) FROM unnest(during)) FROM assigned_resources ORDER BY resource_id"
    assert cluster.sql(times) == [(1,), (2,), (2,), (2,)]


def test_one_of_a_job_that_ended_is_over(cluster: SmallCluster, job: int) -> None:
    number = ask(cluster, job, 7)
    cluster.end(job)
    cluster.settle()
    assert extension(cluster, number).state == "Over"
    assert cluster.plan().word == "nothing"


def test_hosts_of_a_cluster_that_is_gone_are_never_given(cluster: SmallCluster, job: int) -> None:
    number = ask(cluster, job, 1, cluster_name="red")
    cluster.plan()
    told = extension(cluster, number).told
    assert told is not None
    assert (told["verdict"], told["reason"]) == ("never", "there is no cluster 'red' any more")
    settings = replace(cluster.settings, negotiation=replace(cluster.settings.negotiation, cluster="host"))
    named = SmallCluster(cluster.connection, settings)
    ask(cluster, job, 1, cluster_name="n3")
    named.plan()
    assert held(cluster, job) == [1, 3]


@pytest.mark.parametrize("hosts", ['{"": 0}', '{"": 1.5}', '{"": "x"}', '{"": 1, "red": -1}', "{}"])
def test_numbers_of_hosts_that_are_none_are_never_given(cluster: SmallCluster, job: int, hosts: str) -> None:
    added = "INSERT INTO extensions (job_id, kind, hosts) VALUES (%s, 'firm', %s) RETURNING extension_id"
    ((number,),) = cluster.sql(added, job, hosts)
    other = cluster.submit("/nodes=1,walltime=0:1:0")
    cluster.settle()
    told = extension(cluster, number).told
    assert told is not None
    assert (told["verdict"], "not whole and above 0" in told["reason"]) == ("never", True)
    assert (held(cluster, job), cluster.states([other])) == ([1], ["Running"])


def test_who_looks_sees_what_a_job_has_now_and_when_it_had_what(cluster: SmallCluster, job: int) -> None:
    ask(cluster, job, 2)
    cluster.plan()
    confirm(cluster)
    resizes.order(cluster.connection, job, "release", [3])
    confirm(cluster)
    (found,) = details(cluster.connection, JobScope((job,)))
    assert found.hosts == ("n1", "n2")
    now = cluster.now()
    bars = gantt.bars(cluster.connection, now - timedelta(hours=1), now + timedelta(hours=2))
    assert sorted(one.resource_ids for one in bars) == [(1,), (2,), (3,)]
    first, second, third = sorted(bars, key=lambda one: one.resource_ids)
    assert first.begin < second.begin == third.begin
    assert first.end == second.end > third.end
    cells = gantt_spans.axis(cluster.connection, ["network_address"])
    spans = gantt_spans.spans(cluster.connection, now - timedelta(hours=1), now + timedelta(hours=2), cells, 100)
    assert sorted([one.begin, one.end, one.places.tolist()] for one in spans) == sorted(
        [one.begin, one.end, [one.resource_ids[0] - 1, 1]] for one in bars
    )


def test_what_a_job_had_goes_to_the_past_and_comes_back_as_it_was(cluster: SmallCluster, job: int) -> None:
    ask(cluster, job, 2)
    cluster.plan()
    confirm(cluster)
    cluster.delete(job)
    cluster.settle()
    rows = (
        "SELECT * FROM extensions ORDER BY 1",
        "SELECT * FROM resizes ORDER BY 1",
        "SELECT * FROM assigned_resources ORDER BY 1, 2",
    )
    before = [cluster.sql(query) for query in rows]
    ((submission,),) = cluster.sql("SELECT submission_id FROM jobs")
    connection = cluster.connection
    with connection.transaction():
        assert moving.move(connection, cluster.now().date().replace(day=1), [submission]) == 1
    assert [cluster.sql(query) for query in rows] == [[], [], []]
    with connection.transaction():
        moving.recall(connection, [job])
    assert [cluster.sql(query) for query in rows] == before
