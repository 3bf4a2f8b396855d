"""Projects that pay for jobs: their tree, members and hours, in tables, commands, submissions and passes."""

from __future__ import annotations

import grp
import json
import pwd
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.errors import CheckViolation, ForeignKeyViolation, LockNotAvailable, UniqueViolation

from oarpy.client.platform.tokens import Scope
from oarpy.model.amounts import parse_amount
from oarpy.model.errors import OarpyError
from oarpy.modules.accounting import account
from oarpy.store.analytics import recount
from oarpy.store.schema import migrations
from tests.harness.hand_written import add_job, rewrite
from tests.harness.oarsub_cluster import Connection, Submitter, contents, decide, process, run_pass
from tests.harness.sample_cluster import ME, Result
from tests.harness.waiting import until, waiting_for_locks
from tests.harness.web_client import ANN, BOB, token, web_client, web_settings
from tests.harness.wrong_rows import wrong_rows

pytestmark = pytest.mark.db

As = Callable[..., Result]


@pytest.fixture(autouse=True)
def _members_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OARPY_SUBMISSION_PROJECTS", "members")


@pytest.fixture
def as_user(oarsub: Submitter, monkeypatch: pytest.MonkeyPatch) -> As:
    """Run a command as a user who is no admin."""

    def run(user: str, command: str, *arguments: str) -> Result:
        with monkeypatch.context() as patch:
            patch.setattr("oarpy.client.session.user_name", lambda uid: user)
            patch.setattr("oarpy.client.session.is_administrator", lambda *_: False)
            return oarsub(*arguments, command=command)

    return run


def done(oarsub: Submitter, *arguments: str) -> str:
    result = oarsub(*arguments, command="oarproject")
    assert (result.status, result.err) == (0, ""), result
    return result.out


def tree(oarsub: Submitter) -> None:
    """Make physics above fire above flame, and art; ann coordinates physics, bob is in fire and in flame."""
    done(oarsub, "create", "physics", "--hours", "100", "--period", "year")
    done(oarsub, "create", "fire", "--parent", "physics", "--share", "2")
    done(oarsub, "create", "flame", "--parent", "fire")
    done(oarsub, "create", "art")
    done(oarsub, "member", "add", "physics", "ann", "--role", "coordinator")
    done(oarsub, "member", "add", "fire", "bob")
    done(oarsub, "member", "add", "flame", "bob")


WRONG_ROWS = [
    ("UPDATE projects SET parent = 'flame' WHERE project = 'physics'", CheckViolation),
    ("UPDATE projects SET parent = 'fire' WHERE project IN ('physics', 'art')", CheckViolation),
    ("UPDATE projects SET parent = 'art' WHERE project = 'art'", CheckViolation),
    ("UPDATE projects SET share = -1 WHERE project = 'fire'", CheckViolation),
    ("UPDATE projects SET hours = -0.5 WHERE project = 'fire'", CheckViolation),
    ("UPDATE projects SET weight = 'NaN' WHERE project = 'fire'", CheckViolation),
    ("UPDATE projects SET hours = 'NaN' WHERE project = 'fire'", CheckViolation),
    ("UPDATE projects SET period = 'day' WHERE project = 'fire'", CheckViolation),
    ("UPDATE projects SET when_spent = 'beg' WHERE project = 'fire'", CheckViolation),
    ("INSERT INTO projects (project) VALUES ('')", CheckViolation),
    ("INSERT INTO projects (project) VALUES (E'fire\n')", CheckViolation),
    ("INSERT INTO projects (project) VALUES ('f\u00eate')", CheckViolation),
    ("UPDATE projects SET project = repeat('x', 201) WHERE project = 'art'", CheckViolation),
    ("INSERT INTO project_members (project, user_name) VALUES ('art', '')", CheckViolation),
    *(
        (f"INSERT INTO project_members (project, user_name) VALUES ('art', {name})", CheckViolation)  # noqa: S608
        for name in (
            "repeat('x', 256)",
            "'\u00eatre'",
            "'ann, eve@evil.org'",
            "E'ann\n'",
            "'-ann'",
            "'ann eve'",
            "'ann@'",
        )
    ),
    ("INSERT INTO projects (project, parent) VALUES ('ice', 'snow')", ForeignKeyViolation),
    ("DELETE FROM projects WHERE project = 'physics'", ForeignKeyViolation),
    ("INSERT INTO project_members (project, user_name) VALUES ('fire', 'bob')", UniqueViolation),
    ("INSERT INTO project_members (project, user_name) VALUES ('snow', 'bob')", ForeignKeyViolation),
    ("INSERT INTO project_members (project, user_name, role) VALUES ('art', 'bob', 'king')", CheckViolation),
    ("UPDATE project_members SET preferred = true WHERE user_name = 'bob'", UniqueViolation),
    ("DELETE FROM project_changes", CheckViolation),
]


def test_no_client_of_sql_makes_a_wrong_tree(connection: Connection, oarsub: Submitter, dsn: str) -> None:
    tree(oarsub)
    before = contents(connection)
    for statement, error in WRONG_ROWS:
        with pytest.raises(error):
            connection.execute(statement)
    assert contents(connection) == before
    # two sessions make one half of a circle each: the second waits, and sees the first or fails
    for level, refusal in (
        ("READ COMMITTED", CheckViolation),
        ("REPEATABLE READ", psycopg.errors.SerializationFailure),
    ):
        with psycopg.connect(dsn) as one, psycopg.connect(dsn) as other:
            for session in (one, other):
                session.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
                session.execute("SELECT FROM projects")
            other.execute("SET LOCAL statement_timeout = '20s'")
            one.execute("UPDATE projects SET parent = 'art' WHERE project = 'physics'")
            with other.pipeline():
                cursor = other.execute("UPDATE projects SET parent = 'flame' WHERE project = 'art'")
                one.commit()
                with pytest.raises(refusal):
                    cursor.fetchall()
            other.rollback()
        connection.execute("UPDATE projects SET parent = NULL WHERE project = 'physics'")
    print(f"{len(WRONG_ROWS)} wrong rows and 2 circles of two sessions refused")


def test_what_each_change_was_is_kept(connection: Connection, oarsub: Submitter, as_user: As) -> None:
    tree(oarsub)
    assert as_user("ann", "oarproject", "change", "fire", "--share", "3").status == 0
    rows = connection.execute(
        "SELECT changed_by, relation, change, content ->> 'share' FROM project_changes ORDER BY change_id"
    ).fetchall()
    assert rows[0] == (ME, "projects", "made", "1")
    assert rows[-1] == ("ann", "projects", "changed", "3")


def test_what_an_emptied_table_had_is_kept(connection: Connection, oarsub: Submitter) -> None:
    tree(oarsub)
    connection.execute("TRUNCATE projects CASCADE")
    kept = "SELECT relation, content ->> 'project' FROM project_changes WHERE change = 'removed' ORDER BY 1, 2"
    assert connection.execute(kept).fetchall() == [
        *(("project_members", name) for name in ("fire", "flame", "physics")),
        *(("projects", name) for name in ("art", "fire", "flame", "physics")),
    ]


def test_who_may_do_what(connection: Connection, oarsub: Submitter, as_user: As) -> None:
    tree(oarsub)
    before = contents(connection)
    refused = 0
    for user, words in (
        ("bob", "create ice"),
        ("ann", "create ice --parent physics"),
        ("ann", "change fire --hours 5"),
        ("ann", "change physics --share 5"),
        ("bob", "change flame --share 5"),
        ("ann", "remove flame"),
        ("ann", "member add art eve"),
        ("bob", "member add flame eve"),
        ("bob", "member role fire bob coordinator"),
        ("bob", "member remove fire bob"),
        ("ann", "seed"),
        ("ann", "sync --from-groups"),
    ):
        result = as_user(user, "oarproject", *words.split())
        assert (result.status, result.out, result.err.count("\n")) == (5, "", 1), (words, result)
        refused += 1
    assert contents(connection) == before
    for words in ("member add flame eve", "member role flame eve coordinator", "member remove flame bob"):
        assert as_user("ann", "oarproject", *words.split()).status == 0, words
    assert as_user("eve", "oarproject", "member", "add", "flame", "bob").status == 0, "coordinates it herself"
    seen = {user: as_user(user, "oarproject", "list", "-J").out for user in ("ann", "bob", "eve", "zoe")}
    assert {user: [row["project"] for row in json.loads(out)] for user, out in seen.items()} == {
        "ann": ["fire", "flame", "physics"],
        "bob": ["fire", "flame"],
        "eve": ["flame"],
        "zoe": [],
    }
    assert as_user("bob", "oarproject", "show", "art").status == 4
    shown = json.loads(as_user("eve", "oarproject", "show", "flame", "-J").out)
    assert [(one["user"], one["role"]) for one in shown["members"]] == [("bob", "member"), ("eve", "coordinator")]
    print(f"{refused} commands refused to who may not")


REFUSED = [
    ("create fire", 1, "project 'fire' exists already"),
    ("create f\u00eate", 2, "is not plain text"),
    ("create " + "x" * 201, 2, "at most 200"),
    ("member add art " + "x" * 256, 2, "is no name of a user (letters, digits, _ . - and at most 255)"),
    ("member add art eve, ", 2, "'eve,' is no name of a user"),
    ("member add art \u00eatre", 2, "'\\xeatre' is no name of a user"),
    ("create ice --parent snow", 4, "there is no project 'snow'"),
    ("create ice --share -1", 2, "--share -1 is not a number from 0 on"),
    ("create ice --hours nan", 2, "--hours nan is not a number from 0 on"),
    ("create ice --weight x", 2, "--weight x is not a number from 0 on"),
    ("create ice --period day", 2, "--period day is not one of week, month, quarter, year, ever"),
    ("create ice --until soon", 2, "soon"),
    ("create ice --when-spent beg", 2, "--when-spent beg is not one of refuse, wait, besteffort"),
    ("change fire", 2, "nothing to change"),
    ("change snow --share 2", 4, "there is no project 'snow'"),
    ("change physics --parent flame", 1, "project 'physics' would be below itself"),
    ("change physics --parent physics", 1, "project 'physics' would be below itself"),
    ("remove fire", 1, "project 'flame' is below 'fire'"),
    ("remove snow", 4, "there is no project 'snow'"),
    ("member add fire eve bob", 1, "'bob' is a member of project 'fire' already"),
    ("member add snow eve", 4, "there is no project 'snow'"),
    ("member add fire eve --role king", 2, "--role king is not one of member, coordinator"),
    ("member remove fire bob eve", 4, "'eve' is no member of project 'fire'"),
    ("member role fire eve member", 4, "'eve' is no member of project 'fire'"),
    ("prefer fire", 4, f"'{ME}' is no member of project 'fire'"),
    ("sync", 2, "from where?"),
    ("sync --from-groups fire=nosuchgroup", 4, "the system has no group 'nosuchgroup'"),
]


def test_what_makes_no_sense_changes_nothing(connection: Connection, oarsub: Submitter) -> None:
    tree(oarsub)
    before = contents(connection)
    for words, status, said in REFUSED:
        result = oarsub(*words.split(), command="oarproject")
        assert (result.status, result.out, result.err.count("\n")) == (status, "", 1), (words, result)
        assert said in result.err, (words, result)
    assert "'' is no name of a user" in oarsub("member", "add", "art", "", command="oarproject").err
    assert contents(connection) == before
    print(f"{len(REFUSED)} commands refused")


def test_a_name_of_before_that_no_command_takes_is_told(connection: Connection, dsn: str) -> None:
    migrations.downgrade(dsn, "0096")
    connection.execute("INSERT INTO projects (project) VALUES ('f\u00eate')")
    with pytest.raises(OarpyError, match="names that no command takes: project 'f\u00eate'"):
        migrations.upgrade(dsn)
    connection.execute("UPDATE projects SET project = 'fete'")
    assert "0097" in migrations.upgrade(dsn)


def test_a_member_of_before_whom_no_login_is_called_is_told(connection: Connection, dsn: str) -> None:
    migrations.downgrade(dsn, "0098")
    connection.execute("INSERT INTO projects (project) VALUES ('art')")
    connection.execute("INSERT INTO project_members (project, user_name) VALUES ('art', 'ann, eve@evil.org')")
    with pytest.raises(OarpyError, match=r"names that no login has: member 'ann, eve@evil\.org' of project 'art'"):
        migrations.upgrade(dsn)
    connection.execute("UPDATE project_members SET user_name = 'ann@evil.org'")
    assert "0099" in migrations.upgrade(dsn)


def test_a_submission_names_a_project_of_its_user(connection: Connection, oarsub: Submitter, as_user: As) -> None:
    tree(oarsub)
    done(oarsub, "create", "past", "--until", "2026-01-01")
    done(oarsub, "create", "below", "--parent", "past")
    for project in ("past", "below"):
        done(oarsub, "member", "add", project, "bob")
    before = contents(connection)
    refusals: tuple[tuple[str, list[str], int, str], ...] = (
        ("ann", ["--project", "snow"], 4, "there is no project 'snow' (yours: physics; --project names one"),
        ("ann", ["--project", "fire"], 3, "project 'fire' does not pay for jobs of 'ann' (yours: physics;"),
        ("bob", ["--project", "past"], 3, "project 'past' is over since 2026-01-01 00:00:00"),
        ("bob", ["--project", "below"], 3, "project 'past' is over since 2026-01-01 00:00:00"),
        ("bob", [], 3, "no project is named, and several are yours (yours: below, fire, flame, past;"),
        ("zoe", [], 3, "no project pays for jobs of 'zoe' (ask an admin or a coordinator)"),
    )
    for user, options, status, said in refusals:
        result = as_user(user, "oarsub", *options, "date")
        assert (result.status, result.out, result.err.count("\n")) == (status, "", 1), result
        assert said in result.err, result
        assert as_user(user, "oarsub", "--dry-run", *options, "date").status == status
    assert contents(connection) == before
    assert as_user("bob", "oarproject", "prefer", "flame").status == 0
    for user, options in (("ann", []), ("bob", []), ("bob", ["--project", "fire"])):
        assert as_user(user, "oarsub", *options, "date").status == 0
    paid = connection.execute("SELECT user_name, project FROM jobs ORDER BY job_id").fetchall()
    assert paid == [("ann", "physics"), ("bob", "flame"), ("bob", "fire")]
    assert as_user("bob", "oaralter", "2", "--project", "art").status == 3
    assert as_user("bob", "oaralter", "2", "--project", "fire").status == 0
    print(f"{len(refusals)} submissions refused")


def test_a_rule_may_name_the_project(connection: Connection, oarsub: Submitter, as_user: As) -> None:
    tree(oarsub)
    connection.execute(
        "INSERT INTO admission_rules (name, priority, rule_text) VALUES ('payer', 99, %s)",
        ["if job.project == 'default':\n    job.project = 'fire'"],
    )
    assert as_user("bob", "oarsub", "date").status == 0, "fire and flame are bob's"
    refused = as_user("zoe", "oarsub", "date")
    assert (refused.status, "no project pays for jobs of 'zoe'" in refused.err) == (3, True), refused
    assert connection.execute("SELECT user_name, project FROM jobs").fetchall() == [("bob", "fire")]


def test_any_word_is_a_project_until_members_count(oarsub: Submitter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OARPY_SUBMISSION_PROJECTS")
    for number in (1, 2):
        oarsub.job_ids(*(("--project", "snow") if number == 1 else ()), "date")
        assert json.loads(done(oarsub, "seed", "-J")) == {"projects": 1, "members": 1, "left_out": []}
    assert [row["project"] for row in json.loads(done(oarsub, "list", "-J"))] == ["default", "snow"]
    monkeypatch.setenv("OARPY_SUBMISSION_PROJECTS", "members")
    oarsub.job_ids("--project", "snow", "date")
    oarsub.job_ids("date")
    assert oarsub("remove", "snow", command="oarproject").err == (
        "oarproject: project 'snow' pays for job 1 (wait for its end, or oardel it)\n"
    )


def test_users_of_jobs_whom_no_login_is_called_are_left_out(connection: Connection, oarsub: Submitter) -> None:
    """Jobs of another way in may have any user: the others become members, and these are told."""
    odd, longest = ("eve, zoe", "x" * 256), "y" * 255
    for user in (*odd, longest, "ann$", "bob@lab.org"):
        add_job(connection, user_name=user, project="snow")
    assert json.loads(done(oarsub, "seed", "-J")) == {"projects": 1, "members": 3, "left_out": [*odd]}
    assert [row["user"] for row in json.loads(done(oarsub, "show", "snow", "-J"))["members"]] == [
        "ann$",
        "bob@lab.org",
        longest,
    ]
    told = done(oarsub, "seed").splitlines()
    assert told == [
        "0 projects and 0 members made",
        f"left out, as no member is called so: 'eve, zoe', '{'x' * 80}...'",
    ]


def test_a_job_of_before_keeps_its_project(oarsub: Submitter, as_user: As, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OARPY_SUBMISSION_PROJECTS")
    assert as_user("bob", "oarsub", "--project", "snow", "date").status == 0
    monkeypatch.setenv("OARPY_SUBMISSION_PROJECTS", "members")
    assert as_user("bob", "oaralter", "1", "-l", "walltime=0:30:0").status == 0
    assert as_user("bob", "oaralter", "1", "--project", "ice").status == 4


def test_members_come_from_groups(oarsub: Submitter, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(oarsub)
    groups = {
        "fire": SimpleNamespace(gr_mem=["eve", "zoe", "a b"], gr_gid=7),
        "arts": SimpleNamespace(gr_mem=[], gr_gid=8),
    }
    monkeypatch.setattr(grp, "getgrnam", groups.__getitem__)
    monkeypatch.setattr(pwd, "getpwall", lambda: [SimpleNamespace(pw_name="kim", pw_gid=8)])
    monkeypatch.setattr(pwd, "getpwnam", {"sam": SimpleNamespace(pw_gid=7)}.__getitem__)
    done(oarsub, "member", "add", "fire", "ann", "--role", "coordinator")
    done(oarsub, "member", "add", "fire", "sam")  # of an account that no list of all accounts has
    first = [{"project": "fire", "group": "fire", "added": ["eve", "zoe"], "removed": ["bob"], "left_out": ["a b"]}]
    assert json.loads(done(oarsub, "sync", "--from-groups", "--dry-run", "-J")) == first
    assert json.loads(done(oarsub, "sync", "--from-groups", "-J")) == first
    assert json.loads(done(oarsub, "sync", "--from-groups", "-J"))[0]["added"] == []
    assert "kim" in done(oarsub, "sync", "--from-groups", "art=arts")
    shown = json.loads(done(oarsub, "show", "fire", "-J"))
    assert [one["user"] for one in shown["members"]] == ["ann", "eve", "sam", "zoe"]


def why(oarsub: Submitter, job: int) -> dict[str, Any]:
    return dict(json.loads(oarsub("--why", str(job), "-J", command="oarstat").out))


def end(connection: Connection, job: int, hours: float) -> None:
    """Let a running job be over that began so many hours ago."""
    ago = timedelta(hours=hours)
    connection.execute("UPDATE jobs SET state = 'Finishing', final_state = 'Terminated' WHERE job_id = %s", [job])
    connection.execute(
        "UPDATE jobs SET state = 'Terminated', started_at = now() - %s, ended_at = now(), exit_status = 0,"
        " left_nothing = true WHERE job_id = %s",
        [ago, job],
    )


def paid(oarsub: Submitter, *more: str) -> None:
    """Make a project of 10 hours that pays for the user of the tests."""
    done(oarsub, "create", "fire", "--hours", "10", *more)
    done(oarsub, "member", "add", "fire", ME)


def test_hours_are_held_asked_and_used(connection: Connection, oarsub: Submitter) -> None:
    """Of 10 hours 4 are held by a running job, 4 asked for; what the running job leaves comes back when it is over."""
    paid(oarsub, "--when-spent", "refuse")
    first = oarsub.job_id("-l", "/core=4,walltime=1", "date")
    run_pass(connection)
    oarsub.job_id("-l", "/core=2,walltime=2", "--hold", "date")
    before = contents(connection)
    refused = oarsub("-l", "/core=3,walltime=1", "date")
    assert (refused.status, refused.out) == (3, "")
    assert refused.err == (
        "oarsub: project 'fire' has 2 of 10 hours left, and this asks for 3"
        " (ask for less; oarproject show fire tells what is used)\n"
    )
    assert oarsub("--dry-run", "-l", "/core=3,walltime=1", "date").status == 3
    assert contents(connection) == before
    end(connection, first, 0.25)
    found = connection.execute(
        "SELECT used_hours, held_hours, asked_hours, left_hours FROM oar_report.projects"
    ).fetchall()
    assert found == [(pytest.approx(1, abs=0.1), 0, 4, pytest.approx(5, abs=0.1))]
    account(connection, 86400)
    assert connection.execute("SELECT used_hours FROM oar_report.projects").fetchall() == [(pytest.approx(1, abs=0.1),)]
    assert oarsub("-l", "/core=3,walltime=1", "--array", "2", "date").status == 3
    assert oarsub("-l", "/core=3,walltime=1", "date").status == 0
    done(oarsub, "create", "physics")
    done(oarsub, "change", "fire", "--parent", "physics")
    for project, tables in (("physics", ["users", "projects", "queues"]), ("art", [])):
        report = json.loads(oarsub("report", "today", "--project", project, "-J", command="oarpy").out)
        assert [name for name, rows in report.items() if rows] == tables
    document = json.loads(done(oarsub, "show", "fire", "-J"))
    assert (document["asked_hours"], round(document["used_hours"])) == (7, 1)


def test_who_has_no_hours_left_waits_for_the_next_period(connection: Connection, oarsub: Submitter) -> None:
    """The pass, --why and the dry run know when the hours begin anew: the last of them lie at the end of this one."""
    done(oarsub, "create", "physics", "--hours", "12", "--period", "year", "--when-spent", "wait")
    paid(oarsub, "--parent", "physics", "--when-spent", "wait")
    oarsub.job_ids("-l", "/core=8,walltime=1", "date")
    run_pass(connection)
    waiting = oarsub.job_id("-l", "/core=4,walltime=1", "date")
    connection.execute("UPDATE jobs SET submitted_at = submitted_at - interval '1 minute' WHERE job_id = %s", [waiting])
    decide(connection)
    answer = why(oarsub, waiting)
    assert (answer["verdict"], answer["reason_data"]["kind"]) == ("quota", "budget")
    assert answer["reason_data"]["budget"] == {"project": "fire", "hours": 10, "left": 2}
    assert answer["reason"] == "project fire has 2 of 10 hours left, too few for it"
    assert answer["start"] is None, "they never begin anew"
    done(oarsub, "change", "fire", "--hours", "none")
    assert why(oarsub, waiting)["verdict"] == "starts", "12 hours of physics are enough"
    another = json.loads(oarsub("--dry-run", "-J", "-l", "/core=2,walltime=1", "date").out)
    assert another["reason_data"]["budget"]["project"] == "physics"
    (end_of_year,) = (
        connection.execute("SELECT extract(epoch FROM period_end) FROM oar_report.projects").fetchone() or ()
    )
    assert another["start"] == int(end_of_year), "the next year has hours"
    done(oarsub, "change", "physics", "--hours", "13")
    half = json.loads(oarsub("--dry-run", "-J", "-l", "/core=2,walltime=1", "date").out)
    assert half["start"] == int(end_of_year) - 1800, "an hour of two cores, half of it in this year"
    done(oarsub, "change", "fire", "--until", "2026-01-01")
    over = why(oarsub, waiting)
    assert over["reason_data"]["budget"]["over"] == 1767225600


def test_what_no_period_can_pay_for_is_warned_of_and_waits_for_hours(
    connection: Connection, oarsub: Submitter, tmp_path: Path
) -> None:
    """Hours of two periods can pay for a job around the end of one; hours of a project above count, too."""
    done(oarsub, "create", "physics", "--hours", "30")
    paid(oarsub, "--parent", "physics", "--period", "month", "--when-spent", "wait")
    assert "Warning" not in oarsub("--dry-run", "-l", "/core=4,walltime=5", "date").err
    warning = "Warning: this asks for 24 hours, and project 'fire' has 10 each month: no start is possible"
    asked = ("-l", "/core=4,walltime=6", "date")
    batch = tmp_path / "batch"
    batch.write_text(" ".join(asked))
    for result in (oarsub("--dry-run", *asked), oarsub("--batch", str(batch)), oarsub(*asked)):
        assert (result.status, (result.out + result.err).count(warning)) == (0, 1), result
    decide(connection)
    job = int(result.out.partition("=")[2])
    first, start, *_ = oarsub("--why", str(job), command="oarstat").out.splitlines()
    assert first.startswith(
        f"Job {job} waits for hours of its project (budget): project fire has 10 of 10 hours left in"
    )
    assert start == "No start is predicted."
    done(oarsub, "change", "fire", "--period", "ever", "--hours", "none")
    done(oarsub, "change", "physics", "--when-spent", "wait")
    array = oarsub("-l", "/core=4,walltime=8", "--array", "2", "date")
    assert "each of these jobs asks for 32 hours, and project 'physics' has 30 in all" in array.out


def test_without_hours_left_a_job_may_be_best_effort(connection: Connection, oarsub: Submitter) -> None:
    paid(oarsub, "--when-spent", "besteffort")
    oarsub.job_ids("-l", "/core=8,walltime=1", "date")
    result = oarsub("-l", "/core=4,walltime=1", "date")
    assert "Warning: project 'fire' has too few hours left: it is best effort" in result.out + result.err
    rows = connection.execute("SELECT queue_name, types FROM jobs ORDER BY job_id").fetchall()
    assert rows == [("default", []), ("besteffort", ["besteffort"])]
    run_pass(connection)
    running = connection.execute("SELECT count(*) FROM jobs WHERE state = 'Running'").fetchone()
    assert running == (2,), "best effort takes no hours"
    assert oarsub("-r", "2030-01-01 00:00:00", "-l", "/core=4,walltime=1", "date").status == 3


def test_lines_of_a_batch_are_paid_as_single_submissions_are(
    connection: Connection, oarsub: Submitter, tmp_path: Path
) -> None:
    """Each line takes hours from those behind it: one that finds too few is best effort, or told by its number."""
    paid(oarsub, "--when-spent", "besteffort")
    batch = tmp_path / "batch"
    batch.write_text("-l /core=8,walltime=1 date\n-l /core=4,walltime=1 date\n-l /core=2,walltime=1 -n last date\n")
    result = oarsub("--batch", str(batch))
    assert result.status == 0, result
    assert (result.out + result.err).count("Warning: project 'fire' has too few hours left: it is best effort") == 1
    stored = "SELECT queue_name, types, asked_units FROM jobs JOIN submissions USING (submission_id) ORDER BY job_id"
    expected = [("default", [], 8), ("besteffort", ["besteffort"], None), ("default", [], 2)]
    assert connection.execute(stored).fetchall() == expected
    done(oarsub, "change", "fire", "--hours", "20", "--when-spent", "refuse")
    before = contents(connection)
    result = oarsub("--batch", str(batch))
    assert (result.status, result.out) == (3, "")
    assert "batch, line 2: project 'fire' has 2 of 20 hours left, and this asks for 4 (" in result.err.splitlines()[0]
    assert contents(connection) == before


def test_a_batch_asks_for_projects_once(
    connection: Connection, oarsub: Submitter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid(oarsub)
    asked = list[str]()
    execute = psycopg.Connection.execute

    def noted(self: Connection, query: Any, *arguments: Any, **options: Any) -> Any:
        asked.append(str(query))
        return execute(self, query, *arguments, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", noted)
    counts = []
    for lines in (2, 20):
        (tmp_path / "batch").write_text("-l /core=1,walltime=0:1 --project fire date\n" * lines)
        asked.clear()
        assert oarsub("--batch", str(tmp_path / "batch")).status == 0
        counts.append(sum("project" in statement for statement in asked))
    assert counts[0] == counts[1] > 0
    print(f"{counts[0]} statements about projects for 2 lines, and for 20")


def test_batches_with_projects_in_opposite_orders_take_turns(
    connection: Connection, oarsub: Submitter, dsn: str, cluster_environment: dict[str, str], tmp_path: Path
) -> None:
    """The first waits for the second of its projects in the order of names; the other begins meanwhile."""
    for name in ("fire", "flood"):
        done(oarsub, "create", name, "--hours", "100")
        done(oarsub, "member", "add", name, ME)
    environment = {**cluster_environment, "OARPY_SUBMISSION_PROJECTS": "members"}

    def submit(*order: str) -> Result:
        batch = tmp_path / "-".join(order)
        batch.write_text("".join(f"-l /core=1,walltime=1 --project {name} date\n" for name in order))
        return process(environment, "oarsub", "--batch", str(batch))

    with psycopg.connect(dsn) as other, ThreadPoolExecutor(2) as pool:
        other.execute("SELECT FROM projects WHERE project = 'flood' FOR NO KEY UPDATE")
        running = []
        for order in (("flood", "fire"), ("fire", "flood")):
            running.append(pool.submit(submit, *order))
            until(lambda: waiting_for_locks(connection) == len(running), "both wait in turn")
            with pytest.raises(LockNotAvailable):  # whichever it names first
                connection.execute("SELECT FROM projects WHERE project = 'fire' FOR NO KEY UPDATE NOWAIT")
        other.rollback()
        results = [one.result() for one in running]
    assert [(result.status, result.err) for result in results] == [(0, "")] * 2, results
    assert connection.execute("SELECT project, asked_hours FROM oar_report.projects ORDER BY 1").fetchall() == [
        ("fire", 2),
        ("flood", 2),
    ]


def test_jobs_that_no_project_paid_for_are_named(connection: Connection, oarsub: Submitter, dsn: str) -> None:
    """Who was a member, and whether a project was over, is asked of the time at which a job started."""
    paid(oarsub)
    done(oarsub, "create", "physics")
    done(oarsub, "create", "flood", "--parent", "physics")
    done(oarsub, "member", "add", "flood", ME)
    fine, moved, late = (
        oarsub.job_id("--project", project, "-l", "/core=1,walltime=1", "date") for project in ("fire", "fire", "flood")
    )
    run_pass(connection)
    assert wrong_rows(dsn) == ()
    for words in ("member remove fire", "member remove flood"):
        done(oarsub, *words.split(), ME)
    done(oarsub, "change", "fire", "--until", "2026-01-01")
    assert wrong_rows(dsn) == (), "changes of later make nothing wrong"
    done(oarsub, "create", "art")
    connection.execute("UPDATE jobs SET project = 'art' WHERE job_id = %s", [moved])
    rewrite(
        connection,
        "UPDATE project_changes SET changed_at = changed_at - interval '1 hour', content = CASE"
        " content ->> 'project' WHEN 'physics' THEN content || '{\"until\": \"2026-01-01\"}' ELSE content END"
        " WHERE relation = 'projects' AND content ->> 'project' IN ('physics', 'flood')",
    )
    found = wrong_rows(dsn)
    accept = "INSERT INTO event_logs (type, job_id, description) VALUES ('PROJECT_ACCEPTED', "
    assert [line.partition(": ")[2].startswith(accept) for line in found] == [True] * 2
    assert found[0].startswith(f"job {moved} started for project art, and {ME} was no member of it: ")
    assert found[1].startswith(f"job {late} started at ")
    assert "for project flood, which was over: " in found[1]
    for line in found:
        connection.execute(line.partition(": ")[2])
    assert wrong_rows(dsn) == ()
    assert connection.execute("SELECT state FROM jobs WHERE job_id = %s", [fine]).fetchone() == ("Running",)


def test_what_waits_keeps_its_hours_when_a_job_of_its_array_is_accepted(
    connection: Connection, oarsub: Submitter, dsn: str
) -> None:
    paid(oarsub)
    oarsub.job_ids("--array", "2", "-l", "/nodes=3,walltime=0:10:0", "date")
    run_pass(connection)
    states = "SELECT state FROM jobs ORDER BY job_id"
    assert connection.execute(states).fetchall() == [("Running",), ("Waiting",)]
    rewrite(connection, 'UPDATE project_changes SET content = content || \'{"project": "art"}\'')
    (found,) = wrong_rows(dsn)
    use = "SELECT round(held_hours), asked_hours FROM oar_report.projects"
    before = connection.execute(use).fetchall()
    connection.execute(found.partition(": ")[2])
    assert wrong_rows(dsn) == ()
    assert connection.execute(use).fetchall() == before == [(2, 2)]


def test_who_was_a_member_when_a_submission_looked_was_one(connection: Connection, oarsub: Submitter, dsn: str) -> None:
    """It is stored after it has read who is a member, up to a minute later."""
    paid(oarsub)
    job = oarsub.job_id("-l", "/core=1,walltime=1", "date")
    run_pass(connection)
    done(oarsub, "member", "remove", "fire", ME)
    move = "UPDATE project_changes SET changed_at = (SELECT submitted_at FROM jobs) - %s::interval WHERE change = %s"
    rewrite(connection, move, "1 hour", "made")
    rewrite(connection, move, "30 seconds", "removed")
    assert wrong_rows(dsn) == ()
    rewrite(connection, move, "90 seconds", "removed")
    (found,) = wrong_rows(dsn)
    assert found.startswith(f"job {job} started for project fire, and {ME} was no member of it: ")


def test_others_count_for_the_parent(connection: Connection, oarsub: Submitter) -> None:
    """What a project beside another took is not left for it, and a weight is what its hours are billed."""
    done(oarsub, "create", "physics", "--hours", "10")
    for name, weight in (("fire", "1"), ("flood", "2")):
        done(oarsub, "create", name, "--parent", "physics", "--weight", weight)
        done(oarsub, "member", "add", name, ME)
    oarsub.job_ids("--project", "flood", "-l", "/core=3,walltime=1", "date")
    assert oarsub("--project", "fire", "-l", "/core=5,walltime=1", "date").status == 3
    assert oarsub("--project", "fire", "-l", "/core=4,walltime=1", "date").status == 0
    left: dict[str, float] = dict(connection.execute("SELECT project, left_hours FROM oar_report.projects").fetchall())
    assert left == {"physics": 0, "fire": None, "flood": None}
    assert oarsub("2", "--project", "flood", command="oaralter").status == 3
    assert oarsub("2", "-l", "/core=2", "--project", "flood", command="oaralter").status == 0
    left = dict(connection.execute("SELECT project, left_hours FROM oar_report.projects").fetchall())
    assert left["physics"] == 0


def test_rest_and_pages_do_what_the_command_does(connection: Connection, dsn: str) -> None:
    for name, parent in (("physics", None), ("fire", "physics")):
        connection.execute("INSERT INTO projects (project, parent) VALUES (%s, %s)", [name, parent])
    connection.execute(
        "INSERT INTO project_members (project, user_name, role) VALUES ('physics', %s, 'coordinator')", [ANN]
    )
    with web_client(web_settings(dsn)) as client:
        ann, bob = (token(connection, user) for user in (ANN, BOB))
        admin = token(connection, ME, Scope.ADMIN)
        assert client.get("/api/v1/projects", headers=bob).json() == []
        assert client.get("/api/v1/projects/fire", headers=bob).status_code == 404
        assert client.post("/api/v1/projects", json={"project": "ice"}, headers=ann).status_code == 403
        made = client.post("/api/v1/projects", json={"project": "ice", "hours": 5, "parent": "fire"}, headers=admin)
        assert (made.status_code, made.json()["hours"]) == (201, 5)
        assert client.patch("/api/v1/projects/ice", json={"hours": None}, headers=admin).json()["hours"] is None
        assert client.patch("/api/v1/projects/ice", json={"share": 3}, headers=ann).json()["share"] == 3
        assert client.patch("/api/v1/projects/ice", json={"hours": 3}, headers=ann).status_code == 403
        assert client.put(f"/api/v1/projects/ice/members/{BOB}", json={}, headers=bob).status_code == 404
        added = client.put(f"/api/v1/projects/ice/members/{BOB}", json={}, headers=ann)
        assert added.json()["members"] == [{"user": BOB, "role": "member", "preferred": False}]
        role = {"role": "coordinator"}
        assert client.put(f"/api/v1/projects/ice/members/{BOB}", json=role, headers=ann).json()["members"][0][
            "role"
        ] == ("coordinator")
        html = {"Accept": "text/html"}
        assert "/projects/ice" in client.get("/projects", headers={**html, **bob}).text
        page = client.get("/projects/ice", headers={**html, **bob}).text
        assert "Add a member" in page
        assert client.get("/projects/fire", headers={**html, **bob}).status_code == 404
        assert ">Projects</a>" in client.get("/queues", headers={**html, **bob}).text
        asked = client.get("/confirm/add-member?project=ice&user=eve&role=member", headers={**html, **bob})
        assert "Make eve a member of project ice?" in asked.text
        assert client.delete(f"/api/v1/projects/ice/members/{BOB}", headers=ann).json()["members"] == []
        assert client.delete("/api/v1/projects/ice", headers=admin).json() == {"removed": "ice"}
    rows = connection.execute("SELECT changed_by, content ->> 'share' FROM project_changes WHERE relation = 'projects'")
    assert (ANN, "3") in rows.fetchall()


def test_gpus_are_billed_by_their_weight(
    connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU and a core for two hours are 42 units: two jobs fit in 100, the third waits; what ran is billed."""
    monkeypatch.setenv("OARPY_ACCOUNTING_WEIGHTS", "core=1,gpu=20")
    connection.execute("UPDATE resources SET gpu = 'g' || cpu WHERE type = 'default'")
    done(oarsub, "create", "fire", "--hours", "100", "--when-spent", "wait")
    done(oarsub, "member", "add", "fire", ME)
    jobs = [oarsub.job_id("-l", "/gpu=1/core=1,walltime=2", "date") for _ in range(3)]
    run_pass(connection)
    answer = why(oarsub, jobs[2])
    assert answer["reason_data"]["budget"] == {"project": "fire", "hours": 100, "left": 16}
    use = "SELECT held_hours, asked_hours FROM oar_report.projects"
    assert connection.execute(use).fetchall() == [(84, 42)]
    end(connection, jobs[0], 1)
    used = "SELECT used_hours FROM oar_report.projects"
    assert connection.execute(used).fetchall() == [(pytest.approx(21, abs=0.1),)]
    account(connection, 86400)
    assert connection.execute(used).fetchall() == [(pytest.approx(21, abs=0.1),)]


def test_consumables_and_shares_of_gpus_are_billed_by_their_weights(
    connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A core, half a GPU and 3 GiB for two hours are 2 + 20 + 12 units: two jobs fit in 70, the third waits."""
    monkeypatch.setenv("OARPY_ACCOUNTING_WEIGHTS", "core=1,gpu=20,memory=2")
    connection.execute("UPDATE resources SET gpu = 'g' || cpu WHERE type = 'default'")
    for consumable in (("gpu_share", "gpu", "count", "100"), ("memory", "network_address", "bytes", "64G")):
        name, level, unit, amount = consumable
        connection.execute("INSERT INTO consumables VALUES (%s, %s, %s)", [name, level, unit])
        connection.execute(
            sql.SQL(
                "INSERT INTO consumable_capacities (consumable, block, capacity)"
                " SELECT %s, {0}, %s FROM resources WHERE {0} IS NOT NULL GROUP BY {0}"
            ).format(sql.Identifier(level)),
            [name, parse_amount(amount)],
        )
    done(oarsub, "create", "fire", "--hours", "70", "--when-spent", "wait")
    done(oarsub, "member", "add", "fire", ME)
    jobs = [oarsub.job_id("-l", "/core=1,gpu_share=50,memory=3G,walltime=2", "date") for _ in range(3)]
    run_pass(connection)
    assert why(oarsub, jobs[2])["reason_data"]["budget"] == {"project": "fire", "hours": 70, "left": 2}
    use = "SELECT held_hours, asked_hours FROM oar_report.projects"
    assert connection.execute(use).fetchall() == [(68, 34)]
    end(connection, jobs[0], 1)
    used = "SELECT used_hours FROM oar_report.projects"
    assert connection.execute(used).fetchall() == [(pytest.approx(17, abs=0.1),)]
    account(connection, 86400)
    assert connection.execute(used).fetchall() == [(pytest.approx(17, abs=0.1),)]
    (row,) = json.loads(oarsub("--accounting", "2020-01-01, 2099-01-01", "-J", command="oarstat").out)
    assert row["billed"] == pytest.approx(17, abs=0.1)
    assert recount.differences(connection, 86400) == []
