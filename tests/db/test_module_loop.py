"""A module as a process of its own: one leads, the others wait; the database may go; SIGTERM ends it."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from oarpy.postgres import embedded_server
from oarpy.store import notifications
from oarpy.store.database import connect
from oarpy.store.schema import migrations
from tests.harness.hand_written import Connection, add_job, add_resource
from tests.harness.waiting import DEADLINE, until

pytestmark = pytest.mark.db


@contextmanager
def running(environment: dict[str, str], name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A module as the supervisor starts it."""
    process = subprocess.Popen([sys.executable, "-m", "oarpy.modules", name], env=environment, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def leader(connection: Connection, name: str) -> int | None:
    """The server process of the session that leads."""
    return notifications.leader(connection, name)


def sessions(connection: Connection, name: str) -> int:
    row = connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s",
        [f"oarpy {name}"],
    ).fetchone()
    assert row is not None
    return int(row[0])


def ran_by(connection: Connection, name: str) -> int | None:
    """The process that reported last."""
    row = connection.execute("SELECT pid FROM module_runs WHERE module = %s", [name]).fetchone()
    return row[0] if row else None


def toss(connection: Connection, job: int) -> None:
    connection.execute("INSERT INTO kill_requests (job_id) VALUES (%s)", [job])


def state(connection: Connection, job: int) -> str:
    row = connection.execute("SELECT state FROM jobs WHERE job_id = %s", [job]).fetchone()
    assert row is not None
    return str(row[0])


def test_a_second_instance_waits_and_takes_over(connection: Connection, cluster_environment: dict[str, str]) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(running(cluster_environment, "canceller"))
        until(lambda: ran_by(connection, "canceller") == first.pid, "the first one works")
        leading = leader(connection, "canceller")
        second = stack.enter_context(running(cluster_environment, "canceller"))
        until(lambda: sessions(connection, "canceller") == 2, "the second one is there")
        job = add_job(connection)
        toss(connection, job)
        notifications.tell(connection, "canceller")
        until(lambda: state(connection, job) == "Error", "the first one cancels")
        assert (ran_by(connection, "canceller"), leader(connection, "canceller")) == (first.pid, leading)
        first.kill()
        until(lambda: ran_by(connection, "canceller") == second.pid, "the second one takes over")


def test_a_module_rides_out_the_loss_of_its_connection(
    connection: Connection, cluster_environment: dict[str, str]
) -> None:
    with running(cluster_environment, "canceller") as process:
        for _ in range(3):
            lost = until(lambda: leader(connection, "canceller"), "it leads")
            connection.execute("SELECT pg_terminate_backend(%s)", [lost])
            until(lambda: sessions(connection, "canceller") == 1, "it is connected again")
        job = add_job(connection)
        toss(connection, job)
        notifications.tell(connection, "canceller")
        until(lambda: state(connection, job) == "Error", "it works again")
        assert process.poll() is None


@pytest.mark.parametrize("name", ["automaton", "metascheduler", "launcher", "canceller", "monitor", "accounting"])
def test_sigterm_ends_a_module(connection: Connection, cluster_environment: dict[str, str], name: str) -> None:
    with running(cluster_environment, name) as process:
        until(lambda: leader(connection, name), "it leads")
        process.terminate()
        assert process.wait(DEADLINE) == 0


def test_sigterm_ends_a_module_that_waits_for_its_turn(
    connection: Connection, cluster_environment: dict[str, str]
) -> None:
    notifications.try_lead(connection, "monitor")
    with running(cluster_environment, "monitor") as process:
        until(lambda: sessions(connection, "monitor") == 1, "it waits")
        process.terminate()
        assert process.wait(DEADLINE) == 0


def test_sigterm_ends_a_module_without_a_database(cluster_environment: dict[str, str]) -> None:
    environment = {**cluster_environment, "OARPY_DATABASE_URL": "host=/nonexistent dbname=nothing"}
    with running(environment, "monitor") as process:
        assert process.stderr is not None
        assert b"database lost" in process.stderr.readline()
        process.terminate()
        assert process.wait(DEADLINE) == 0


def test_a_module_ends_with_its_supervisor(connection: Connection, cluster_environment: dict[str, str]) -> None:
    """Its supervisor's process id is in its environment; when another process has it as a child, that one is gone."""
    with running({**cluster_environment, "OARPY_SUPERVISOR": "1"}, "monitor") as process:
        assert process.wait(DEADLINE) == 0


def test_an_unknown_module_is_one_line(cluster_environment: dict[str, str]) -> None:
    with running(cluster_environment, "almighty") as process:
        _, said = process.communicate(timeout=DEADLINE)
    assert process.returncode == 4
    assert said.decode().count("\n") == 1
    assert "no module 'almighty'" in said.decode()


def test_the_automaton_passes_on_what_changes_by_hand(
    connection: Connection, cluster_environment: dict[str, str]
) -> None:
    """Only the automaton runs: it must tell each module what concerns it."""
    with psycopg.connect(connection.info.dsn, autocommit=True, password=connection.info.password) as listener:
        for name in ("metascheduler", "launcher", "canceller"):
            listener.execute(psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(f"oarpy_run_{name}")))
        with running(cluster_environment, "automaton"):
            expect(listener, "oarpy_run_metascheduler", "oarpy_run_launcher", "oarpy_run_canceller")
            for name in ("metascheduler", "launcher", "canceller"):
                notifications.report(connection, name, "nothing", os.getpid(), "here")
            add_resource(connection)
            expect(listener, "oarpy_run_metascheduler")


def expect(listener: Connection, *channels: str) -> None:
    """Wait until something was heard on each channel."""
    missing = set(channels)
    for note in listener.notifies(timeout=DEADLINE):
        missing.discard(note.channel)
        if not missing:
            return
    pytest.fail(f"nothing was heard on {missing}")


def test_once_runs_a_module_and_ends(connection: Connection, cluster_environment: dict[str, str]) -> None:
    job = add_job(connection)
    toss(connection, job)
    command = [str(Path(sys.executable).with_name("oarpy")), "run", "canceller", "--once"]
    done = subprocess.run(command, env=cluster_environment, capture_output=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    assert state(connection, job) == "Error"


def test_once_beside_a_running_instance_tells_that_one(
    connection: Connection, cluster_environment: dict[str, str]
) -> None:
    command = [str(Path(sys.executable).with_name("oarpy")), "run", "canceller", "--once"]
    with running(cluster_environment, "canceller") as process:
        until(lambda: ran_by(connection, "canceller") == process.pid, "it works")
        job = add_job(connection)
        toss(connection, job)
        done = subprocess.run(
            command, env=cluster_environment, capture_output=True, text=True, timeout=DEADLINE, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == "the module canceller runs already and was told to work now\n"
        until(lambda: state(connection, job) == "Error", "the running one did the work")


def test_modules_run_one_after_the_other_by_hand_run_a_job(
    connection: Connection, cluster_environment: dict[str, str], tmp_path: Path
) -> None:
    """Without any server: the job is placed, started on a real local node and recorded by runs of single modules."""
    environment = {**cluster_environment, "OARPY_NODES_STATE_DIRECTORY": str(tmp_path / "nodes")}
    connection.execute("INSERT INTO nodes (network_address, transport) VALUES ('n1', 'local')")
    add_resource(connection, core=1)
    me = pwd.getpwuid(os.getuid()).pw_name
    job = add_job(connection, command="echo done > mark", launching_directory=str(tmp_path), user_name=me)

    def by_hand(name: str) -> None:
        command = [str(Path(sys.executable).with_name("oarpy")), "run", name, "--once"]
        subprocess.run(command, env=environment, capture_output=True, timeout=DEADLINE, check=True)

    by_hand("metascheduler")
    by_hand("launcher")
    until((tmp_path / "mark").exists, "the job ran")
    while state(connection, job) != "Terminated":
        by_hand("launcher")
    assert (tmp_path / "mark").read_text() == "done\n"


def test_a_module_stopped_by_hand_can_be_resumed(connection: Connection, cluster_environment: dict[str, str]) -> None:
    with running(cluster_environment, "canceller") as process:
        until(lambda: leader(connection, "canceller"), "it leads")
        process.send_signal(signal.SIGSTOP)
        job = add_job(connection)
        toss(connection, job)
        notifications.tell(connection, "canceller")
        process.send_signal(signal.SIGCONT)
        until(lambda: state(connection, job) == "Error", "it heard what was said meanwhile")


def test_a_module_waits_for_a_database_that_is_not_ready(empty_dsn: str, cluster_environment: dict[str, str]) -> None:
    """Without a schema it neither ends nor tries without a pause; it works once there is one."""
    environment = {**cluster_environment, "OARPY_DATABASE_URL": empty_dsn}
    with running(environment, "canceller") as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(3)]
        assert all(b"the database is not ready" in line for line in lines)
        pauses = [datetime.fromisoformat(line.split(b"'")[1].decode()) for line in lines]
        assert pauses[2] - pauses[1] > (pauses[1] - pauses[0]) / 2
        migrations.upgrade(empty_dsn)
        with psycopg.connect(empty_dsn, autocommit=True) as connection:
            until(lambda: leader(connection, "canceller"), "it leads")
        assert process.poll() is None


@pytest.fixture
def open_server(fast_directory: Path, postgres_version: str) -> Iterator[str]:
    """The database of a server that lets a role ``stranger`` in."""
    folder = fast_directory / f"open-{os.getpid()}"
    dsn = embedded_server.start(folder, version=postgres_version, settings={"fsync": "off", "max_connections": "20"})
    data = embedded_server.data_directory(folder)
    assert data is not None
    rules = data / "pg_hba.conf"
    rules.write_text(f"local all stranger trust\n{rules.read_text(encoding='utf-8')}", encoding="utf-8")
    migrations.upgrade(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE stranger LOGIN")
        connection.execute("SELECT pg_reload_conf()")
    yield dsn
    embedded_server.remove(folder)


def test_who_takes_the_lock_of_a_module_does_not_keep_it_from_leading(open_server: str) -> None:
    """The number of a lock that is held is no secret."""

    def let_in() -> psycopg.Connection[Any] | None:
        try:
            return psycopg.connect(make_conninfo(open_server, user="stranger"), autocommit=True)
        except psycopg.OperationalError:
            return None

    with connect(open_server, "one") as one, connect(open_server, "other") as other:
        stranger = until(let_in, "a server that has read its rules")
        assert notifications.try_lead(one, "launcher")
        assert not notifications.try_lead(other, "launcher")
        ((number,),) = one.execute("SELECT lock FROM leads WHERE module = 'launcher'").fetchall()
        one.execute("SELECT pg_advisory_unlock_all()")
        with stranger:
            stranger.execute("SELECT pg_advisory_lock_shared(%s)", [number])
            stranger.execute("SELECT pg_advisory_lock(%s, %s)", [0x0A8, zlib.crc32(b"launcher") & 0x7FFFFFFF])
            assert not notifications.is_led(one, "launcher")
            assert [name for name, _ in notifications.strangers(one)] == ["stranger"]
            assert notifications.try_lead(other, "launcher")
            assert notifications.leader(one, "launcher") == other.info.backend_pid
            assert not notifications.try_lead(one, "launcher")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                stranger.execute("UPDATE leads SET lock = 1")
