"""What users asked to be told of their jobs reaches them: a real mail server, real commands, one row at a time."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from oarpy import configuration
from oarpy.modules.notifier.notifier import Notifier
from oarpy.transport.wakeup import readable
from tests.harness.mail_server import MailServer, mail_server
from tests.harness.notifier_desk import Desk
from tests.harness.small_cluster import SETTINGS, Connection

pytestmark = [pytest.mark.db, pytest.mark.oldest, pytest.mark.kept]

DEADLINE = 30.0
ME = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def post() -> Iterator[MailServer]:
    with mail_server() as running:
        yield running


@pytest.fixture
def make_desk(connection: Connection) -> Callable[..., Desk]:
    def make(**mail: Any) -> Desk:
        settings = replace(SETTINGS, mail=configuration.Mail(**{"cluster_name": "here", "timeout": 5.0, **mail}))
        return Desk(connection, settings)

    return make


@pytest.fixture
def desk(make_desk: Callable[..., Desk], post: MailServer) -> Desk:
    return make_desk(server=f"127.0.0.1:{post.port}", recipient="root@here", retry_delay=0.0, attempts=3)


def test_the_life_of_a_job_is_mailed_in_order(desk: Desk, post: MailServer) -> None:
    job = desk.cluster.submit(notify="mail:ann@site.org", name="first")
    other = desk.cluster.submit(name="silent")
    desk.cluster.settle()
    desk.cluster.end(job)
    desk.cluster.end(other)
    desk.cluster.settle()
    desk.tell()
    assert post.subjects() == [f"*OAR* [{tag}]: {job} (first) on here" for tag in ("RUNNING", "END")]
    assert [mail["To"] for mail in post.mails] == ["ann@site.org"] * 2
    assert "Job stopped normally." in str(post.mails[-1].get_payload())
    assert desk.rows() == []
    assert post.connections == 1


def test_only_the_tags_asked_for_are_told(desk: Desk, post: MailServer) -> None:
    job = desk.cluster.submit(notify="[ERROR,INFO]mail:ann")
    desk.cluster.settle()
    desk.cluster.sql("INSERT INTO event_logs (type, job_id, description) VALUES ('CHECKPOINT', %s, 'asked')", job)
    desk.cluster.delete(job)
    desk.cluster.settle()
    desk.tell()
    assert [subject.split()[1] for subject in post.subjects()] == ["[INFO]:", "[INFO]:", "[ERROR]:"]
    bodies = [str(mail.get_payload()) for mail in post.mails]
    assert "CHECKPOINT: asked" in bodies[0]
    assert "KILLED: killed: oardel" in bodies[1]
    assert "killed: oardel" in bodies[2]
    assert desk.rows() == []


def test_suspension_and_resumption_have_their_tags(desk: Desk, post: MailServer) -> None:
    job = desk.cluster.submit(notify="mail:ann")
    desk.cluster.settle()
    for state in ("Suspended", "Resuming", "Running"):
        desk.cluster.sql("UPDATE jobs SET state = %s WHERE job_id = %s", state, job)
    desk.tell()
    assert [subject.split()[1] for subject in post.subjects()] == ["[RUNNING]:", "[SUSPENDED]:", "[RESUMING]:"]


def test_a_server_that_refuses_for_now_is_tried_again(desk: Desk, post: MailServer) -> None:
    post.refusals += ["451 later", "421 later still"]
    job = desk.cluster.submit(notify="[END]mail:ann", command="true")
    desk.cluster.settle()
    for _ in range(3):
        desk.tell()
        desk.round()
        desk.tell()
    assert post.subjects() == [f"*OAR* [END]: {job} () on here"]
    assert desk.rows() == []
    assert "USER_MAIL_NOTIFICATION_ERROR" not in desk.cluster.events(job)


def test_tries_are_bounded_then_an_event_says_so(desk: Desk, post: MailServer) -> None:
    post.refusals += ["451 never"] * 10
    job = desk.cluster.submit(notify="[END]mail:ann", command="true")
    desk.cluster.settle()
    for _ in range(10):
        desk.tell()
    assert desk.rows() == []
    assert len(post.refusals) == 10 - 3
    assert desk.cluster.events(job) == ["USER_MAIL_NOTIFICATION_ERROR"]


def test_a_refused_address_is_not_tried_again(desk: Desk, post: MailServer) -> None:
    post.refusals.append("550 nobody here")
    job = desk.cluster.submit(notify="[END]mail:nobody", command="true")
    desk.cluster.settle()
    desk.tell()
    assert (desk.rows(), post.mails) == ([], [])
    ((text,),) = desk.cluster.sql("SELECT description FROM event_logs WHERE job_id = %s", job)
    assert "550 nobody here" in text


def test_a_dead_server_delays_and_nothing_is_lost(make_desk: Callable[..., Desk]) -> None:
    with mail_server() as post:
        port = post.port
    desk = make_desk(server=f"127.0.0.1:{port}", retry_delay=3600.0)
    job = desk.cluster.submit(notify="[END]mail:ann", command="true")
    desk.cluster.settle()
    desk.tell()
    assert desk.rows() == [(job, "END")]
    assert desk.cluster.sql("SELECT attempts, due > now() + interval '30 minutes' FROM notices") == [(1, True)]
    desk.cluster.sql("UPDATE notices SET due = now()")
    with mail_server(port) as post:
        desk.tell()
        assert len(post.mails) == 1
    assert desk.rows() == []


def test_without_a_mail_server_an_event_says_so(make_desk: Callable[..., Desk]) -> None:
    desk = make_desk()
    job = desk.cluster.submit(notify="[END]mail:ann", command="true")
    desk.cluster.settle()
    desk.tell()
    assert (desk.rows(), desk.cluster.events(job)) == ([], ["USER_MAIL_NOTIFICATION_ERROR"])


def test_a_notifier_killed_in_between_tells_it_again(desk: Desk, post: MailServer) -> None:
    desk.cluster.submit(notify="[END]mail:ann", command="true")
    desk.cluster.settle()
    desk.round()
    until = time.monotonic() + DEADLINE
    while not post.mails:
        assert time.monotonic() < until
        time.sleep(0.01)
    # told, not recorded: its successor finds the row, and the mail has the same identity
    desk.notifier = Notifier(desk.cluster.settings)
    desk.tell()
    assert len({str(mail["Message-ID"]) for mail in post.mails}) == 1
    assert (len(post.mails), desk.rows()) == (2, [])


def test_the_admin_is_told_of_nodes(desk: Desk, post: MailServer) -> None:
    desk.cluster.sql("INSERT INTO event_logs (type, hosts, description) VALUES ('NODE_LOST', '{n1,n2}', E'no\nanswer')")
    desk.tell()
    assert post.subjects() == ["*OAR* [ADMIN]: NODE_LOST n1 n2: no answer on here"]
    assert post.mails[0]["To"] == "root@here"


def test_an_admin_who_wants_no_mail_gets_none(make_desk: Callable[..., Desk], post: MailServer) -> None:
    desk = make_desk(server=f"127.0.0.1:{post.port}")
    desk.cluster.sql("INSERT INTO event_logs (type, hosts) VALUES ('NODE_LOST', '{n1}')")
    desk.tell()
    assert (desk.rows(), post.mails) == ([], [])


def _script(folder: Path, text: str) -> Path:
    path = folder / "told.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_command_gets_job_name_tag_and_comment(desk: Desk, tmp_path: Path) -> None:
    script = _script(tmp_path, f'printf "%s|" "$@" "$USER" >> {tmp_path}/out; echo >> {tmp_path}/out')
    job = desk.cluster.submit(user=ME, name="run", notify=f"exec:{script} extra", command="true")
    desk.cluster.settle()
    desk.tell()
    # one of a job at a time, so in their order
    assert (tmp_path / "out").read_text().splitlines() == [
        f"extra|{job}|run|RUNNING|Job is running.|{ME}|",
        f"extra|{job}|run|END|Job stopped normally.|{ME}|",
    ]
    assert (desk.rows(), desk.cluster.events(job)) == ([], [])


@pytest.mark.skipif(os.getuid() != 0, reason="becoming another user needs root")
def test_a_command_runs_as_the_user(desk: Desk, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents:
        if parent != Path("/") and parent.owner() == ME and parent != Path("/tmp"):
            parent.chmod(parent.stat().st_mode | 0o011)
    script = _script(tmp_path, f"id -un > {tmp_path}/who; id -G > {tmp_path}/groups")
    desk.cluster.submit(user="nobody", notify=f"[END]exec:{script}", command="true")
    desk.cluster.settle()
    desk.tell()
    assert (tmp_path / "who").read_text() == "nobody\n"
    assert (tmp_path / "groups").read_text().split() == [str(pwd.getpwnam("nobody").pw_gid)]


def test_a_prefix_decides_who_runs_it(connection: Connection, tmp_path: Path) -> None:
    script = _script(tmp_path, f'echo "$FOR $1" > {tmp_path}/out')
    jobs = replace(SETTINGS.jobs, notify_prefix=("env", "FOR=%u"))
    desk = Desk(connection, replace(SETTINGS, jobs=jobs))
    job = desk.cluster.submit(user=ME, notify=f"[END]exec:{script}", command="true")
    desk.cluster.settle()
    desk.tell()
    assert (tmp_path / "out").read_text() == f"{ME} {job}\n"


@pytest.mark.parametrize(
    ("text", "user", "expected"),
    [
        ("exit 3", ME, "exit status 3"),
        ("sleep 100 & sleep 100", ME, "ended after 0.5 s"),
        ("true", "no-such-user", "does not exist"),
    ],
)
def test_a_command_that_fails_is_an_event(
    connection: Connection, tmp_path: Path, text: str, user: str, expected: str
) -> None:
    script = _script(tmp_path, text)
    desk = Desk(connection, replace(SETTINGS, jobs=replace(SETTINGS.jobs, notify_timeout=0.5)))
    job = desk.cluster.submit(user=user, notify=f"[END]exec:{script}", command="true")
    desk.cluster.settle()
    desk.tell()
    ((kind, description),) = desk.cluster.sql("SELECT type, description FROM event_logs WHERE job_id = %s", job)
    assert kind == "USER_EXEC_NOTIFICATION_ERROR"
    assert expected in description


def test_one_users_slow_commands_do_not_hold_up_another(connection: Connection, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    slow, quick = tmp_path / "slow.sh", tmp_path / "quick.sh"
    slow.write_text(f"#!/bin/sh\nwhile [ ! -e {gate} ]; do sleep 0.05; done\n")
    quick.write_text(f"#!/bin/sh\ntouch {tmp_path}/done\n")
    for path in (slow, quick):
        path.chmod(0o755)
    # the prefix stands for becoming the users, whom this machine need not have
    desk = Desk(connection, replace(SETTINGS, jobs=replace(SETTINGS.jobs, notify_prefix=("env",))))
    for _ in range(3):
        desk.cluster.submit(user=ME, notify=f"[RUNNING]exec:{slow}")
    desk.cluster.submit(user="nobody", notify=f"[RUNNING]exec:{quick}")
    desk.cluster.settle()
    until = time.monotonic() + DEADLINE
    while not (tmp_path / "done").exists():
        assert time.monotonic() < until, "the other user waits"
        desk.round()
        readable(desk.notifier.files(), 0.05)
    assert {job for job, _ in desk.rows()} >= {1, 2, 3}
    gate.touch()
    desk.tell()
    assert desk.rows() == []


def test_a_job_without_notify_leaves_nothing(desk: Desk) -> None:
    job = desk.cluster.submit(command="true")
    desk.cluster.settle()
    assert desk.cluster.state(job) == "Terminated"
    assert desk.rows() == []


def test_the_queue_follows_changes_by_hand(desk: Desk, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as listener:
        listener.execute("LISTEN oarpy_events")
        job = desk.cluster.submit(notify="mail:ann")
        desk.cluster.sql(
            "UPDATE jobs SET state = 'Error', ended_at = now(), message = 'by hand' WHERE job_id = %s", job
        )
        heard = {note.payload for note in listener.notifies(timeout=1, stop_after=4)}
    assert "notice queued" in heard
    assert desk.cluster.sql("SELECT comment FROM notices") == [
        ("Job stopped abnormally or an error occurred. by hand",)
    ]
