"""``oarpy server`` as a process: what dies is started again, and nothing outlives it but jobs and the database."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from oarpy.local_cluster.sandbox import Sandbox, command
from oarpy.modules.loop.watchdog import Watch
from oarpy.modules.registry import MODULES
from oarpy.postgres import embedded_server
from research.benchmarks.server_processes import arguments_of
from tests.harness.waiting import DEADLINE, until

pytestmark = pytest.mark.e2e

RUNNING = {*MODULES, "negotiator", "recurrence"}
"""The modules of a cluster with a gateway."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A database and a configuration; each test starts its own server."""
    made = Sandbox(
        tmp_path_factory.mktemp("cluster"),
        {"modules": {"restart_delay": 0.1, "restart_delay_limit": 2.0, "watchdog": 4.0}},
    )
    made.create()
    yield made
    made.stop()
    embedded_server.remove(made.directory / "postgresql")


@pytest.fixture
def server(cluster: Sandbox) -> Iterator[Sandbox]:
    """A running server whose modules have all worked."""
    (cluster.directory / "server.log").unlink(missing_ok=True)
    cluster.start()
    until(lambda: set(modules(cluster)) == RUNNING, "all modules are there")
    yield cluster
    cluster.stop_server(signal.SIGKILL)
    until(lambda: not everywhere(cluster), "its modules end with it")


def everywhere(cluster: Sandbox) -> dict[int, str]:
    """Name by process id of all modules of this cluster, whoever started them."""
    mark = f"OARPY_CONFIG={cluster.configuration_file}".encode()
    found = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            words = (directory / "cmdline").read_bytes().split(b"\0")
            if b"oarpy.modules" in words and mark in (directory / "environ").read_bytes().split(b"\0"):
                found[int(directory.name)] = words[words.index(b"oarpy.modules") + 1].decode()
        except OSError:
            continue
    return found


def run_python(cluster: Sandbox, script: str) -> str:
    """Run a script that succeeds, and return what it wrote to standard error."""
    imports = """
        import os, signal
        from oarpy.model.errors import NotFound
        from oarpy.modules.forked_program import ForkedProgram, import_all
    """
    words = [sys.executable, "-c", textwrap.dedent(imports) + textwrap.dedent(script)]
    done = subprocess.run(
        words, env=cluster.environment(), capture_output=True, text=True, check=False, timeout=DEADLINE
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def modules(cluster: Sandbox) -> dict[str, int]:
    """Process id by name of the modules that have reported since they were started (the automaton never does)."""
    running = {name: pid for pid, name in everywhere(cluster).items()}
    with psycopg.connect(cluster.dsn()) as connection:
        reported: dict[str, int] = dict(connection.execute("SELECT module, pid FROM module_runs").fetchall())
    return {name: pid for name, pid in running.items() if reported.get(name, pid) == pid}


def log(cluster: Sandbox) -> str:
    return (cluster.directory / "server.log").read_text()


@pytest.mark.parametrize("name", ["launcher", "automaton"])
def test_a_module_that_dies_is_started_again(server: Sandbox, name: str) -> None:
    before = modules(server)
    os.kill(before[name], signal.SIGKILL)
    until(lambda: modules(server).get(name, before[name]) != before[name], f"a new {name}")
    assert f"event='module ended' module='{name}' status=-9" in log(server)
    assert {other: pid for other, pid in modules(server).items() if other != name} == {
        other: pid for other, pid in before.items() if other != name
    }


def test_a_module_begins_as_a_process_of_its_own(server: Sandbox) -> None:
    for pid, name in everywhere(server).items():
        assert arguments_of(pid) == ["oarpy.modules", name]
        assert os.getsid(pid) == pid
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        assert os.readlink(f"/proc/{pid}/fd/0") == os.devnull
        assert "SigBlk:\t0000000000000000" in Path(f"/proc/{pid}/status").read_text()


def test_a_forked_program_has_no_descriptor_of_its_parent(cluster: Sandbox) -> None:
    """The other end of a pipe is closed while the program runs; it ends by a signal as a process does."""
    run_python(
        cluster,
        """
        ours, other = os.pipe()
        program = ForkedProgram(("oarpy.modules", "monitor"), {})
        os.close(other)
        assert os.read(ours, 1) == b""
        assert not program.ends_within(0)
        program.send(signal.SIGKILL)
        assert program.ends_within(60)
        assert program.poll() == -signal.SIGKILL
        """,
    )


def test_a_forked_program_says_why_it_cannot_run(cluster: Sandbox) -> None:
    """What cannot be imported does not keep others from being imported."""
    said = run_python(
        cluster,
        """
        import_all(["oarpy.nothing", "oarpy.modules.__main__"])
        for words, status in ((("oarpy.modules", "nobody"), NotFound.exit_status), (("oarpy.nothing",), 1)):
            program = ForkedProgram(words, {})
            assert program.ends_within(60)
            assert program.poll() == status
        """,
    )
    assert "oarpy: no module 'nobody' to be run" in said
    assert "ModuleNotFoundError: No module named 'oarpy.nothing'" in said


def test_a_module_that_keeps_dying_is_started_ever_more_rarely(server: Sandbox) -> None:
    for _ in range(4):
        until(lambda: "monitor" in everywhere(server).values(), "a monitor")
        (pid,) = [pid for pid, name in everywhere(server).items() if name == "monitor"]
        os.kill(pid, signal.SIGKILL)
        until(lambda: "monitor" not in everywhere(server).values(), "it is dead")
    until(lambda: "monitor" in modules(server), "it is started all the same")
    lines = [line for line in log(server).splitlines() if "module ended" in line and "monitor" in line]
    assert [float(line.partition("restart_in=")[2].split()[0]) for line in lines] == [0.1, 0.2, 0.4, 0.8]


@pytest.mark.parametrize("name", ["metascheduler", "automaton"])
def test_a_module_that_was_stopped_is_killed_and_started_again(server: Sandbox, name: str) -> None:
    before = {name: pid for pid, name in everywhere(server).items()}
    os.kill(before[name], signal.SIGSTOP)
    until(lambda: before[name] not in everywhere(server), f"{name} is killed")
    until(lambda: modules(server).get(name, before[name]) != before[name], f"{name} works again")
    assert f"event='module gives no sign of life: killed' module='{name}' pid={before[name]}" in log(server)
    others = {other: pid for other, pid in before.items() if other != name}
    assert others.items() <= modules(server).items()


def test_a_gateway_that_was_stopped_is_killed_and_started_again(server: Sandbox) -> None:
    listens = re.compile("event='gateway listens'.* pid=([0-9]+)")
    until(lambda: listens.search(log(server)), "the gateway listens")
    (pid,) = listens.findall(log(server))
    os.kill(int(pid), signal.SIGSTOP)
    until(lambda: f"gives no sign of life: killed' module='gateway' pid={pid}" in log(server), "the gateway is killed")
    until(lambda: len(listens.findall(log(server))) == 2, "another gateway listens")


def test_a_module_gives_the_signs_that_systemd_takes(cluster: Sandbox) -> None:
    """It runs as a unit of its own; what it starts is not to give any."""
    watch = Watch(1.0)
    environment = {**cluster.environment(), **watch.environment()}
    with subprocess.Popen([command("oarpy"), "run", "monitor"], env=environment) as module:
        until(lambda: module.pid in watch.signs(), "it gives a sign")
        until(lambda: module.pid in watch.signs(), "it gives another")
        module.send_signal(signal.SIGSTOP)
        module.kill()
    watch.close()


def test_the_supervisor_gives_the_signs_that_systemd_takes(cluster: Sandbox) -> None:
    """It has one thread, since it forks."""
    watch = Watch(4.0)
    environment = {**cluster.environment(), **watch.environment()}
    with subprocess.Popen([command("oarpy"), "server"], env=environment) as server:
        for sign in ("a sign", "another", "a third"):
            until(lambda: server.pid in watch.signs(), f"it gives {sign}")
        assert len(os.listdir(f"/proc/{server.pid}/task")) == 1
        server.terminate()
    watch.close()


def test_modules_die_with_a_killed_supervisor_and_the_database_does_not(server: Sandbox) -> None:
    assert len(everywhere(server)) == len(RUNNING)
    server.stop_server(signal.SIGKILL)
    until(lambda: not everywhere(server), "all modules are gone")
    with psycopg.connect(server.dsn()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_sigterm_ends_the_modules(server: Sandbox) -> None:
    process = server.server
    assert process is not None
    server.stop_server(signal.SIGTERM)
    assert process.returncode == 0
    assert everywhere(server) == {}


def test_an_embedded_database_that_is_killed_comes_back(server: Sandbox) -> None:
    data = embedded_server.data_directory(server.directory / "postgresql")
    assert data is not None
    # one that has not connected yet ends when it finds no database
    leads = "event='module leads' module='{}'"
    until(lambda: all(leads.format(name) in log(server) for name in RUNNING), "all modules work")
    before = modules(server)
    os.kill(int((data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    until(lambda: "embedded database started" in log(server), "the supervisor starts it")
    # automaton and negotiator do not say when they ran
    ran = "SELECT count(*) FROM module_runs WHERE at > pg_postmaster_start_time()"
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        until(lambda: connection.execute(ran).fetchone() == (len(RUNNING) - 2,), "all modules work again")
    assert modules(server) == before
