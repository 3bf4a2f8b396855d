"""Bags of tasks on one cluster: their promises are kept, come forward, and are told."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from oarpy.store.jobs import bags, submissions
from oarpy.store.passes import bag_promises, snapshot_rows
from oarpy.wire.messages import Start
from tests.harness.small_cluster import Connection, SmallCluster, with_settings

pytestmark = [pytest.mark.db, pytest.mark.kept]


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection, with_settings(scheduler={"security_time": 60, "promised_share": 100}))
    made.add_nodes("n1", "n2")
    return made


def submit(
    cluster: SmallCluster, tasks: int, until: float | None = None, *, idempotent: bool = False, **values: Any
) -> list[int]:
    """Submit a bag of tasks of ten minutes with security time; it has to be done ``until`` so many minutes from now."""
    deadline = None if until is None else (cluster.now() + timedelta(minutes=until)).replace(microsecond=0)
    types = ("bag", "idempotent") if idempotent else ("bag",)
    return cluster.submit_array(tasks, "/core=1,walltime=0:9:0", bag=tasks, types=types, until=deadline, **values)


def minutes(cluster: SmallCluster, instant: datetime) -> int:
    return round((instant - cluster.now()).total_seconds() / 60)


def promise(cluster: SmallCluster, bag: int) -> int:
    """Return by when a bag is promised to be done, in minutes from now."""
    ((found,),) = cluster.sql("SELECT promise FROM bags WHERE bag_id = %s", bag)
    return minutes(cluster, found)


def expected(cluster: SmallCluster, bag: int) -> int:
    """Return when a bag is done as planned now, in minutes from now."""
    ((found,),) = cluster.sql("SELECT expected FROM bags WHERE bag_id = %s", bag)
    return minutes(cluster, found)


def kinds(cluster: SmallCluster, bag: int) -> list[str]:
    return [kind for (kind,) in cluster.sql("SELECT kind FROM bag_changes WHERE bag_id = %s ORDER BY change_id", bag)]


def test_a_bag_is_promised_the_end_of_its_last_task(cluster: SmallCluster) -> None:
    tasks = submit(cluster, 10)
    cluster.settle()
    assert promise(cluster, tasks[0]) == 30
    assert cluster.states(tasks) == ["Running"] * 4 + ["Waiting"] * 6
    assert cluster.events(tasks[0])[0] == "PROMISED"


def test_a_bag_that_comes_while_a_pass_reads_is_promised_by_the_next(
    cluster: SmallCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, tasks = snapshot_rows.site, list[int]()

    def site(connection: Connection, conditions: Iterable[str] = ()) -> tuple[int, bool, list[bool]]:
        found = asked(connection, conditions)
        if not tasks:
            tasks.extend(submit(cluster, 2))
        return found

    monkeypatch.setattr(snapshot_rows, "site", site)
    cluster.plan()
    assert cluster.states(tasks) == ["Waiting", "Waiting"]
    cluster.settle()
    assert kinds(cluster, tasks[0]) == ["PROMISED"]


def test_the_promise_comes_forward_when_tasks_end_early(cluster: SmallCluster) -> None:
    tasks = submit(cluster, 10)
    cluster.settle()
    cluster.delete(*tasks[:4])
    cluster.settle()
    assert promise(cluster, tasks[0]) == 20
    assert kinds(cluster, tasks[0]) == ["PROMISED", "IMPROVED"]
    assert sorted(cluster.states(tasks[4:])) == ["Running"] * 4 + ["Waiting"] * 2
    assert "IMPROVED" in cluster.events(tasks[0])


def test_a_promise_after_the_deadline_comes_forward_to_it_and_no_further(cluster: SmallCluster) -> None:
    tasks = submit(cluster, 12, 15)
    cluster.settle()
    assert promise(cluster, tasks[0]) == 30
    cluster.delete(*tasks[:4])
    cluster.settle()
    assert promise(cluster, tasks[0]) == 20
    cluster.delete(*tasks[4:8])
    cluster.settle()
    assert promise(cluster, tasks[0]) == 15
    assert kinds(cluster, tasks[0]) == ["PROMISED", "IMPROVED", "IMPROVED"]


def test_a_newcomer_of_higher_priority_makes_no_task_late(cluster: SmallCluster) -> None:
    tasks = submit(cluster, 10)
    cluster.settle()
    cluster.sql("UPDATE queues SET priority = 100 WHERE queue_name = 'admin'")
    late = cluster.submit("/nodes=2,walltime=0:59:0", queue="admin")
    cluster.settle()
    assert promise(cluster, tasks[0]) == 30
    ((start,),) = cluster.sql("SELECT start_time FROM gantt_predictions WHERE job_id = %s", late)
    assert minutes(cluster, start) == 30


def test_a_bag_without_deadline_is_placed_beside_everything_planned(cluster: SmallCluster) -> None:
    first, second = (cluster.submit("/nodes=2,walltime=0:59:0") for _ in range(2))
    cluster.settle()
    tasks = submit(cluster, 4)
    cluster.settle()
    assert promise(cluster, tasks[0]) == 130
    assert cluster.states([first, second]) == ["Running", "Waiting"]


def test_a_deadline_that_can_be_met_is_the_promise_and_others_without_one_give_way(cluster: SmallCluster) -> None:
    first, second = (cluster.submit("/nodes=2,walltime=0:59:0") for _ in range(2))
    cluster.settle()
    tasks = submit(cluster, 4, 81)
    cluster.settle()
    assert promise(cluster, tasks[0]) == 81
    assert expected(cluster, tasks[0]) == 70
    assert cluster.states([first, second]) == ["Running", "Waiting"]


def test_a_deadline_that_cannot_be_met_gets_the_nearest_or_is_refused(cluster: SmallCluster) -> None:
    tasks = submit(cluster, 10, 25)
    cluster.settle()
    assert promise(cluster, tasks[0]) == 30
    refused = submit(cluster, 4, 25, strict=True)
    cluster.settle()
    assert cluster.states(refused) == ["Error"] * 4
    assert kinds(cluster, refused[0]) == ["REFUSED"]
    assert "has to be by" in cluster.job(refused[0], "message")


def test_a_reservation_makes_room_for_a_deadline_inside_its_window(cluster: SmallCluster) -> None:
    begin, end = (cluster.now() + timedelta(minutes=minutes) for minutes in (15, 60))
    reserved = cluster.submit("/nodes=2,walltime=0:15:0", reservation=begin, until=end)
    cluster.settle()
    start = cluster.job(reserved, "reservation_start")
    tasks = submit(cluster, 8, 25)
    cluster.settle()
    assert promise(cluster, tasks[0]) == 25
    assert minutes(cluster, cluster.job(reserved, "reservation_start")) == 20
    assert cluster.job(reserved, "reservation_start") > start
    assert cluster.events(reserved).count("RESERVATION_MOVED") == 1
    held = "SELECT DISTINCT lower(during) FROM reserved_resources WHERE job_id = %s"
    assert cluster.sql(held, reserved) == [(cluster.job(reserved, "reservation_start"),)]


def test_a_bag_is_over_with_its_last_task(cluster: SmallCluster) -> None:
    tasks = submit(cluster, 2)
    cluster.settle()
    cluster.delete(*tasks)
    cluster.settle()
    assert kinds(cluster, tasks[0])[-1] == "END"
    assert cluster.sql("SELECT ended = (SELECT max(ended_at) FROM jobs) FROM bags") == [(True,)]


def test_tasks_on_lost_nodes_go_elsewhere_and_what_is_broken_is_told(cluster: SmallCluster) -> None:
    tasks = submit(cluster, 10)
    cluster.settle()
    cluster.sql("UPDATE resources SET state = 'Absent' WHERE network_address = 'n2'")
    cluster.settle()
    assert promise(cluster, tasks[0]) == 40
    assert kinds(cluster, tasks[0]) == ["PROMISED", "BROKEN"]


def test_a_promise_that_is_changed_by_hand_is_acted_on(cluster: SmallCluster) -> None:
    tasks = submit(cluster, 10)
    cluster.settle()
    cluster.sql("UPDATE bags SET promise = promise - interval '5 minutes'")
    cluster.settle()
    assert promise(cluster, tasks[0]) == 30
    assert kinds(cluster, tasks[0]) == ["PROMISED", "BROKEN"]
    cluster.sql("UPDATE bags SET promise = NULL")
    cluster.settle()
    assert promise(cluster, tasks[0]) == 30


def test_promises_hold_no_more_than_their_share(connection: Connection) -> None:
    cluster = SmallCluster(connection, with_settings(scheduler={"security_time": 60, "promised_share": 50}))
    cluster.add_nodes("n1", "n2")
    tasks = submit(cluster, 4)
    cluster.settle()
    assert promise(cluster, tasks[0]) == 20
    assert cluster.states(tasks) == ["Running"] * 2 + ["Waiting"] * 2


def test_what_becomes_of_a_promise_is_told_with_tags_of_its_own(cluster: SmallCluster) -> None:
    tasks = submit(cluster, 10, notify="[PROMISED,IMPROVED,END]exec:/bin/true")
    cluster.settle()
    cluster.delete(*tasks[:4])
    cluster.settle()
    told = cluster.sql("SELECT tag, split_part(comment, ':', 1) FROM notices WHERE tag <> 'RUNNING' ORDER BY notice_id")
    assert [one for one in told if one[0] in ("PROMISED", "IMPROVED")] == [
        ("PROMISED", "PROMISED"), ("IMPROVED", "IMPROVED")
    ]  # fmt: skip
    cluster.delete(*tasks[4:])
    cluster.settle()
    assert cluster.sql("SELECT comment FROM notices WHERE tag = 'END' AND comment ~ '^END'") == [
        ("END: all tasks of the bag are over",)
    ]


def test_the_stream_has_each_change_of_what_is_expected_and_notices_have_none(cluster: SmallCluster) -> None:
    tasks = submit(cluster, 8, 60, notify="exec:/bin/true")
    cluster.settle()
    cluster.delete(*tasks[:4])
    cluster.settle()
    assert (promise(cluster, tasks[0]), expected(cluster, tasks[0])) == (60, 10)
    assert kinds(cluster, tasks[0]) == ["PROMISED", "EXPECTED"]
    told = "SELECT type, description FROM event_logs WHERE job_id = %s AND type IN ('PROMISED', 'EXPECTED') ORDER BY 1"
    ((_, sooner), (_, promised)) = cluster.sql(told, tasks[0])
    cause = "resources are free earlier than was expected"
    assert re.fullmatch(rf"it is expected by [-:\d ]+, not by [-:\d ]+: {cause}", sooner)
    assert re.fullmatch(r"it is done by [-:\d ]+ \(expected by [-:\d ]+\)", promised)
    assert cluster.sql("SELECT count(*) FROM notices WHERE comment ~ 'EXPECTED'") == [(0,)]


def test_for_limits_of_reservations_a_bag_counts_as_one(cluster: SmallCluster) -> None:
    def count() -> int:
        return submissions.count_live(
            cluster.connection,
            user="ann",
            queue=None,
            project=None,
            job_type=None,
            states=("Waiting",),
            reservation=True,
        )

    submit(cluster, 10)
    assert count() == 1
    cluster.settle()
    submit(cluster, 20)
    cluster.settle()
    assert count() == 2


def test_tasks_know_their_place_in_the_bag(cluster: SmallCluster) -> None:
    tasks = submit(cluster, 3)
    cluster.settle()
    starts = [command for _, command in cluster.nodes.sent if isinstance(command, Start)]
    (spec,) = (spec for start in starts for spec in start.jobs if spec.job == tasks[1])
    assert spec.variables == {"OAR_BAG_ID": str(tasks[0]), "OAR_BAG_TASK": "2", "OAR_BAG_TASKS": "3"}


def failed(cluster: SmallCluster, job: int, after: float) -> int:
    """Let a task fail so many minutes from now; return the job that runs it again."""
    cluster.offset += 60 * after
    cluster.end(job, 1 << 8)
    cluster.settle()
    ((copy,),) = cluster.sql("SELECT job_id FROM jobs WHERE resubmit_of = %s", job)
    return int(copy)


def test_an_idempotent_task_that_fails_is_run_again_by_the_promise_if_there_is_room(cluster: SmallCluster) -> None:
    tasks = submit(cluster, 5, 40, idempotent=True)
    cluster.settle()
    later = cluster.submit("/nodes=2,walltime=0:9:0")
    cluster.settle()
    copy = failed(cluster, tasks[0], 2)
    assert cluster.job(copy, "array_index") == 1
    ((reserved,),) = cluster.sql("SELECT reservation_state FROM jobs WHERE job_id = %s", copy)
    assert reserved == "Scheduled"
    assert "BROKEN" not in kinds(cluster, tasks[0])
    assert ("tasks that failed are run again",) in cluster.sql("SELECT cause FROM bag_changes")
    assert cluster.state(later) == "Waiting"
    assert bags.states(cluster.connection, tasks[0]) == {"Running": 4, "Waiting": 1}


def test_where_there_is_no_room_for_a_task_that_is_run_again_the_promise_is_broken_and_why_is_told(
    cluster: SmallCluster,
) -> None:
    tasks = submit(cluster, 4, idempotent=True)
    cluster.settle()
    assert promise(cluster, tasks[0]) == 10
    failed(cluster, tasks[0], 4)
    assert promise(cluster, tasks[0]) == 10
    ((kind, cause),) = cluster.sql("SELECT kind, cause FROM bag_changes ORDER BY change_id DESC LIMIT 1")
    assert (kind, cause) == ("BROKEN", "tasks that failed are run again, and there was no room for them before")
    assert "BROKEN" in cluster.events(tasks[0])


@pytest.mark.parametrize("deadline", [None, 40])
def test_no_end_is_told_while_a_task_that_failed_waits_to_be_run_again(
    cluster: SmallCluster, deadline: float | None
) -> None:
    tasks = submit(cluster, 2, deadline, idempotent=True)
    cluster.settle()
    cluster.sql("UPDATE queues SET active = false")
    copy = failed(cluster, tasks[0], 2)
    cluster.end(tasks[1])
    cluster.settle()
    assert (promise(cluster, tasks[0]), expected(cluster, tasks[0])) == ((deadline or 10) - 2, 8)
    cluster.sql("UPDATE queues SET active = true")
    cluster.settle()
    assert cluster.state(copy) == "Running"
    causes = [cause for (cause,) in cluster.sql("SELECT cause FROM bag_changes WHERE kind = 'BROKEN'")]
    assert causes == ([] if deadline else ["tasks that failed are run again, and there was no room for them before"])


def test_no_end_is_told_while_a_task_fails_that_is_not_seen_to_wait_yet(
    cluster: SmallCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = submit(cluster, 10)
    cluster.settle()
    cluster.delete(*tasks[:4])
    live = bag_promises.live
    with monkeypatch.context() as patched:
        patched.setattr(
            bag_promises, "live", lambda connection: [replace(row, repeated=(10**6,)) for row in live(connection)]
        )
        cluster.settle()
    assert "IMPROVED" not in kinds(cluster, tasks[0])
    cluster.settle()
    assert kinds(cluster, tasks[0])[-1] == "IMPROVED"


@pytest.mark.parametrize("tasks", [2, 10])
def test_a_task_to_be_run_again_that_has_no_place_waits_for_one_and_the_promise_is_told_broken_once(
    cluster: SmallCluster, tasks: int
) -> None:
    bag, *_ = submit(cluster, tasks, 90, idempotent=True)
    cluster.settle()
    cluster.sql("UPDATE resources SET state = 'Dead'")
    cluster.plan()
    copy = failed(cluster, bag, 2)
    cluster.settle()
    assert cluster.state(copy) == "Waiting"
    assert cluster.sql(
        "SELECT kind, expected, cause FROM bag_changes WHERE kind NOT IN ('PROMISED', 'EXPECTED') ORDER BY change_id"
    ) == [("BROKEN", None, "tasks that failed are to be run again, and there is no room for them now")]
    assert promise(cluster, bag) == 88
    cluster.sql("UPDATE resources SET state = 'Alive'")
    cluster.settle()
    assert cluster.job(copy, "reservation_state") == "Scheduled"
    assert expected(cluster, bag) < 88
    assert kinds(cluster, bag).count("BROKEN") == 1


def test_a_task_is_run_again_three_times_at_most_and_not_if_it_was_deleted(cluster: SmallCluster) -> None:
    tasks = submit(cluster, 2, idempotent=True)
    cluster.settle()
    task = tasks[0]
    for _ in range(3):
        task = failed(cluster, task, 1)
        cluster.settle()
    cluster.end(task, 1 << 8)
    cluster.delete(tasks[1])
    cluster.settle()
    assert cluster.sql("SELECT count(*) FROM jobs") == [(5,)]
    assert kinds(cluster, tasks[0])[-1] == "END"
    assert bags.states(cluster.connection, tasks[0]) == {"Failed": 2}


def test_tasks_of_other_bags_that_fail_are_not_run_again(cluster: SmallCluster) -> None:
    tasks = submit(cluster, 2)
    cluster.settle()
    cluster.end(tasks[0], 1 << 8)
    cluster.settle()
    assert cluster.sql("SELECT count(*) FROM jobs") == [(2,)]


def test_a_job_that_repeats_a_task_is_none_of_its_bag(cluster: SmallCluster) -> None:
    tasks = submit(cluster, 6)
    cluster.settle()
    before = promise(cluster, tasks[0])
    cluster.end(tasks[0], 1)
    cluster.settle()
    copy = submissions.copy_job(cluster.connection, tasks[0])
    cluster.settle()
    assert bags.states(cluster.connection, tasks[0])["Failed"] == 1
    assert cluster.sql("SELECT types, reservation_start FROM jobs WHERE job_id = %s", copy) == [([], None)]
    assert promise(cluster, tasks[0]) <= before
    assert "BROKEN" not in kinds(cluster, tasks[0])


def test_a_bag_ends_with_its_own_tasks_not_with_a_job_that_repeats_one(cluster: SmallCluster) -> None:
    tasks = submit(cluster, 2)
    cluster.settle()
    cluster.end(tasks[0], 1)
    cluster.settle()
    copy = submissions.copy_job(cluster.connection, tasks[0])
    cluster.settle()
    cluster.end(tasks[1])
    cluster.offset += 60
    cluster.end(copy)
    cluster.settle()
    cluster.settle()
    assert bags.states(cluster.connection, tasks[0]) == {"Failed": 1, "Terminated": 1}
    assert cluster.sql("SELECT ended = (SELECT max(ended_at) FROM jobs WHERE job_id = ANY(%s)) FROM bags", tasks) == [
        (True,)
    ]
