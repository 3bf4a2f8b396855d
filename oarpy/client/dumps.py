"""``oarpy db dump`` and ``oarpy db restore``: the database in one file, with all that a dump of PostgreSQL leaves out.

::

    FILE (tar)   oarpy.json      revision, versions, checksum, and the roles of analysts with their passwords' hashes
                 database.dump   pg_dump, custom format, without large objects

A restore is one transaction: the content of the file replaces the database, or nothing happens. Then the schema is
brought to this version, and analysts get their roles again.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import IO

import msgspec
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from oarpy import installed_version
from oarpy.client import installation
from oarpy.configuration import Configuration
from oarpy.model.errors import NotAllowed, NotFound, OarpyError, UsageError
from oarpy.postgres.account import account
from oarpy.postgres.binaries import client_programs
from oarpy.store import notifications
from oarpy.store.analytics import roles
from oarpy.store.analytics.roles import Analyst
from oarpy.store.database import Connection, connect, database_dsn, peer_account, reachable

_FORMAT = 1
_FACTS, _DATABASE = "oarpy.json", "database.dump"
_CUSTOM, _GZIP = b"PGDMP", b"\x1f\x8b"
_HEAD = 60
"""Lines of a script before its first table."""

# The site's own tables in schema public are in the dump too.
_EMPTY = """
BEGIN;
SET LOCAL client_min_messages = warning;
SET LOCAL lock_timeout = '30s';
DROP SCHEMA IF EXISTS oar_report, oar_compat, oar_all, oar_past CASCADE;
DROP SCHEMA IF EXISTS public CASCADE;
CREATE SCHEMA public;
ALTER SCHEMA public OWNER TO pg_database_owner;
COMMENT ON SCHEMA public IS 'standard public schema';
GRANT USAGE ON SCHEMA public TO PUBLIC;
"""
_KNOWN = """
DO $check$ BEGIN
    IF to_regclass('public.alembic_version') IS NULL THEN
        RAISE EXCEPTION 'it is no dump of oarpy';
    ELSIF NOT EXISTS (SELECT FROM public.alembic_version WHERE version_num = ANY ('{{{revisions}}}')) THEN
        RAISE EXCEPTION 'it is at revision %, which this oarpy does not know: restore it with a newer one',
            (SELECT version_num FROM public.alembic_version);
    END IF;
END $check$;
COMMIT;
"""


class DumpFacts(msgspec.Struct, frozen=True):
    """The facts of a dump; ``analysts`` are roles that belong to the server and not to the database."""

    revision: str
    postgresql: int
    oarpy: str
    at: str
    sha256: str
    analysts: tuple[Analyst, ...] = ()
    format: int = _FORMAT


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore: revisions that came on top, analysts that have their roles again, and problems."""

    revisions: tuple[str, ...]
    analysts: tuple[str, ...]
    problems: tuple[str, ...]


def dump(configuration: Configuration, target: Path) -> DumpFacts:
    """Write the database as it is now to ``target``, which only its owner may read: whole, or not at all."""
    from oarpy.store.schema import migrations  # other programs that run jobs import nothing of it

    dsn = database_dsn(configuration)
    if (revision := migrations.current(dsn)) is None:
        raise NotFound("there is no oarpy schema in this database", hint="run 'oarpy db upgrade'")
    with reachable(), connect(dsn, "db dump") as connection:
        version = connection.info.server_version // 10000
        analysts = tuple(roles.analysts(connection))
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as folder:
            data, draft = Path(folder) / _DATABASE, Path(folder) / "draft"
            with data.open("wb") as file:
                words = [str(client_programs(version, account()) / "pg_dump"), "--format=custom", "--no-blobs"]
                _run(words, dsn, file)
            at = datetime.now(UTC).isoformat(timespec="seconds")
            facts = DumpFacts(revision, version, installed_version(), at, _checksum(data), analysts)
            (Path(folder) / _FACTS).write_bytes(msgspec.json.encode(facts))
            with tarfile.open(draft, "w") as archive:
                for name in (_FACTS, _DATABASE):
                    archive.add(Path(folder) / name, name)
            draft.chmod(0o600)
            os.replace(draft, target)
    except OSError as error:
        raise UsageError(f"cannot write '{target}': {error.strerror}", hint="a file in a folder of yours") from error
    return facts


def restore(configuration: Configuration, source: Path, *, replace: bool) -> Restored:
    """Replace the content of the database by ``source``; a database that is not empty only if ``replace``.

    ``source`` is from :func:`dump` or from ``pg_dump``, as a script (also compressed) or in its custom format. Raises
    :class:`OarpyError`, and then the database is as it was.
    """
    dsn = database_dsn(configuration)
    with reachable(), connect(dsn, "db restore") as connection:
        _require_free(connection, replace=replace)
        version = connection.info.server_version // 10000
    with tempfile.TemporaryDirectory() as folder:
        facts, data = _read(source, Path(folder))
        programs = client_programs(max(version, facts.postgresql if facts else 0), account())
        with _script(data, programs) as lines:
            _play(lines, programs, dsn, version)
    revisions = installation.upgrade_installation(configuration, 0).revisions
    analysts: list[str] = []
    for analyst in facts.analysts if facts else ():
        with reachable(), connect(dsn, "db restore") as connection, connection.transaction():
            roles.restore_analyst(connection, analyst)
            analysts.append(analyst.name)
    return Restored(revisions, tuple(analysts), installation.check(dsn))


def _require_free(connection: Connection, *, replace: bool) -> None:
    """Raise if modules work on the database, or if it is not empty and may not be replaced."""
    if notifications.is_served(connection):
        raise NotAllowed("modules of a server work on the database", hint="stop oarpy server on every machine first")
    there = connection.execute("SELECT to_regclass('public.jobs') IS NOT NULL").fetchone()
    if there == (True,) and not replace:
        raise NotAllowed("the database is not empty", hint="--replace puts the dump in its place")


def _read(source: Path, folder: Path) -> tuple[DumpFacts | None, Path]:
    """Return the facts in a file, if it is one of ours, and the dump of PostgreSQL in it."""
    try:
        with source.open("rb") as file:
            head = file.read(5)
        if not tarfile.is_tarfile(source):
            if head.startswith((_CUSTOM, _GZIP, b"--", b"SET", b"\n")):
                return None, source
            raise UsageError(f"'{source}' is no dump", hint="oarpy db dump writes one, pg_dump too")
        with tarfile.open(source) as archive:
            for name in (_FACTS, _DATABASE):
                _extract(archive, name, folder)
        facts = msgspec.json.decode((folder / _FACTS).read_bytes(), type=DumpFacts)
    except OSError as error:
        raise UsageError(f"cannot read '{source}': {error.strerror}", hint="check its name") from error
    except (tarfile.TarError, KeyError, msgspec.DecodeError) as error:
        raise UsageError(
            f"'{source}' is no dump of oarpy, or it is cut off", hint="oarpy db dump writes one"
        ) from error
    if facts.format > _FORMAT:
        raise UsageError(
            f"'{source}' is of oarpy {facts.oarpy}, which writes dumps otherwise", hint="restore with that"
        )
    if _checksum(folder / _DATABASE) != facts.sha256:
        raise UsageError(f"'{source}' is damaged: its checksum is another one", hint="take an older dump")
    return facts, folder / _DATABASE


def _extract(archive: tarfile.TarFile, name: str, folder: Path) -> None:
    """Write the file ``name`` of an archive into ``folder``.

    An entry that is no file, such as a link, is a ``KeyError``. Python 3.11.2, Debian 12's, has no safe extraction.
    """
    member = archive.getmember(name)
    content = archive.extractfile(member) if member.isreg() else None
    if content is None:
        raise KeyError(name)
    with content, (folder / name).open("wb") as file:
        shutil.copyfileobj(content, file)


@contextmanager
def _script(data: Path, programs: Path) -> Iterator[Iterator[bytes]]:
    """Yield the lines of a dump as a script. Raises :class:`OarpyError` at its end when it could not be read whole."""
    with data.open("rb") as file:
        head = file.read(5)
    if head == _CUSTOM:
        words = [str(programs / "pg_restore"), "--no-owner", "--no-privileges", "--file=-", str(data)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            yield _checked(process)
            process.stdout.close()
    else:
        with gzip.open(data) if head.startswith(_GZIP) else data.open("rb") as file:
            yield iter(file)


def _checked(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    assert process.stdout is not None
    assert process.stderr is not None
    yield from process.stdout
    complaint = process.stderr.read().decode(errors="replace")
    if process.wait() != 0:
        raise OarpyError(f"the dump cannot be read: {_last(complaint)}", hint="take an older dump")


def _play(lines: Iterator[bytes], programs: Path, dsn: str, version: int) -> None:
    """Have psql carry out a script in one transaction, which ends well only when all of the script was read."""
    from oarpy.store.schema import migrations

    words = [
        str(programs / "psql"),
        "--no-psqlrc",
        "--quiet",
        "--set=ON_ERROR_STOP=1",
        "--output=/dev/null",
        "--file=-",
    ]
    revisions = ",".join(migrations.known())
    head = (line for line in islice(lines, _HEAD) if version >= 17 or not line.startswith(b"SET transaction_timeout"))
    with tempfile.TemporaryFile() as output:
        place, environment = _place(dsn)
        with subprocess.Popen(
            [*words, f"--dbname={place}"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
            user=peer_account(dsn),
        ) as process:
            assert process.stdin is not None
            try:
                process.stdin.write(_EMPTY.encode())
                process.stdin.writelines(chain(head, lines))
                process.stdin.write(_KNOWN.format(revisions=revisions).encode())
                process.stdin.close()
            except BrokenPipeError:
                pass  # it says below why it went
            except (OarpyError, OSError, EOFError) as error:
                process.kill()  # before its COMMIT
                if isinstance(error, OarpyError):
                    raise
                raise OarpyError(f"the dump cannot be read: {error}", hint="take an older dump") from error
            finally:
                with suppress(BrokenPipeError):
                    process.stdin.close()
        output.seek(0)
        text = output.read().decode(errors="replace")
    if process.returncode != 0:
        raise OarpyError(f"nothing was restored: {_first_error(text)}", hint="the database is as it was")


def _run(words: Sequence[str], dsn: str, output: IO[bytes]) -> None:
    place, environment = _place(dsn)
    done = subprocess.run(
        [*words, f"--dbname={place}"],
        env=environment,
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        user=peer_account(dsn),
    )
    if done.returncode != 0:
        raise OarpyError(f"{Path(words[0]).name}: {_last(done.stderr)}", hint="the dump was not written")


def _place(dsn: str) -> tuple[str, dict[str, str]]:
    """Return the database's address without its password, which everybody could see, and an environment with it."""
    parts = {name: str(value) for name, value in conninfo_to_dict(dsn).items() if value is not None}
    password = parts.pop("password", None)
    return make_conninfo(**parts), {**os.environ, **({"PGPASSWORD": password} if password else {})}


def _last(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "it said nothing")[:300]


def _first_error(text: str) -> str:
    match = re.search(r"ERROR: +(.*)", text)
    return match[1][:300] if match else _last(text)


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
