"""The commands that the gateway runs, and having everything ready before the first request."""

from __future__ import annotations

import importlib
import pkgutil

import typer

from oarpy.client.boundary import parser
from oarpy.frontend.node_command import NAMES

_ADMINISTRATION = ("oaraccounting", "oaradmin", "oaradmissionrules", "oarnodesetting", "oarproperty", "oarqueue")
COMMANDS = (*NAMES, *_ADMINISTRATION)
"""All but ``oarpy``, which sets up and runs the server side itself."""

_PACKAGES = ("oarpy.admission", "oarpy.client", "oarpy.store")
_LIBRARIES = ("oarpy.transport.ssh", "pglast", "psycopg.types.json", "typer.rich_utils")
_NOT_USED = frozenset({"demo", "sandbox", "migrations", "schema_check", "server_binaries"})
"""Modules that no command of the gateway needs; those of table definitions bring SQLAlchemy with them."""


def application(name: str) -> typer.Typer:
    """Return the application of one of :data:`COMMANDS`."""
    found: typer.Typer = importlib.import_module(f"oarpy.commands.{name}").app
    return found


def warm_up() -> None:
    """Import what commands import when they need it, and make their parsers; workers get all of it by being forked."""
    for name in COMMANDS:
        parser(application(name))
    for package in _PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            last = module.name.rpartition(".")[2]
            if last not in _NOT_USED and not last.startswith("tables"):
                importlib.import_module(module.name)
    for library in _LIBRARIES:
        importlib.import_module(library)
