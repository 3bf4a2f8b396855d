"""Nobody gets a resource that somebody has, however rows are changed by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from psycopg.errors import CheckViolation, ExclusionViolation, ForeignKeyViolation, UniqueViolation

from oarpy.client.jobs import actions as client
from oarpy.client.jobs.selection import JobSelection
from oarpy.client.session import Session
from oarpy.model.job_types import TYPES
from tests.harness import hand_written
from tests.harness.hand_written import add_resource, insert, move, one, rewrite
from tests.harness.small_cluster import Connection, SmallCluster, with_settings

pytestmark = [pytest.mark.db, pytest.mark.oldest, pytest.mark.kept]

NOW = "{[now,)}"
SHARING = [["container"], ["timesharing=*,*"], ["placeholder=p"]]
GUESTS = [["inner=1"], ["allowed=p"]]


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection, with_settings(jobs={"users_may_suspend": True}))
    made.add_nodes("n1", "n2")
    return made


@pytest.fixture
def resource(connection: Connection) -> int:
    return add_resource(connection)


def hold(connection: Connection, resource: int, types: list[str] | None = None, **columns: object) -> int:
    """A job that has the resource."""
    job = hand_written.add_job(connection, types=types or [])
    values: dict[str, object] = {"job_id": job, "resource_id": resource, "during": NOW, **columns}
    insert(connection, "assigned_resources", **values)
    return job


def suspend(cluster: SmallCluster, job: int) -> None:
    session = Session(cluster.connection, cluster.settings, "ann", 1000, is_admin=False)
    client.hold(session, JobSelection((job,)), running=True)
    cluster.settle()


def resume(cluster: SmallCluster, job: int) -> None:
    session = Session(cluster.connection, cluster.settings, "ann", 1000, is_admin=False)
    client.resume(session, JobSelection((job,)))
    cluster.settle()


# Beside a holder


@pytest.mark.parametrize("types", SHARING)
def test_who_shares_does_not_come_beside_a_holder(connection: Connection, resource: int, types: list[str]) -> None:
    hold(connection, resource)
    with pytest.raises(ExclusionViolation):
        hold(connection, resource, types, exclusive=False)


@pytest.mark.parametrize("types", SHARING)
def test_a_holder_does_not_come_beside_who_shares(connection: Connection, resource: int, types: list[str]) -> None:
    hold(connection, resource, types, exclusive=False)
    with pytest.raises(ExclusionViolation):
        hold(connection, resource)


@pytest.mark.parametrize("types", GUESTS)
def test_a_guest_comes_beside_who_shares_and_nobody_else(
    connection: Connection, resource: int, types: list[str]
) -> None:
    hold(connection, resource, ["container"], exclusive=False)
    hold(connection, resource, types, guest=True)
    with pytest.raises(ExclusionViolation):
        hold(connection, resource, types, guest=True)
    other = add_resource(connection)
    hold(connection, other)
    with pytest.raises(ExclusionViolation):
        hold(connection, other, types, guest=True)


def test_only_types_make_a_job_share(connection: Connection, resource: int) -> None:
    with pytest.raises(CheckViolation, match=r"job \d+ shares its resources with nobody"):
        hold(connection, resource, ["besteffort"], exclusive=False)
    with pytest.raises(CheckViolation, match=r"job \d+ is no guest of others"):
        hold(connection, resource, ["container"], exclusive=False, guest=True)


def test_the_types_that_share_are_those_of_the_registry(connection: Connection) -> None:
    named = one(connection, "SELECT prosrc FROM pg_proc WHERE proname = 'sharing_by_type'")
    assert {name for name in TYPES if f"'{name}'" in named} == {
        *(kind.name for kind in TYPES.values() if kind.shares),
        "inner",
        "allowed",
    }


@pytest.mark.parametrize("during", ["{}", "{(,)}", "{(,2030-01-01)}", "{[-infinity,)}", "{[2030-01-01,infinity)}"])
def test_what_is_held_has_a_begin_and_a_length(connection: Connection, resource: int, during: str) -> None:
    with pytest.raises(CheckViolation):
        hold(connection, resource, during=during)


def test_an_empty_reservation_is_none(connection: Connection, resource: int) -> None:
    job = hand_written.add_job(connection)
    with pytest.raises(CheckViolation):
        insert(connection, "reserved_resources", job_id=job, resource_id=resource, during="empty")


# What a job has


@pytest.mark.parametrize(
    "change",
    [
        "exclusive = false",
        "guest = true",
        "suspended = true",
        "suspended = true, during = held_until(during, now())",
        "during = held_until(during, now())",
        "during = '{[2020-01-01,2020-01-02)}'",
        "resource_id = (SELECT max(resource_id) FROM resources)",
        "job_id = (SELECT max(job_id) FROM jobs)",
    ],
)
def test_a_running_job_keeps_what_it_has(cluster: SmallCluster, change: str) -> None:
    job = cluster.submit("/nodes=1")
    cluster.settle()
    cluster.submit("/nodes=1")
    with pytest.raises(CheckViolation):
        cluster.sql(f"UPDATE assigned_resources SET {change} WHERE job_id = %s", job)  # noqa: S608 - changes of this file


@pytest.mark.parametrize("how", ["TRUNCATE assigned_resources", "TRUNCATE jobs, submissions CASCADE"])
def test_what_is_held_is_not_emptied(cluster: SmallCluster, how: str) -> None:
    cluster.submit("/nodes=1")
    cluster.settle()
    for means_it in ("off", "on"):
        with pytest.raises(
            CheckViolation, match=r"cannot be emptied: job \d+ holds|tells what happened|cannot be removed"
        ):
            rewrite(cluster.connection, f"SET LOCAL oarpy.rewrite_history = {means_it}; {how}")


def test_amounts_and_reservations_are_not_emptied(cluster: SmallCluster) -> None:
    cluster.add_consumable("memory", n1=8)
    job = cluster.submit("/nodes=1,memory=3")
    cluster.settle()
    with pytest.raises(CheckViolation, match="tells what happened"):
        cluster.sql("TRUNCATE assigned_amounts")
    with pytest.raises(CheckViolation, match=f"job {job} holds something"):
        rewrite(cluster.connection, "TRUNCATE assigned_amounts")
    resource = add_resource(cluster.connection)
    insert(cluster.connection, "reserved_resources", job_id=job, resource_id=resource, during="[2030-01-01,2040-01-01)")
    with pytest.raises(CheckViolation, match=f"job {job} holds something"):
        cluster.sql("TRUNCATE reserved_resources")


@pytest.mark.parametrize(
    "change", ["network_address = 'n2'", "type = 'licence'", "resource_id = 4711", "type = 'x', network_address = NULL"]
)
@pytest.mark.parametrize("suspended", [False, True])
def test_what_a_job_has_stays_where_it_is(cluster: SmallCluster, change: str, suspended: bool) -> None:
    job = cluster.submit("/nodes=1")
    cluster.settle()
    if suspended:
        suspend(cluster, job)
    with pytest.raises(CheckViolation, match=f"cannot become another one: job {job} has it"):
        cluster.sql(f"UPDATE resources SET {change} WHERE resource_id = 1")  # noqa: S608 - changes of this file
    cluster.sql("UPDATE resources SET network_address = 'n1' WHERE resource_id = 3")


def test_what_jobs_had_may_move_but_stays_what_it_is(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=1")
    cluster.settle()
    cluster.end(job)
    cluster.settle()
    cluster.sql("UPDATE resources SET network_address = 'n2' WHERE resource_id = 1")
    with pytest.raises(CheckViolation, match="resource 1 stays of type default: jobs had it"):
        cluster.sql("UPDATE resources SET type = 'licence' WHERE resource_id = 1")


# Whose alternative, which member


def test_a_job_has_an_alternative_of_its_own_submission(connection: Connection) -> None:
    hand_written.add_job(connection)
    job = hand_written.add_job(connection)
    with pytest.raises(ForeignKeyViolation, match="alternative_of_its_submission"):
        connection.execute(
            "UPDATE jobs SET state = 'toLaunch', walltime = '1 hour',"
            " moldable_id = (SELECT min(moldable_id) FROM moldable_descriptions) WHERE job_id = %s",
            [job],
        )
    move(connection, job, "toLaunch")


def test_members_of_an_array_have_numbers_of_their_own(connection: Connection) -> None:
    first = hand_written.add_job(connection, array_id=7, array_index=3)
    with pytest.raises(UniqueViolation):
        hand_written.add_job(connection, array_id=7, array_index=3)
    second = hand_written.add_job(connection, array_id=7, array_index=4)
    with pytest.raises(UniqueViolation):
        connection.execute("UPDATE jobs SET array_index = 3 WHERE job_id = %s", [second])
    assert first != second


# What the planner does is allowed


def test_inner_jobs_lie_in_their_container(cluster: SmallCluster) -> None:
    box = cluster.submit("/nodes=2", types=("container=box",))
    cluster.settle()
    inner = [cluster.submit("/nodes=1,walltime=0:10:0", types=("inner=box",), user="bob") for _ in range(3)]
    cluster.settle()
    assert cluster.states([box, *inner]) == ["Running", "Running", "Running", "Waiting"]
    cluster.end(inner[0])
    cluster.settle()
    assert cluster.state(inner[2]) == "Running"


def test_timesharing_jobs_run_together_and_alone_when_the_others_are_gone(cluster: SmallCluster) -> None:
    words = ("timesharing=*,*",)
    shared = [cluster.submit("/nodes=2", types=words, user=user) for user in ("ann", "bob")]
    cluster.settle()
    plain = cluster.submit("/nodes=2")
    cluster.settle()
    assert cluster.states([*shared, plain]) == ["Running", "Running", "Waiting"]
    for job in shared:
        cluster.end(job)
    cluster.settle()
    assert cluster.state(plain) == "Running"


def test_jobs_that_a_placeholder_allows_run_in_its_place(cluster: SmallCluster) -> None:
    place = cluster.submit("/nodes=2", types=("placeholder=lab",))
    allowed = [cluster.submit("/nodes=2,walltime=0:10:0", types=("allowed=lab",), user="bob") for _ in range(2)]
    cluster.settle()
    assert cluster.states([place, *allowed]) == ["Running", "Running", "Waiting"]


# What was really held


def held(cluster: SmallCluster, job: int) -> list[list[tuple[datetime, datetime | None]]]:
    """The stretches during which a job had each of its resources."""
    rows = cluster.sql(
        "SELECT array_agg(lower(s) ORDER BY s), array_agg(upper(s) ORDER BY s)"
        " FROM assigned_resources a, unnest(a.during) AS s WHERE job_id = %s GROUP BY resource_id ORDER BY resource_id",
        job,
    )
    return [list(zip(*row, strict=True)) for row in rows]


def moments(cluster: SmallCluster, job: int, state: str) -> list[datetime]:
    return [
        row[0]
        for row in cluster.sql(
            "SELECT lower(during) FROM job_state_logs WHERE job_id = %s AND state = %s ORDER BY 1", job, state
        )
    ]


def test_a_suspended_job_keeps_the_record_of_what_it_held(cluster: SmallCluster) -> None:
    job, other = cluster.submit("/nodes=2,walltime=1:0:0"), cluster.submit("/nodes=2,walltime=0:10:0", user="bob")
    cluster.settle()
    ((begin, open_end),) = held(cluster, job)[0]
    assert open_end is None
    suspend(cluster, job)
    ((same, end),) = held(cluster, job)[0]
    assert same == begin
    assert end is not None
    assert end >= moments(cluster, job, "Suspended")[0]
    assert end <= held(cluster, other)[0][0][0]
    cluster.end(other)
    resume(cluster, job)
    first, (again, still) = held(cluster, job)[0]
    assert first == (begin, end)
    assert still is None
    theirs = held(cluster, other)[0][0][1]
    assert theirs is not None
    assert again >= theirs
    suspend(cluster, job)
    resume(cluster, job)
    cluster.end(job)
    cluster.settle()
    stretches = held(cluster, job)
    assert [len(one) for one in stretches] == [3] * 4
    assert all(one == stretches[0] for one in stretches)
    assert stretches[0][:1] == [first]
    rows = cluster.sql("SELECT assigned_at, released_at FROM oar_report.assigned_resources WHERE job_id = %s", job)
    assert sorted(rows) == sorted(stretch for one in stretches for stretch in one)


def test_a_job_that_is_killed_while_it_is_suspended_held_nothing_meanwhile(cluster: SmallCluster) -> None:
    job, other = cluster.submit("/nodes=2"), cluster.submit("/nodes=2", user="bob")
    cluster.settle()
    suspend(cluster, job)
    before = held(cluster, job)
    cluster.delete(job)
    cluster.settle()
    assert cluster.states([job, other]) == ["Error", "Running"]
    assert held(cluster, job) == before
    assert cluster.sql("SELECT DISTINCT exclusive, suspended FROM assigned_resources WHERE job_id = %s", job) == [
        (True, False)
    ]
    assert cluster.sql(TWICE) == []


TWICE = """
SELECT a.job_id, b.job_id, a.resource_id FROM assigned_resources a JOIN assigned_resources b USING (resource_id)
WHERE a.job_id < b.job_id AND a.during && b.during
"""


def test_the_past_of_what_was_held_stays(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=1")
    cluster.settle()
    suspend(cluster, job)
    with pytest.raises(CheckViolation, match="holds or held resource 1, which cannot change"):
        cluster.sql("UPDATE assigned_resources SET during = '{[2020-01-01,2020-01-02)}'")
    with pytest.raises(CheckViolation):
        cluster.sql("UPDATE assigned_resources SET suspended = false")
    resume(cluster, job)
    cluster.end(job)
    cluster.settle()
    changed: Any = "UPDATE assigned_resources SET during = '{[2020-01-01,2020-01-02)}' WHERE job_id = %s"
    with pytest.raises(CheckViolation):
        cluster.sql(changed, job)
    rewrite(cluster.connection, changed, job)
    assert held(cluster, job)[0] == [(datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC))]


def test_a_node_whose_job_is_suspended_does_not_sleep_and_keeps_its_channel(cluster: SmallCluster) -> None:
    from oarpy.store.platform import nodes, power

    job = cluster.submit("/nodes=2")
    cluster.settle()
    suspend(cluster, job)
    cluster.sql(
        "UPDATE resources SET available_upto = now() + interval '1 day', state_since = now() - interval '1 day'"
    )
    rewrite(cluster.connection, "UPDATE assigned_resources SET during = '{[2020-01-01,2020-01-02)}'")
    assert power.rested(cluster.connection, ["n1", "n2"], 60) == set()
    assert nodes.types_there(cluster.connection, "n1", "ann") == [()]
    cluster.delete(job)
    cluster.settle()
    assert power.rested(cluster.connection, ["n1", "n2"], 60) == {"n1", "n2"}


def test_a_node_that_was_away_is_told_of_a_job_that_was_killed_while_it_was_suspended(cluster: SmallCluster) -> None:
    from oarpy.store.platform import nodes

    job = cluster.submit("/nodes=1")
    cluster.settle()
    suspend(cluster, job)
    cluster.delete(job)
    cluster.settle()
    (host,) = set(cluster.hosts(job))
    rewrite(cluster.connection, "UPDATE assigned_resources SET during = '{[2020-01-01,2020-01-02)}'")
    cluster.sql("UPDATE nodes SET channel = 'lost', channel_since = now() - interval '1 hour'")
    assert nodes.left_behind(cluster.connection, host) == [(job, 1)]
    cluster.sql("UPDATE nodes SET channel_since = now() + interval '2 hours'")
    assert nodes.left_behind(cluster.connection, host) == []
