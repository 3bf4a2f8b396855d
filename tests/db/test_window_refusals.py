"""Bad input about windows and offers: one line, the documented status, and not a row changed."""

from __future__ import annotations

import os
import pwd
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.harness.oarsub_cluster import Connection, Submitter, contents, run_pass
from tests.harness.refusals import Refusal, not_refused
from tests.harness.sample_cluster import ME, add_job

pytestmark = pytest.mark.db

_R = ("-r", "2035-01-01 12:00", "-l", "/nodes=1,walltime=2:0:0")
"""A reservation until 14:00."""

# (arguments, exit status, what the line must say)
OARSUB: list[Refusal] = [
    ((*_R, "--until", "2035-01-01 13:59", "date"), 2, "ends at 2035-01-01 13:59:00"),
    ((*_R, "--until", "2035-01-01 11:00", "date"), 2, "before the start and the walltime"),
    ((*_R, "--until", "2034-01-01", "date"), 2, "before the start"),
    ((*_R, "--until", "someday", "date"), 2, "'someday' is not a date"),
    ((*_R, "--until", "", "date"), 2, "not a date"),
    ((*_R, "--until", "2090-01-01", "date"), 2, "too far away"),
    ((*_R, "--until", "2035-01-02", "--slack", "1h", "date"), 2, "both --until and --slack"),
    ((*_R, "--slack", "-1h", "date"), 2, "'-1h' is no room"),
    ((*_R, "--slack", "-50%", "date"), 2, "'-50%' is no room"),
    ((*_R, "--slack", "0h", "date"), 2, "'0h' is no room"),
    ((*_R, "--slack", "much", "date"), 2, "'much' is no room"),
    ((*_R, "--slack", "50 %%", "date"), 2, "is no room"),
    (("--slack", "1h", "-l", "/nodes=1", "date"), 2, "--slack without a reservation"),
    ((*_R, "--until", "2035-01-02", "--fix", "120%", "date"), 2, "'120%' says not when"),
    ((*_R, "--until", "2035-01-02", "--fix", "-1%", "date"), 2, "'-1%' says not when"),
    ((*_R, "--until", "2035-01-02", "--fix", "soon", "date"), 2, "'soon' says not when"),
    ((*_R, "--fix", "now", "date"), 2, "--fix without a window"),
    ((*_R, "--farthest", "-1", "date"), 2, "--farthest '-1' is no distance"),
    ((*_R, "--farthest", "near", "date"), 2, "--farthest 'near'"),
    ((*_R, "--farthest", "nan", "date"), 2, "--farthest 'nan'"),
    ((*_R, "--farthest", "1e400", "date"), 2, "--farthest '1e400'"),
    (("--farthest", "1", "date"), 2, "--farthest without a reservation"),
    (("--until", "now", "-l", "/nodes=1,walltime=1", "date"), 2, "before the start and the walltime"),
    (("--until", "2035-01-02", "-I"), 2, "-I with --until"),
    ((*_R, "--until", "2035-01-02", "-t", "deadline=2035-01-02", "date"), 2, "with a reservation"),
    (("--until", "2035-01-02", "--hold", "date"), 2, "--hold with a reservation"),
    (("--accept", "7", "-l", "/nodes=1"), 2, "--accept with other options"),
    (("--accept", "7", "date"), 2, "--accept with other options or a command"),
    (("--accept", "7", "--dry-run"), 2, "--accept with --dry-run"),
    (("--accept", "7", "--resubmit", "1"), 2, "--accept with --resubmit"),
    (("-r", "now", "-l", "/nodes=1,walltime=1000:0:0", "--slack", "9999%", "date"), 2, "within 10 years"),
    (("-r", "tomorrow 23:00", "--slack", "87839h", "date"), 2, "within 10 years"),
    (("--accept", "seven"), 2, "'seven' is no number"),
    (("--accept", "-1"), 2, "'-1' is no number"),
    (("--accept", "99999999999999999999"), 2, "is no number"),
    (("--accept", "77"), 4, "there is no offer 77"),
    (("--accept", "{theirs}"), 5, "is for somebody"),
    (("--accept", "{old}"), 4, "is over"),
    (("--accept", "{taken}"), 1, "was accepted as job"),
]
OARWINDOW: list[Refusal] = [
    (("{batch}",), 1, "is no reservation"),
    (("{batch}", "--until", "2035-01-02"), 1, "is no reservation"),
    (("{running}",), 1, "is Running"),
    (("{running}", "--fix"), 1, "is Running"),
    (("99",), 4, "99"),
    (("{mine}", "--until", "2035-01-01 13:00"), 2, "before the start and the walltime"),
    (("{mine}", "--from", "2035-01-01 16:00"), 2, "before the start and the walltime"),
    (("{mine}", "--until", "2090-01-01"), 2, "too far away"),
    (("{mine}", "--until", "whenever"), 2, "not a date"),
    (("{mine}", "--fix", "now"), 2, "now"),
]


@pytest.fixture
def numbers(connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Jobs of all kinds, and offers that cannot be taken, by their names above."""
    monkeypatch.setenv("OARPY_SUBMISSION_ADMINS", "oar")
    date = datetime(2035, 1, 1, 12, tzinfo=UTC)
    reserved: dict[str, Any] = {"reservation_start": date, "reservation_state": "Scheduled"}
    found = {
        "batch": add_job(connection),
        "running": add_job(connection, "Running", resources=[1], **reserved),
        "foreign": add_job(connection, user="somebody", **reserved, walltime=timedelta(hours=2)),
        "mine": add_job(connection, **reserved, walltime=timedelta(hours=2)),
    }
    connection.execute(
        "UPDATE jobs SET walltime = '2:0:0', moldable_id = m.moldable_id FROM moldable_descriptions m"
        " WHERE m.submission_id = jobs.submission_id AND reservation_state = 'Scheduled' AND state = 'Waiting'"
    )
    connection.execute(
        "INSERT INTO reservation_windows (job_id, ready, deadline) VALUES (%s, %s, %s)",
        (found["mine"], date, date + timedelta(hours=4)),
    )
    for name, user, valid, taken in (
        ("theirs", "somebody", "1 hour", None),
        ("old", ME, "-1 second", None),
        ("taken", ME, "1 hour", found["mine"]),
    ):
        job = add_job(connection, "Error", user=user)
        row = connection.execute(
            "INSERT INTO reservation_offers (job_id, start_time, end_time, phi, valid_until, accepted_job)"
            " VALUES (%s, %s, %s, 1, now() + %s::interval, %s) RETURNING offer_id",
            (job, date, date + timedelta(hours=1), valid, taken),
        ).fetchone()
        assert row is not None
        found[name] = row[0]
    return found


@pytest.mark.parametrize(("command", "table"), [("oarsub", OARSUB), ("oarwindow", OARWINDOW)])
def test_refusals_leave_no_trace(
    connection: Connection,
    oarsub: Submitter,
    numbers: dict[str, int],
    command: str,
    table: list[Refusal],
) -> None:
    before = contents(connection)
    typed = [(tuple(word.format(**numbers) for word in line), status, words) for line, status, words in table]
    assert not_refused(oarsub.run, command, typed) == []
    assert contents(connection) == before


def test_a_window_is_a_matter_of_the_jobs_user(
    connection: Connection, oarsub: Submitter, numbers: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = pwd.getpwnam("nobody").pw_uid
    monkeypatch.setattr(os, "getuid", lambda: nobody)
    before = contents(connection)
    for arguments in ((), ("--until", "2035-01-02"), ("--fix",)):
        result = oarsub(str(numbers["foreign"]), *arguments, command="oarwindow")
        assert (result.status, result.out, result.err.count("\n")) == (5, "", 1)
    assert contents(connection) == before


def test_more_reservations_than_a_user_may_have(
    connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OARPY_SUBMISSION_WAITING_RESERVATIONS_PER_USER", "1")
    oarsub(*_R, "--slack", "2h", "--answer-timeout", "0", "date")
    run_pass(connection)
    before = contents(connection)
    for words in ((*_R, "--slack", "2h"), ("--until", "2035-01-02"), ("-r", "now", "--slack", "1h")):
        result = oarsub(*words, "--answer-timeout", "0", "date")
        assert (result.status, "at most 1 may" in result.err) == (3, True), (words, result)
    assert contents(connection) == before


def test_bad_inputs_are_many() -> None:
    assert len(OARSUB) + len(OARWINDOW) >= 40
