"""The commands that the gateway runs, and having everything ready before the first request."""

from __future__ import annotations

import importlib
import pkgutil

import typer

from oarpy.client.boundary import parser
from oarpy.frontend.node_command import NAMES

_ADMINISTRATION = ("oaraccounting", "oaradmin", "oaradmissionrules", "oarnodesetting", "oarproperty", "oarqueue")
_ON_FRONTENDS = ("oargridctl", "oargriddel", "oargriddoor", "oargridstat", "oargridsub", "oarproject", "oartoken")
COMMANDS = (*NAMES, *_ADMINISTRATION, *_ON_FRONTENDS)
"""All but ``oarpy``, which sets up and runs the server side itself."""

_GRID = (
    "oarpy.grid.administration",
    "oarpy.grid.door",
    "oarpy.grid.entering",
    "oarpy.grid.reports",
    "oarpy.grid.submission",
)
_PACKAGES = ("oarpy.admission", "oarpy.client", *_GRID, "oarpy.store")
_LIBRARIES = ("oarpy.transport.ssh", "pglast", "psycopg.types.json", "typer.rich_utils")
_NOT_USED = frozenset({"oarpy.store.schema", "oarpy.store.past.job_pages"})
"""Packages that no command of the gateway needs: the tables bring SQLAlchemy and Alembic with them."""


def application(name: str) -> typer.Typer:
    """Return the application of one of :data:`COMMANDS`."""
    found: typer.Typer = importlib.import_module(f"oarpy.commands.{name}").app
    return found


def warm_up() -> None:
    """Import the modules that commands import when needed, and make their parsers; forked workers have them all."""
    for name in COMMANDS:
        parser(application(name))
    for package in _PACKAGES:
        _import_all(package)
    for library in _LIBRARIES:
        importlib.import_module(library)


def _import_all(name: str) -> None:
    """Import a package and everything below it, without unused modules."""
    package = importlib.import_module(name)
    for module in pkgutil.iter_modules(package.__path__, f"{name}."):
        if module.name in _NOT_USED:
            continue
        if module.ispkg:
            _import_all(module.name)
        else:
            importlib.import_module(module.name)
