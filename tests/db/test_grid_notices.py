"""What users asked to be told of their grid jobs reaches them, once, by the notifier of all jobs."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from oarpy import configuration
from oarpy.model.states import GridJobState
from oarpy.store.grid import broker_jobs, clusters
from oarpy.store.grid.broker_jobs import NewGridComponent, NewGridJob
from oarpy.store.jobs import notices
from oarpy.store.jobs.notices import NoticeRow
from tests.harness.claim_rounds import ClaimRounds
from tests.harness.mail_server import MailServer, mail_server
from tests.harness.notifier_desk import Desk
from tests.harness.oarsub_cluster import Submitter
from tests.harness.small_cluster import SETTINGS, Connection

pytestmark = pytest.mark.db
ME = pwd.getpwuid(os.getuid()).pw_name
TO_ANN = "mail:ann@site.org"


@pytest.fixture
def post() -> Iterator[MailServer]:
    with mail_server() as running:
        yield running


@pytest.fixture
def desk(connection: Connection, post: MailServer) -> Desk:
    mail = configuration.Mail(server=f"127.0.0.1:{post.port}", cluster_name="here", timeout=5.0, retry_delay=0.0)
    return Desk(connection, replace(SETTINGS, mail=mail))


@pytest.fixture
def rounds(connection: Connection) -> ClaimRounds:
    return ClaimRounds(connection)


def mapped(connection: Connection, notify: str, user: str = ME, copies: int = 1) -> list[int]:
    """Submit jobs for any cluster."""
    job = NewGridJob(user, "mapped", "date", 60, (NewGridComponent("/core=1", 1),), job_name="run", notify=notify)
    return broker_jobs.insert(connection, job, copies)


def live(connection: Connection, *jobs: int) -> None:
    """Have jobs wait, run and end."""
    for state in (GridJobState.MAPPED, GridJobState.RUNNING, GridJobState.TERMINATED):
        broker_jobs.move(connection, jobs, state)


def queued(connection: Connection) -> list[tuple[int | None, str]]:
    """Grid job and tag of what is still to be told."""
    return connection.execute("SELECT grid_job_id, tag FROM notices ORDER BY notice_id").fetchall()


def test_who_missed_the_deadline_is_told_why(desk: Desk, post: MailServer, rounds: ClaimRounds) -> None:
    job = rounds.submit(deadline=400, components=5, notify=TO_ANN)
    rounds.until(410)
    row = rounds.job(job)
    assert (row.state, bool(row.message)) == (GridJobState.MISSED, True)
    desk.tell()
    (mail,) = post.mails
    assert (mail["Subject"], mail["To"]) == (f"*OAR* [ERROR]: grid job {job} () on here", "ann@site.org")
    said = mail.get_payload(decode=True).decode().splitlines()  # type: ignore[union-attr]
    assert said == [f"Job did not start at its deadline. {row.message}", "", f"Grid job {job} of alice"]
    assert queued(rounds.connection) == []


@pytest.mark.parametrize("named", [False, True])
def test_the_life_of_components_is_mailed_in_order(
    desk: Desk, post: MailServer, rounds: ClaimRounds, *, named: bool
) -> None:
    job = rounds.reserve(400, "north", "south", notify=TO_ANN) if named else rounds.submit(deadline=400, notify=TO_ANN)
    rounds.until(410)
    desk.tell()
    rounds.until(520)
    desk.tell()
    assert post.subjects() == [f"*OAR* [{tag}]: grid job {job} () on here" for tag in ("RUNNING", "END")]


def test_a_cluster_that_tells_all_again_and_a_killed_broker_are_no_news(
    desk: Desk, post: MailServer, rounds: ClaimRounds
) -> None:
    job = rounds.submit(deadline=400, notify=TO_ANN)
    for seconds in (410, 420, 520, 530):
        rounds.until(seconds)
        desk.tell()
        rounds.kill()
        for name in rounds.clusters:
            clusters.forget_events(rounds.connection, name)
    assert rounds.job(job).state is GridJobState.TERMINATED
    assert [subject.split()[1] for subject in post.subjects()] == ["[RUNNING]:", "[END]:"]


def test_jobs_of_an_array_are_told_each_and_with_the_tags_asked_for(
    connection: Connection, desk: Desk, post: MailServer
) -> None:
    first, second = mapped(connection, "[END,ERROR]mail:ann", copies=2)
    live(connection, first)
    broker_jobs.move(connection, [second], GridJobState.ERROR, "no cluster takes it")
    desk.tell()
    assert post.subjects() == [
        f"*OAR* [END]: grid job {first} (run) on here",
        f"*OAR* [ERROR]: grid job {second} (run) on here",
    ]
    assert "an error occurred. no cluster takes it" in str(post.mails[1].get_payload())


def test_a_job_without_notify_leaves_nothing(connection: Connection, desk: Desk, rounds: ClaimRounds) -> None:
    live(connection, *mapped(connection, ""))
    missed = rounds.submit(deadline=400, components=5)
    rounds.until(410)
    assert (rounds.job(missed).state, queued(connection)) == (GridJobState.MISSED, [])


def test_a_change_by_hand_wakes_the_notifier(connection: Connection, desk: Desk, dsn: str) -> None:
    (job,) = mapped(connection, TO_ANN)
    with psycopg.connect(dsn, autocommit=True) as listener:
        listener.execute("LISTEN oarpy_events")
        connection.execute("UPDATE grid_jobs SET state = 'Missed', ended_at = now() WHERE id = %s", [job])
        heard = {note.payload for note in listener.notifies(timeout=10, stop_after=2)}
    assert heard == {"grid job changed", "notice queued"}
    assert queued(connection) == [(job, "ERROR")]


def test_a_notice_is_of_one_job(connection: Connection, desk: Desk) -> None:
    values = [desk.cluster.submit(), *mapped(connection, "")]
    with pytest.raises(psycopg.errors.CheckViolation, match="notices_of_one_job"):
        connection.execute("INSERT INTO notices (job_id, grid_job_id, tag, comment) VALUES (%s, %s, 'END', '')", values)


def test_a_command_gets_number_name_tag_and_comment(connection: Connection, desk: Desk, tmp_path: Path) -> None:
    script = tmp_path / "told.sh"
    script.write_text(f'#!/bin/sh\nprintf "%s|" "$@" "$USER" >> {tmp_path}/out; echo >> {tmp_path}/out\n')
    script.chmod(0o755)
    (job,) = mapped(connection, f"exec:{script} extra")
    live(connection, job)
    desk.tell()
    # one of a job at a time, so in their order
    assert (tmp_path / "out").read_text().splitlines() == [
        f"extra|{job}|run|RUNNING|Job is running.|{ME}|",
        f"extra|{job}|run|END|Job stopped normally.|{ME}|",
    ]
    assert queued(connection) == []


def test_limits_hold_over_both_kinds_of_jobs(connection: Connection, desk: Desk) -> None:
    number = desk.cluster.submit(user="ann", notify="[RUNNING]exec:true")
    desk.cluster.settle()
    other = mapped(connection, "exec:true", "ann")[0]
    same = mapped(connection, "exec:true", "bob")[0]
    live(connection, other, same)

    def due(*busy: NoticeRow, users: tuple[str, ...] = ()) -> set[str]:
        return {row.subject for row in notices.due(connection, busy, users, 100)}

    everything = {f"job {number}", f"grid job {other}", f"grid job {same}"}
    assert due() == everything
    assert due(users=("ann",)) == {f"grid job {same}"}
    for row in notices.due(connection, (), (), 100):
        assert due(row) == everything - {row.subject}


def test_a_failure_is_an_event_that_names_the_grid_job(connection: Connection, desk: Desk, post: MailServer) -> None:
    post.refusals.append("550 nobody here")
    (job,) = mapped(connection, "[END]mail:nobody")
    live(connection, job)
    desk.tell()
    ((number, text),) = connection.execute(
        "SELECT job_id, description FROM event_logs WHERE type = 'USER_MAIL_NOTIFICATION_ERROR'"
    ).fetchall()
    assert number is None
    assert text.startswith(f"grid job {job}, notice END: ")
    assert "550 nobody here" in text
    assert (queued(connection), post.mails) == ([], [])


@pytest.mark.parametrize(
    "words", [("-l", "/core=1", "--array", "2", "date"), ("--answer-timeout", "0", "a:rdef=/core=1")]
)
def test_the_command_takes_what_oarsub_takes(connection: Connection, oarsub: Submitter, words: tuple[str, ...]) -> None:
    clusters.put(connection, "a", "oarpy", ["oargriddoor", "campus"])
    oarsub("--notify", " [END]mail:ann@site.org", *words, command="oargridsub")
    shown = json.loads(oarsub("--json", command="oargridstat").out)
    assert {job["notify"] for job in shown} == {"[END]mail:ann@site.org"}
    stored = len(shown)
    for wrong in ("ann", "[LATE]mail:ann", "exec:rm;ls"):
        refused = oarsub("--notify", wrong, *words, command="oargridsub")
        known = oarsub("--notify", wrong, "date")
        assert (refused.status, refused.out, refused.err.count("\n")) == (2, "", 1)
        assert refused.err == known.err.replace("oarsub:", "oargridsub:")
    assert len(broker_jobs.of_everybody(connection)) == stored
