"""The stream of events against the truth, whatever commits in whatever order and wherever a listener is cut off."""

from __future__ import annotations

import json
import random
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from oarpy.client.events.event_text import server_sent
from oarpy.client.events.stream import ClusterEvent, cursor_of, next_batch
from oarpy.modules.accounting import file_away
from oarpy.store import event_stream
from oarpy.store.event_stream import CursorGone, parse_cursor
from oarpy.store.past import moving
from tests.harness.oarsub_cluster import settings
from tests.harness.past_jobs import MARCH, MONTH, NOW, ended
from tests.harness.sample_cluster import Connection, Shell, add_job, add_nodes
from tests.harness.waiting import until

pytestmark = [pytest.mark.db, pytest.mark.kept]

LIFE = ("toLaunch", "Launching", "Running", "Finishing", "Terminated")
WRITERS, JOBS = 4, 6


def test_what_commits_late_is_neither_lost_nor_told_early(dsn: str, connection: Connection) -> None:
    first, second = add_job(connection, "Hold"), add_job(connection, "Hold")
    cursor = cursor_of(connection, None)
    with psycopg.connect(dsn) as slow:
        slow.execute("UPDATE jobs SET state = 'Waiting' WHERE job_id = %s", [first])
        connection.execute("UPDATE jobs SET state = 'Waiting' WHERE job_id = %s", [second])
        batch = next_batch(connection, cursor)
        assert [event.job for event in batch.events] == [second], "an open transaction holds nobody up"
        slow.commit()
    assert [event.job for event in next_batch(connection, batch.cursor).events] == [first]
    assert [event.job for event in next_batch(connection, cursor).events] == [first, second]


def test_what_is_taken_back_is_not_told(dsn: str, connection: Connection) -> None:
    job = add_job(connection, "Hold")
    cursor = cursor_of(connection, None)
    with psycopg.connect(dsn) as undone:
        undone.execute("UPDATE jobs SET state = 'Waiting' WHERE job_id = %s", [job])
        undone.rollback()
    assert next_batch(connection, cursor).events == ()


def live(dsn: str, seed: int, jobs: list[int]) -> None:
    """Lead jobs through their lives, in transactions that stay open for a while, are taken back, or are killed."""
    chance = random.Random(seed)
    places = dict.fromkeys(jobs, 0)
    while waiting := [job for job in jobs if places[job] < len(LIFE)]:
        try:
            with psycopg.connect(dsn) as connection:
                connection.execute("SELECT pg_current_xact_id()")  # numbers are out of order from here on
                connection.execute("SELECT pg_sleep(%s)", [chance.random() * 0.01])
                some = chance.sample(waiting, chance.randint(1, len(waiting)))
                states = {LIFE[places[job]] for job in some}
                for state in states:
                    move(connection, [job for job in some if LIFE[places[job]] == state], state)
                connection.execute("SELECT pg_sleep(%s)", [chance.random() * 0.01])
                fate = chance.random()
                if fate < 0.2:
                    connection.rollback()
                    continue
                if fate < 0.3:
                    connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
                connection.commit()
                for job in some:
                    places[job] += 1
        except psycopg.OperationalError:
            continue  # killed before the commit


def move(connection: Connection, jobs: list[int], state: str) -> None:
    """Bring jobs to their next state."""
    connection.execute(
        """
        UPDATE jobs j SET state = %(state)s,
            started_at = CASE WHEN %(state)s = 'Running' THEN now() ELSE started_at END,
            ended_at = CASE WHEN %(state)s = 'Terminated' THEN now() END,
            left_nothing = %(state)s = 'Terminated',
            final_state = CASE WHEN %(state)s = 'Finishing' THEN 'Terminated' END,
            moldable_id = coalesce(j.moldable_id, m.moldable_id), walltime = coalesce(j.walltime, m.walltime)
        FROM moldable_descriptions m WHERE m.submission_id = j.submission_id AND j.job_id = ANY(%(jobs)s)
        """,
        {"state": state, "jobs": jobs},
    )


class Listener:
    """Follows the stream, forgets everything but its cursor now and then, and goes on in the middle of batches."""

    def __init__(self, dsn: str, since: str, seed: int) -> None:
        self._dsn = dsn
        self._chance = random.Random(seed)
        self.cursor = since
        self.heard: list[ClusterEvent] = []

    def listen(self, over: threading.Event) -> None:
        while True:
            last = over.is_set()
            with psycopg.connect(self._dsn, autocommit=True) as connection:
                for event in self._some(connection):
                    self.heard.append(event)
                    self.cursor = str(event.cursor)
                    if self._chance.random() < 0.05:
                        last = False
                        break  # it was killed: what it has is the cursor of the last event
            if last:
                return

    def _some(self, connection: Connection) -> Iterator[ClusterEvent]:
        cursor = parse_cursor(self.cursor)
        while True:
            batch = next_batch(connection, cursor)
            yield from batch.events
            cursor = batch.cursor
            self.cursor = str(cursor)
            if batch.complete:
                return


@pytest.mark.parametrize("seed", [1, 2])
def test_listeners_hear_the_truth(dsn: str, connection: Connection, seed: int) -> None:
    jobs = [[add_job(connection, "Waiting") for _ in range(JOBS)] for _ in range(WRITERS)]
    since = str(cursor_of(connection, None))
    over = threading.Event()
    listeners = [Listener(dsn, since, seed * 10 + number) for number in range(3)]
    following = [threading.Thread(target=one.listen, args=[over]) for one in listeners]
    writing = [threading.Thread(target=live, args=[dsn, seed * 100 + n, some]) for n, some in enumerate(jobs)]
    for thread in [*following, *writing]:
        thread.start()
    for thread in writing:
        thread.join()
    over.set()
    for thread in following:
        thread.join()
    late = Listener(dsn, since, seed)
    late.listen(over)
    truth: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for job, previous, state in connection.execute(
        "SELECT job_id, previous_state, state FROM job_state_logs WHERE previous_state IS NOT NULL"
        " ORDER BY job_id, lower(during)"
    ):
        truth[job].append((previous, state))
    assert len(truth) == WRITERS * JOBS
    for listener in [*listeners, late]:
        told: dict[int, list[tuple[str | None, str | None]]] = defaultdict(list)
        for event in listener.heard:
            if event.kind == "job":
                assert event.job is not None
                told[event.job].append((event.previous_state, event.state))
        assert told == truth


def test_a_cursor_within_a_statement_goes_on_within_it(connection: Connection) -> None:
    jobs = [add_job(connection, "Hold") for _ in range(5)]
    cursor = cursor_of(connection, None)
    connection.execute("UPDATE jobs SET state = 'Waiting' WHERE job_id = ANY(%s)", [jobs])
    for place, event in enumerate(next_batch(connection, cursor).events, start=1):
        rest = next_batch(connection, parse_cursor(str(event.cursor))).events
        assert [one.job for one in rest] == jobs[place:]


def test_small_batches_are_the_same_as_one(connection: Connection) -> None:
    cursor = cursor_of(connection, None)
    jobs = [add_job(connection, "Waiting") for _ in range(7)]
    found = []
    while True:
        batch = event_stream.read(connection, cursor, limit=2)
        found += [number for change in batch.changes for number in change.ids]
        cursor = parse_cursor(str(batch.last))
        if batch.complete:
            break
    assert found == jobs


def test_nodes_queues_and_the_log_are_told(connection: Connection) -> None:
    cursor = cursor_of(connection, None)
    add_nodes(connection, "n1")
    connection.execute("UPDATE resources SET state = 'Suspected' WHERE network_address = 'n1'")
    connection.execute("UPDATE queues SET active = false WHERE queue_name = 'default'")
    connection.execute("INSERT INTO event_logs (type, hosts, description) VALUES ('BROKEN', '{n1}', 'its disk')")
    events = next_batch(connection, cursor).events
    assert [(event.kind, event.name, event.previous_state, event.state) for event in events] == [
        ("node", "n1", None, "Alive"),
        ("node", "n1", "Alive", "Suspected"),
        ("queue", "default", None, "changed"),
        ("event", None, None, None),
    ]
    kind, number, data, *_ = server_sent(events[-1]).splitlines()
    assert (kind, number) == ("event: event", f"id: {events[-1].cursor}")
    assert json.loads(data.removeprefix("data: "))["description"] == "its disk"


def test_what_moves_to_the_past_and_back_is_no_news_and_still_told(connection: Connection) -> None:
    add_nodes(connection, "n1")
    before = cursor_of(connection, None)
    job = ended(connection, MARCH)
    after = cursor_of(connection, None)
    assert file_away(connection, NOW, MONTH)
    told = next_batch(connection, before).events
    assert [(event.job, event.facts is not None) for event in told if event.kind == "job"][-1:] == [(job, True)]
    with connection.transaction():
        moving.recall(connection, [job])
    assert next_batch(connection, after).events == ()


def test_a_cursor_that_is_too_old_says_so(connection: Connection) -> None:
    old = cursor_of(connection, None)
    add_job(connection, "Waiting")
    later = datetime.now(UTC) + timedelta(hours=1)
    until(lambda: event_stream.prune(connection, later), "transactions of others on this server to end")
    with pytest.raises(CursorGone, match="too old"):
        next_batch(connection, old)
    young = cursor_of(connection, None)
    assert next_batch(connection, young).events == ()
    kept = add_job(connection, "Waiting")
    assert event_stream.prune(connection, datetime.now(UTC) - timedelta(hours=1)) == 0
    assert [event.job for event in next_batch(connection, young).events] == [kept]


def test_a_writer_that_is_open_while_old_changes_go_is_told(dsn: str, connection: Connection) -> None:
    job = add_job(connection, "Hold")
    cursor = cursor_of(connection, None)
    with psycopg.connect(dsn) as slow:
        slow.execute("UPDATE jobs SET state = 'Waiting' WHERE job_id = %s", [job])
        add_job(connection, "Waiting")
        cursor = next_batch(connection, cursor).cursor
        event_stream.prune(connection, datetime.now(UTC) + timedelta(hours=1))
        slow.commit()
    assert [event.job for event in next_batch(connection, cursor).events] == [job]


def test_a_restored_database_has_another_stream(connection: Connection) -> None:
    cursor = cursor_of(connection, None)
    add_job(connection, "Waiting")
    connection.execute("SELECT begin_generation('a node knows more', 5000)")
    with pytest.raises(CursorGone, match="restored"):
        next_batch(connection, cursor)
    anew = cursor_of(connection, None)
    job = add_job(connection, "Waiting")
    assert [event.job for event in next_batch(connection, anew).events] == [job]


def test_a_cursor_from_the_future_is_of_another_copy(connection: Connection) -> None:
    far = parse_cursor(f"{cursor_of(connection, None).generation}-9000000000:9000000000:")
    with pytest.raises(CursorGone, match="restored"):
        next_batch(connection, far)


@pytest.mark.parametrize("text", ["", "x", "0-5:4:", "0-1:2", "0-3:9:12", "0-1:1:-1:1:-1", "1" * 200_000])
def test_what_is_no_cursor_is_refused(connection: Connection, shell: Shell, text: str) -> None:
    result = shell("oarpy", "events", "--once", "--since", text or "-")
    assert result.status == 2
    assert "is not a cursor" in result.err


def told(environment: dict[str, str], *arguments: str) -> list[dict[str, object]]:
    """Run ``oarpy events`` on what has happened, and return its lines."""
    command = ["oarpy", "events", "--once", "-J", *arguments]
    done = subprocess.run(command, env={**environment, **settings()}, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_command_tells_what_came_after_a_cursor(
    dsn: str, connection: Connection, cluster_environment: dict[str, str]
) -> None:
    since = str(cursor_of(connection, None))
    other, job = (add_job(connection, "Waiting") for _ in range(2))
    begin, first, second = told(cluster_environment, "--since", since)
    assert (begin["kind"], begin["cursor"]) == ("begin", since)
    assert [(one["job_id"], one["state"]) for one in (first, second)] == [(other, "Waiting"), (job, "Waiting")]
    assert told(cluster_environment, "--since", str(first["cursor"]))[1:] == [second]
    with psycopg.connect(dsn) as open_elsewhere:
        open_elsewhere.execute("SELECT pg_current_xact_id()")  # cursors name the same point by what is open
        (mine,) = told(cluster_environment, "--since", since, "-j", str(job))[1:]
    assert {**mine, "cursor": ""} == {**second, "cursor": ""}
    assert len(told(cluster_environment, "--since", str(mine["cursor"]))) == 1
    assert len(told(cluster_environment)) == 1


def test_watching_ends_with_the_last_of_the_jobs(connection: Connection, cluster_environment: dict[str, str]) -> None:
    jobs = [add_job(connection, "Waiting") for _ in range(2)]
    with subprocess.Popen(
        ["oarstat", "--watch", "-J", *map(str, jobs)],
        env={**cluster_environment, **settings()},
        stdout=subprocess.PIPE,
        text=True,
    ) as watching:
        try:
            until(lambda: listens(connection), "the command listens")
            for job in jobs:
                connection.execute("UPDATE jobs SET state = 'toError' WHERE job_id = %s", [job])
                connection.execute("UPDATE jobs SET state = 'Error', ended_at = now() WHERE job_id = %s", [job])
            out, _ = watching.communicate(timeout=60)
        finally:
            watching.kill()
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(line["job_id"], line["state"]) for line in lines] == [
        (job, state) for job in jobs for state in ("toError", "Error")
    ]


def listens(connection: Connection) -> bool:
    """Tell whether a listener has begun: it reads after it listens."""
    return bool(
        connection.execute(
            "SELECT FROM pg_stat_activity WHERE application_name = 'oarpy oarstat' AND query ~ 'pg_current_snapshot'"
            " AND query ~ 'LATERAL' AND state = 'idle'"
        ).fetchall()
    )


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["nosuch"], 4, "there is no queue 'nosuch'"),
        (["default"], 2, "--watch of queue 'default' (name jobs, or -u USER)"),
        (["state:Suspended"], 4, "no waiting or running job in state Suspended"),
    ],
)
@pytest.mark.usefixtures("connection")
def test_nothing_is_watched_for_what_names_no_jobs(
    cluster_environment: dict[str, str], words: list[str], status: int, said: str
) -> None:
    done = subprocess.run(
        ["oarstat", "--watch", *words],
        env={**cluster_environment, **settings()},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr
