"""``oarproject report``: what projects used in a month, printed, and mailed to their coordinators by a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from oarpy.modules.accounting import account
from tests.harness.mail_server import MailServer, mail_server
from tests.harness.oarsub_cluster import Connection, Submitter, contents, run_pass
from tests.harness.sample_cluster import ME

pytestmark = pytest.mark.db


@pytest.fixture
def post(monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    with mail_server() as running:
        for name, value in (
            ("SERVER", f"127.0.0.1:{running.port}"),
            ("DOMAIN", "site.org"),
            ("CLUSTER_NAME", "here"),
            ("TIMEOUT", "5"),
        ):
            monkeypatch.setenv(f"OARPY_MAIL_{name}", value)
        yield running


@pytest.fixture
def month(connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch) -> str:
    """A month in which a job of fire, below physics, used something; ann and bob coordinate physics, ann fire."""
    monkeypatch.setenv("OARPY_SUBMISSION_PROJECTS", "members")
    for words in (
        "create physics",
        "create fire --parent physics --hours 100",
        "create art",
        f"member add fire {ME}",
        "member add fire ann --role coordinator",
        "member add physics ann bob@lab.org --role coordinator",
    ):
        assert oarsub(*words.split(), command="oarproject").status == 0
    job = oarsub.job_id("-l", "/core=2,walltime=1", "date")
    run_pass(connection)
    connection.execute("UPDATE jobs SET state = 'Finishing', final_state = 'Terminated' WHERE job_id = %s", [job])
    connection.execute(
        "UPDATE jobs SET state = 'Terminated', started_at = now() - interval '30 minutes', ended_at = now(),"
        " exit_status = 0, left_nothing = true WHERE job_id = %s",
        [job],
    )
    account(connection, 86400)
    (found,) = connection.execute(
        "SELECT to_char(min(window_start) AT TIME ZONE 'UTC', 'YYYY-MM') FROM accounting"
        " WHERE consumption_type = 'USED'"
    ).fetchone() or ("",)
    return str(found)


def test_a_month_of_projects_is_printed(oarsub: Submitter, month: str) -> None:
    result = oarsub("report", "physics", "art", "--month", month, command="oarproject")
    assert (result.status, result.err) == (0, "")
    physics, art = result.out.split("Project art in ")
    assert physics.startswith(f"Project physics in {month} (UTC)\n\nUsers\n\nUser ")
    assert [line.split()[0] for line in physics.splitlines() if line.startswith((f"{ME} ", "fire ", "default "))] == [
        ME,
        "fire",
        "default",
    ]
    assert art.startswith(f"{month} (UTC)\n\nNo job of it used anything.\n")
    (document,) = json.loads(oarsub("report", "fire", "--month", month, "-J", command="oarproject").out)
    assert (document["project"], document["month"]) == ("fire", month)
    assert [row["user_name"] for row in document["tables"]["users"]] == [ME]
    assert oarsub("report", command="oarproject").status == 0, "the last month, of all"


def test_a_report_has_billing_units_where_weights_are_set(
    connection: Connection, oarsub: Submitter, post: MailServer, month: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two cores for half an hour are one hour; a project with a weight of 3, at 2 a core, is billed 6 for it."""

    def rows() -> list[dict[str, object]]:
        (document,) = json.loads(oarsub("report", "physics", "--month", month, "-J", command="oarproject").out)
        return [row for name in ("users", "projects", "queues") for row in document["tables"][name]]

    assert all("billed_hours" not in row for row in rows()), "hours of cores tell everything"
    assert oarsub("change", "fire", "--weight", "3", command="oarproject").status == 0
    assert [row["billed_hours"] for row in rows()] == [pytest.approx(3, abs=0.1)] * 3
    monkeypatch.setenv("OARPY_ACCOUNTING_WEIGHTS", "core=2,gpu=20")
    run_pass(connection)
    assert [(row["used_hours"], row["billed_hours"]) for row in rows()] == [
        (pytest.approx(1, abs=0.1), pytest.approx(6, abs=0.1))
    ] * 3
    (month_start,) = connection.execute("SELECT min(window_start) FROM accounting").fetchone() or (None,)
    for queue, consumption in (("default", 1800), ("besteffort", 360000)):
        connection.execute(
            "INSERT INTO accounting (window_start, window_stop, user_name, project, queue_name, consumption_type,"
            " consumption) VALUES (%s, %s + interval '1 day', 'ann', 'fire', %s, 'GPU_USED', %s)",
            [month_start, month_start, queue, consumption],
        )
    assert [row["billed_hours"] for row in rows() if row.get("user_name") == "ann"] == [30], "half an hour of a GPU"
    assert oarsub("report", "fire", "--month", month, "--mail", command="oarproject").status == 0
    mailed = post.mails[0].get_payload(decode=True)
    assert isinstance(mailed, bytes)
    assert "Used hours Asked hours Billed hours Jobs" in " ".join(mailed.decode().split())


def test_reports_are_mailed_to_coordinators(oarsub: Submitter, post: MailServer, month: str) -> None:
    result = oarsub("report", "--month", month, "--mail", command="oarproject")
    assert (result.status, result.out) == (0, "art: no coordinator\nfire: ann\nphysics: ann, bob@lab.org\n"), result
    assert [(mail["To"], mail["Subject"]) for mail in post.mails] == [
        ("ann@site.org", f"Project fire on here in {month}"),
        ("ann@site.org", f"Project physics on here in {month}"),
        ("bob@lab.org", f"Project physics on here in {month}"),
    ]
    assert len({mail["Message-ID"] for mail in post.mails}) == 3
    printed = oarsub("report", "fire", "--month", month, command="oarproject").out
    mailed = post.mails[0].get_payload(decode=True)
    assert isinstance(mailed, bytes)
    # the forecast of when hours are used up is of the second in which it is made
    by_mail, by_command = (text.replace("\r\n", "\n").split("\nToday\n") for text in (mailed.decode(), printed))
    assert (by_mail[0], len(by_mail)) == (by_command[0], 2)


def test_what_cannot_be_mailed_is_told(
    connection: Connection, oarsub: Submitter, post: MailServer, month: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(connection)
    post.refusals.append("550 no such user")
    result = oarsub("report", "--month", month, "--mail", command="oarproject")
    assert (result.status, result.err.count("\n")) == (1, 1)
    said = "1 of 3 mails were not sent, of projects fire; the first to ann@site.org: refused by the mail server: 550"
    assert said in result.err
    assert len(post.mails) == 2
    monkeypatch.setenv("OARPY_MAIL_SERVER", "")
    with monkeypatch.context() as patch:
        patch.setattr("oarpy.client.session.is_administrator", lambda *_: False)
        assert oarsub("report", "fire", "--mail", command="oarproject").status == 5
    for words, status, said in (
        ("report --mail", 2, "no mail server is configured"),
        ("report snow", 4, "there is no project 'snow'"),
        ("report --month 2026-13", 2, "'2026-13' is no month"),
        ("report --month 9999-12", 2, "month 9999-12 is to come"),
    ):
        result = oarsub(*words.split(), command="oarproject")
        assert (result.status, result.out, result.err.count("\n")) == (status, "", 1), (words, result)
        assert said in result.err
    assert contents(connection) == before


def test_all_projects_whose_mails_failed_are_named(
    connection: Connection, oarsub: Submitter, post: MailServer, month: str
) -> None:
    """A coordinator whose name makes no address keeps no report from the others."""
    assert oarsub(*["member", "add", "art", "zoe@.org", "--role", "coordinator"], command="oarproject").status == 0
    post.refusals.append("550 no such user")
    result = oarsub("report", "--month", month, "--mail", command="oarproject")
    assert (result.status, result.out) == (1, "")
    assert result.err == (
        "oarproject: 2 of 4 mails were not sent, of projects art, fire; the first to zoe@.org: 'zoe@.org' is no mail"
        " address (name these projects to send their reports again, and no other twice)\n"
    )
    assert [mail["To"] for mail in post.mails] == ["ann@site.org", "bob@lab.org"]
