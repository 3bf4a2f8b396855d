"""Quotas by time of the week: loading them, and the scheduling passes that keep them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from psycopg.errors import CheckViolation, ExclusionViolation, ForeignKeyViolation, UniqueViolation

from tests.harness.hand_written import insert, one
from tests.harness.oarsub_cluster import Connection, Submitter, contents, run_pass

pytestmark = [pytest.mark.db, pytest.mark.oldest]

WEEK: dict[str, Any] = {
    "quotas": {"default,*,*,eve": [1, -1, -1]},
    "periodical": [
        ["08:00-19:00 mon-fri * *", "workdays", "office hours"],
        ["19:00-08:00 mon-fri * *", "nights"],
        ["* * * *", "weekend"],
    ],
    "oneshot": [["2026-12-24 12:00", "2027-01-02 8:30", "weekend", "holidays"]],
    "workdays": {"*,*,*,/": ["0.5*ALL", 16, -1]},
    "nights": {"*,*,*,/": [12, -1, 200.5]},
    "weekend": {"*,*,*,/": ["ALL", -1, -1]},
}


@pytest.fixture
def oarsub(oarsub: Submitter, monkeypatch: pytest.MonkeyPatch) -> Submitter:
    monkeypatch.setenv("OARPY_SCHEDULER_TIME_ZONE", "Europe/Paris")
    return oarsub


def quotas(oarsub: Submitter, *arguments: str) -> str:
    result = oarsub("quotas", *arguments, command="oaradmin")
    assert (result.status, result.err) == (0, ""), result
    return result.out


def test_what_is_loaded_is_shown_and_can_be_loaded_again(connection: Connection, oarsub: Submitter) -> None:
    Path("week.json").write_text(json.dumps(WEEK))
    before = contents(connection)
    assert quotas(oarsub, "load", "week.json", "--dry-run") == (
        "4 rules, 3 sets, 15 periods, 1 exceptions would be loaded\n"
    )
    assert contents(connection) == before
    assert json.loads(quotas(oarsub, "load", "week.json", "-J")) == {
        "rules": 4,
        "sets": 3,
        "periods": 15,
        "exceptions": 1,
    }
    loaded = contents(connection)
    shown = json.loads(quotas(oarsub, "show", "-J"))
    assert shown["workdays"] == {"*,*,*,/": [8, 16, -1]}  # 16 of the 20 cores are not Dead
    assert shown["oneshot"] == [["2026-12-24 12:00", "2027-01-02 08:30", "weekend", "holidays"]]
    Path("again.json").write_text(json.dumps(shown))
    quotas(oarsub, "load", "again.json")
    for table in ("quota_sets", "quota_exceptions", "quota_periods", "quotas"):
        # ids go on, nothing else differs
        rows = [sorted(row.partition(",")[2] for row in state[table]) for state in (loaded, contents(connection))]
        assert rows[0] == rows[1]
    text = quotas(oarsub, "show")
    assert "workdays default *       *       *    /    8         16   -" in text
    assert "workdays 08:00-19:00 mon-fri                        office hours\n" in text
    assert "weekend  2026-12-24 12:00:00 to 2027-01-02 08:30:00 holidays\n" in text
    assert "Valid now: " in text
    assert "The time zone is Europe/Paris." in text
    assert quotas(oarsub, "clear") == "4 rules removed\n"
    assert json.loads(quotas(oarsub, "show", "-J")) == {"quotas": {}}


def test_rules_of_several_levels_all_bind(connection: Connection, oarsub: Submitter) -> None:
    """A limit of all and one of each user, in passes, dry runs and reasons; the second was never looked at before."""
    rules = {"*,*,*,*": [9, -1, -1], "*,*,*,/,users": [4, -1, -1]}
    Path("levels.json").write_text(json.dumps({"quotas": rules}))
    quotas(oarsub, "load", "levels.json")
    assert json.loads(quotas(oarsub, "show", "-J")) == {"quotas": rules}
    first, second = (oarsub.job_id("-l", "/nodes=1,walltime=0:30:0", "date") for _ in range(2))
    run_pass(connection)
    states: dict[int, str] = dict(connection.execute("SELECT job_id, state FROM jobs").fetchall())
    assert states == {first: "Running", second: "Waiting"}
    found = json.loads(oarsub("--why", str(second), "-J", command="oarstat").out)
    assert (found["verdict"], found["quota"]["rule"]["level"]) == ("quota", "users")
    assert "Quota *,*,*,/,users: 4 of 4 resources used now" in oarsub("--why", str(second), command="oarstat").out
    planned = oarsub("--dry-run", "-l", "/nodes=1,walltime=0:30:0", "date")
    assert "quota *,*,*,/,users: at most 4 resources" in planned.out
    with pytest.raises(UniqueViolation):
        insert(connection, "quotas", user_name="/", level="users")


def test_a_file_that_makes_no_sense_changes_nothing(connection: Connection, oarsub: Submitter) -> None:
    Path("week.json").write_text(json.dumps(WEEK))
    quotas(oarsub, "load", "week.json")
    before = contents(connection)
    for change, complaint in (
        ({"periodical": [["* mon * *", "nights"]]}, "no period from tue 00:00 to mon 00:00"),
        ({"quotas": {"fast,*,*,*": 3}}, "a rule is for queue 'fast', which is not there"),
    ):
        Path("wrong.json").write_text(json.dumps({**WEEK, **change}))
        result = oarsub("quotas", "load", "wrong.json", command="oaradmin")
        assert (result.status, result.out) == (2, "")
        assert f"oaradmin: quota file 'wrong.json': {complaint}" in result.err
        assert result.err.count("\n") == 1
    assert contents(connection) == before


def test_a_job_waits_for_the_end_of_the_period(connection: Connection, oarsub: Submitter) -> None:
    """Two nodes may be had at once, but not before the exceptional dates are over; --why says so."""
    now = datetime.now(UTC).replace(microsecond=0)
    over = now + timedelta(hours=2)
    connection.execute("INSERT INTO quota_sets VALUES ('exam')")
    connection.execute("INSERT INTO quotas (user_name, max_resources, set_name) VALUES ('/', 4, 'exam')")
    connection.execute(
        "INSERT INTO quota_exceptions (set_name, begins_at, ends_at) VALUES ('exam', %s, %s)",
        (now - timedelta(hours=1), over),
    )
    job = oarsub.job_id("-l", "/nodes=2,walltime=0:30:0", "date")
    small = oarsub.job_id("-l", "/nodes=1,walltime=0:30:0", "date")
    run_pass(connection)
    states: dict[int, str] = dict(connection.execute("SELECT job_id, state FROM jobs").fetchall())
    assert states == {job: "Waiting", small: "Running"}
    result = oarsub("--why", str(job), "-J", command="oarstat")
    found = json.loads(result.out)
    assert (found["verdict"], found["start"]) == ("quota", over.timestamp())
    assert found["quota"]["period"]["name"] == "exam"
    assert found["quota"]["period"]["to"] == over.timestamp()
    assert found["quota"]["used"]["resources"] == 4
    shown = over.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    text = oarsub("--why", str(job), command="oarstat").out
    assert f"quota *,*,*,/ (exam, valid until {shown}): at most 4 resources, reached until {shown}." in text
    assert f"Quota *,*,*,/ (exam, until {shown}): 4 of 4 resources used now by job {small}.\n" in text


def test_a_week_as_it_is_loaded_limits_what_starts(connection: Connection, oarsub: Submitter) -> None:
    """Two days a week are open: a job of an hour starts today, one of 49 hours has no place in any week."""
    days = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
    today = datetime.now(ZoneInfo("Europe/Paris")).weekday()
    week = {
        "periodical": [[f"* {days[today]},{days[(today + 1) % 7]} * *", "open"], ["* * * *", "closed"]],
        "open": {"*,*,*,*": [4, -1, -1]},
        "closed": {"*,*,*,*": 0},
    }
    Path("week.json").write_text(json.dumps(week))
    quotas(oarsub, "load", "week.json")
    long = oarsub.job_id("-l", "/nodes=1,walltime=49:0:0", "date")
    short = oarsub.job_id("-l", "/nodes=1,walltime=1:0:0", "date")
    run_pass(connection)
    states: dict[int, str] = dict(connection.execute("SELECT job_id, state FROM jobs").fetchall())
    assert states == {long: "Waiting", short: "Running"}
    found = json.loads(oarsub("--why", str(long), "-J", command="oarstat").out)
    assert (found["verdict"], found["start"]) == ("quota", None)
    assert found["quota"]["limits"]["resources"] == 0


@pytest.mark.parametrize(
    ("table", "columns", "error"),
    [
        ("quota_sets", {"set_name": ""}, CheckViolation),
        ("quota_sets", {"set_name": "rest", "otherwise": True}, UniqueViolation),
        ("quotas", {"set_name": "nights"}, ForeignKeyViolation),
        ("quota_periods", {"set_name": "days", "weekday": 0}, CheckViolation),
        ("quota_periods", {"set_name": "days", "weekday": 1, "begins": "9:00", "ends": "9:00"}, CheckViolation),
        ("quota_periods", {"set_name": "days", "weekday": 2, "begins": "8:59", "ends": "24:00"}, ExclusionViolation),
        ("quota_exceptions", {"set_name": "days", "begins_at": "now", "ends_at": "now"}, CheckViolation),
        (
            "quota_exceptions",
            {"set_name": "days", "begins_at": "2026-01-02", "ends_at": "2026-01-04"},
            ExclusionViolation,
        ),
    ],
)
def test_the_database_refuses(
    connection: Connection, table: str, columns: dict[str, Any], error: type[Exception]
) -> None:
    connection.execute("INSERT INTO quota_sets VALUES ('days', true)")
    connection.execute("INSERT INTO quota_periods (set_name, weekday, ends) VALUES ('days', 2, '9:00')")
    connection.execute(
        "INSERT INTO quota_exceptions (set_name, begins_at, ends_at) VALUES ('days', '2026-01-01', '2026-01-03')"
    )
    with pytest.raises(error):
        insert(connection, table, **columns)


def test_changes_by_hand_are_announced(connection: Connection) -> None:
    connection.execute("LISTEN oarpy_events")
    for change in (
        "INSERT INTO quota_sets VALUES ('days')",
        "INSERT INTO quota_periods (set_name, weekday) VALUES ('days', 2)",
        "UPDATE quota_periods SET ends = '12:00'",
        "INSERT INTO quota_exceptions (set_name, begins_at, ends_at) VALUES ('days', '2026-01-01', '2026-01-03')",
        "UPDATE quota_exceptions SET label = 'holidays'",
        "UPDATE quota_sets SET otherwise = true",
        "DELETE FROM quota_exceptions",
        "DELETE FROM quota_periods",
        "DELETE FROM quota_sets",
    ):
        connection.execute(change)
        heard = [notice.payload for notice in connection.notifies(timeout=5, stop_after=1)]
        assert "quotas changed" in " ".join(heard), change


def test_what_depends_on_a_set_goes_with_it(connection: Connection) -> None:
    connection.execute("INSERT INTO quota_sets VALUES ('days', true)")
    connection.execute("INSERT INTO quota_periods (set_name, weekday) VALUES ('days', 2)")
    connection.execute("INSERT INTO quotas (set_name, max_jobs) VALUES ('days', 2), (NULL, 3)")
    connection.execute("UPDATE quota_sets SET set_name = 'weeks'")
    assert one(connection, "SELECT set_name FROM quota_periods") == "weeks"
    connection.execute("DELETE FROM quota_sets")
    assert one(connection, "SELECT sum(max_jobs) FROM quotas") == 3
