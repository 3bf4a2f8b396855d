"""An embedded PostgreSQL server in a folder: started, found and stopped by one function each.

The folder holds ``server.json`` (where the data and the socket are), ``lock`` (held while starting or stopping),
``server.log`` and normally ``data``. The server listens on a Unix socket only. It lets in, by the kernel's word (peer
authentication), the user it runs as and root. It is a process of its own and outlives the command that started it.
After a crash of everything the next :func:`start` cleans up, and PostgreSQL recovers from its log.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from oarpy.model.errors import NotAllowed, OarpyError, Unreachable, UsageError
from oarpy.postgres.account import PASSABLE, ServerAccount, account, make_passable
from oarpy.postgres.binaries import binaries
from oarpy.postgres.processes import alive, end_orphans, postmaster, send, spawn, wait_until_gone
from oarpy.postgres.settings import SETTINGS, write_access, write_settings
from oarpy.wire.foreign_paths import foreign_part

ROLE = "oarpy"
DATABASE = "oarpy"
_SOCKET_NAME = ".s.PGSQL.5432"
_SOCKET_LIMIT = 107
"""Bytes of a Unix socket's path on Linux."""
_ELSEWHERE = Path("/var/lib/oarpy/postgresql")
_LOG_LIMIT = 20_000_000
_PAUSE = 0.01
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class _Record:
    """The contents of ``server.json``."""

    data: str
    socket: str
    version: str


def start(
    directory: str | Path,
    *,
    version: str | None = None,
    settings: Mapping[str, str] | None = None,
    timeout: float = 300.0,
) -> str:
    """Start the server of ``directory`` (created on first use) unless it runs, and return its DSN once it answers.

    ``version`` is the major version of new data (default: the wheel's server); ``settings`` are added to
    ``oarpy.conf``. ``timeout`` bounds the wait for crash recovery, in seconds. Raises :class:`OarpyError`.
    """
    folder = _folder(directory)
    owner = account()
    _create_folder(folder, owner)
    with _locked(folder):
        # a server that was killed a moment ago may still look alive: then the first round only sees it vanish
        for _ in range(_ROUNDS):
            record = _read(folder)
            if record is None or postmaster(Path(record.data)) is None:
                record = _prepare(folder, owner, record, version)
                data = Path(record.data)
                write_access(data, owner)
                write_settings(data, {**SETTINGS, **(settings or {})}, owner)
                _launch(folder, record, owner, timeout)
            elif version is not None and version != record.version:
                raise UsageError(f"the server in {folder} is PostgreSQL {record.version}, not {version}")
            if _becomes_ready(folder, record, timeout):
                return _dsn(record)
    raise OarpyError(f"the embedded database in {folder} ends as soon as it starts", hint=f"see {folder}/server.log")


def stop(directory: str | Path, *, timeout: float = 60.0) -> bool:
    """Stop the server of ``directory``: open sessions are ended, the data is left clean. False if it did not run."""
    folder = _folder(directory)
    if not folder.is_dir():
        return False
    with _locked(folder):
        record = _read(folder)
        return record is not None and _stop(Path(record.data), timeout)


def remove(directory: str | Path) -> None:
    """Stop the server of ``directory`` and delete all its data."""
    folder = _folder(directory)
    if not folder.is_dir():
        return
    with _locked(folder):
        record = _read(folder)
        if record is not None:
            _stop(Path(record.data), 5.0)
            shutil.rmtree(record.socket, ignore_errors=True)
            place = Path(record.data).parent
            if place != folder and place.parent == _ELSEWHERE:
                shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(folder)


def dsn(directory: str | Path) -> str:
    """Return the DSN of the running server of ``directory``. Raises :class:`Unreachable` when it does not run."""
    folder = _folder(directory)
    record = _read(folder)
    if record is None or postmaster(Path(record.data)) is None:
        raise Unreachable(f"the embedded database in {folder} does not run", hint="start it with: oarpy db start")
    return _dsn(record)


def is_running(directory: str | Path) -> bool:
    """Tell whether the server of ``directory`` runs (it may still be recovering)."""
    record = _read(_folder(directory))
    return record is not None and postmaster(Path(record.data)) is not None


def data_directory(directory: str | Path) -> Path | None:
    """Return where the data of ``directory`` really is; ``None`` before the first start."""
    record = _read(_folder(directory))
    return None if record is None else Path(record.data)


def _folder(directory: str | Path) -> Path:
    return Path(os.path.abspath(directory))


def _dsn(record: _Record) -> str:
    return f"postgresql:///{DATABASE}?host={quote(record.socket, safe='')}&user={ROLE}"


def _create_folder(folder: Path, owner: ServerAccount) -> None:
    if os.geteuid() == 0 and (foreign := foreign_part(str(folder))):
        raise NotAllowed(f"the database folder {folder} is not root's alone: {foreign}", hint="choose another folder")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.geteuid():
            raise NotAllowed(f"{folder} belongs to another user", hint="start the database as its owner")
        # for root, the server's own user must be able to pass through; the folders inside stay closed
        folder.chmod(PASSABLE if owner.switch else 0o700)
    except OSError as error:
        raise OarpyError(f"the database folder {folder} cannot be used: {error.strerror}") from error


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise NotAllowed(f"{folder} cannot be locked: {error.strerror}", hint="act as its owner") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _read(folder: Path) -> _Record | None:
    try:
        return _Record(**json.loads((folder / "server.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise NotAllowed(
            f"the database in {folder} is for its owner alone",
            hint="its owner, or root, runs this; who only reads has a role of their own (oarpy db analyst)",
        ) from error
    except (OSError, ValueError, TypeError) as error:
        raise OarpyError(f"{folder}/server.json cannot be read: {error}") from error


def _write(folder: Path, record: _Record) -> None:
    draft = folder / "server.json.new"
    draft.write_text(json.dumps(asdict(record), indent=2) + "\n", encoding="utf-8")
    draft.chmod(0o600)
    draft.rename(folder / "server.json")


def _prepare(folder: Path, owner: ServerAccount, record: _Record | None, version: str | None) -> _Record:
    """Make sure of the data (initialised as a whole or not at all) and of a socket directory; record both."""
    data = _place(folder, owner) / "data" if record is None else Path(record.data)
    marker = data / "PG_VERSION"
    if marker.is_file():
        present = marker.read_text(encoding="ascii").strip()
        if version is not None and version != present:
            raise UsageError(
                f"the data in {folder} is of PostgreSQL {present}, not {version}", hint="use dump, restore"
            )
        version = present
    elif record is not None and record.socket:
        raise OarpyError(f"the data of {folder} is gone: {data}", hint=f"restore it, or remove {folder}")
    else:
        version = _initialise(data, owner, version)
    ready = _Record(str(data), str(_socket_directory(data.parent, owner, record)), version)
    _write(folder, ready)
    return ready


def _place(folder: Path, owner: ServerAccount) -> Path:
    """Return where the data goes: in the folder, or outside when the server's own user cannot reach it."""
    if not owner.switch:
        return folder
    probe = folder / "probe"
    probe.mkdir(mode=0o700, exist_ok=True)
    owner.give(probe)
    reachable = owner.can("write", probe)
    probe.rmdir()
    if reachable:
        return folder
    place = _ELSEWHERE / uuid.uuid4().hex[:12]
    make_passable(place)
    # known before it is filled, so that a crash from here on does not lose it
    _write(folder, _Record(str(place / "data"), "", ""))
    return place


def _initialise(data: Path, owner: ServerAccount, version: str | None) -> str:
    programs = binaries(version, owner)
    draft = data.with_name("data.new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700)
    owner.give(draft)
    command = [str(programs / "initdb"), "--pgdata", str(draft), "--username", ROLE, "--auth", "peer"]
    command += ["--encoding", "UTF8", "--locale", "C", "--data-checksums", "--no-instructions"]
    done = owner.run(command)
    if done.returncode != 0:
        raise OarpyError(f"the database in {data} cannot be initialised: {_last_line(done.stderr)}")
    draft.rename(data)
    return (data / "PG_VERSION").read_text(encoding="ascii").strip()


def _socket_directory(place: Path, owner: ServerAccount, record: _Record | None) -> Path:
    """Return a directory for the socket, closed to others, whose path is short and plain enough for PostgreSQL."""
    if record is not None and record.socket and _private(Path(record.socket), owner):
        return Path(record.socket)
    near = place / "socket"
    plain = all(letter.isalnum() or letter in "/._-" for letter in str(near)) and str(near).isascii()
    if plain and len(f"{near}/{_SOCKET_NAME}") <= _SOCKET_LIMIT:
        near.mkdir(mode=0o700, exist_ok=True)
        owner.give(near)
        return near
    far = Path(tempfile.mkdtemp(prefix="oarpy-", dir="/tmp"))
    owner.give(far)
    return far


def _private(path: Path, owner: ServerAccount) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return path.is_dir() and not path.is_symlink() and status.st_uid == owner.uid and status.st_mode & 0o077 == 0


def _launch(folder: Path, record: _Record, owner: ServerAccount, timeout: float) -> None:
    data = Path(record.data)
    end_orphans(data)
    # The processes of these files are known to be dead. Left alone, a reused number, or a zombie that is never waited
    # for, would block the start.
    (data / "postmaster.pid").unlink(missing_ok=True)
    for name in (_SOCKET_NAME, f"{_SOCKET_NAME}.lock"):
        (Path(record.socket) / name).unlink(missing_ok=True)
    log = folder / "server.log"
    if log.exists() and log.stat().st_size > _LOG_LIMIT:
        log.rename(folder / "server.log.1")
    log.touch(mode=0o600)
    command = [str(binaries(record.version, owner) / "postgres"), "-D", record.data]
    command += ["-c", "listen_addresses=", "-c", f"unix_socket_directories={record.socket}", "-c", "port=5432"]
    pid = spawn(command, owner, log)
    deadline = time.monotonic() + min(timeout, 60.0)
    while postmaster(data) is None:
        if not alive(pid) or time.monotonic() > deadline:
            reason = _last_line(log.read_text(encoding="utf-8", errors="replace"))
            raise OarpyError(f"the embedded database in {folder} did not start: {reason}", hint=f"see {log}")
        time.sleep(_PAUSE)


def _becomes_ready(folder: Path, record: _Record, timeout: float) -> bool:
    """Wait for the end of recovery, and make sure of our database. False if the server is gone."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            connection = psycopg.connect(host=record.socket, user=ROLE, dbname="postgres", autocommit=True)
            break
        except psycopg.OperationalError as error:
            if postmaster(Path(record.data)) is None:
                return False
            if time.monotonic() > deadline:
                reason = _last_line(str(error))
                raise OarpyError(f"the embedded database in {folder} does not answer: {reason}") from error
            time.sleep(_PAUSE)
    with connection:
        if not connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE]).fetchall():
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    return True


def _stop(data: Path, timeout: float) -> bool:
    pid = postmaster(data)
    if pid is None:
        return False
    # SIGINT is PostgreSQL's fast shutdown, SIGQUIT the immediate one, which the next start recovers from
    for number, patience in ((signal.SIGINT, timeout), (signal.SIGQUIT, 10.0), (signal.SIGKILL, 10.0)):
        send(pid, number)
        if wait_until_gone(data, pid, patience):
            end_orphans(data)
            return True
    raise OarpyError(f"the embedded database server (process {pid}) cannot be stopped")


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]
