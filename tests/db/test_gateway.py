"""Commands through a real gateway: they do what they do without one, and nobody holds up anybody."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from oarpy.wire.frames import HEADER, LARGEST_REQUEST, MESSAGE, Channel, pack, pack_message
from research.benchmarks.server_processes import is_running
from tests.harness.gateway_process import TIMEOUT, GatewayProcess, final, gateway, request
from tests.harness.oarsub_cluster import build, process, settings
from tests.harness.sample_cluster import Connection, add_job
from tests.harness.terminal_session import TerminalSession
from tests.harness.waiting import until

pytestmark = pytest.mark.db


@pytest.fixture
def environment(connection: Connection, cluster_environment: dict[str, str]) -> dict[str, str]:
    """A small cluster whose admin is the user of the tests."""
    build(connection)
    return {**cluster_environment, **settings(), "OARPY_LOG_LEVEL": "debug", "TZ": "UTC"}


@pytest.fixture
def running(environment: dict[str, str]) -> Iterator[GatewayProcess]:
    """A gateway of two workers."""
    with gateway(environment, workers=2) as found:
        yield found


SAME = [
    ("oarstat",),
    ("oarstat", "-f", "-j", "1"),
    ("oarstat", "-J"),
    ("oarstat", "-j", "99"),
    ("oarstat", "--format", "7"),
    ("oarstat", "--help"),
    ("oarstat", "--sql", "job_id > 0"),
    ("oarstat", "--sql", "nothing = 0"),
    ("oarstat", "-j"),
    ("oarstat", "--gantt", "2026-01-01 00:00:00, 2026-01-02 00:00:00"),
    ("oarsub",),
    ("oarsub", "-l", "/core=0", "date"),
    ("oarsub", "-q", "nowhere", "date"),
    ("oarsub", "-q", "closed", "date"),
    ("oarsub", "-d", "/nowhere", "date"),
    ("oarsub", "--version"),
    ("oarsub", "--help"),
    ("oarsub", "none.sh"),
    ("oarsub", "./none.sh"),
    ("oarsub", "-S", "./none.sh"),
    ("oarsub", "-S", "./broken.sh"),
    ("oarsub", "-S", "./text"),
    ("oarsub", "--array-param-file", "none", "date"),
    ("oarsub", "--resubmit", "77"),
    ("oarsub", "--dry-run", "-l", "/nodes=2", "date"),
    ("oarsub", b"caf\xe9"),
    ("oarnodes", "-s"),
    ("oarnodes", "-J"),
    ("oarnodes", "-r", "999"),
    ("oardel", "99"),
    ("oardel",),
    ("oarhold", "x"),
    ("oarresume", "1"),
    ("oarproperty", "-l"),
    ("oarqueue",),
    ("oarqueue", "--remove", "nowhere"),
    ("oarnodesetting", "-r", "999", "-s", "Dead"),
    ("oaraccounting",),
    ("oaradmin", "resources", "list", "-J"),
    ("oaradmin", "resources", "add", "/host=z[1-2]/core={2}", "--dry-run"),
    ("oaradmissionrules", "list"),
    ("oaradmissionrules", "show", "nothing"),
    ("oaradmissionrules", "test", "x", "--file", "none"),
]


def plain(text: str) -> str:
    """Leave out what two runs never have in common: times of the day, milliseconds taken."""
    return re.sub(r"\d\d:\d\d:\d\d|\d+\.\d ms", "", text)


def test_every_command_says_the_same_as_without_a_gateway(
    running: GatewayProcess, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "broken.sh").write_text("#!/bin/sh\n#OAR -Z\n", "ascii")
    (tmp_path / "broken.sh").chmod(0o755)
    (tmp_path / "text").write_text("#!/bin/sh\n", "ascii")
    direct = {**environment, "OARPY_GATEWAY_SOCKET": ""}
    assert process(direct, "oarsub", "-n", "first", "date", cwd=tmp_path).status == 0
    statuses = set()
    for words in SAME:
        typed = [os.fsdecode(word) for word in words]
        expected = process(direct, *typed, cwd=tmp_path)
        found = running.run(*typed, cwd=tmp_path)
        assert (found.status, plain(found.out), found.err) == (expected.status, plain(expected.out), expected.err)
        statuses.add(found.status)
    assert statuses == {0, 2, 3, 4}


def test_an_unexpected_error_is_one_line_to_the_caller_and_the_rest_to_the_log(
    running: GatewayProcess, connection: Connection
) -> None:
    connection.execute("ALTER TABLE queues RENAME TO elsewhere")
    for asked in range(1, 5):  # more often than there are workers
        done = running.run("oarqueue")
        assert (done.status, done.out, done.err.count("\n")) == (1, "", 1), done.err
        assert done.err.startswith("oarqueue: the database has no schema of oarpy: ")
        until(lambda asked=asked: running.log().count("command failed") == asked, "it is logged")  # type: ignore[misc]
    assert "worker failed" not in running.log()


@pytest.mark.parametrize("by_gateway", [True, False])
def test_commands_bear_closed_standard_streams(
    running: GatewayProcess, environment: dict[str, str], tmp_path: Path, by_gateway: bool
) -> None:
    variables = running.user_environment() if by_gateway else {**environment, "OARPY_GATEWAY_SOCKET": ""}

    def closed(closing: str, *words: str) -> tuple[int, str, str]:
        done = subprocess.run(
            ["sh", "-c", f'"$@" {closing}', "sh", *running.command(*words)],
            env=variables,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    assert closed("2>&-", "oarsub", "date") == (0, "OAR_JOB_ID=1\n", "")
    assert closed(">&-", "oarsub", "date") == (0, "", "")
    assert closed("<&- >&- 2>&-", "oarsub", "date") == (0, "", "")
    assert closed("2>&-", "oarstat", "-j", "99") == (4, "", "")
    assert closed("<&- >&-", "oarstat", "-j", "99")[::2] == (
        4,
        "oarstat: job 99 does not exist (oarstat lists the jobs)\n",
    )
    assert running.run("oarstat", "-s", "-j", "3").out == "3: Waiting\n"


def test_a_submission_is_the_callers(running: GatewayProcess, connection: Connection, tmp_path: Path) -> None:
    done = running.run("oarsub", "-n", "mine", "echo $HERE", cwd=tmp_path, HERE="there", OAR_JOB_ID="5", USER="nobody")
    assert (done.out, done.err) == ("OAR_JOB_ID=1\n", "")
    row = connection.execute(
        "SELECT user_name, launching_directory, environment, initial_request, command"
        " FROM jobs JOIN submissions USING (submission_id)"
    ).fetchone()
    assert row is not None
    assert row[:2] == ("root" if os.getuid() == 0 else row[0], str(tmp_path))
    assert row[2]["HERE"] == "there"
    assert row[2]["USER"] == "nobody"
    assert row[3:] == ("oarsub -n mine 'echo $HERE'", "echo $HERE")
    assert running.run("oarstat", "-s", "-j", OAR_JOB_ID="1").out == "1: Waiting\n"
    assert running.run("oarstat", "--format", "ids", "-u").out == "1\n"


def test_files_are_read_by_the_callers_own_process(running: GatewayProcess, tmp_path: Path) -> None:
    script = tmp_path / "it's a job.sh"
    script.write_text("#!/bin/sh\n#OAR -n scanned\n#OAR --array-param-file values\n", "ascii")
    script.chmod(0o755)
    (tmp_path / "values").write_text("1\n2 # two\n\n3\n", "ascii")
    (tmp_path / "here").mkdir()
    done = running.run("oarsub", "-J", "-d", str(tmp_path / "here"), "-S", '"./it\'s a job.sh"', cwd=tmp_path)
    assert (done.status, done.err) == (0, "")
    ids = json.loads(done.out)["job_ids"]
    assert len(ids) == 3
    shown = json.loads(running.run("oarstat", "-J", "-j", str(ids[2])).out)[str(ids[2])]
    assert (shown["name"], shown["command"][-2:]) == ("scanned", " 3")
    assert shown["launchingDirectory"] == str(tmp_path / "here")


def test_a_script_named_without_a_directory_is_read(running: GatewayProcess, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\n#OAR -n plain\n", "ascii")
    script.chmod(0o755)
    done = running.run("oarsub", "-S", "job.sh", "word", cwd=tmp_path)
    assert (done.status, done.out, done.err) == (0, "OAR_JOB_ID=1\n", "")
    assert "command = ./job.sh word" in running.run("oarstat", "-f", "1").out


def test_rules_come_from_files_standard_input_and_the_editor(running: GatewayProcess, tmp_path: Path) -> None:
    (tmp_path / "rule.py").write_text('"""From a file."""\n', "ascii")
    assert running.run("oaradmissionrules", "add", "mine", "--file", "rule.py", cwd=tmp_path).status == 0
    assert running.run("oaradmissionrules", "edit", "mine", "-f", "-", stdin='"""Typed."""\n').status == 0
    assert running.run("oaradmissionrules", "show", "mine").out == '"""Typed."""\n'
    replace = "sed -i s/Typed/Edited/"
    assert running.run("oaradmissionrules", "edit", "mine", EDITOR=replace).out == "# rule mine changed, version 3\n"
    assert running.run("oaradmissionrules", "show", "mine").out == '"""Edited."""\n'
    failed = running.run("oaradmissionrules", "edit", "mine", EDITOR="false")
    assert (failed.status, failed.err) == (
        1,
        "oaradmissionrules: editor 'false' ended with status 1 (nothing is changed)\n",
    )


def test_without_its_gateway_a_command_connects_by_itself(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "stale").touch()
    for path in (tmp_path / "none", tmp_path / "stale"):
        assert process({**environment, "OARPY_GATEWAY_SOCKET": str(path)}, "oarstat").status == 0


def test_the_configuration_file_names_the_socket(
    running: GatewayProcess, environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "user.toml"
    file.write_text(f'[database]\nurl = "postgresql:///?host=/none"\n[gateway]\nsocket = "{running.path}"\n', "utf-8")
    kept = {name: value for name, value in environment.items() if not name.startswith("OARPY_")}
    assert process({**kept, "OARPY_CONFIG": str(file)}, "oarqueue").status == 0
    running.stop()
    assert process({**kept, "OARPY_CONFIG": str(file)}, "oarqueue").status == 6


def test_silent_and_slow_clients_block_nobody(running: GatewayProcess) -> None:
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(running.connect()) for _ in range(50)]
        for slow in silent[25:]:
            slow.sendall(pack_message(request("oarsub", "-V"))[:-3])
        assert running.answers()
        # those that begin again after others were served get their answer
        silent[25].sendall(pack_message(request("oarsub", "-V"))[-3:])
        assert final(Channel(silent[25])) == {"exit": 0}


def test_a_request_that_does_not_arrive_in_time_is_refused(environment: dict[str, str]) -> None:
    with gateway(environment, workers=1, request_timeout=0.2) as running, running.connect() as silent:
        assert final(Channel(silent)) == {"refused": "the gateway got no whole request in time", "exit": 6}
        assert running.answers()


def test_clients_that_do_not_read_take_no_worker_from_others(environment: dict[str, str]) -> None:
    words = ["x" * 4000] * 400
    with (
        gateway(environment, workers=1, most_workers=4, workers_per_user=3) as running,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(2):
            deaf = stack.enter_context(running.connect())
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            # a question is asked that never gets its answer
            deaf.sendall(pack_message(request("oarsub", "-S", "./script", *words)))
        assert running.answers()
        assert len(running.workers()) <= 3


def test_a_user_has_a_share_of_the_workers(environment: dict[str, str]) -> None:
    with (
        gateway(environment, workers=1, most_workers=4, workers_per_user=1) as running,
        contextlib.ExitStack() as stack,
    ):
        first, second = (stack.enter_context(running.connect()) for _ in range(2))
        first.sendall(pack_message(request("oarsub", "-S", "./script")))
        asked = Channel(first).receive()
        assert json.loads(asked[1])["file"] == "./script"
        second.sendall(pack_message(request("oarsub", "-V")))
        second.settimeout(0.3)
        with pytest.raises(TimeoutError):
            second.recv(1)
        first.close()
        second.settimeout(TIMEOUT)
        assert final(Channel(second)) == {"exit": 0}


def accept(connection: Connection) -> None:
    """Answer every reservation as the scheduler does."""
    connection.execute("UPDATE jobs SET state = 'toAckReservation'")
    connection.execute("UPDATE jobs SET state = 'Waiting', reservation_state = 'Scheduled'")


def test_a_wait_for_an_answer_starves_nobody(environment: dict[str, str], connection: Connection) -> None:
    with gateway(environment, workers=1, most_workers=5, workers_per_user=4) as running:
        waiting = [running.start("oarsub", "-r", "2026-12-24 12:00:00", "date") for _ in range(2)]
        for one in waiting:
            assert one.stdout is not None
            assert one.stdout.readline().startswith("OAR_JOB_ID=")
        assert running.answers()
        accept(connection)
        for one in waiting:
            out, _ = one.communicate(timeout=TIMEOUT)
            assert out.endswith("# Reservation valid --> OK\n"), out


def test_a_caller_who_leaves_frees_the_worker(environment: dict[str, str]) -> None:
    with gateway(environment, workers=1, most_workers=1) as running:
        waiting = running.start("oarsub", "-r", "2026-12-24 12:00:00", "date")
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "OAR_JOB_ID=1\n"
        waiting.send_signal(signal.SIGINT)
        waiting.communicate(timeout=TIMEOUT)
        assert waiting.returncode == 130
        assert running.answers()


def test_a_command_that_takes_too_long_is_ended(environment: dict[str, str]) -> None:
    with gateway(environment, workers=1, time_limit=0.5) as running, running.connect() as slow:
        slow.sendall(pack_message(request("oarsub", "-S", "./script")))
        channel = Channel(slow)
        channel.receive()
        assert slow.recv(1) == b""
        assert running.answers()
        assert "command took too long" in running.log()


def test_a_worker_that_dies_is_forked_again(running: GatewayProcess) -> None:
    assert running.answers()
    before = running.workers()
    waiting = running.start("oarsub", "-r", "2026-12-24 12:00:00", "date")
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "OAR_JOB_ID=1\n"
    for worker in before:
        os.kill(worker, signal.SIGKILL)
    _, err = waiting.communicate(timeout=TIMEOUT)
    assert waiting.returncode == 6
    assert err.startswith("oarsub: the gateway left before the command ended")
    # one that is being killed still takes a connection, and drops it
    until(lambda: not set(before) & set(running.workers()), "the killed workers are gone")
    assert running.answers()
    until(lambda: len(running.workers()) == 2, "two workers again")


def test_workers_end_with_their_gateway(environment: dict[str, str]) -> None:
    with gateway(environment, workers=3) as running:
        assert running.answers()
        workers = running.workers()
        running.process.kill()
        running.process.wait()
        until(lambda: not any(map(is_running, workers)), "no worker is left")


def test_a_stop_lets_commands_end_and_takes_the_socket_away(running: GatewayProcess, connection: Connection) -> None:
    waiting = running.start("oarsub", "-r", "2026-12-24 12:00:00", "date")
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == "OAR_JOB_ID=1\n"
    running.process.send_signal(signal.SIGTERM)
    until(lambda: not running.path.exists(), "the socket is gone")
    accept(connection)
    out, err = waiting.communicate(timeout=TIMEOUT)
    assert out.endswith("# Reservation valid --> OK\n"), err + running.log()
    assert running.process.wait(TIMEOUT) == 0


def test_two_gateways_do_not_share_a_socket(running: GatewayProcess, environment: dict[str, str]) -> None:
    second = process({**environment, "OARPY_GATEWAY_SOCKET": str(running.path)}, sys.executable, "-m", "oarpy.gateway")
    assert (second.status, second.err) == (
        1,
        f"oarpy gateway: another gateway listens on '{running.path}' (one gateway a socket)\n",
    )
    assert running.answers()


def test_a_gateway_takes_over_the_socket_of_one_that_was_killed(environment: dict[str, str]) -> None:
    with gateway(environment, workers=1) as first:
        first.process.kill()
        first.process.wait()
        assert first.path.exists()
        with gateway(environment, first.folder, workers=1) as second:
            assert second.answers()


def test_a_lost_database_is_said_in_one_line_and_found_again(
    running: GatewayProcess, connection: Connection, dsn: str
) -> None:
    assert running.run("oarqueue").status == 0
    name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
    with psycopg.connect(dsn, dbname="postgres", autocommit=True) as maintenance:
        maintenance.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        maintenance.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
            (name,),
        )
        for _ in range(3):
            lost = running.run("oarqueue")
            assert (lost.status, lost.out, lost.err.count("\n")) == (6, "", 1)
        maintenance.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
    for _ in range(3):
        assert running.run("oarqueue").status == 0


def test_the_first_command_after_a_restart_of_the_database_succeeds(
    environment: dict[str, str], connection: Connection
) -> None:
    """A server that is stopped tells its clients so before it closes: their connections look alive."""
    with gateway(environment, workers=1) as running:
        assert running.run("oarqueue").status == 0
        ended = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'oarpy gateway'"
        assert (True,) in connection.execute(ended).fetchall()
        again = running.run("oarqueue")
        assert (again.status, again.err) == (0, "")


def test_a_reader_that_leaves_is_no_error_worth_a_word(running: GatewayProcess, connection: Connection) -> None:
    connection.execute("INSERT INTO submissions DEFAULT VALUES")
    connection.execute(
        "INSERT INTO jobs (submission_id, array_id, array_index, user_name, queue_name, message)"
        " SELECT 1, 1, i, 'alice', 'default', repeat('x', 500) FROM generate_series(1, 20000) AS i"
    )
    leaver = running.start("oarstat", "-f", "--array")
    assert leaver.stdout is not None
    assert leaver.stderr is not None
    leaver.stdout.read(10)
    leaver.stdout.close()
    assert leaver.stderr.read() == ""
    leaver.communicate(timeout=TIMEOUT)
    assert leaver.returncode == 1
    assert running.answers()


def test_nothing_of_a_request_stays(environment: dict[str, str], connection: Connection) -> None:
    """One worker serves all; what one asks for in time zone, width or directory is not the next one's."""
    with gateway(environment, workers=1, most_workers=1) as running:
        assert running.run("oarsub", "date", cwd="/tmp", SECRET="x").status == 0
        connection.execute("UPDATE jobs SET submitted_at = '2026-05-01 12:00:00+00'")
        utc = running.run("oarstat", "-f", "-j", "1").out
        assert "2026-05-01 12:00:00" in utc
        tokyo = running.run("oarstat", "-f", "-j", "1", TZ="Asia/Tokyo").out
        assert "2026-05-01 21:00:00" in tokyo
        for harmful in ("/etc/localtime", "../../../etc/localtime", ":/etc/localtime", "x" * 200):
            assert running.run("oarstat", "-f", "-j", "1", TZ=harmful).out == utc
        assert running.run("oarstat", "-f", "-j", "1").out == utc
        narrow = running.run("oarstat", "--help", COLUMNS="40").out
        assert max(map(len, narrow.splitlines())) <= 40
        assert max(map(len, running.run("oarstat", "--help").out.splitlines())) > 40
        assert running.run("oarsub", "date").status == 0
        rows = connection.execute(
            "SELECT launching_directory, environment ? 'SECRET' FROM jobs JOIN submissions USING (submission_id)"
            " ORDER BY job_id"
        ).fetchall()
        assert rows == [("/tmp", True), ("/", False)]


BROKEN = {
    "nothing": b"",
    "no header": b"\1",
    "unknown kind": struct.pack(">BI", 9, 3) + b"{}",
    "too long": HEADER.pack(MESSAGE, LARGEST_REQUEST + 1),
    "no message": pack(2, b"{}"),
    "no JSON": pack(MESSAGE, b"{"),
    "deep": pack(MESSAGE, b"[" * 100_000),
    "two": pack_message(request("oarstat")) * 2,
    "list": pack(MESSAGE, b"[]"),
    "version": pack_message({**request("oarstat"), "version": 2}),
    "boolean version": pack_message({**request("oarstat"), "version": True}),
    "more keys": pack_message({**request("oarstat"), "uid": 0}),
    "other command": pack_message(request("oarpy", "server")),
    "path": pack_message(request("../commands/oarstat")),
    "numbers": pack_message({**request("oarstat"), "arguments": [1]}),
    "NUL": pack_message(request("oarstat", "a\0b")),
    "lone surrogate": pack_message(request("oarstat", "\ud83d")),
    "columns": pack_message({**request("oarstat"), "terminal": {"columns": 0}}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_request_is_refused(running: GatewayProcess, name: str) -> None:
    with running.connect() as connection:
        connection.sendall(BROKEN[name])
        connection.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    assert received == b"" or b"does not understand" in received
    assert running.answers()


def _shown(running: GatewayProcess, command: str, *arguments: str, columns: int) -> str:
    """Return what a terminal of so many columns is sent."""
    terminal = {"input": True, "output": True, "errors": True, "columns": columns}
    with running.connect() as connection:
        connection.sendall(pack_message({**request(command, *arguments), "terminal": terminal}))
        channel, text = Channel(connection), b""
        while (frame := channel.receive())[0] != MESSAGE:
            text += frame[1]
    return text.decode()


def test_tables_fit_the_terminal_of_the_caller(running: GatewayProcess, connection: Connection) -> None:
    add_job(connection, user="alice", message="a long message " * 20)
    wide, narrow = (_shown(running, "oarstat", columns=columns).splitlines() for columns in (120, 40))
    assert [len(line) > 80 for line in wide] == [False, False, True]
    assert max(len(re.sub(r"\x1b\[\d*m", "", line)) for line in narrow) == 40
    assert "\x1b[33mW\x1b[0m" in narrow[2]
    assert "\x1b" not in _shown(running, "oarstat", "--color", "never", columns=40)
    assert len(running.run("oarstat").out.splitlines()[2]) > 300


def test_the_last_line_of_stderr_is_read_by_the_callers_process(
    running: GatewayProcess, connection: Connection, tmp_path: Path
) -> None:
    add_job(
        connection, "Terminated", status=256, array_id=1, launching_directory=str(tmp_path), stderr_path="errors"
    )  # fmt: skip
    (tmp_path / "errors").write_text("the reason\n")
    assert "the reason" in running.run("oarstat", "--failures", "1").out
    (tmp_path / "errors").unlink()
    os.mkfifo(tmp_path / "errors")
    assert running.run("oarstat", "--failures", "1").status == 0


def test_the_live_view_follows_and_leaves(running: GatewayProcess, connection: Connection) -> None:
    add_job(connection, user="alice", message="first")
    words = running.command("oarstat", "--top")
    with TerminalSession(words, running.user_environment(), rows=12, columns=60) as session:
        session.expect("first")
        session.expect("q ends")
        add_job(connection, user="alice", message="second")
        session.expect("second")
        add_job(connection, user="alice", message="a message that is " + "longer " * 20)
        session.expect("longer")
        session.resize(rows=12, columns=180)
        session.expect("longer " * 15)
        session.resize(rows=6, columns=60)
        session.expect("... and 2 more")
        session.type("q")
        assert session.wait() == 0
        assert session.text.rstrip().endswith("\x1b[?25h\x1b[?1049l")


def test_the_live_view_once_and_without_a_terminal(running: GatewayProcess, connection: Connection) -> None:
    add_job(connection, user="alice", message="first")
    lines = running.run("oarstat", "--top", "--once").out.splitlines()
    assert lines[0].endswith("resources held  1 jobs  W 1")
    assert lines[-1].endswith("first")
    refused = running.run("oarstat", "--top")
    assert (refused.status, refused.err) == (
        2,
        "oarstat: --top needs a terminal (--top --once prints the list once)\n",
    )


def test_what_happens_is_told_through_the_gateway_as_it_happens(
    connection: Connection, running: GatewayProcess
) -> None:
    job = add_job(connection, "Waiting")
    watching = running.start("oarstat", "--watch", "-J", str(job))
    listens = (
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle'"
        " AND query ~ 'pg_current_snapshot' AND query ~ 'LATERAL'"
    )
    until(lambda: bool(connection.execute(listens).fetchall()), "the command listens")
    connection.execute("UPDATE jobs SET state = 'toError' WHERE job_id = %s", [job])
    assert watching.stdout is not None
    assert json.loads(watching.stdout.readline())["state"] == "toError"
    connection.execute("UPDATE jobs SET state = 'Error', ended_at = now() WHERE job_id = %s", [job])
    out, err = watching.communicate(timeout=TIMEOUT)
    assert ([json.loads(line)["state"] for line in out.splitlines()], err, watching.returncode) == (["Error"], "", 0)
