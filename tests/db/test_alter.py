"""``oaralter``: what waits asks for something else, by the rules of a submission; history knows what was before."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from tests.harness.oarsub_cluster import Connection, Submitter, contents, decide, run_pass

pytestmark = [pytest.mark.db, pytest.mark.kept]


def alter(oarsub: Submitter, *words: str) -> str:
    result = oarsub(*words, command="oaralter")
    assert result.status == 0, result
    return result.out


def row(connection: Connection, columns: str, job: int) -> tuple[object, ...]:
    query = f"SELECT {columns} FROM jobs WHERE job_id = %s"  # noqa: S608
    found = connection.execute(query, [job]).fetchone()
    assert found is not None
    return tuple(found)


def instant(connection: Connection) -> str:
    (now,) = connection.execute("SELECT clock_timestamp()").fetchone() or (None,)
    assert isinstance(now, datetime)
    return now.isoformat()


def test_a_job_asks_for_something_else_and_stays_what_it_is(connection: Connection, oarsub: Submitter) -> None:
    job = oarsub.job_id("-l", "/nodes=3,walltime=2:0:0", "-n", "first", "--hold", "date")
    before = row(connection, "submission_id, submitted_at, array_id, command", job)
    then = instant(connection)
    out = alter(
        oarsub, str(job), "-l", "/nodes=1/core=2", "-q", "admin", "-p", "mem > 1", "-n", "second",
        "-d", "/tmp", "--project", "maths", "--nice", "7", "--notify", "mail:me@example.org",
    )  # fmt: skip
    line = next(line for line in out.splitlines() if line.startswith(f"[{job}] "))
    for told in ("name first -> second", "queue default -> admin", "project default -> maths", "nice 0 -> 7"):
        assert told in line, line
    assert "resources /nodes=3,walltime=2:0:0 -> /nodes=1/core=2,walltime=2:0:0" in line, "the walltime stays"
    assert "mail:me" not in line, "whom it tells is for its user alone"
    assert row(connection, "job_name, queue_name, project, nice, notify, launching_directory, state", job) == (
        "second", "admin", "maths", 7, "mail:me@example.org", "/tmp", "Hold",
    )  # fmt: skip
    assert row(connection, "submission_id, submitted_at, array_id, command", job) == before
    assert row(connection, "message", job) == ("R=2,W=2:0:0,J=B,N=second,Q=admin,P=maths",)
    assert line.removeprefix(f"[{job}] ") in oarsub("-f", "-j", str(job), command="oarstat").out
    shown = json.loads(oarsub("-J", "--at", then, command="oarstat").out)[str(job)]
    assert (shown["name"], shown["queue"], shown["project"]) == ("first", "default", "default"), "as it was then"
    shown = json.loads(oarsub("-J", "--at", "now", command="oarstat").out)[str(job)]
    assert (shown["name"], shown["queue"], shown["project"]) == ("second", "admin", "maths")


def test_it_runs_by_what_was_changed(connection: Connection, oarsub: Submitter) -> None:
    job = oarsub.job_id("-l", "/nodes=4,walltime=1:0:0", "date")
    decide(connection)
    assert row(connection, "state", job) == ("Waiting",), "n1 is Absent"
    out = alter(oarsub, str(job), "-l", "/nodes=1")
    assert "Where: 4 resources on n" in out
    assert "Why: starts now" in out
    run_pass(connection)
    assert row(connection, "state, extract(epoch FROM walltime)::int", job) == ("Running", 3600)


def test_the_place_in_the_queue_stays(connection: Connection, oarsub: Submitter) -> None:
    oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "date")
    run_pass(connection)
    first, second, third = (oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "date") for _ in range(3))

    def place(job: int) -> int:
        decide(connection)
        return int(json.loads(oarsub("--priority", str(job), "-J", command="oarstat").out)["rank"]["place"])

    assert [place(job) for job in (first, second, third)] == [1, 2, 3]
    alter(oarsub, str(second), "-l", "/nodes=2,walltime=3:0:0", "-n", "other")
    assert [place(job) for job in (first, second, third)] == [1, 2, 3]
    alter(oarsub, str(first), "--nice", "5")
    assert [place(job) for job in (second, third, first)] == [1, 2, 3]


def test_one_member_goes_its_own_way(connection: Connection, oarsub: Submitter) -> None:
    one, two, three = oarsub.job_ids("-l", "/nodes=1,walltime=1:0:0", "--array", "3", "--hold", "date")
    alter(oarsub, str(two), "-l", "/nodes=2")
    submissions = [row(connection, "submission_id", job)[0] for job in (one, two, three)]
    assert submissions[0] == submissions[2] != submissions[1]
    environments = connection.execute("SELECT count(DISTINCT environment) FROM submissions").fetchone()
    assert environments == (1,)
    out = alter(oarsub, "--array", str(one), "-l", "walltime=2:0:0")
    assert [row(connection, "message", job)[0] for job in (one, two, three)] == [
        "R=4,W=2:0:0,J=B", "R=8,W=2:0:0,J=B", "R=4,W=2:0:0,J=B",
    ]  # fmt: skip
    assert f"[{one}, {three}] resources /nodes=1,walltime=1:0:0 -> /nodes=1,walltime=2:0:0" in out
    assert row(connection, "submission_id", two)[0] == submissions[1], "nobody else has it"
    assert connection.execute("SELECT count(*) FROM submissions").fetchone() == (2,)


def test_members_that_run_are_left_alone(connection: Connection, oarsub: Submitter) -> None:
    members = oarsub.job_ids("-l", "/nodes=2,walltime=1:0:0", "--array", "3", "date")
    run_pass(connection)
    running = [job for job in members if row(connection, "state", job) == ("Running",)]
    assert 0 < len(running) < 3
    found = json.loads(alter(oarsub, "--array", str(members[0]), "-l", "walltime=0:30:0", "-J"))
    assert found["jobs"] == [job for job in members if job not in running]
    assert {row(connection, "extract(epoch FROM walltime)::int", job)[0] for job in running} == {3600}
    assert found["first"]["start"] is not None
    refused = oarsub(str(members[0]), "-n", "x", command="oaralter")
    assert (refused.status, refused.err) == (
        1,
        f"oaralter: job {members[0]} is Running and cannot be changed: only a job that waits can; oarwalltime changes"
        " walltimes (nothing was done)\n",
    )


def test_a_pass_that_decided_before_starts_nothing(connection: Connection, oarsub: Submitter) -> None:
    """A member that left its submission after the pass had looked is not started by what it asked for then."""
    from oarpy.store.passes import decisions

    one, two = oarsub.job_ids("-l", "/nodes=1,walltime=1:0:0", "--array", "2", "date")
    (moldable,) = connection.execute("SELECT moldable_id FROM moldable_descriptions").fetchone() or (0,)
    alter(oarsub, str(two), "-l", "/nodes=2")
    statement = decisions._START  # the statement is what has to know
    values = {
        "jobs": [one, two], "moldables": [moldable] * 2, "walltimes": [3600.0] * 2, "summaries": ["", ""],
        "owners": [], "resources": [], "exclusive": [], "guests": [],
    }  # fmt: skip
    assert connection.execute(statement, values).fetchall() == [(one,)]


def test_the_same_again_changes_nothing(connection: Connection, oarsub: Submitter) -> None:
    job = oarsub.job_id("-l", "/nodes=1,walltime=1:0:0", "-n", "mine", "--hold", "date")
    stored = contents(connection)
    assert f"[{job}] as asked for already" in alter(oarsub, str(job), "-n", "mine")
    assert contents(connection) == stored


def test_a_dry_run_changes_nothing(connection: Connection, oarsub: Submitter) -> None:
    job = oarsub.job_id("-l", "/nodes=4,walltime=1:0:0", "date")
    decide(connection)
    stored = contents(connection)
    out = alter(oarsub, str(job), "-l", "/nodes=1", "--dry-run")
    assert "-> /nodes=1,walltime=1:0:0" in out
    assert "Why: starts now" in out
    assert contents(connection) == stored


def test_rules_see_the_changed_submission(connection: Connection, oarsub: Submitter) -> None:
    job = oarsub.job_id("-l", "/nodes=1,walltime=1:0:0", "date")
    connection.execute(
        "INSERT INTO admission_rules (name, priority, rule_text) VALUES ('short', 99, %s)",
        ["if job.name == 'long':\n    refuse('no long jobs')"],
    )
    stored = contents(connection)
    refused = oarsub(str(job), "-n", "long", command="oaralter")
    assert (refused.status, "no long jobs" in refused.err) == (3, True), refused
    assert contents(connection) == stored


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("{job}",), 2, "nothing to change"),
        (("{job}", "-l", "/nodes=99"), 3, "the request can never run"),
        (("{job}", "-l", "/rack=1"), 2, "unknown resource level 'rack'"),
        (("{job}", "-q", "nightly"), 4, "unknown queue 'nightly'"),
        (("{job}", "-q", "closed"), 3, "queue 'closed' is not active"),
        (("{job}", "-p", "mem >"), 2, ""),
        (("{job}", "--nice", "1001"), 2, "--nice"),
        (("{job}", "--project", ""), 2, ""),
        (("4242", "-n", "x"), 4, "job 4242 does not exist"),
        (("{ended}", "-n", "x"), 1, "has already ended"),
        (("{reservation}", "-n", "x"), 1, "is a reservation (oarwindow shows and changes its window)"),
        (("-n", "x"), 2, "no job given"),
        (("{job}", "{ended}", "-n", "x"), 1, "has already ended"),
    ],
)
def test_what_cannot_be_is_one_line_and_nothing_changed(
    connection: Connection, oarsub: Submitter, words: tuple[str, ...], status: int, said: str
) -> None:
    job = oarsub.job_id("-l", "/nodes=1,walltime=1:0:0", "--hold", "date")
    ended = oarsub.job_id("-l", "/nodes=1,walltime=1:0:0", "--hold", "date")
    connection.execute("UPDATE jobs SET state = 'Error', ended_at = now() WHERE job_id = %s", [ended])
    oarsub("-r", "2031-01-01 12:00:00", "-l", "/nodes=1,walltime=1:0:0", "--answer-timeout", "0", "date")
    (reservation,) = connection.execute("SELECT max(job_id) FROM jobs").fetchone() or (0,)
    stored = contents(connection)
    named = {"job": job, "ended": ended, "reservation": reservation}
    refused = oarsub(*(word.format(**named) for word in words), command="oaralter")
    assert (refused.status, refused.err.count("\n"), refused.out) == (status, 1, ""), refused
    assert said in refused.err
    assert contents(connection) == stored


def test_others_decide_about_what_is_theirs(
    connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = oarsub.job_id("-l", "/nodes=1,walltime=1:0:0", "--hold", "date")
    connection.execute("INSERT INTO door_transactions (broker, transaction) VALUES ('campus', 't')")
    connection.execute(
        "INSERT INTO door_parts (broker, part, job_id, kind, transaction, walltime, lapses_at)"
        " VALUES ('campus', 'p', %s, 'queued', 't', '1 hour', now() + interval '1 hour')",
        [part],
    )
    refused = oarsub(str(part), "-n", "x", command="oaralter")
    assert (refused.status, "is a part of a job of broker 'campus', which alone changes it" in refused.err) == (1, True)
    subscribed = oarsub("--subscribe", '{"message": "subscribe"}', "date")
    assert subscribed.status == 0, subscribed
    negotiates = json.loads(subscribed.out)["job"]
    refused = oarsub(str(negotiates), "-l", "/nodes=1", command="oaralter")
    assert (refused.status, f"job {negotiates} negotiates" in refused.err) == (1, True), refused
    bag = oarsub("-l", "/core=1,walltime=1:0:0", "--bag", "2", "--answer-timeout", "0", "date")
    task = int(bag.out.splitlines()[0].removeprefix("OAR_JOB_ID="))
    refused = oarsub(str(task), "-n", "x", command="oaralter")
    assert (refused.status, f"job {task} is a task of a bag" in refused.err) == (1, True), refused
    foreign = oarsub.job_id("-l", "/nodes=1,walltime=1:0:0", "--hold", "date")
    connection.execute("UPDATE jobs SET user_name = 'somebody' WHERE job_id = %s", [foreign])
    monkeypatch.setattr("oarpy.client.session.is_administrator", lambda *_: False)
    refused = oarsub(str(foreign), "-n", "x", command="oaralter")
    assert (refused.status, f"job {foreign} belongs to 'somebody'" in refused.err) == (5, True), refused
