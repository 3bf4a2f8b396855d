"""``oarpy db dump`` and ``oarpy db restore``: to a second server, over another revision, all of it or nothing."""

from __future__ import annotations

import gzip
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from oarpy.client import installation
from oarpy.modules.accounting import file_away
from oarpy.postgres import embedded_server
from oarpy.postgres.account import account
from oarpy.postgres.binaries import client_programs
from oarpy.store.database import connect
from oarpy.store.schema import migrations
from oarpy.store.schema.checks.check import check
from tests.harness.past_jobs import MARCH, MONTH, NOW, ended
from tests.harness.sample_cluster import Connection, Shell, add_job, add_nodes

pytestmark = [pytest.mark.db, pytest.mark.oldest]

ROLE = "analyst_of_dumps"
KEPT = sorted(Path(__file__).parent.glob("cluster_at_*.sql.gz"))
SECRET = "SELECT rolpassword FROM pg_authid WHERE rolname = %s"


@pytest.fixture(scope="module")
def second_server(fast_directory: Path, postgres_version: str) -> Iterator[str]:
    """Another server, which knows nothing of the first one's roles."""
    folder = fast_directory / f"second-{os.getpid()}"
    yield embedded_server.start(folder, version=postgres_version, settings={"fsync": "off", "max_connections": "50"})
    embedded_server.remove(folder)


@pytest.fixture
def second(second_server: str) -> Iterator[str]:
    """An empty database there."""
    with psycopg.connect(second_server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE second")
    yield make_conninfo(second_server, dbname="second")
    with psycopg.connect(second_server, autocommit=True) as connection:
        connection.execute("DROP DATABASE second WITH (FORCE)")
        connection.execute(SQL("DROP ROLE IF EXISTS {}").format(Identifier(ROLE)))


def rows(dsn: str) -> dict[str, list[str]]:
    """All rows of all tables, as text."""
    with psycopg.connect(dsn) as connection:
        tables = connection.execute(
            "SELECT schemaname, tablename FROM pg_tables WHERE schemaname IN ('public', 'oar_past') ORDER BY 1, 2"
        ).fetchall()
        return {
            f"{schema}.{table}": sorted(
                row[0] for row in connection.execute(SQL("SELECT t::text FROM {} t").format(Identifier(schema, table)))
            )
            for schema, table in tables
        }


@pytest.fixture
def filled(dsn: str, connection: Connection, shell: Shell) -> str:
    """A database with jobs of all times, a table of the site, an analyst and their large object."""
    installation.upgrade(dsn)
    add_nodes(connection, "n1", "n2")
    ended(connection, MARCH)
    add_job(connection, "Running", resources=[1], user="ann")
    add_job(connection, "Waiting", user="bob", types=["container=box"])
    file_away(connection, NOW, MONTH)
    connection.execute("CREATE TABLE teams (name text); INSERT INTO teams VALUES ('red')")
    shell.done("oarpy", "db", "analyst", ROLE, "--compat")
    connection.execute(SQL("GRANT EXECUTE ON FUNCTION lo_create(oid) TO {}").format(Identifier(ROLE)))
    connection.execute(SQL("ALTER ROLE {} PASSWORD 'open'").format(Identifier(ROLE)))
    connection.execute(SQL("SET SESSION AUTHORIZATION {}").format(Identifier(ROLE)))
    connection.execute("SET default_transaction_read_only = off")
    connection.execute("SELECT lo_create(0)")
    connection.execute("RESET SESSION AUTHORIZATION")
    return dsn


def test_a_dump_comes_back_on_a_fresh_server_with_its_analysts(
    filled: str, second: str, shell: Shell, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "oarpy.dump"
    said = shell.done("oarpy", "db", "dump", str(file))
    assert said.startswith(f"{file}: revision {migrations.head()} of PostgreSQL ")
    assert file.stat().st_mode & 0o777 == 0o600
    assert {one.name for one in tmp_path.iterdir()} == {"config.toml", "oarpy.dump"}
    before, (password,) = rows(filled), connection.execute(SECRET, [ROLE]).fetchone() or ("",)
    monkeypatch.setenv("OARPY_DATABASE_URL", second)
    said = shell.done("oarpy", "db", "restore", str(file))
    assert said == f"role {ROLE} renewed\nrestored; the database is as it should be\n"
    assert rows(second) == before
    with psycopg.connect(second) as restored:
        assert restored.execute(SECRET, [ROLE]).fetchone() == (password,)
        restored.execute(SQL("SET SESSION AUTHORIZATION {}").format(Identifier(ROLE)))
        assert restored.execute("SELECT count(*) > 0 FROM oar_compat.jobs").fetchone() == (True,)
    again = shell("oarpy", "db", "restore", str(file))
    assert (again.status, "the database is not empty" in again.err) == (5, True)
    with psycopg.connect(second) as restored:
        restored.execute("CREATE TABLE of_a_newer_version (job_id bigint REFERENCES jobs)")
    assert "as it should be" in shell.done("oarpy", "db", "restore", str(file), "--replace")
    assert rows(second) == before


@pytest.mark.parametrize("file", KEPT, ids=[one.name for one in KEPT])
def test_older_dumps_are_restored_and_upgraded(
    file: Path, second: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OARPY_DATABASE_URL", second)
    said = shell.done("oarpy", "db", "restore", str(file)).splitlines()
    applied = [] if migrations.head() in file.name else [f"schema revision {migrations.head()} applied"]
    expected = [*applied, "restored; the database is as it should be"]
    assert said[-len(expected) :] == expected
    # over a newer one
    shell.done("oarpy", "db", "restore", str(file), "--replace")
    assert check(second) == ()


def test_what_cannot_be_read_changes_nothing(
    filled: str, shell: Shell, connection: Connection, tmp_path: Path, postgres_version: str
) -> None:
    good = tmp_path / "good.dump"
    shell.done("oarpy", "db", "dump", str(good))
    before = rows(filled)
    data = bytearray(good.read_bytes())
    script = gzip.decompress(KEPT[0].read_bytes())
    custom = tmp_path / "whole.custom"
    programs = client_programs(int(postgres_version), account())
    subprocess.run([str(programs / "pg_dump"), "-Fc", "-B", f"--file={custom}", filled], check=True)
    files = {
        "empty": b"",
        "text": b"hello",
        "cut.tar": bytes(data[: len(data) // 2]),
        "flipped": bytes(data[:-20_000]) + bytes([data[-20_000] ^ 1]) + bytes(data[-19_999:]),
        "cut.sql": script[: len(script) // 2],
        "cut.gz": KEPT[0].read_bytes()[:5000],
        "cut.custom": custom.read_bytes()[:-2000],
        "other.sql": b"-- of something else\nCREATE TABLE public.mine (x integer);\n",
        "newer.sql": script.replace(b"'0020'", b"'9999'"),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        refused = shell("oarpy", "db", "restore", str(tmp_path / name), "--replace")
        assert (refused.status != 0, refused.err.count("\n")) == (True, 1), (name, refused)
        assert rows(filled) == before, name
    assert "--replace" in shell("oarpy", "db", "restore", str(custom)).err
    assert "as it should be" in shell.done("oarpy", "db", "restore", str(custom), "--replace")
    assert rows(filled) == before


def test_nobody_restores_under_a_server_that_runs(
    filled: str, shell: Shell, connection: Connection, tmp_path: Path
) -> None:
    shell.done("oarpy", "db", "dump", str(tmp_path / "one"))
    with connect(filled, "automaton"):
        refused = shell("oarpy", "db", "restore", str(tmp_path / "one"), "--replace")
        assert (refused.status, "stop oarpy server" in refused.err) == (5, True)
    away = shell("oarpy", "db", "dump", str(tmp_path / "nowhere" / "one"))
    assert (away.status, "cannot write" in away.err) == (2, True)
