"""Real users of this machine, through a real gateway: nobody acts as another, or sees what is another's."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oarpy.wire.frames import Channel, pack_message
from oarpy.wire.openings import Speaker
from tests.harness.gateway_process import GatewayProcess, final, gateway, request
from tests.harness.oarsub_cluster import build
from tests.harness.sample_cluster import Connection

pytestmark = [
    pytest.mark.db,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can become other users"),
]

GAMES, DAEMON, NOBODY = (pwd.getpwnam(name).pw_uid for name in ("games", "daemon", "nobody"))
PASSWORD = "correct-horse"


@pytest.fixture
def running(connection: Connection, cluster_environment: dict[str, str]) -> Iterator[GatewayProcess]:
    """A gateway for which ``daemon`` is an admin; its configuration file is root's alone."""
    build(connection)
    Path(cluster_environment["OARPY_CONFIG"]).chmod(0o600)
    settings = {"OARPY_SUBMISSION_ADMINS": "daemon", "OARPY_SUBMISSION_REFUSED_USERS": "oar,root"}
    with gateway({**cluster_environment, **settings}, workers=1) as found:
        yield found


@pytest.fixture
def job(running: GatewayProcess) -> str:
    """A job of ``games``, with a secret in its environment and on its command line."""
    done = running.run("oarsub", "--hold", "-n", "theirs", "run", uid=GAMES, cwd="/tmp", PASSWORD=PASSWORD)
    assert (done.status, done.out, done.err) == (0, "OAR_JOB_ID=1\n", "")
    return "1"


PRETENDED = [
    {"USER": "games", "LOGNAME": "games", "SUDO_USER": "games", "SUDO_UID": str(GAMES), "OAR_USER": "games"},
    {"USER": "root", "LOGNAME": "root", "OARPY_SUBMISSION_ADMINS": "nobody", "OARDO_USER": "root"},
    {"OARPY_CONFIG": "/dev/null", "OARPY_DEBUG": "1", "PGUSER": "postgres", "PYTHONSTARTUP": "/tmp/x"},
]


@pytest.mark.parametrize("variables", PRETENDED)
def test_a_job_belongs_to_who_the_kernel_says(
    running: GatewayProcess, connection: Connection, variables: dict[str, Any]
) -> None:
    for uid, name in ((GAMES, "games"), (NOBODY, "nobody")):
        assert running.run("oarsub", "date", uid=uid, **variables).status == 0
        last = connection.execute("SELECT user_name FROM jobs ORDER BY job_id DESC LIMIT 1").fetchone()
        assert last == (name,)
    assert running.run("oarsub", "date", **variables).status == 3, "root is refused, whatever its environment says"


FORBIDDEN = [
    ("oardel", "1"),
    ("oardel", "-s", "USR1", "1"),
    ("oardel", "-c", "1"),
    ("oardel", "--array", "1"),
    ("oardel", "--sql", "job_user = 'games'"),
    ("oaralter", "1", "-n", "mine"),
    ("oarhold", "1"),
    ("oarresume", "1"),
    ("oarsub", "--resubmit", "1"),
    ("oarnodesetting", "-r", "1", "-s", "Dead"),
    ("oarnodesetting", "-a", "-h", "new"),
    ("oarnodesetting", "-h", "n2", "-p", "mem=1"),
    ("oarproperty", "-a", "mine"),
    ("oarproperty", "-d", "mem"),
    ("oarproperty", "-r", "mem,memory"),
    ("oarqueue", "--add", "mine,9,fifo"),
    ("oarqueue", "--change", "default,9,fifo"),
    ("oarqueue", "--remove", "closed"),
    ("oarqueue", "-d", "default"),
    ("oarqueue", "-E"),
    ("oaraccounting",),
    ("oaraccounting", "--reinitialize"),
    ("oaraccounting", "--delete-before", "2026-01-01"),
    ("oaradmin", "resources", "add", "/host=x[1-2]"),
    ("oaradmin", "resources", "delete", "1"),
    ("oaradmissionrules", "add", "mine", "--file", "/etc/hostname"),
    ("oaradmissionrules", "edit", "besteffort", "--priority", "1"),
    ("oaradmissionrules", "edit", "besteffort"),
    ("oaradmissionrules", "enable", "besteffort"),
    ("oaradmissionrules", "disable", "besteffort"),
    ("oaradmissionrules", "delete", "besteffort"),
    ("oaradmissionrules", "load-defaults"),
    ("oaradmissionrules", "test", "mine", "--file", "/etc/hostname"),
]


def state(connection: Connection) -> list[object]:
    """Return what a forbidden command might have changed."""
    tables = ("jobs", "resources", "queues", "admission_rules", "kill_requests", "signal_requests", "accounting")
    found: list[object] = []
    for table in tables:
        found += connection.execute(f"SELECT t::text FROM {table} AS t ORDER BY 1").fetchall()  # noqa: S608
    return found


def test_what_is_anothers_or_an_admins_is_refused_and_nothing_changes(
    running: GatewayProcess, connection: Connection, job: str
) -> None:
    before = state(connection)
    for words in FORBIDDEN:
        done = running.run(*words, uid=NOBODY, USER="root", LOGNAME="games", OARPY_SUBMISSION_ADMINS="nobody")
        assert (done.status, done.out, done.err.count("\n")) == (5, "", 1), (words, done)
    assert state(connection) == before


def test_an_admin_may(running: GatewayProcess, connection: Connection, job: str) -> None:
    for words in (
        ("oarresume", job),
        ("oarhold", job),
        ("oarqueue", "--add", "mine,9,fifo"),
        ("oarproperty", "-a", "mine"),
        ("oaraccounting",),
        ("oarnodesetting", "-r", "1", "-s", "Dead"),
        ("oaradmissionrules", "disable", "besteffort"),
        ("oardel", job),
    ):
        done = running.run(*words, uid=DAEMON)
        assert (done.status, done.err) == (0, ""), (words, done)
    by = connection.execute(
        "SELECT changed_by FROM admission_rule_versions ORDER BY changed_at DESC LIMIT 1"
    ).fetchone()
    assert by == ("daemon",)


def test_the_owner_may(running: GatewayProcess, connection: Connection, job: str) -> None:
    for words in (("oarresume", job), ("oarhold", job), ("oardel", job)):
        done = running.run(*words, uid=GAMES)
        assert (done.status, done.err) == (0, ""), (words, done)


VIEWS = [
    ("oarstat",),
    ("oarstat", "-f"),
    ("oarstat", "-f", "-J"),
    ("oarstat", "-f", "-j", "1"),
    ("oarstat", "-f", "-J", "-j", "1"),
    ("oarstat", "-e", "-j", "1"),
    ("oarstat", "-p", "-j", "1"),
    ("oarstat", "--sql", "job_id > 0"),
    ("oarnodes", "-j"),
    ("oaradmissionrules", "test", "-J"),
]


def test_environment_and_request_are_their_owners_alone(running: GatewayProcess, job: str) -> None:
    typed = "oarsub --hold -n theirs run"
    for words in VIEWS:
        seen = running.run(*words, uid=NOBODY, USER="games", OAR_JOB_ID="1")
        assert seen.status == 0, (words, seen)
        assert PASSWORD not in seen.out + seen.err, words
        assert typed not in seen.out + seen.err, words
    for uid in (GAMES, DAEMON):
        own = running.run("oarstat", "-f", "-J", "-j", "1", uid=uid).out
        assert PASSWORD in own
        assert typed in own


@pytest.mark.parametrize(
    "condition",
    ["environment LIKE '%horse%'", "initial_request = 'x'", "submission_id IN (SELECT 1)", "pg_sleep(9) IS NULL"],
)
def test_a_condition_cannot_ask_for_what_is_hidden(running: GatewayProcess, job: str, condition: str) -> None:
    for command in ("oarstat", "oardel", "oarhold", "oarnodes"):
        assert running.run(command, "--sql", condition, uid=NOBODY).status == 2
    assert running.run("oarsub", "-p", condition, "date", uid=NOBODY).status == 2


AROUND = """
import os, sys, psycopg
uid = int(sys.argv[1])
os.setgroups([])
os.setresgid(uid, uid, uid)
os.setresuid(uid, uid, uid)
try:
    psycopg.connect(sys.argv[2], connect_timeout=5).close()
except psycopg.OperationalError as error:
    print("refused")
else:
    print("open")
"""


def test_the_database_is_closed_to_users(running: GatewayProcess, dsn: str) -> None:
    """The server's own check of peers: whoever is served through the gateway does not get in beside it."""

    def around(uid: int) -> str:
        words = [sys.executable, "-c", AROUND, str(uid), dsn]
        return subprocess.run(words, capture_output=True, text=True, check=True, cwd="/").stdout

    assert running.run("oarqueue", uid=NOBODY).status == 0
    assert [around(uid) for uid in (NOBODY, GAMES, DAEMON, 0)] == ["refused\n"] * 3 + ["open\n"]


def test_files_are_read_with_the_callers_rights(running: GatewayProcess, tmp_path: Path) -> None:
    secret = running.folder / "secret.sh"
    secret.write_text("#!/bin/sh\n#OAR -n secret\n", "ascii")
    secret.chmod(0o700)
    done = running.run("oarsub", "-S", str(secret), uid=NOBODY)
    assert (done.status, done.out) == (2, "")
    assert "Permission denied" in done.err
    done = running.run("oaradmissionrules", "test", "--submission", str(secret), uid=NOBODY)
    assert (done.status, done.out) == (2, "")
    os.chown(secret, NOBODY, -1)
    assert running.run("oarsub", "-S", str(secret), uid=NOBODY).status == 0
    # the gateway runs as somebody who might execute it
    secret.chmod(0o614)
    done = running.run("oarsub", "-S", str(secret), uid=NOBODY)
    assert (done.status, done.out, done.err) == (2, "", f"oarsub: script '{secret}' is not executable (chmod +x it)\n")
    assert running.run("oarsub", "-d", "/root", "date", uid=NOBODY).status == 0
    hidden = running.run("oarsub", "-d", "/root/.ssh", "date", uid=NOBODY)
    assert "does not exist" in hidden.err, "what a user cannot see does not exist for them"


def test_a_request_cannot_say_who_asks(running: GatewayProcess, connection: Connection) -> None:
    """Written by hand, below the command: what is not part of a request is refused."""
    for extra in ({"uid": GAMES}, {"user": "games"}, {"admin": True}):
        with running.connect() as bare:
            bare.sendall(pack_message({**request("oarsub", "date"), **extra}))
            answer = final(Channel(bare))
        assert answer["exit"] == 1
    assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (0,)


def test_the_socket_is_everybodys_and_nothing_else_is(running: GatewayProcess) -> None:
    assert running.path.stat().st_mode & 0o777 == 0o666
    assert (running.folder / "gateway.sock.lock").stat().st_mode & 0o777 == 0o600
    for uid in (NOBODY, GAMES):
        assert running.run("oarqueue", uid=uid).status == 0


def test_someone_without_an_account_is_refused(running: GatewayProcess) -> None:
    unknown = 2_000_123_456
    done = running.run("oarsub", "date", uid=unknown)
    assert (done.status, done.out) == (5, "")
    assert str(unknown) in done.err


def test_one_user_cannot_keep_the_gateway_from_another(
    connection: Connection, cluster_environment: dict[str, str]
) -> None:
    """``nobody`` holds every worker of theirs and queues more; ``games`` is served."""
    build(connection)
    with gateway(cluster_environment, workers=1, most_workers=3, workers_per_user=2) as running:
        greedy = [running.start("oarsub", "-r", "2026-12-24 12:00:00", "date", uid=NOBODY) for _ in range(2)]
        for one in greedy:
            assert one.stdout is not None
            assert one.stdout.readline().startswith("OAR_JOB_ID=")
        queued = [running.start("oarstat", uid=NOBODY) for _ in range(5)]
        assert running.run("oarsub", "date", uid=GAMES).status == 0
        assert all(one.poll() is None for one in queued)


def test_users_together_cannot_keep_the_gateway_from_another(
    connection: Connection, cluster_environment: dict[str, str]
) -> None:
    """Two users want more workers than there are, for commands that wait; a third is served."""
    build(connection)
    with gateway(cluster_environment, most_workers=4, workers_per_user=3, waiting_per_user=3) as running:

        def wait_in_worker(uid: int) -> subprocess.Popen[str]:
            return running.start("oarsub", "-r", "2026-12-24 12:00:00", "date", uid=uid)

        held = [wait_in_worker(uid) for uid in (NOBODY, NOBODY, GAMES)]
        for one in held:
            assert one.stdout is not None
            assert one.stdout.readline().startswith("OAR_JOB_ID=")
        queued = [wait_in_worker(uid) for uid in (NOBODY, GAMES)]
        assert running.run("oarstat", uid=DAEMON).status == 0
        assert all(one.poll() is None for one in held + queued)


def test_whom_a_node_vouches_for_is_no_admin(running: GatewayProcess, job: str) -> None:
    def spoken_for(uid: int, *words: str) -> dict[str, object]:
        with running.connect() as connection:
            connection.sendall(Speaker(uid, "n1").pack() + pack_message(request(*words)))
            return final(Channel(connection))

    assert spoken_for(DAEMON, "oarqueue", "--add", "mine,9,fifo") == {"exit": 5}
    assert spoken_for(DAEMON, "oardel", job) == {"exit": 5}
    assert spoken_for(NOBODY, "oarresume", job) == {"exit": 5}
    assert spoken_for(GAMES, "oarresume", job) == {"exit": 0}
    assert running.run("oarqueue", "--add", "mine,9,fifo", uid=DAEMON).status == 0, "by itself it is one"


def test_a_condition_on_commands_finds_ones_own_jobs_alone(running: GatewayProcess, job: str) -> None:
    words = ("oarstat", "--format", "ids", "--sql")
    for condition in ("command LIKE 'r%'", "command IS NOT NULL", "length(command) > 0", "NOT command LIKE 'x%'"):
        seen = running.run(*words, condition, uid=NOBODY)
        assert job not in seen.out.split(), condition
    for uid in (GAMES, DAEMON):
        assert running.run(*words, "command LIKE 'r%'", uid=uid).out.split() == [job]
