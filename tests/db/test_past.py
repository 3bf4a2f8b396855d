"""Ended jobs are filed by month, and commands show them as before."""

from __future__ import annotations

import re
from datetime import timedelta

import psycopg
import pytest

from oarpy.modules.accounting import account, file_away
from oarpy.store.past import months, moving, structure
from oarpy.store.past.dependent_views import DependentViews
from oarpy.store.past.tables import filed_tables
from oarpy.store.schema.checks.check import check
from tests.harness.hand_written import rewrite
from tests.harness.oarsub_cluster import Submitter
from tests.harness.past_jobs import MARCH, MONTH, NOW, ended, live, rows, some_past
from tests.harness.sample_cluster import Connection, Shell, add_job

pytestmark = pytest.mark.db


@pytest.fixture
def past(connection: Connection) -> list[int]:
    """Two jobs of March, one of April, one that waits."""
    return some_past(connection)


def test_jobs_of_closed_months_move_with_all_that_hangs_on_them(connection: Connection, past: list[int]) -> None:
    before = rows(connection)
    assert file_away(connection, NOW, MONTH) == 3
    assert live(connection) == past[3:]
    assert rows(connection) == before
    filed = connection.execute("SELECT to_char(month, 'YYYY-MM'), jobs FROM past_months ORDER BY 1").fetchall()
    assert filed == [("2026-03", 2), ("2026-04", 1)]
    left = connection.execute("SELECT count(*) FROM event_logs WHERE job_id IS NOT NULL").fetchone()
    assert left == (0,)
    assert file_away(connection, NOW, MONTH) == 0


def test_what_is_not_over_or_not_counted_or_recent_stays(connection: Connection, past: list[int]) -> None:
    uncounted = ended(connection, MARCH)
    rewrite(connection, "UPDATE jobs SET accounted = false WHERE job_id = %s", uncounted)
    recent = ended(connection, NOW - timedelta(days=30))
    # one member of an array is still running
    first = ended(connection, MARCH)
    second = add_job(connection)
    connection.execute(
        "UPDATE jobs SET submission_id = (SELECT submission_id FROM jobs WHERE job_id = %s) WHERE job_id = %s",
        [first, second],
    )
    file_away(connection, NOW, MONTH)
    assert live(connection) == [past[3], uncounted, recent, first, second]


def test_jobs_that_live_jobs_need_stay(connection: Connection, past: list[int]) -> None:
    """A live job waits for one of them, another repeats one; a job that is over needs nothing any more."""
    needed, repeated, over, waiting = past
    connection.execute("INSERT INTO job_dependencies (job_id, required_job_id) VALUES (%s, %s)", [waiting, needed])
    connection.execute("UPDATE jobs SET resubmit_of = %s WHERE job_id = %s", [repeated, waiting])
    connection.execute("INSERT INTO job_dependencies (job_id, required_job_id) VALUES (%s, %s)", [over, needed])
    before = rows(connection)
    file_away(connection, NOW, MONTH)
    assert live(connection) == [needed, repeated, waiting]
    connection.execute("DELETE FROM job_dependencies WHERE job_id = %s", [waiting])
    connection.execute("UPDATE jobs SET resubmit_of = NULL WHERE job_id = %s", [waiting])
    file_away(connection, NOW, MONTH)
    assert live(connection) == [waiting]
    before["job_dependencies"] = [row for row in before["job_dependencies"] if not row.startswith(f"({waiting},")]
    after = rows(connection)
    assert after["job_dependencies"] == before["job_dependencies"]
    assert after["assigned_resources"] == before["assigned_resources"]


def test_a_chain_of_repeated_jobs_moves_from_its_end(connection: Connection, past: list[int]) -> None:
    _, second, third, _ = past
    rewrite(connection, "UPDATE jobs SET resubmit_of = job_id - 1 WHERE job_id = ANY(%s)", [second, third])
    moved = [file_away(connection, NOW, MONTH) for _ in range(4)]
    assert moved == [1, 1, 1, 0]
    assert live(connection) == past[3:]


def test_a_job_comes_back_with_one_of_a_later_month_that_it_repeats(connection: Connection, past: list[int]) -> None:
    first, _, april, _ = past
    rewrite(connection, "UPDATE jobs SET resubmit_of = %s WHERE job_id = %s", april, first)
    before = rows(connection)
    while file_away(connection, NOW, MONTH):
        pass
    assert [month.jobs for month in months.months(connection)] == [2, 1]
    with connection.transaction():
        moving.recall(connection, [first])
    assert live(connection) == [first, april, past[3]]
    assert rows(connection) == before
    assert [month.jobs for month in months.months(connection)] == [1, 0]


COMMANDS = [
    ("oarstat", "-f", "-j", "{job}"),
    ("oarstat", "-J", "-j", "{job}"),
    ("oarstat", "-s", "-j", "{job}"),
    ("oarstat", "-j", "{job}", "--format", "3"),
    ("oarstat", "-e", "-j", "{job}"),
    ("oarstat", "-p", "-j", "{job}"),
    ("oarstat", "--array", "{job}"),
    ("oarstat", "--sql", "state = 'Terminated'"),
    ("oarstat", "--sql", "job_user = 'nobody'"),
    ("oarstat", "--why", "{job}"),
    ("oarstat", "--priority", "{job}"),
    ("oarstat", "-g", "2026-03-01 00:00:00, 2026-05-01 00:00:00"),
    ("oarstat", "-g", "2026-03-01 00:00:00, 2026-05-01 00:00:00", "-J"),
    ("oarstat", "--accounting", "2026-03-01 00:00:00, 2026-05-01 00:00:00"),
    ("oarnodes", "--events"),
    ("oarnodes", "--events", "n1", "-J"),
    ("oarnodes", "--events", "2026-03-15 00:00:00"),
    ("oardel", "{job}"),
    ("oardel", "--array", "{job}"),
    ("oarhold", "{job}"),
    ("oarresume", "{job}"),
    ("oarwalltime", "{job}"),
    ("oarwalltime", "{job}", "+1:0:0"),
    ("oarsh", "-j", "{job}", "date"),
    ("oaradmin", "resources", "delete", "1"),
    ("oaraccounting", "--reinitialize"),
    (
        "oarpy",
        "db",
        "query",
        "SELECT job_id, state, run_seconds, nodes, cores FROM oar_report.jobs ORDER BY job_id",
    ),
    ("oarpy", "db", "query", "SELECT * FROM oar_report.job_state_history ORDER BY job_id, entered_at"),
    ("oarpy", "db", "query", "SELECT * FROM oar_report.assigned_resources ORDER BY job_id, resource_id"),
    ("oarpy", "db", "query", "SELECT * FROM oar_report.moldable_alternatives ORDER BY job_id"),
    ("oarpy", "db", "query", "SELECT * FROM oar_report.job_types ORDER BY job_id"),
    ("oarpy", "db", "query", "SELECT * FROM oar_report.accounting ORDER BY day, user_name"),
    ("oarpy", "simulate", "--from-database", "--since", "2026-03-01"),
    ("oarpy", "db", "check"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_commands_show_the_same_after_the_move(
    connection: Connection, shell: Shell, past: list[int], words: tuple[str, ...]
) -> None:
    command, *arguments = (word.format(job=past[0]) for word in words)
    connection.execute("UPDATE jobs SET state = 'Hold' WHERE job_id = %s", [past[3]])
    connection.execute("INSERT INTO walltime_changes (job_id, granted) VALUES (%s, '1 minute')", [past[0]])
    connection.execute("UPDATE site SET instance = instance")
    account(connection, 86400)
    before = shell(command, *arguments)
    file_away(connection, NOW, MONTH)
    assert live(connection) == past[3:]
    after = shell(command, *arguments)
    assert after.status == before.status
    assert timeless(after.out + after.err) == timeless(before.out + before.err)
    assert before.out + before.err


def timeless(text: str) -> str:
    """Without what changes from one moment to the next: how long a waiting job waits, how long a replay took."""
    return re.sub(r"\d+\.\d+", "#", text)


def test_a_job_of_the_past_comes_back_for_who_needs_it(connection: Connection, shell: Shell, past: list[int]) -> None:
    rewrite(connection, "UPDATE jobs SET resubmit_of = %s WHERE job_id = %s", past[0], past[1])
    before = rows(connection)
    moved = [file_away(connection, NOW, MONTH) for _ in range(2)]
    assert moved == [2, 1]
    with connection.transaction():
        moving.recall(connection, [past[1]])
    assert live(connection) == [past[0], past[1], past[3]]
    assert rows(connection) == before
    assert connection.execute("SELECT jobs FROM past_months ORDER BY month").fetchall() == [(0,), (1,)]
    assert [file_away(connection, NOW, MONTH) for _ in range(2)] == [1, 1]
    assert rows(connection) == before


def test_what_was_measured_and_told_goes_and_comes_back(connection: Connection, past: list[int]) -> None:
    rewrite(connection, "UPDATE jobs SET cpu_seconds = 12.5, memory_peak = 1024 WHERE job_id = %s", past[0])
    connection.execute("UPDATE submissions SET kind = 7 WHERE submission_id = (SELECT min(submission_id) FROM jobs)")
    connection.execute(
        "INSERT INTO first_predictions (job_id, made_at, planned_start) VALUES (%s, %s, %s)", [past[0], MARCH, MARCH]
    )
    connection.execute(
        "INSERT INTO verdict_changes (job_id, at, verdict, reason, queue_name, queue_priority, queue_order)"
        " VALUES (%s, %s, 'starts', '', 'default', 3, 'fifo')",
        [past[0], MARCH],
    )
    facts = (
        "SELECT j.cpu_seconds, j.memory_peak, s.kind, p.planned_start = %s FROM {0}.jobs j"
        " JOIN {0}.submissions s USING (submission_id) JOIN {0}.first_predictions p USING (job_id) WHERE job_id = %s"
    )
    measured = [(12.5, 1024, 7, True)]
    assert file_away(connection, NOW, MONTH) == 3
    assert connection.execute(facts.format("oar_past"), [MARCH, past[0]]).fetchall() == measured
    assert connection.execute("SELECT cpu_seconds FROM oar_report.efficiency").fetchall() == [(12.5,)]
    with connection.transaction():
        moving.recall(connection, [past[0]])
    assert connection.execute(facts.format("public"), [MARCH, past[0]]).fetchall() == measured
    assert connection.execute("SELECT verdict FROM verdict_changes").fetchall() == [("starts",)]


def test_the_number_of_a_job_of_the_past_is_not_given_again(connection: Connection, past: list[int]) -> None:
    file_away(connection, NOW, MONTH)
    insert = (
        "INSERT INTO jobs (job_id, submission_id, array_id, user_name, queue_name, state)"
        " SELECT %s, submission_id, 1, 'me', 'default', 'Waiting' FROM submissions"
    )
    with pytest.raises(psycopg.errors.UniqueViolation, match=f"job {past[1]} has a number that was given before"):
        connection.execute(insert, [past[1]])


def test_the_past_follows_the_live_tables(connection: Connection, past: list[int]) -> None:
    """A column that comes, changes or goes does so in the past too, with the defaults of a new one."""
    file_away(connection, NOW, MONTH)
    for change, column in (
        ("ADD COLUMN mood text NOT NULL DEFAULT 'fine'", "fine"),
        ("ALTER COLUMN mood TYPE varchar(9)", "fine"),
        ("DROP COLUMN mood", None),
    ):
        views = DependentViews(connection)
        views.put_away()
        connection.execute(f"ALTER TABLE jobs {change}")
        views.put_back()
        found = connection.execute("SELECT to_jsonb(j) ->> 'mood' FROM oar_all.jobs j").fetchall()
        assert found == [(column,)] * 4
        assert structure.lagging(connection) == ()
        connection.execute("SELECT FROM oar_report.jobs")


@pytest.mark.parametrize("words", [("--resubmit", "{job}"), ("-a", "{job}", "date"), ("-a", "ok:{job}", "date")])
def test_old_jobs_can_be_submitted_again_and_waited_for(
    connection: Connection, oarsub: Submitter, words: tuple[str, ...]
) -> None:
    """The new job is as it would be had the old one never moved: the same words on another old job tell."""
    stayed, moved = (ended(connection, when) for when in (NOW, MARCH))
    file_away(connection, NOW, MONTH)
    assert live(connection) == [stayed]
    with_live, with_past = (oarsub.job_id(*(word.format(job=job) for word in words)) for job in (stayed, moved))
    shown = [told(connection, job).replace(f"{old}", "#") for job, old in ((with_live, stayed), (with_past, moved))]
    assert shown[0] == shown[1]
    assert live(connection) == [stayed, moved, with_live, with_past]
    assert file_away(connection, NOW, MONTH) == 0


def told(connection: Connection, job: int) -> str:
    """Return what the database says of the new job, and of what it refers to."""
    row = connection.execute(
        "SELECT j.state, j.command, j.resubmit_of, d.required_job_id, d.outcome, o.state"
        " FROM jobs j LEFT JOIN job_dependencies d USING (job_id)"
        "    LEFT JOIN jobs o ON o.job_id = coalesce(d.required_job_id, j.resubmit_of) WHERE j.job_id = %s",
        [job],
    ).fetchone()
    return repr(row)


def test_a_dry_run_knows_how_an_old_job_ended(connection: Connection, oarsub: Submitter) -> None:
    failed = ended(connection, MARCH, "Error")
    file_away(connection, NOW, MONTH)
    answer = oarsub("--dry-run", "-a", f"ok:{failed}", "date")
    assert (answer.status, str(failed) in answer.out) == (0, True), answer
    assert live(connection) == []


def test_every_removal_finds_what_refers_to_it_by_an_index(connection: Connection) -> None:
    """Without one, each row that goes costs a look at all of the other table."""
    query = """
        SELECT f.conrelid::regclass::text, f.conname FROM pg_constraint f
        WHERE f.contype = 'f' AND f.conrelid::regclass::text = ANY(%s) AND f.confrelid::regclass::text = ANY(%s)
          AND NOT EXISTS (
              SELECT FROM pg_index x WHERE x.indrelid = f.conrelid AND x.indkey[0] = ANY (f.conkey)
                AND (x.indpred IS NULL OR pg_get_expr(x.indpred, x.indrelid) ~ '^\\(\\w+ IS NOT NULL\\)$'))
    """
    names = [table.name for table in filed_tables(connection)]
    # predictions are those of waiting jobs, few and written anew by each pass
    known = ("gantt_predictions", "gantt_predictions_moldable_id_fkey")
    assert set(connection.execute(query, [names, names]).fetchall()) <= {known}


def test_check_tells_that_the_past_does_not_follow(connection: Connection, dsn: str) -> None:
    connection.execute("ALTER TABLE jobs ADD COLUMN mood text")
    assert "the past of table jobs does not have its columns: run 'oarpy db upgrade'" in check(dsn)
