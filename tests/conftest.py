"""A real PostgreSQL server for the tests, and a fresh database for each of them.

``OARPY_TEST_POSTGRES`` chooses the server's major version (default: the embedded one). All sessions and workers of one
checkout share one server per version; the last one to leave stops it and removes its data.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from oarpy.postgres import embedded_server
from oarpy.postgres.binaries import available_versions
from tests.harness.bare_environment import bare_environment, enter
from tests.harness.examples import RANDOM, examples
from tests.harness.kept_database import KeptDatabase, KeptDatabases
from tests.harness.throwaway_server import SETTINGS

# before any test is imported: no test sees what this machine has of oarpy
enter()

# Explaining a failure traces every line of every example: slow, and CPython 3.11 has hung in it. How long examples take
# is a matter of what else the machine does.
settings.register_profile(
    "oarpy",
    phases=[phase for phase in Phase if phase is not Phase.explain],
    max_examples=examples(100),
    deadline=None,
    derandomize=not RANDOM,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("oarpy")

# A shell's background process ignores interrupts, and so would all that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent
MOSTLY_WAITING = ("campaigns", "e2e", "packaging", "integrations")
"""Folders whose tests start processes and wait for them; the tests of all others keep a processor busy."""
MEMORY_NEEDED = 2 * 2**30


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests that wait and tests that compute take turns.

    Raises :class:`pytest.UsageError` for a test marked ``oldest`` in a folder that is not read for the oldest server.
    """
    places = _places(dict.fromkeys(item.path for item in items))
    items.sort(key=lambda item: places[item.path])
    for item in items:
        if item.get_closest_marker("oldest") and _folder(item.path) != "db":
            raise pytest.UsageError(f"{item.nodeid} is marked oldest, which is for tests/db alone")


def _places(files: Collection[Path]) -> dict[Path, tuple[float, str]]:
    """Return where in the run each file is: its share of the run that is over by then, and its name.

    Files that wait are spread over the first four fifths, so that no worker ends long after the others.
    """
    waiting = [path for path in files if _folder(path) in MOSTLY_WAITING]
    computing = [path for path in files if _folder(path) not in MOSTLY_WAITING]
    shares = {path: 0.8 * place / len(waiting) for place, path in enumerate(waiting)}
    shares |= {path: place / len(computing) for place, path in enumerate(computing)}
    return {path: (share, str(path)) for path, share in shares.items()}


def _folder(path: Path) -> str:
    return path.relative_to(ROOT / "tests").parts[0]


@pytest.fixture(scope="session")
def postgres_version() -> str:
    """The major version under test; skips when that server is not installed."""
    found = available_versions()
    wanted = os.environ.get("OARPY_TEST_POSTGRES") or (found[0] if found else "18")
    if wanted not in found:
        pytest.skip(f"PostgreSQL {wanted} is not installed here (found: {', '.join(found) or 'none'})")
    return wanted


@pytest.fixture(scope="session")
def fast_directory() -> Path:
    """In memory where there is room: a database is hundreds of small files, copied for every test."""
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > MEMORY_NEEDED:
        return memory
    return Path(tempfile.gettempdir())


@pytest.fixture(scope="session")
def server(postgres_version: str, fast_directory: Path) -> Iterator[str]:
    """DSN of a running server; its databases belong to the tests."""
    base = fast_directory / f"oarpy-tests-{os.geteuid()}"
    base.mkdir(mode=0o711, exist_ok=True)
    if base.stat().st_uid != os.geteuid():
        pytest.fail(f"{base} belongs to another user")
    name = f"{postgres_version}-{hashlib.sha256(str(ROOT).encode()).hexdigest()[:8]}"
    with (base / f"{name}.users").open("a") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        yield embedded_server.start(base / name, version=postgres_version, settings=SETTINGS)
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        embedded_server.remove(base / name)


@pytest.fixture(scope="session")
def template(server: str) -> str:
    """Name of a database with the current schema, made once for each state of the migrations."""
    # imported here: unit tests need neither SQLAlchemy nor Alembic
    from oarpy.store.schema import migrations

    name = f"template_{_schema_digest()}"
    with psycopg.connect(server, dbname="postgres", autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(hashtext(%s))", [name])
        if not connection.execute("SELECT FROM pg_database WHERE datname = %s", [name]).fetchall():
            draft = f"draft_{uuid.uuid4().hex}"
            connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(draft)))
            migrations.upgrade(make_conninfo(server, dbname=draft))
            rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
            connection.execute(rename.format(sql.Identifier(draft), sql.Identifier(name)))
    return name


@pytest.fixture
def empty_dsn(server: str) -> Iterator[str]:
    """DSN of a fresh database without any schema, dropped afterwards."""
    yield from _database(server, "template0")


@pytest.fixture
def copied(server: str) -> Callable[[str], AbstractContextManager[str]]:
    """Makes a copy of a database to which nobody is connected: its DSN, dropped at the end of the block."""
    return lambda dsn: contextmanager(_database)(server, str(conninfo_to_dict(dsn)["dbname"]))


@pytest.fixture(scope="session")
def kept_databases(server: str, template: str) -> Iterator[KeptDatabases]:
    """Databases that one test of this process uses after the other."""
    with closing(KeptDatabases(lambda: contextmanager(_database)(server, template))) as kept:
        yield kept


@pytest.fixture
def kept_database(kept_databases: KeptDatabases) -> Iterator[KeptDatabase]:
    """The database of a test marked ``kept``."""
    with kept_databases.lend() as database:
        yield database


@pytest.fixture
def dsn(request: pytest.FixtureRequest, server: str, template: str) -> Iterator[str]:
    """DSN of a fresh database with the current schema (no admission rules, no nodes), dropped afterwards.

    For a test marked ``kept`` it is one that others have used, emptied.
    """
    if request.node.get_closest_marker("kept"):
        yield request.getfixturevalue("kept_database").dsn
    else:
        yield from _database(server, template)


@pytest.fixture(scope="module")
def cluster_databases(server: str, template: str) -> Iterator[Callable[[], dict[str, str]]]:
    """Makes a section ``[database]`` for a cluster of a module: a fresh database here instead of a server of its own.

    It is an installation of its own: agents take processes that carry the mark of their installation for theirs.
    """
    with ExitStack() as stack:

        def another() -> dict[str, str]:
            dsn = stack.enter_context(contextmanager(_database)(server, template))
            with psycopg.connect(dsn, autocommit=True) as session:
                session.execute("UPDATE site SET instance = gen_random_uuid()")
            return {"url": dsn}

        yield another


@pytest.fixture(scope="module")
def cluster_database(cluster_databases: Callable[[], dict[str, str]]) -> dict[str, str]:
    """Section ``[database]`` for the cluster of a module."""
    return cluster_databases()


@pytest.fixture
def connection(request: pytest.FixtureRequest, dsn: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A connection to the database of ``dsn``, in autocommit mode: a server's, as far as commands can tell."""
    if request.node.get_closest_marker("kept"):
        yield request.getfixturevalue("kept_database").connection()
        return
    with psycopg.connect(dsn, autocommit=True, application_name="oarpy metascheduler") as opened:
        yield opened


@pytest.fixture
def cluster_environment(dsn: str, tmp_path: Path) -> dict[str, str]:
    """Environment for real command processes: its configuration file names the fresh database."""
    config = tmp_path / "config.toml"
    config.write_text(f'[database]\nurl = "{dsn}"\n', encoding="utf-8")
    return bare_environment(OARPY_CONFIG=str(config))


def _database(server: str, source: str) -> Iterator[str]:
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server, dbname="postgres", autocommit=True) as maintenance:
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
        maintenance.execute(create.format(sql.Identifier(name), sql.Identifier(source)))
        yield make_conninfo(server, dbname=name)
        maintenance.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _schema_digest() -> str:
    sources = sorted((ROOT / "migrations").rglob("*.py")) + sorted((ROOT / "migrations").rglob("*.sql"))
    sources += [*sorted((ROOT / "oarpy" / "store" / "schema").glob("*.py")), ROOT / "oarpy" / "model" / "states.py"]
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
