"""A PostgreSQL of the site, set up as the guides say: analysts log in, another server follows, WAL brings back."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from oarpy.client import installation
from oarpy.store.platform import site
from tests.campaigns.replicated_database import Server, site_database
from tests.harness.bare_environment import bare_environment
from tests.harness.sample_cluster import Connection, add_job, add_nodes
from tests.harness.waiting import until

pytestmark = pytest.mark.db

GUIDES = Path(__file__).resolve().parent.parent.parent / "docs" / "guides"
OARPY = str(Path(sys.executable).parent / "oarpy")
PRIVATE = "sesame"


@dataclass(frozen=True, slots=True)
class SiteServer:
    """The server, the folder for copies of it, and its configuration for commands."""

    server: Server
    backup: Path
    environment: dict[str, str]

    def connect(self) -> Connection:
        """Connect as its owner."""
        return psycopg.connect(self.server.dsn("oarpy"), autocommit=True)

    def log_in(self, user: str, password: str) -> Connection:
        """Connect over TCP, as people do."""
        address = f"host=127.0.0.1 port={self.server.port} dbname=oarpy"
        return psycopg.connect(address, user=user, password=password, autocommit=True)


@pytest.fixture(scope="module")
def own(fast_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteServer]:
    """A server as the guides set it up, with oarpy's schema, two nodes and a job with something private."""
    folder = fast_directory / f"oarpy-site-{uuid.uuid4().hex[:8]}"
    folder.mkdir(mode=0o755)
    backup = folder / "backup"
    try:
        settings = "max_wal_senders = 10\nwal_level = logical\n" + block("backup", "text wal", backup)
        with site_database(folder / "server", settings) as server:
            for made in (backup, backup / "wal"):
                made.mkdir()
                server.owner.give(made)
            with psycopg.connect(server.dsn("postgres"), autocommit=True) as session:
                session.execute("CREATE DATABASE oarpy")
            config = tmp_path_factory.mktemp("site") / "config.toml"
            config.write_text(f'[database]\nurl = "{server.dsn("oarpy")}"\n', encoding="utf-8")
            found = SiteServer(server, backup, bare_environment(OARPY_CONFIG=str(config)))
            installation.upgrade(server.dsn("oarpy"))
            with found.connect() as session:
                add_nodes(session, "n1", "n2")
                add_job(session, "Running", resources=[1], user="ann", command=PRIVATE, stdout_path=PRIVATE)
            yield found
    finally:
        shutil.rmtree(folder)


def block(guide: str, kind: str, backup: Path | None = None) -> str:
    """The block of a guide with these words at its head; its folder is ``backup``."""
    text = (GUIDES / f"{guide}.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(found).replace("/srv/backup", str(backup))


def test_an_analyst_logs_in_with_a_password_and_reads_what_is_for_all(own: SiteServer, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("opensesame\n", encoding="utf-8")
    command = [OARPY, "db", "analyst", "eve", "--password-file", str(secret)]
    made = subprocess.run(command, env=own.environment, capture_output=True, text=True, check=False)
    assert (made.stdout, made.stderr) == ("role eve made\n", "")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        own.log_in("eve", "guessed")
    with own.log_in("eve", "opensesame") as session:
        assert session.execute("SELECT user_name, state FROM jobs").fetchall() == [("ann", "Running")]
        seen = session.execute("SELECT j::text FROM oar_compat.jobs j UNION ALL SELECT j::text FROM jobs j").fetchall()
        assert len(seen) == 2
        assert not any(PRIVATE in row for (row,) in seen)
        assert session.execute("SELECT command FROM oar_compat.jobs").fetchall() == [("",)]
        session.execute("SET default_transaction_read_only = off")
        for refused in (
            "SELECT command FROM public.jobs",
            "SELECT environment FROM public.submissions",
            "UPDATE public.jobs SET state = 'Hold'",
            "UPDATE oar_report.jobs SET state = 'Hold'",
            "DELETE FROM oar_compat.resources",
            "CREATE TABLE public.mine (a integer)",
            "SELECT pg_read_file('postgresql.conf')",
            "SET ROLE oarpy",
        ):
            with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ObjectNotInPrerequisiteState)):
                session.execute(refused)


def test_another_server_follows_and_keeps_jobs_that_go_to_the_past(own: SiteServer, empty_dsn: str) -> None:
    address = f"port={own.server.port}"
    with own.connect() as source, psycopg.connect(empty_dsn, autocommit=True) as copy:
        source.execute(block("analyst", "sql publish"))
        for statement in block("analyst", "sql subscribe").replace("port=5432", address).split(";\n"):
            if statement.strip():
                copy.execute(statement)
        try:

            def copied() -> list[tuple[object, ...]]:
                return copy.execute("SELECT job_id, user_name, state FROM jobs ORDER BY 1").fetchall()

            def present() -> list[tuple[object, ...]]:
                return source.execute("SELECT job_id, user_name, state FROM public.jobs ORDER BY 1").fetchall()

            until(lambda: copied() == present() != [], "what was there has not arrived")
            added = add_job(source, "Running", resources=[2], user="bob")
            until(lambda: (added, "bob", "Running") in copied(), "a new job has not arrived")
            with source.transaction():
                source.execute("SET LOCAL session_replication_role = replica")
                source.execute("DELETE FROM public.jobs WHERE job_id = %s", [added])
            later = add_job(source, user="eve")
            until(lambda: (later, "eve", "Waiting") in copied(), "a later job has not arrived")
            assert (added, "bob", "Running") in copied()
        finally:
            copy.execute("DROP SUBSCRIPTION oarpy")


def test_wal_brings_back_an_instant_and_it_is_noticed(own: SiteServer) -> None:
    def run(name: str, **variables: str) -> None:
        script = f"cd /\nexport PATH={own.server.programs}:$PATH PGHOST={own.server.socket} PGUSER=oarpy\n"
        script += f"export PGPORT={own.server.port}\n" + "".join(
            f"{key}='{value}'\n" for key, value in variables.items()
        )
        done = own.server.owner.run(["bash", "-euc", script + block("backup", f"sh {name}", own.backup)])
        assert done.returncode == 0, done.stderr

    run("base")
    with own.connect() as session:
        assert site.generation(session).number == 0
        kept = add_job(session)
        ((instant,),) = session.execute("SELECT clock_timestamp()::text").fetchall()
        lost = add_job(session)
        # WAL is archived by files, the last one when it is full or late
        ((last,),) = session.execute("SELECT pg_walfile_name(pg_switch_wal())").fetchall()
        until(lambda: (own.backup / "wal" / str(last)).exists(), "the WAL is not archived")
    run("instant", INSTANT=str(instant))
    own.server.run("pg_ctl", "stop", "--wait", "--mode=fast", "-D", str(own.server.data))
    restored = Server(
        own.backup / "restored", own.server.socket, own.server.programs, own.server.owner, own.server.port
    )
    restored.start()
    try:
        with psycopg.connect(restored.dsn("oarpy"), autocommit=True) as session:
            until(
                lambda: session.execute("SELECT pg_is_in_recovery()").fetchone() == (False,), "it is still recovering"
            )
            found = {job for (job,) in session.execute("SELECT job_id FROM jobs")}
            assert kept in found
            assert lost not in found
            check = [OARPY, "db", "check"]
            done = subprocess.run(check, env=own.environment, capture_output=True, text=True, check=False)
            assert (done.stdout, done.stderr) == ("the database is as it should be\n", "")
            assert site.generation(session).number == 1
            assert add_job(session) > lost
    finally:
        restored.run("pg_ctl", "stop", "--wait", "--mode=fast", "-D", str(restored.data))
        own.server.start()
