"""Jobs of queues and projects that give way: they end, come again, or are suspended, after a grace with a signal."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest

from oarpy.store.jobs import execution, suspensions
from tests.harness.oarsub_cluster import Connection
from tests.harness.sample_cluster import Shell
from tests.harness.small_cluster import SmallCluster, with_settings
from tests.harness.waiting import until, waiting_for_locks

pytestmark = [pytest.mark.db, pytest.mark.kept]


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    """Two nodes; guests give way to default, and spare to guests."""
    made = SmallCluster(connection)
    made.add_nodes("n1", "n2")
    made.sql("INSERT INTO queues (queue_name, priority, gives_way_to) VALUES ('guests', 5, '{default}')")
    made.sql("INSERT INTO queues (queue_name, priority, gives_way_to) VALUES ('spare', 9, '{guests}')")
    return made


def manner(cluster: SmallCluster, queue: str, manner: str, grace: int = 0, signal: int = 15) -> None:
    statement = "UPDATE queues SET manner = %s, grace = %s, grace_signal = %s WHERE queue_name = %s"
    cluster.sql(statement, manner, grace, signal, queue)


def test_a_lower_level_goes_for_a_higher_and_never_for_its_own(cluster: SmallCluster) -> None:
    guest, spare = cluster.submit("/nodes=1", queue="guests"), cluster.submit("/nodes=1", queue="spare")
    cluster.settle()
    other, higher = cluster.submit("/nodes=2", queue="spare"), cluster.submit("/nodes=1")
    cluster.plan()
    assert cluster.verdict(higher) == (
        "resources_busy",
        f"jobs on lower levels give way: {spare}",
    )
    cluster.settle()
    assert cluster.states([guest, spare, other, higher]) == ["Running", "Error", "Waiting", "Running"]
    assert cluster.events(spare)[0] == "BESTEFFORT_KILL"


def test_a_young_job_of_a_lower_level_is_called_that(connection: Connection) -> None:
    cluster = SmallCluster(connection, with_settings(scheduler={"besteffort_minimum_life": 60}))
    cluster.add_nodes("n1")
    cluster.sql("INSERT INTO queues (queue_name, priority, gives_way_to) VALUES ('guests', 5, '{default}')")
    guest = cluster.submit("/nodes=1,walltime=1:0:0", queue="guests")
    cluster.settle()
    higher = cluster.submit("/nodes=1")
    cluster.plan()
    word, text = cluster.verdict(higher)
    assert (word, cluster.state(guest)) == ("resources_busy", "Running")
    assert text.endswith(f"when job {guest} on a lower level may be cancelled")


def test_a_job_that_gave_way_is_submitted_again(cluster: SmallCluster) -> None:
    manner(cluster, "guests", "requeue")
    guest = cluster.submit("/nodes=2", queue="guests")
    cluster.settle()
    higher = cluster.submit("/nodes=1")
    cluster.settle()
    assert cluster.states([guest, higher]) == ["Error", "Running"]
    ((copy,),) = cluster.sql("SELECT job_id FROM jobs WHERE resubmit_of = %s", guest)
    assert cluster.state(copy) == "Waiting"
    cluster.end(higher)
    cluster.settle()
    assert cluster.state(copy) == "Running"


def test_a_job_that_was_deleted_by_its_user_is_not(cluster: SmallCluster) -> None:
    manner(cluster, "guests", "requeue")
    guest = cluster.submit("/nodes=2", queue="guests")
    cluster.settle()
    cluster.delete(guest)
    cluster.settle()
    assert cluster.sql("SELECT count(*) FROM jobs WHERE resubmit_of = %s", guest) == [(0,)]


def test_a_job_is_suspended_and_goes_on_when_its_resources_are_free(cluster: SmallCluster) -> None:
    manner(cluster, "guests", "suspend")
    guest = cluster.submit("/nodes=2,walltime=1:0:0", queue="guests")
    cluster.settle()
    first, second = cluster.submit("/nodes=2,walltime=0:10:0"), cluster.submit("/nodes=2,walltime=0:10:0")
    cluster.settle()
    assert cluster.states([guest, first, second]) == ["Resuming", "Running", "Waiting"]
    cluster.end(first)
    cluster.settle()
    assert cluster.states([guest, first, second]) == ["Resuming", "Terminated", "Running"], "higher levels come first"
    cluster.end(second)
    cluster.settle()
    assert cluster.states([guest, second]) == ["Running", "Terminated"]
    assert cluster.events(guest) == ["GIVES_WAY", "JOB_SUSPENDED", "JOB_RESUMED"]
    assert cluster.sql("SELECT count(*) FROM kill_requests") == [(0,)]


def test_a_job_that_is_about_to_go_on_is_suspended_again_and_does_not_end(cluster: SmallCluster) -> None:
    manner(cluster, "guests", "suspend")
    guest = cluster.submit("/nodes=2,walltime=1:0:0", queue="guests")
    cluster.settle()
    first = cluster.submit("/nodes=2,walltime=0:10:0")
    cluster.settle()
    cluster.end(first)
    while cluster.state(first) != "Terminated":
        cluster.launch()
    cluster.plan()
    assert cluster.state(guest) == "Resuming"
    assert set(cluster.held().values()) == {guest}, "it has its resources again"
    second = cluster.submit("/nodes=2,walltime=0:10:0")
    cluster.plan()
    assert cluster.sql("SELECT count(*) FROM kill_requests") == [(0,)]
    cluster.settle()
    assert cluster.states([guest, second]) == ["Resuming", "Running"]


def test_a_job_has_its_grace_after_the_signal(cluster: SmallCluster) -> None:
    manner(cluster, "guests", "end", 60, 10)
    guest = cluster.submit("/nodes=2", queue="guests")
    cluster.settle()
    higher = cluster.submit("/nodes=1")
    cluster.plan()
    reason = cluster.verdict(higher)[1]
    assert reason.startswith(f"jobs on lower levels give way: {guest}; their checkpoints take until")
    cluster.settle()
    assert cluster.states([guest, higher]) == ["Running", "Waiting"]
    assert cluster.events(guest) == ["BESTEFFORT_KILL", "CHECKPOINT", "SIGNAL_10"]
    cluster.offset += 61
    cluster.settle()
    assert cluster.states([guest, higher]) == ["Error", "Running"]


def test_a_job_is_suspended_after_its_signal_and_its_grace(cluster: SmallCluster) -> None:
    manner(cluster, "guests", "suspend", 60, 10)
    guest = cluster.submit("/nodes=2", queue="guests")
    cluster.settle()
    higher = cluster.submit("/nodes=1")
    cluster.plan()
    assert "; their checkpoints take until" in cluster.verdict(higher)[1]
    cluster.settle()
    assert cluster.states([guest, higher]) == ["Running", "Waiting"]
    assert cluster.events(guest) == ["GIVES_WAY", "SIGNAL_10"], "once, whatever number of passes"
    date = cluster.sql("SELECT not_before FROM suspend_requests")
    cluster.plan()
    assert cluster.sql("SELECT not_before FROM suspend_requests") == date, "its grace does not begin anew"
    due_in = execution.agenda(cluster.connection).due_in
    assert due_in is not None
    assert 0 < due_in <= 60
    cluster.sql("UPDATE suspend_requests SET not_before = now()")
    cluster.settle()
    assert cluster.states([guest, higher]) == ["Resuming", "Running"]
    assert cluster.events(guest) == ["GIVES_WAY", "SIGNAL_10", "JOB_SUSPENDED"]


def test_what_is_suspended_needs_no_time_for_a_checkpoint_of_its_own(cluster: SmallCluster) -> None:
    manner(cluster, "guests", "suspend")
    guest = cluster.submit("/nodes=2", queue="guests", checkpoint=300)
    cluster.settle()
    higher = cluster.submit("/nodes=1")
    cluster.settle()
    assert cluster.states([guest, higher]) == ["Resuming", "Running"]
    assert cluster.events(guest) == ["GIVES_WAY", "JOB_SUSPENDED"]


def test_a_user_who_suspends_a_job_does_not_wait_for_its_grace(cluster: SmallCluster) -> None:
    manner(cluster, "guests", "suspend", 60, 10)
    guest = cluster.submit("/nodes=2", queue="guests")
    cluster.settle()
    higher = cluster.submit("/nodes=1")
    cluster.settle()
    suspensions.ask(cluster.connection, [guest], "ann")
    cluster.settle()
    assert cluster.states([guest, higher]) == ["Suspended", "Running"]
    cluster.end(higher)
    cluster.settle()
    assert cluster.state(guest) == "Suspended", "it goes on when its user says so"


def test_a_job_with_resources_that_suspension_does_not_free_is_ended(cluster: SmallCluster) -> None:
    cluster.sql("INSERT INTO resources (type, state) VALUES ('licence', 'Alive')")
    manner(cluster, "guests", "suspend")
    guest = cluster.submit("{type='default'}/nodes=1+{type='licence'}/resource_id=1", queue="guests")
    cluster.settle()
    higher = cluster.submit("{type='default'}/nodes=1+{type='licence'}/resource_id=1")
    cluster.settle()
    assert cluster.states([guest, higher]) == ["Error", "Running"]


def test_a_reservation_hears_no_where_a_lower_level_is_promised_its_hosts(cluster: SmallCluster) -> None:
    date = cluster.now() + timedelta(hours=1)
    guest = cluster.submit("/nodes=2,walltime=1:0:0", queue="guests", reservation=date)
    cluster.settle()
    asked = [cluster.submit("/nodes=1,walltime=1:0:0", reservation=date + timedelta(minutes=late)) for late in (30, 61)]
    cluster.settle()
    assert cluster.states([guest, *asked]) == ["Waiting", "Error", "Waiting"]
    assert cluster.verdict(asked[1]) == ("reserved", "accepted reservation")
    assert "refused: its resources are not free" in cluster.job(asked[0], "message")


def test_nobody_starts_across_the_date_that_a_lower_level_is_promised(cluster: SmallCluster) -> None:
    guest = cluster.submit("/nodes=2,walltime=1:0:0", queue="guests", reservation=cluster.now() + timedelta(minutes=30))
    cluster.settle()
    short, long = cluster.submit("/nodes=1,walltime=0:20:0"), cluster.submit("/nodes=1,walltime=2:0:0")
    cluster.settle()
    assert cluster.states([guest, short, long]) == ["Waiting", "Running", "Waiting"]
    cluster.end(short)
    cluster.settle()
    cluster.offset += 1801
    cluster.plan()
    assert cluster.states([guest, long]) == ["toLaunch", "Waiting"], "it begins on its date"
    cluster.settle()
    assert cluster.states([guest, long]) == ["Error", "Running"], "and gives way when it runs"


@pytest.fixture
def paying(connection: Connection) -> SmallCluster:
    """Two nodes; visitors give way to members, and what is below visitors with them."""
    made = SmallCluster(connection, with_settings(submission={"projects": "members"}))
    made.add_nodes("n1", "n2")
    made.sql("INSERT INTO projects (project) VALUES ('members')")
    made.sql("INSERT INTO projects (project, gives_way_to) VALUES ('visitors', '{members}')")
    made.sql("INSERT INTO projects (project, parent) VALUES ('school', 'visitors')")
    return made


def test_jobs_of_a_project_give_way_and_those_of_projects_below_it(paying: SmallCluster) -> None:
    visitor, pupil = (paying.submit("/nodes=1", project=name) for name in ("visitors", "school"))
    paying.settle()
    equal, member = paying.submit("/nodes=1", project="visitors"), paying.submit("/nodes=2", project="members")
    paying.plan()
    text = f"jobs on lower levels give way: {visitor}, {pupil}"
    assert paying.verdict(member) == ("resources_busy", text)
    paying.settle()
    assert paying.states([visitor, pupil, equal, member]) == ["Error", "Error", "Waiting", "Running"]


def test_no_project_gives_way_where_none_pays(connection: Connection) -> None:
    cluster = SmallCluster(connection)
    cluster.add_nodes("n1")
    cluster.sql("INSERT INTO projects (project, gives_way_to) VALUES ('visitors', '{members}')")
    visitor = cluster.submit("/nodes=1", project="visitors")
    cluster.settle()
    member = cluster.submit("/nodes=1", project="members")
    cluster.settle()
    assert cluster.states([visitor, member]) == ["Running", "Waiting"]


def test_a_job_gives_way_as_the_next_project_above_it_says(paying: SmallCluster) -> None:
    paying.sql("UPDATE projects SET manner = 'suspend' WHERE project = 'visitors'")
    pupil = paying.submit("/nodes=2,walltime=1:0:0", project="school")
    paying.settle()
    member = paying.submit("/nodes=2,walltime=0:10:0", project="members")
    paying.settle()
    assert paying.states([pupil, member]) == ["Resuming", "Running"]
    paying.end(member)
    paying.settle()
    assert paying.state(pupil) == "Running"


def test_a_job_gives_way_as_its_queue_says_where_its_project_says_so_too(paying: SmallCluster) -> None:
    paying.sql("UPDATE projects SET manner = 'suspend' WHERE project = 'visitors'")
    paying.sql(
        "INSERT INTO queues (queue_name, priority, gives_way_to, manner) VALUES ('guests', 5, '{default}', 'requeue')"
    )
    visitor = paying.submit("/nodes=2", project="visitors", queue="guests")
    paying.settle()
    member = paying.submit("/nodes=2", project="members")
    paying.settle()
    assert paying.states([visitor, member]) == ["Error", "Running"]
    assert paying.sql("SELECT count(*) FROM jobs WHERE resubmit_of = %s AND project = 'visitors'", visitor) == [(1,)]


def test_a_job_has_the_grace_of_its_project(paying: SmallCluster) -> None:
    paying.sql("UPDATE projects SET grace = 60, grace_signal = 10 WHERE project = 'visitors'")
    visitor = paying.submit("/nodes=2", project="school")
    paying.settle()
    member = paying.submit("/nodes=1", project="members")
    paying.settle()
    assert paying.states([visitor, member]) == ["Running", "Waiting"]
    assert paying.events(visitor) == ["BESTEFFORT_KILL", "CHECKPOINT", "SIGNAL_10"]
    paying.offset += 61
    paying.settle()
    assert paying.states([visitor, member]) == ["Error", "Running"]


def test_commands_say_which_projects_give_way(connection: Connection, shell: Shell) -> None:
    for name in ("members", "visitors"):
        shell("oarproject", "create", name)
    shell("oarproject", "create", "school", "--parent", "visitors")
    assert shell("oarproject", "change", "visitors", "--gives-way", "members,requeue,60,USR1").status == 0
    assert (
        "The project gives way to members: requeue, 60 s after signal 10.\n"
        in shell("oarproject", "show", "visitors").out
    )
    described = json.loads(shell("oarproject", "show", "visitors", "-J").out)
    assert (described["gives_way_to"], described["manner"]) == (["members"], "requeue")
    before = connection.execute("SELECT * FROM projects ORDER BY 1").fetchall()
    for project, wrong, status, what in (
        ("members", "visitors", 2, "project 'members' would give way to itself, through others"),
        ("visitors", "school", 2, "project 'visitors' would give way to itself, through others"),
        ("visitors", "nobody", 4, "there is no project 'nobody'"),
        ("visitors", "members,kill", 2, "'kill' is no manner of giving way"),
        ("visitors", "members,end,1,TERM,more", 2, "does not say how to give way"),
    ):
        refused = shell("oarproject", "change", project, "--gives-way", wrong)
        assert refused.status == status, (wrong, refused.err)
        assert what in refused.err, (wrong, refused.err)
    assert shell("oarproject", "change", "members", "--parent", "school").status == 2
    assert connection.execute("SELECT * FROM projects ORDER BY 1").fetchall() == before
    assert shell("oarproject", "change", "visitors", "--gives-way", "none").status == 0
    assert json.loads(shell("oarproject", "show", "visitors", "-J").out)["gives_way_to"] == []


def test_commands_say_who_gives_way(connection: Connection, shell: Shell) -> None:
    shell("oarqueue", "--add", "guests,5,fifo")
    shell("oarqueue", "--add", "spare,9,fifo")
    assert shell("oarqueue", "--gives-way", "guests,default,requeue,60,USR1").status == 0
    assert shell("oarqueue", "--gives-way", "spare,guests").status == 0
    listed = shell("oarqueue").out
    assert "# guests gives way to default: requeue, 60 s after signal 10\n" in listed
    described = json.loads(shell("oarqueue", "-J").out)
    assert described["spare"]["gives_way_to"] == ["guests"]
    assert described["default"]["gives_way_to"] == []
    before = connection.execute("SELECT * FROM queues ORDER BY 1").fetchall()
    for wrong, what in (
        ("default,spare", "queue 'default' would give way to itself, through others"),
        ("guests,nowhere", "there is no queue 'nowhere'"),
        ("guests,besteffort", "best-effort jobs give way to all others, and nobody to them"),
        ("guests,default,kill", "'kill' is no manner of giving way"),
        ("guests,default,end,-1", "'-1' is no grace"),
        ("guests,default,end,1,NONE", "'NONE' is not a signal"),
        ("guests", "'guests' does not say who gives way"),
    ):
        refused = shell("oarqueue", "--gives-way", wrong)
        assert refused.status != 0
        assert what in refused.err, (wrong, refused.err)
    assert connection.execute("SELECT * FROM queues ORDER BY 1").fetchall() == before
    assert shell("oarqueue", "--gives-way", "guests,none").status == 0
    assert json.loads(shell("oarqueue", "-J").out)["guests"]["gives_way_to"] == []


def test_what_others_give_way_to_stays(connection: Connection, shell: Shell) -> None:
    shell("oarqueue", "--add", "staff,5,fifo")
    shell("oarqueue", "--add", "guests,5,fifo")
    shell("oarqueue", "--gives-way", "guests,default+staff")
    for name in ("staff", "visitors"):
        shell("oarproject", "create", name)
    shell("oarproject", "change", "visitors", "--gives-way", "staff")
    assert "queue 'guests' gives way to 'staff'" in shell("oarqueue", "--remove", "staff").err
    assert "project 'visitors' gives way to 'staff'" in shell("oarproject", "remove", "staff").err
    assert shell("oarqueue", "--gives-way", "guests,default").status == 0
    assert shell("oarqueue", "--remove", "staff").status == 0
    assert shell("oarproject", "change", "visitors", "--gives-way", "none").status == 0
    assert shell("oarproject", "remove", "staff").status == 0


def test_a_project_that_gives_way_to_one_that_is_gone_can_be_changed(connection: Connection, shell: Shell) -> None:
    connection.execute("INSERT INTO projects (project, gives_way_to) VALUES ('visitors', '{staff}')")
    assert shell("oarproject", "change", "visitors", "--share", "2").status == 0
    assert "there is no project 'staff'" in shell("oarproject", "change", "visitors", "--gives-way", "staff").err


@pytest.mark.parametrize("name", ["none", "c++", "a,b"])
def test_no_project_is_called_as_who_gives_way_cannot_be_written(
    connection: Connection, shell: Shell, name: str
) -> None:
    assert f"a project cannot be called '{name}'" in shell("oarproject", "create", name).err
    assert connection.execute("SELECT count(*) FROM projects").fetchall() == [(0,)]
    connection.execute("INSERT INTO projects (project) VALUES ('visitors'), (%s)", [name])
    shell("oarproject", "change", "visitors", "--gives-way", name)
    assert json.loads(shell("oarproject", "show", "visitors", "-J").out)["gives_way_to"] == []


def test_no_queue_is_called_as_the_word_for_nobody(shell: Shell) -> None:
    assert "a queue cannot be called 'none'" in shell("oarqueue", "--add", "none,5,fifo").err


@pytest.mark.parametrize(
    ("before", "others", "wanted", "after"),
    [
        ([], ["staff"], ("staff", "--gives-way", "visitors"), {"staff": [], "visitors": ["staff"]}),
        (["staff"], [], ("visitors", "--share", "2"), {"staff": [], "visitors": []}),
    ],
    ids=["a circle", "another change of the same project"],
)
def test_changes_of_projects_at_once_know_of_each_other(
    connection: Connection,
    shell: Shell,
    dsn: str,
    before: list[str],
    others: list[str],
    wanted: tuple[str, ...],
    after: dict[str, list[str]],
) -> None:
    connection.execute(
        "INSERT INTO projects (project, gives_way_to) VALUES ('staff', '{}'), ('visitors', %s)", [before]
    )
    with ThreadPoolExecutor(1) as pool, psycopg.connect(dsn) as other:
        other.execute("UPDATE projects SET gives_way_to = %s WHERE project = 'visitors'", [others])
        changed = pool.submit(shell, "oarproject", "change", *wanted)
        until(lambda: changed.done() or waiting_for_locks(connection), "the second change is done or waits")
        other.commit()
        changed.result(60)
    assert dict(connection.execute("SELECT project, gives_way_to FROM projects").fetchall()) == after
