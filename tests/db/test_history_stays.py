"""What happened is added to, never changed: by nobody but the owner of the tables who says that he means it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import LiteralString

import psycopg
import pytest
from psycopg.errors import CheckViolation, InsufficientPrivilege

from oarpy.modules.accounting import account, file_away
from oarpy.store.platform import admission_rules
from oarpy.store.schema.checks import check as schema_check
from tests.harness.hand_written import one, rewrite
from tests.harness.past_jobs import MARCH, MONTH, NOW, ended
from tests.harness.sample_cluster import ME, Connection, Shell, add_job, add_nodes

pytestmark = [pytest.mark.db, pytest.mark.oldest]

CHANGES: dict[str, tuple[LiteralString, ...]] = {
    "job_state_logs": ("UPDATE job_state_logs SET during = '[2020-01-01,2020-01-02)'", "DELETE FROM job_state_logs"),
    "resource_state_logs": ("UPDATE resource_state_logs SET state = 'Dead'", "DELETE FROM resource_state_logs"),
    "event_logs": ("UPDATE event_logs SET description = 'nothing'", "DELETE FROM event_logs"),
    "admission_rule_versions": (
        "UPDATE admission_rule_versions SET changed_by = 'me'",
        "DELETE FROM admission_rule_versions",
    ),
    "quota_changes": ("UPDATE quota_changes SET content = '{}'", "DELETE FROM quota_changes"),
    "accounting": (
        "UPDATE accounting SET consumption = 0",
        "UPDATE accounting SET consumption = consumption + 1",
        "DELETE FROM accounting",
    ),
    "job_days": ("UPDATE job_days SET jobs = jobs + 1", "DELETE FROM job_days"),
    "assigned_resources": (
        "UPDATE assigned_resources SET during = '{[2020-01-01,2020-01-02)}'",
        "DELETE FROM assigned_resources",
    ),
    "assigned_amounts": ("UPDATE assigned_amounts SET amount = 1", "DELETE FROM assigned_amounts"),
    "generations": ("UPDATE generations SET copy = 'none'", "DELETE FROM generations"),
    "past_months": ("UPDATE past_months SET jobs = 0", "DELETE FROM past_months"),
    "node_away_logs": ("UPDATE node_away_logs SET author = 'me'", "DELETE FROM node_away_logs"),
    "lost_jobs": (
        "UPDATE lost_jobs SET exit_status = 1",
        "UPDATE lost_jobs SET user_name = 'me'",
        "DELETE FROM lost_jobs",
    ),
    "walltime_changes": ("UPDATE walltime_changes SET granted = '2 hours'", "DELETE FROM walltime_changes"),
    "oar_past.jobs": ("UPDATE oar_past.jobs SET user_name = 'me'", "DELETE FROM oar_past.jobs"),
    "oar_past.jobs_2026_03": (
        "UPDATE oar_past.jobs_2026_03 SET user_name = 'me'",
        "DELETE FROM oar_past.jobs_2026_03",
    ),
    "oar_past.event_logs": ("UPDATE oar_past.event_logs SET description = ''", "DELETE FROM oar_past.event_logs"),
    "jobs": (
        "UPDATE jobs SET command = 'true'",
        "UPDATE jobs SET attempt = 7",
        "UPDATE jobs SET resubmit_of = job_id",
        "UPDATE jobs SET reservation_state = 'Scheduled', reservation_start = now()",
        "UPDATE jobs SET accounted = false",
        "UPDATE jobs SET user_name = 'bob'",
        "UPDATE jobs SET ended_at = ended_at + interval '1 hour'",
        "UPDATE jobs SET walltime = '1 second'",
        "UPDATE jobs SET suspended_time = '1 hour'",
        "DELETE FROM jobs",
    ),
}
STATEMENTS = [
    (table, change) for table, changes in CHANGES.items() for change in (*changes, f"TRUNCATE {table} CASCADE")
]


def contents(connection: Connection) -> dict[str, object]:
    """All rows of each table, as text."""
    return {table: one(connection, f"SELECT array_agg(t::text) FROM {table} t") for table in CHANGES}  # noqa: S608


@pytest.fixture
def past(connection: Connection) -> int:
    """A cluster with something in each of its histories: one job that was counted."""
    cores = add_nodes(connection, "node1")
    job = add_job(connection, "Terminated", user="alice", resources=cores, seconds=90)
    connection.execute("INSERT INTO event_logs (type, job_id) VALUES ('TEST', %s)", [job])
    connection.execute("INSERT INTO admission_rules (name, priority, rule_text) VALUES ('r', 1, 'pass')")
    connection.execute("INSERT INTO quotas (max_jobs) VALUES (3)")
    assert account(connection, 60) == 1
    return job


@pytest.fixture
def more(connection: Connection, past: int) -> None:
    """What the job had besides, a job that is filed away, one that is lost, and a node that was away."""
    ended(connection, MARCH)
    assert file_away(connection, MARCH + timedelta(days=60), MONTH) == 1
    connection.execute(
        "INSERT INTO assigned_amounts (job_id, consumable, block, amount, during)"
        " SELECT job_id, 'memory', 'node1', 2, tstzrange(started_at, ended_at) FROM jobs"
    )
    connection.execute("INSERT INTO walltime_changes (job_id, granted) VALUES (%s, '1 hour')", [past])
    connection.execute("SELECT begin_generation('test')")
    connection.execute(
        "INSERT INTO lost_jobs (job_id, attempt, network_address, generation, resources, ended_at)"
        " VALUES (77, 1, 'node1', 0, 1, now())"
    )
    connection.execute("UPDATE nodes SET away_since = now(), away_reason = 'dust', away_by = 'ann'")


@pytest.fixture
def clerk(dsn: str, connection: Connection, more: None) -> Iterator[Connection]:
    """Somebody who may do everything with the tables, and owns none."""
    connection.execute("DROP ROLE IF EXISTS clerk")
    connection.execute("CREATE ROLE clerk LOGIN")
    connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO clerk")
    connection.execute("GRANT USAGE ON SCHEMA oar_past TO clerk")
    connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA oar_past TO clerk")
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("SET SESSION AUTHORIZATION clerk")
        yield session
    connection.execute("DROP OWNED BY clerk")
    connection.execute("DROP ROLE clerk")


@pytest.mark.usefixtures("more")
def test_the_owner_changes_nothing_by_mistake(connection: Connection) -> None:
    before = contents(connection)
    assert all(before.values())
    for _, change in STATEMENTS:
        with pytest.raises(CheckViolation) as refused:
            connection.execute(change)
        assert "oarpy.rewrite_history" in str(refused.value) or "oar" in (refused.value.diag.message_hint or ""), change
    assert contents(connection) == before


@pytest.mark.usefixtures("more")
def test_the_owner_who_means_it_does(connection: Connection) -> None:
    before = contents(connection)
    for table, change in STATEMENTS:
        with connection.transaction(force_rollback=True):
            rewrite(connection, change)
            connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
            assert contents(connection)[table] != before[table], change
    assert contents(connection) == before


@pytest.mark.usefixtures("more")
def test_what_the_owner_means_ends_with_his_transaction(connection: Connection) -> None:
    rewrite(connection, "UPDATE event_logs SET description = 'nothing'")
    with pytest.raises(CheckViolation):
        connection.execute("DELETE FROM event_logs")
    assert one(connection, "SELECT DISTINCT description FROM event_logs") == "nothing"


def test_nobody_else_does(connection: Connection, clerk: Connection) -> None:
    before = contents(connection)
    for _, change in STATEMENTS:
        with pytest.raises((CheckViolation, InsufficientPrivilege)):
            rewrite(clerk, change)
    assert contents(connection) == before


def test_somebody_else_may_still_work(clerk: Connection, past: int) -> None:
    """Triggers write the histories of what he does."""
    clerk.execute("UPDATE resources SET state = 'Dead'")
    clerk.execute("UPDATE quotas SET max_jobs = 4")
    clerk.execute("INSERT INTO event_logs (type, job_id) VALUES ('TEST', %s)", [past])
    assert one(clerk, "SELECT changed_by FROM quota_changes ORDER BY change_id DESC LIMIT 1") == "clerk"


def test_no_bill_is_doubled(connection: Connection, past: int, shell: Shell) -> None:
    before = connection.execute("SELECT * FROM accounting ORDER BY 1, 6").fetchall()
    with pytest.raises(CheckViolation, match=f"job {past} is counted already"):
        connection.execute("UPDATE jobs SET accounted = false WHERE job_id = %s", [past])
    assert account(connection, 60) == 0
    assert shell.done("oaraccounting", "--reinitialize") == "1 jobs accounted\n"
    rewrite(connection, "DELETE FROM accounting")
    assert account(connection, 60) == 0
    assert before


@pytest.mark.usefixtures("more")
def test_what_goes_on_may_still_change(connection: Connection) -> None:
    connection.execute("UPDATE walltime_changes SET node_told = true, pending = '0'")
    connection.execute("INSERT INTO lost_jobs VALUES (78, 1, 'node1', 0, 'ann', 1)")
    connection.execute("UPDATE lost_jobs SET ended_at = now(), exit_status = 3 WHERE ended_at IS NULL")
    connection.execute("UPDATE nodes SET away_since = NULL, away_reason = NULL, away_by = NULL")
    assert one(connection, "SELECT count(*) FROM node_away_logs WHERE upper_inf(during)") == 0


@pytest.mark.usefixtures("more")
@pytest.mark.parametrize("table", ["jobs", "jobs_2026_03"])
def test_the_past_without_its_trigger_is_told(connection: Connection, dsn: str, table: str) -> None:
    assert schema_check.check(dsn) == ()
    connection.execute(f"DROP TRIGGER history_stays ON oar_past.{table}")
    assert schema_check.check(dsn) == (f"trigger history_stays of table oar_past.{table} is missing or disabled",)


def test_a_message_may_still_be_added_to_a_job_that_is_over(connection: Connection, past: int) -> None:
    connection.execute("UPDATE jobs SET message = 'seen' WHERE job_id = %s", [past])
    assert one(connection, "SELECT message FROM jobs") == "seen"


def test_changes_of_quotas_are_kept_with_their_author(connection: Connection, shell: Shell) -> None:
    connection.execute("INSERT INTO quota_sets VALUES ('night')")
    connection.execute("INSERT INTO quotas (max_jobs, set_name) VALUES (3, 'night')")
    connection.execute("UPDATE quotas SET max_jobs = 3")
    connection.execute("UPDATE quotas SET max_jobs = 5")
    shell.done("oaradmin", "quotas", "clear")
    rows = connection.execute("SELECT relation, change, content -> 'max_jobs' FROM quota_changes ORDER BY change_id")
    assert rows.fetchall() == [
        ("quota_sets", "made", None),
        ("quotas", "made", 3),
        ("quotas", "changed", 5),
        ("quotas", "removed", 5),
        ("quota_sets", "removed", None),
    ]
    authors = connection.execute("SELECT DISTINCT change, changed_by FROM quota_changes ORDER BY 1").fetchall()
    account_of_database = one(connection, "SELECT session_user")
    assert authors == [("changed", account_of_database), ("made", account_of_database), ("removed", ME)]


def test_quotas_of_an_emptied_table_are_kept(connection: Connection) -> None:
    connection.execute("INSERT INTO quota_sets VALUES ('night')")
    connection.execute("INSERT INTO quotas (max_jobs, set_name) VALUES (3, 'night')")
    connection.execute("TRUNCATE quota_sets CASCADE")
    removed = "SELECT relation, content ->> 'set_name' FROM quota_changes WHERE change = 'removed' ORDER BY 1"
    assert connection.execute(removed).fetchall() == [("quota_sets", "night"), ("quotas", "night")]


def test_versions_of_rules_name_who_made_them(connection: Connection) -> None:
    admission_rules.add(connection, "r", "pass", priority=1, enabled=True, by="eve")
    admission_rules.change(connection, "r", by="bob", priority=2)
    connection.execute("UPDATE admission_rules SET priority = 3")
    admission_rules.delete(connection, "r", by="ann")
    authors = connection.execute("SELECT changed_by FROM admission_rule_versions ORDER BY version").fetchall()
    assert [name for (name,) in authors] == ["eve", "bob", one(connection, "SELECT session_user"), "ann"]


# Compared with the jobs


def check(shell: Shell) -> list[str]:
    result = shell("oarpy", "db", "check", "--accounting", "-J")
    problems: list[str] = json.loads(result.out)["problems"]
    assert result.status == (1 if problems else 0)
    return problems


@pytest.fixture
def rules(shell: Shell) -> None:
    """The default rules, without which a database is not as it should be."""
    shell("oarpy", "db", "upgrade")


@pytest.mark.usefixtures("past", "rules")
def test_sums_are_compared_with_the_jobs(connection: Connection, shell: Shell) -> None:
    assert check(shell) == []
    rewrite(connection, "UPDATE accounting SET consumption = consumption + 1 WHERE consumption_type = 'USED'")
    (first, second) = check(shell)
    assert first.startswith("USED of alice (project default, queue default) from 2026-05-01 12:00:00+0")
    assert first.endswith("on is 121.000000 resource-seconds, the jobs make 120.000000")
    assert second.endswith("on is 61.000000 resource-seconds, the jobs make 60.000000")


@pytest.mark.usefixtures("past", "rules")
def test_sums_of_days_are_compared_with_the_jobs_the_filed_ones_too(connection: Connection, shell: Shell) -> None:
    (day,) = connection.execute("SELECT day FROM job_days").fetchall()[0]
    assert file_away(connection, datetime(day.year, day.month, 1, tzinfo=UTC) + timedelta(days=90), MONTH) == 1
    assert check(shell) == []
    rewrite(connection, "UPDATE job_days SET failed = failed + 1, wait_seconds = wait_seconds + 0.5")
    failed, waits = check(shell)
    assert failed == (f"failed of alice (project default, queue default) on {day} is 1 in job_days, the jobs make 0")
    assert waits.startswith("wait_seconds of alice ")
    rewrite(connection, "DELETE FROM job_days")
    assert f"jobs of alice (project default, queue default) on {day} is 0 in job_days, the jobs make 1" in check(shell)
    assert shell("oarpy", "db", "check").status == 0
    shell.done("oaraccounting", "--reinitialize")
    rewrite(connection, "DELETE FROM accounting WHERE consumption_type = 'ASKED'")
    rewrite(connection, "UPDATE accounting SET consumption = consumption + 1")
    assert check(shell)


@pytest.mark.usefixtures("past", "rules")
def test_sums_are_compared_whatever_else_is_wrong(connection: Connection, shell: Shell) -> None:
    rewrite(connection, "UPDATE accounting SET consumption = consumption + 1 WHERE consumption_type = 'USED'")
    connection.execute("ALTER TABLE jobs DISABLE TRIGGER ended_jobs_stay")
    problems = check(shell)
    assert problems[0] == "trigger ended_jobs_stay of table jobs is missing or disabled"
    assert ["the jobs make" in problem for problem in problems] == [False, True, True]


@pytest.mark.parametrize("broken", ["UPDATE alembic_version SET version_num = '0020'", "DROP TABLE accounting CASCADE"])
@pytest.mark.usefixtures("past", "rules")
def test_sums_that_cannot_be_compared_are_told(connection: Connection, shell: Shell, broken: LiteralString) -> None:
    connection.execute(broken)
    problems = check(shell)
    assert problems
    told = [problem for problem in problems if problem.startswith("the sums were not compared with the jobs")]
    assert len(told) == ("DROP" in broken)


@pytest.mark.usefixtures("rules")
def test_a_job_that_is_counted_twice_is_found(connection: Connection, past: int, shell: Shell) -> None:
    rewrite(connection, "UPDATE jobs SET accounted = false WHERE job_id = %s", past)
    account(connection, 60)
    found = check(shell)
    assert "is 240.000000 resource-seconds, the jobs make 120.000000" in found[0]


@pytest.mark.usefixtures("rules")
def test_what_was_removed_is_not_compared(connection: Connection, past: int, shell: Shell) -> None:
    cores = [row[0] for row in connection.execute("SELECT resource_id FROM resources").fetchall()]
    for seconds in (30, 4000):
        add_job(connection, "Terminated", user="bob", resources=cores, seconds=seconds)
    account(connection, 60)
    shell.done("oaraccounting", "--delete-before", "2026-05-01 12:30:00")
    assert check(shell) == []
    rewrite(connection, "UPDATE accounting SET consumption = 1 WHERE window_start >= '2026-05-01 13:05:00+00'")
    assert len(check(shell)) == 2


@pytest.mark.usefixtures("past", "rules")
def test_windows_of_two_lengths_are_told(connection: Connection, shell: Shell) -> None:
    cores = [row[0] for row in connection.execute("SELECT resource_id FROM resources").fetchall()]
    add_job(connection, "Terminated", user="bob", resources=cores)
    account(connection, 3600)
    (problem,) = check(shell)
    assert problem.startswith("there are sums of windows of 60 and 3600 seconds: oaraccounting --reinitialize")


@pytest.mark.usefixtures("rules")
def test_months_of_the_past_are_compared_until_they_are_dropped(connection: Connection, shell: Shell) -> None:
    cores = add_nodes(connection, "node1")
    for user, day in (("ann", MARCH), ("bob", NOW)):
        add_job(connection, "Terminated", user=user, resources=cores, started=day, submitted_at=day)
    account(connection, 60)
    assert file_away(connection, NOW, MONTH) == 1
    assert check(shell) == []
    change = "UPDATE accounting SET consumption = consumption - 1 WHERE consumption_type = 'USED'"
    rewrite(connection, change)
    assert len(check(shell)) == 2
    assert shell("oarpy", "history", "drop", "2026-03", "--yes").status == 0
    (bobs,) = check(shell)
    assert "of bob" in bobs
