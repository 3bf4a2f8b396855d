"""A PostgreSQL primary with a synchronous streaming standby, as a site with high availability has; for tests.

Both listen on Unix sockets only. The DSN names both: libpq finds the one that takes writes, as it would with Patroni.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from oarpy.model.errors import OarpyError
from oarpy.postgres.account import ServerAccount, account
from oarpy.postgres.binaries import binaries
from oarpy.postgres.processes import end_orphans, postmaster, spawn, wait_until_gone

_DEADLINE = 60.0
_STANDBY = "standby1"
_SETTINGS = """
listen_addresses = ''
wal_level = replica
hot_standby = on
max_connections = 100
shared_buffers = 64MB
unix_socket_permissions = 0700
"""


@dataclass(slots=True)
class Server:
    """One PostgreSQL server: its data, and the folder of its socket."""

    data: Path
    socket: Path
    programs: Path
    owner: ServerAccount
    port: int = 5432

    def start(self) -> None:
        """Start it and wait until it answers."""
        spawn([str(self.programs / "postgres"), "-D", str(self.data)], self.owner, self.data.parent / "server.log")
        end = time.monotonic() + _DEADLINE
        while True:
            try:
                psycopg.connect(self.dsn("postgres"), autocommit=True).close()
                return
            except psycopg.OperationalError as error:
                if time.monotonic() > end:
                    raise OarpyError(f"PostgreSQL in {self.data} does not answer: {error}") from error
                time.sleep(0.02)

    def dsn(self, database: str) -> str:
        """Where this very server is."""
        return f"host={self.socket} port={self.port} user=oarpy dbname={database}"

    def kill(self) -> None:
        """End it as a dying host would: SIGKILL for its main process, and for what it leaves behind."""
        pid = postmaster(self.data)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            wait_until_gone(self.data, pid, _DEADLINE)
        end_orphans(self.data)

    def run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs as the server's user."""
        done = self.owner.run([str(self.programs / program), *arguments])
        if done.returncode:
            raise OarpyError(f"{program} ended with {done.returncode}: {done.stderr[-300:]}")


@dataclass(slots=True)
class ReplicatedDatabase:
    """The pair. What the primary has acknowledged, the standby has (synchronous replication)."""

    primary: Server
    standby: Server

    @property
    def url(self) -> str:
        """The DSN for a configuration: either host, whichever takes writes."""
        hosts = f"{self.primary.socket},{self.standby.socket}"
        return f"host={hosts} port=5432,5432 user=oarpy dbname=oarpy target_session_attrs=read-write"

    def promote(self) -> None:
        """Make the standby the one that takes writes."""
        self.standby.run("pg_ctl", "promote", "--wait", "-D", str(self.standby.data))


@contextmanager
def replicated_database(directory: Path) -> Iterator[ReplicatedDatabase]:
    """Run the pair below ``directory``, which the server's user must be able to pass through."""
    owner = account()
    programs = binaries(None, owner)
    primary, standby = (_place(directory / name, programs, owner) for name in ("primary", "standby"))
    try:
        _initialise(primary)
        primary.start()
        _follow(primary, standby)
        yield ReplicatedDatabase(primary, standby)
    finally:
        for server in (primary, standby):
            server.kill()


def _place(folder: Path, programs: Path, owner: ServerAccount) -> Server:
    for path in (folder, folder / "socket"):
        path.mkdir(mode=0o700, parents=True)
        owner.give(path)
    return Server(folder / "data", folder / "socket", programs, owner)


@contextmanager
def network_database(directory: Path, address: str) -> Iterator[str]:
    """Run one server that the network of ``address`` (IPv4, 24 bits) may reach there; yield its DSN."""
    owner = account()
    server = _place(directory, binaries(None, owner), owner)
    try:
        _initialise(server, f"listen_addresses = '{address}'\n", f"host all all {address}/24 trust\n")
        server.start()
        with psycopg.connect(server.dsn("postgres"), autocommit=True) as session:
            session.execute("CREATE DATABASE oarpy")
        yield f"host={address} port=5432 user=oarpy dbname=oarpy"
    finally:
        server.kill()


@contextmanager
def site_database(directory: Path, settings: str) -> Iterator[Server]:
    """Run one server as a site sets it up, with its ``settings``: passwords on TCP of this machine."""
    owner = account()
    server = _place(directory, binaries(None, owner), owner)
    server.port = _free_port()
    try:
        own = f"listen_addresses = '127.0.0.1'\nport = {server.port}\nfsync = off\n{settings}"
        _initialise(server, own, "host all all 127.0.0.1/32 scram-sha-256\n")
        server.start()
        yield server
    finally:
        server.kill()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def _initialise(primary: Server, settings: str = "", access: str = "") -> None:
    options = ["--username", "oarpy", "--auth", "trust"]
    primary.run("initdb", "--pgdata", str(primary.data), *options, "--encoding", "UTF8", "--locale", "C")
    _write(primary, "postgresql.conf", f"{_SETTINGS}unix_socket_directories = '{primary.socket}'\n{settings}")
    _write(primary, "pg_hba.conf", f"local all all trust\nlocal replication all trust\n{access}")


def _follow(primary: Server, standby: Server) -> None:
    """Make the standby from a copy of the primary, and wait until commits wait for it."""
    slot = ["--create-slot", "--slot", _STANDBY, "--write-recovery-conf", "--checkpoint", "fast"]
    connection = f"host={primary.socket} user=oarpy application_name={_STANDBY}"
    standby.run("pg_basebackup", "--pgdata", str(standby.data), "--dbname", connection, *slot)
    _write(standby, "postgresql.conf", f"{_SETTINGS}unix_socket_directories = '{standby.socket}'\n")
    standby.start()
    with psycopg.connect(primary.dsn("postgres"), autocommit=True) as session:
        session.execute(sql.SQL("ALTER SYSTEM SET synchronous_standby_names = {}").format(sql.Literal(_STANDBY)))
        session.execute("SELECT pg_reload_conf()")
        end = time.monotonic() + _DEADLINE
        while session.execute("SELECT sync_state FROM pg_stat_replication").fetchall() != [("sync",)]:
            if time.monotonic() > end:
                raise OarpyError("the standby does not follow")
            time.sleep(0.02)
        session.execute("CREATE DATABASE oarpy")


def _write(server: Server, name: str, text: str) -> None:
    path = server.data / name
    path.write_text(text, encoding="utf-8")
    server.owner.give(path)
