"""Recurring jobs: series from ``oarsub --every``, a job at each due time, and what users see of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from oarpy import configuration
from oarpy.configuration import load
from oarpy.modules.accounting import file_away
from oarpy.modules.loop.module import Outcome, run
from oarpy.modules.notifier.notifier import Notifier
from oarpy.recurrence.recurrence import Recurrence
from oarpy.store.jobs import notices, scripts
from oarpy.store.past.moving import recall
from oarpy.transport.wakeup import readable
from tests.db.test_rules_that_ask import add_rule
from tests.harness.mail_server import mail_server
from tests.harness.oarsub_cluster import Connection, Submitter, contents, process
from tests.harness.sample_cluster import ME
from tests.harness.small_cluster import SETTINGS
from tests.harness.wrong_rows import wrong_rows

pytestmark = [pytest.mark.db, pytest.mark.kept]

HOUR = timedelta(hours=1)
WORDS = ("-l", "/core=1,walltime=1:0:0")


def begin(oarsub: Submitter, every: str, *words: str) -> int:
    """Begin a series; return its number."""
    done = oarsub("--every", every, "--parsable", *WORDS, *words)
    assert (done.status, done.err) == (0, ""), done
    return int(done.out)


def due(connection: Connection, series: int) -> datetime:
    row = connection.execute("SELECT next_due_at FROM recurring_jobs WHERE recurring_id = %s", [series]).fetchone()
    assert row is not None
    when: datetime = row[0]
    return when


def wait_until(connection: Connection, now: datetime) -> Outcome:
    """Let the module run as its loop does, at an instant of the test's clock."""
    return run(Recurrence(load()), connection, now)


def of_series(connection: Connection, series: int) -> list[tuple[datetime, int]]:
    """Return the due times with the number of their jobs."""
    return connection.execute(
        "SELECT due_at, count(job_id) FROM recurring_submissions JOIN jobs USING (submission_id)"
        " WHERE recurring_id = %s GROUP BY 1 ORDER BY 1",
        [series],
    ).fetchall()


def listed(oarsub: Submitter, *words: str) -> list[dict[str, Any]]:
    done = oarsub("--recurring", "-J", *words, command="oarstat")
    assert done.status == 0, done
    series: list[dict[str, Any]] = json.loads(done.out)
    return series


def test_a_job_comes_at_each_due_time(connection: Connection, oarsub: Submitter) -> None:
    series = begin(oarsub, "2h", "-n", "often", "sleep 60")
    first = due(connection, series)
    assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (0,)
    early = wait_until(connection, first - timedelta(seconds=1))
    assert (early.word, early.wake_at) == ("nothing", first.timestamp())
    assert wait_until(connection, first).word == "submitted 1, others 0"
    assert wait_until(connection, first).word == "nothing"
    wait_until(connection, first + 2 * HOUR)
    assert of_series(connection, series) == [(first, 1), (first + 2 * HOUR, 1)]
    found = connection.execute("SELECT user_name, job_name, command, state FROM jobs").fetchall()
    assert found == [(ME, "often", "sleep 60", "Waiting")] * 2


def test_a_series_keeps_the_times_of_its_rule(connection: Connection, oarsub: Submitter) -> None:
    series = begin(oarsub, "mon-fri 8:00", "date")
    for _ in range(7):
        wait_until(connection, due(connection, series))
    dues = [when.astimezone() for when, _ in of_series(connection, series)]
    assert {(when.hour, when.minute) for when in dues} == {(8, 0)}
    assert {when.weekday() for when in dues} == {0, 1, 2, 3, 4}


def test_due_times_that_were_missed_count_as_one(connection: Connection, oarsub: Submitter) -> None:
    series = begin(oarsub, "1h", "date")
    first = due(connection, series)
    wait_until(connection, first + 100 * HOUR + timedelta(minutes=5))
    assert of_series(connection, series) == [(first, 1)]
    assert due(connection, series) == first + 101 * HOUR


class Killed(BaseException):
    """The module was killed."""


class _Cursor(psycopg.Cursor[Any]):
    """Has its process killed before, or after, one of its statements."""

    left = 0
    after = False

    def execute(self, *args: Any, **kwargs: Any) -> Any:
        cls = type(self)
        cls.left -= 1
        if cls.left == 0 and not cls.after:
            self.connection.close()
            raise Killed
        done = super().execute(*args, **kwargs)
        if cls.left == 0:
            self.connection.close()
            raise Killed
        return done


@contextmanager
def doomed(connection: Connection, left: int, *, after: bool) -> Iterator[Connection]:
    """Yield another session of the module, which breaks with its process at a statement."""
    with psycopg.connect(connection.info.dsn, autocommit=True, cursor_factory=_Cursor) as session:
        _Cursor.left, _Cursor.after = left, after
        yield session


def run_doomed(connection: Connection, now: datetime, left: int, *, after: bool) -> bool:
    """Return whether the module was killed."""
    with suppress(Killed, psycopg.OperationalError), doomed(connection, left, after=after) as session:
        Recurrence(load()).run_once(session, now)
    return _Cursor.left <= 0


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_whatever_is_killed_each_due_time_has_one_submission(
    connection: Connection, oarsub: Submitter, *, after: bool
) -> None:
    """The module is killed at each of its statements in turn, and begins again; one due time for each statement."""
    series = begin(oarsub, "1h", "--array", "3", "date")
    left = 1
    while run_doomed(connection, due(connection, series), left, after=after):
        when = due(connection, series)
        wait_until(connection, when)
        left += 1
    assert left > 15, "a submission is so many statements at least"
    found = of_series(connection, series)
    assert [jobs for _, jobs in found] == [3] * len(found)
    first = found[0][0]
    assert [when for when, _ in found] == [first + n * HOUR for n in range(len(found))]
    assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (3 * len(found),)


def test_the_database_refuses_a_second_submission_of_a_due_time(connection: Connection, oarsub: Submitter) -> None:
    series = begin(oarsub, "1h", "date")
    wait_until(connection, due(connection, series))
    (other,) = oarsub.job_ids(*WORDS, "date")
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute(
            "INSERT INTO recurring_submissions SELECT recurring_id, due_at, j.submission_id"
            " FROM recurring_submissions, jobs j WHERE job_id = %s",
            [other],
        )


def test_a_due_time_that_somebody_took_is_left(connection: Connection, oarsub: Submitter) -> None:
    """Two modules of which neither knows the other: the second finds that the series has gone on."""
    series = begin(oarsub, "1h", "date")
    first = due(connection, series)
    connection.execute("UPDATE recurring_jobs SET next_due_at = next_due_at - interval '3 hours'")
    wait_until(connection, first)
    connection.execute("UPDATE recurring_jobs SET next_due_at = next_due_at - interval '4 hours'")
    refused = wait_until(connection, first)
    assert refused.word == "submitted 0, others 1", "the key is there already"
    assert len(of_series(connection, series)) == 1
    assert due(connection, series) > first


def test_the_script_runs_as_it_was_then(connection: Connection, oarsub: Submitter, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\necho then\n", encoding="utf-8")
    script.chmod(0o755)
    series = begin(oarsub, "1h", "-S", "./job.sh")
    script.unlink()
    wait_until(connection, due(connection, series))
    row = connection.execute("SELECT job_id, launching_directory FROM jobs").fetchone()
    assert row is not None
    assert (scripts.of_job(connection, row[0]), row[1]) == ("#!/bin/sh\necho then\n", str(tmp_path))


def test_the_environment_is_that_of_the_user_then(
    connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLAVOUR", "salt")
    series = begin(oarsub, "1h", "date")
    monkeypatch.setenv("FLAVOUR", "sugar")
    wait_until(connection, due(connection, series))
    assert connection.execute("SELECT environment ->> 'FLAVOUR' FROM submissions").fetchone() == ("salt",)


def test_each_job_gets_a_key_of_its_own(connection: Connection, oarsub: Submitter) -> None:
    series = begin(oarsub, "1h", "-k", "--array", "2", "date")
    wait_until(connection, due(connection, series))
    wait_until(connection, due(connection, series))
    assert connection.execute("SELECT count(DISTINCT public_key) FROM job_keys").fetchone() == (4,)


def test_a_refused_submission_is_told_and_the_series_goes_on(connection: Connection, oarsub: Submitter) -> None:
    series = begin(oarsub, "1h", "--notify", "mail:ann@site.org", "date")
    first = due(connection, series)
    add_rule(connection, 'refuse("not on this day")')
    before = {name: rows for name, rows in contents(connection).items() if "job" in name and name != "recurring_jobs"}
    assert wait_until(connection, first).word == "submitted 0, others 1"
    assert {name: contents(connection)[name] for name in before} == before
    (shown,) = listed(oarsub)
    assert (shown["last_due"], shown["last_job"]) == (int(first.timestamp()), None)
    assert "not on this day" in shown["refusal"]
    ((kind, text),) = connection.execute(
        "SELECT type, description FROM event_logs WHERE type LIKE 'RECURRING%'"
    ).fetchall()
    assert kind == "RECURRING_JOB_REFUSED"
    assert text.startswith(f"recurring job {series} of {ME}: its submission due at {first.astimezone():%Y-%m-%d %H:%M}")
    assert "not on this day" in text
    (notice,) = notices.due(connection, (), (), 10)
    assert (notice.subject, notice.number, notice.user, notice.tag) == (f"recurring job {series}", series, ME, "ERROR")
    assert (notice.notify, notice.comment) == ("mail:ann@site.org", text)
    connection.execute("UPDATE admission_rules SET enabled = false WHERE name = 'mine'")
    wait_until(connection, first + HOUR)
    assert of_series(connection, series) == [(first + HOUR, 1)]
    (shown,) = listed(oarsub)
    assert connection.execute("SELECT job_id FROM jobs").fetchall() == [(shown["last_job"],)]
    assert shown["refusal"] is None


def tell(connection: Connection, settings: configuration.Configuration) -> None:
    """Let the notifier tell all that there is to tell."""
    notifier = Notifier(settings)
    while (outcome := run(notifier, connection, datetime.now().astimezone())).again or outcome.pending:
        readable(notifier.files(), 0.05)


def test_a_refusal_is_mailed(connection: Connection, oarsub: Submitter) -> None:
    series = begin(oarsub, "1h", "-n", "weekly", "--notify", "[ERROR]mail:ann@site.org", "date")
    add_rule(connection, 'refuse("not on this day")')
    with mail_server() as post:
        mail = configuration.Mail(server=f"127.0.0.1:{post.port}", cluster_name="here", timeout=5.0)
        wait_until(connection, due(connection, series))
        tell(connection, replace(SETTINGS, mail=mail))
        assert post.subjects() == [f"*OAR* [ERROR]: recurring job {series} (weekly) on here"]
        text = post.mails[0].get_payload(decode=True).decode()  # type: ignore[union-attr]
    assert "not on this day" in text
    assert text.splitlines()[-1] == f"Recurring job {series} of {ME}"
    assert connection.execute("SELECT count(*) FROM notices").fetchone() == (0,)


def test_a_notice_that_cannot_be_sent_names_the_series(connection: Connection, oarsub: Submitter) -> None:
    series = begin(oarsub, "1h", "--notify", "mail:ann@site.org", "date")
    add_rule(connection, 'refuse("not on this day")')
    wait_until(connection, due(connection, series))
    tell(connection, SETTINGS)
    failed = "SELECT description FROM event_logs WHERE type = 'USER_MAIL_NOTIFICATION_ERROR'"
    ((text,),) = connection.execute(failed).fetchall()
    assert text.startswith(f"recurring job {series}, notice ERROR: ")


def test_a_job_of_the_past_still_names_its_series(connection: Connection, oarsub: Submitter) -> None:
    series = begin(oarsub, "1h", "date")
    wait_until(connection, due(connection, series))
    ((job,),) = connection.execute("SELECT job_id FROM jobs").fetchall()
    named = json.loads(oarsub("-J", str(job), command="oarstat").out)[str(job)]["recurring"]
    connection.execute("UPDATE jobs SET state = 'toError'")
    connection.execute("UPDATE jobs SET state = 'Error', ended_at = now(), accounted = true")
    assert file_away(connection, datetime.now().astimezone() + timedelta(days=70), 0) == 1
    assert connection.execute("SELECT count(*) FROM recurring_submissions").fetchone() == (0,)
    assert connection.execute("SELECT count(*) FROM oar_past.recurring_submissions").fetchone() == (1,)
    assert json.loads(oarsub("-J", str(job), command="oarstat").out)[str(job)]["recurring"] == named
    with connection.transaction():
        recall(connection, [job])
    assert [jobs for _, jobs in of_series(connection, series)] == [1]


def test_the_module_runs_as_a_process(
    connection: Connection, oarsub: Submitter, cluster_environment: dict[str, str]
) -> None:
    series = begin(oarsub, "2h", "date")
    connection.execute("UPDATE recurring_jobs SET next_due_at = now()")
    done = process(cluster_environment, "oarpy", "run", "recurrence", "--once")
    assert done.status == 0, done
    assert [jobs for _, jobs in of_series(connection, series)] == [1]
    assert due(connection, series) > datetime.now().astimezone() + HOUR


def test_the_limit_of_waiting_jobs_refuses_as_it_does_for_oarsub(
    connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = begin(oarsub, "1h", "--array", "2", "date")
    first = due(connection, series)
    connection.execute("UPDATE recurring_jobs SET user_name = 'nobody'")
    monkeypatch.setenv("OARPY_SUBMISSION_WAITING_JOBS_PER_USER", "3")
    for hour in range(3):
        wait_until(connection, first + hour * HOUR)
    assert of_series(connection, series) == [(first, 2)]
    assert connection.execute("SELECT DISTINCT user_name FROM jobs").fetchall() == [("nobody",)]
    assert "waiting_jobs_per_user" in listed(oarsub)[0]["refusal"]


SOON = timedelta(seconds=20)


def events(connection: Connection) -> list[tuple[str, str]]:
    return connection.execute(
        "SELECT type, description FROM event_logs WHERE type LIKE 'RECURRING%' ORDER BY event_id"
    ).fetchall()


def test_a_user_whom_the_system_does_not_know_for_a_while_has_the_job_later(
    connection: Connection, oarsub: Submitter
) -> None:
    series, other = begin(oarsub, "1h", "date"), begin(oarsub, "2h", "date")
    connection.execute("UPDATE recurring_jobs SET user_name = 'no-such-user' WHERE recurring_id = %s", [series])
    module, first = Recurrence(load()), due(connection, series)
    told = [run(module, connection, first + second * SOON / 2).wake_at for second in range(3)]
    assert told == [(first + SOON * times).timestamp() for times in (1, 1, 2)]
    assert due(connection, series) == first
    ((kind, text),) = events(connection)
    assert (kind, text.partition("again: ")[2]) == (
        "RECURRING_JOB_PUT_OFF",
        "user 'no-such-user' has no account on this machine (ask an admin to add it)",
    )
    connection.execute("UPDATE recurring_jobs SET user_name = %s", [ME])
    run(module, connection, first + 2 * SOON)
    assert of_series(connection, series) == [(first, 1)]
    assert due(connection, series) == first + HOUR
    assert due(connection, other) > first


def test_a_user_without_an_account_is_refused_before_the_next_due_time(
    connection: Connection, oarsub: Submitter
) -> None:
    series = begin(oarsub, "1m", "date")
    connection.execute("UPDATE recurring_jobs SET user_name = 'no-such-user'")
    module, first = Recurrence(load()), due(connection, series)
    for times in range(3):
        assert due(connection, series) == first
        run(module, connection, first + times * SOON)
    (shown,) = listed(oarsub)
    assert shown["refusal"].startswith("user 'no-such-user' has no account on this machine")
    assert shown["next_due"] == int((first + timedelta(minutes=1)).timestamp())
    assert [kind for kind, _ in events(connection)] == ["RECURRING_JOB_PUT_OFF", "RECURRING_JOB_REFUSED"]


def test_a_due_time_is_not_lost_with_the_process_of_the_rules(connection: Connection, oarsub: Submitter) -> None:
    series = begin(oarsub, "1h", "date")
    module, first = Recurrence(load()), due(connection, series)
    add_rule(connection, "while True: pass")
    run(module, connection, first)
    assert (due(connection, series), of_series(connection, series)) == (first, [])
    connection.execute("UPDATE admission_rules SET enabled = false WHERE name = 'mine'")
    run(module, connection, first + SOON)
    assert of_series(connection, series) == [(first, 1)]


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("rule", "funday 8:00", "has a rule that cannot be read, --every 'funday 8:00': 'funday' is no day"),
        ("submission", '{"planets": 9}', "has a submission that cannot be read, unknown key 'planets'"),
        ("next_due_at", "2999-01-01 00:00:00+00", "is due later than by its rule, '2h': UPDATE recurring_jobs SET"),
    ],
)
def test_the_check_of_the_database_names_series_that_can_have_no_job(
    connection: Connection, oarsub: Submitter, dsn: str, column: str, value: str, told: str
) -> None:
    series, over = begin(oarsub, "2h", "date"), begin(oarsub, "2h", "date")
    oarsub("--recurring", str(over), command="oardel")
    assert wrong_rows(dsn) == ()
    connection.execute(sql.SQL("UPDATE recurring_jobs SET {} = %s").format(sql.Identifier(column)), [value])
    (line,) = wrong_rows(dsn)
    assert line.startswith(f"recurring job {series} {told}")
    mended = line.rpartition(": ")[2]
    if mended.startswith("UPDATE"):
        connection.execute(mended)
    else:
        oarsub(*mended.split()[1:], command="oardel")
    assert wrong_rows(dsn) == ()


@pytest.mark.parametrize(
    ("wrong", "ended"),
    [(("rule", "funday 8:00"), True), (("submission", '{"planets": 9}'), False), (("submission", "{}"), False)],
)
def test_rows_by_hand_that_make_no_sense_stop_no_other_series(
    connection: Connection, oarsub: Submitter, wrong: tuple[str, str], *, ended: bool
) -> None:
    bad, good = begin(oarsub, "1h", "date"), begin(oarsub, "2h", "date")
    column, value = wrong
    statement = sql.SQL("UPDATE recurring_jobs SET {} = %s WHERE recurring_id = %s")
    connection.execute(statement.format(sql.Identifier(column)), [value, bad])
    wait_until(connection, due(connection, good))
    assert (len(of_series(connection, bad)), len(of_series(connection, good))) == (0, 1)
    assert [row["recurring_id"] for row in listed(oarsub)] == ([good] if ended else [bad, good])
    kind = "RECURRING_JOB_ENDED" if ended else "RECURRING_JOB_REFUSED"
    assert connection.execute("SELECT count(*) FROM event_logs WHERE type = %s", [kind]).fetchone() == (1,)
    (shown,) = listed(oarsub, str(bad))
    assert shown["ended_by"] == ("oarpy" if ended else None)


def test_what_users_see(connection: Connection, oarsub: Submitter) -> None:
    begun = oarsub("--every", " Mon   8:00", *WORDS, "-n", "weekly", "date")
    assert (begun.status, begun.err) == (0, "")
    first = due(connection, 1).astimezone()
    assert begun.out.splitlines()[-2:] == ["OAR_RECURRING_ID=1", f"# first due: {first:%Y-%m-%d %H:%M:%S}"]
    answer = json.loads(oarsub("--every", "2h", "-J", *WORDS, "date").out)
    assert answer["recurring_id"] == 2
    assert answer["every"] == "2h"
    assert answer["next_due"] == int(due(connection, 2).timestamp())
    wait_until(connection, due(connection, 2))
    (job,) = connection.execute("SELECT job_id FROM jobs").fetchone()  # type: ignore[misc]
    table = oarsub("--recurring", command="oarstat").out.splitlines()
    assert table[0].rstrip().endswith("Last job Name or command Message")
    assert f"mon 8:00 {first:%Y-%m-%d} 08:00:00 -        weekly" in table[2]
    assert str(job) in table[3]
    assert [row["recurring_id"] for row in listed(oarsub, "-u", "somebody")] == []
    assert [row["recurring_id"] for row in listed(oarsub, "-u")] == [1, 2]
    full = oarsub("-f", str(job), command="oarstat").out
    assert "    recurring = 2, due " in full
    found = json.loads(oarsub("-J", str(job), command="oarstat").out)[str(job)]
    assert found["recurring"] == {"recurring_id": 2, "due": answer["next_due"]}
    other = oarsub.job_id(*WORDS, "date")
    assert "recurring" not in json.loads(oarsub("-J", str(other), command="oarstat").out)[str(other)]


def test_an_ended_series_has_no_more_jobs(connection: Connection, oarsub: Submitter) -> None:
    series, other = begin(oarsub, "1h", "date"), begin(oarsub, "1h", "date")
    wait_until(connection, due(connection, other))
    ended = oarsub("--recurring", str(series), command="oardel")
    assert (ended.status, ended.out) == (0, f"Ending the recurring job = {series} ...DONE.\n")
    wait_until(connection, due(connection, other))
    assert (len(of_series(connection, series)), len(of_series(connection, other))) == (1, 2)
    assert connection.execute("SELECT DISTINCT state FROM jobs").fetchall() == [("Waiting",)]
    assert [row["recurring_id"] for row in listed(oarsub)] == [other]
    (shown,) = listed(oarsub, str(series))
    assert (shown["ended_by"], shown["next_due"]) == (ME, None)
    again = oarsub("--recurring", str(other), str(series), "-J", command="oardel")
    assert (again.status, again.err) == (1, f"oardel: recurring job {series} was ended by '{ME}' (nothing was done)\n")
    assert [row["recurring_id"] for row in listed(oarsub)] == [other]


def test_only_its_user_or_an_admin_ends_a_series(
    connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = begin(oarsub, "1h", "secret --token=1")
    connection.execute("UPDATE recurring_jobs SET user_name = 'ann'")
    monkeypatch.setenv("OARPY_SUBMISSION_ADMINS", "nobody-else")
    monkeypatch.setattr("oarpy.client.session.is_administrator", lambda *_: False)
    refused = oarsub("--recurring", str(series), command="oardel")
    assert refused.status == 5
    assert refused.err == (
        f"oardel: recurring job {series} belongs to 'ann', not to '{ME}' (its owner or an admin may)\n"
    )
    assert listed(oarsub)[0]["command"] is None
    assert "secret" not in oarsub("--recurring", command="oarstat").out
    monkeypatch.setattr("oarpy.client.session.is_administrator", lambda *_: True)
    assert oarsub("--recurring", str(series), command="oardel").status == 0


@pytest.mark.parametrize(
    ("words", "status", "error"),
    [
        (("--every", "1s", "date"), 2, "--every '1s' is out of range (from 1m to 366d)"),
        (("--every", "funday 8:00", "date"), 2, "--every 'funday 8:00': 'funday' is no day"),
        (("--every", "2h", "-I"), 2, "--every with -I (a user waits for an interactive job: leave --every or -I out)"),
        (("--every", "2h", "-r", "+1h", "date"), 2, "--every with -r (each job starts when it can after its due time"),
        (("--every", "2h", "--until", "+1d", "date"), 2, "--every with -r"),
        (("--every", "2h", "--bag", "3", "date"), 2, "--every with --bag (--array N submits N jobs at each due time)"),
        (("--every", "2h", "-i", "key", "date"), 2, "--every with -i (-k makes a key for each job)"),
        (("--every", "2h", "-k", "-e", "key", "date"), 2, "--every with -e"),
        (("--every", "2h", "--wait", "date"), 2, "--every with --wait"),
        (("--every", "2h", "--dry-run", "date"), 2, "--every with --dry-run"),
        (("--every", "2h", "--resubmit", "1"), 2, "--every with --resubmit"),
        (("--every", "2h", "--batch", "lines"), 2, "--every with --batch"),
        (("--every", "2h", "-C"), 2, "--every with -C"),
        (("--every", "2h"), 2, "no command"),
        (("--every", "2h", "-q", "nowhere", "date"), 4, "unknown queue 'nowhere'"),
        (("--every", "2h", "-q", "closed", "date"), 3, "queue 'closed' is not active"),
        (("--every", "2h", "-l", "/nodes=999", "date"), 3, ""),
    ],
)
def test_what_is_refused_changes_nothing(
    connection: Connection, oarsub: Submitter, words: tuple[str, ...], status: int, error: str
) -> None:
    before = contents(connection)
    refused = oarsub(*words)
    assert (refused.status, refused.out) == (status, ""), refused
    assert refused.err.startswith(f"oarsub: {error}"), refused
    assert refused.err.count("\n") == 1
    assert contents(connection) == before


@pytest.mark.parametrize(
    ("command", "words", "status", "error"),
    [
        ("oardel", ("7",), 4, "recurring job 7 does not exist (oarstat --recurring shows those that go on)"),
        ("oardel", ("x",), 2, "'x' is not a recurring job id (a whole number above 0)"),
        ("oardel", (), 2, "--recurring without an id (oarstat --recurring shows them)"),
        ("oardel", ("1", "--dry-run"), 2, "--recurring with other options (oardel --recurring ID ...)"),
        ("oarstat", ("7",), 4, "recurring job 7 does not exist (oarstat --recurring shows those that go on)"),
        ("oarstat", ("x",), 2, "'x' is not a recurring job id (a whole number above 0)"),
    ],
)
def test_series_that_are_none(oarsub: Submitter, command: str, words: tuple[str, ...], status: int, error: str) -> None:
    refused = oarsub("--recurring", *words, command=command)
    assert (refused.status, refused.out, refused.err) == (status, "", f"{command}: {error}\n")


def test_a_user_has_so_many_series(connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OARPY_SUBMISSION_RECURRING_JOBS_PER_USER", "2")
    first = begin(oarsub, "2h", "date")
    begin(oarsub, "2h", "date")
    full = oarsub("--every", "2h", *WORDS, "date")
    assert (full.status, f"'{ME}' has 2 recurring jobs" in full.err) == (3, True)
    oarsub("--recurring", str(first), command="oardel")
    begin(oarsub, "2h", "date")
    monkeypatch.setenv("OARPY_SUBMISSION_RECURRING_JOBS_PER_USER", "0")
    none = oarsub("--every", "2h", *WORDS, "date")
    assert (none.status, none.err) == (
        3,
        "oarsub: no recurring jobs here (submission.recurring_jobs_per_user is 0)\n",
    )
