"""Set up and check an installation: the embedded server, the schema, the default admission rules."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg

from oarpy.admission.rules.default_rules import default_rules
from oarpy.configuration import Configuration
from oarpy.model.errors import OarpyError, Unreachable, UsageError
from oarpy.postgres import embedded_server
from oarpy.store import notifications
from oarpy.store.analytics import recount, roles
from oarpy.store.database import Connection, connect, database_dsn, reachable
from oarpy.store.platform import admission_rules

SIGNATURE = "oarpy db upgrade"
"""The author of a rule version that only the installation wrote."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
"""Seconds between two looks for a database that is away."""

# two installations at once take turns; commands read rules meanwhile, and a role that may only read cannot delay it
_LOCK = "LOCK TABLE admission_rules IN SHARE ROW EXCLUSIVE MODE"


@dataclass(frozen=True, slots=True)
class LoadedRules:
    """Names of default rules: new ones, rules replaced by a newer text, and rules left as an admin made them."""

    added: tuple[str, ...]
    updated: tuple[str, ...]
    kept: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The result of an upgrade: the migrations it ran, in order, and the changes of the default rules."""

    revisions: tuple[str, ...]
    rules: LoadedRules


@dataclass(frozen=True, slots=True)
class Stop:
    """The result of a stop: ``stopped`` when the database ran before, ``served`` when a server's modules used it."""

    stopped: bool
    served: bool


def start_database(configuration: Configuration) -> str:
    """Start the embedded server and return its DSN."""
    return embedded_server.start(_own_directory(configuration))


def stop_database(configuration: Configuration) -> Stop:
    """Stop the embedded server."""
    directory = _own_directory(configuration)
    served = _is_served(directory)
    return Stop(embedded_server.stop(directory), served)


def _is_served(directory: str) -> bool:
    """Tell whether modules of a server work on the database of a folder."""
    try:
        with reachable(), connect(embedded_server.dsn(directory), "db stop") as connection:
            return notifications.is_served(connection)
    except OarpyError:
        return False


def upgrade_installation(configuration: Configuration, wait: float) -> Upgrade:
    """Do as :func:`upgrade`, as soon as the database can be reached; raise its error after ``wait`` seconds.

    With ``wait``, an embedded server that does not run is started meanwhile, as no other process would start it.
    """
    directory = configuration.database.directory
    if configuration.database.url or not wait or embedded_server.is_running(directory):
        return _upgrade_when_reachable(database_dsn(configuration), wait)
    try:
        return upgrade(start_database(configuration))
    finally:
        stop_database(configuration)


def _upgrade_when_reachable(dsn: str, wait: float) -> Upgrade:
    until, pause = time.monotonic() + wait, _FIRST_PAUSE
    while True:
        try:
            return upgrade(dsn)
        except Unreachable:
            if (left := until - time.monotonic()) <= 0:
                raise
            time.sleep(min(pause, left))
            pause = min(pause * 2, _LONGEST_PAUSE)


def upgrade(dsn: str) -> Upgrade:
    """Bring the schema and the default rules up to date. It may be repeated, and run beside another upgrade."""
    # here, for the start-up time of everything else
    from oarpy.store.schema import migrations

    with reachable(), connect(dsn, "db upgrade") as connection:
        revisions = migrations.upgrade(dsn)
        return Upgrade(revisions, load_default_rules(connection))


def downgrade(dsn: str, revision: str) -> tuple[str, ...]:
    """Take the schema back to an earlier revision, without the data of later ones; return the undone revisions.

    Raises :class:`OarpyError` while a server works on the database: it needs the schema of its own version.
    """
    # here, for the start-up time of everything else
    from oarpy.store.schema import migrations

    with reachable(), connect(dsn, "db downgrade") as connection:
        if notifications.is_served(connection):
            raise OarpyError("a server works on this database", hint="stop it, on every machine, then try again")
        return migrations.downgrade(dsn, revision)


def make_analyst(configuration: Configuration, name: str, *, compat: bool, password_file: Path | None) -> bool:
    """Make a role that reads the views for analysts, or renew its rights; return whether it is new."""
    password = None if password_file is None else _first_line(password_file)
    schema = "oar_compat" if compat else "oar_report"
    with (
        reachable(),
        connect(database_dsn(configuration), "db analyst") as connection,
        connection.transaction(),
    ):
        return roles.make_analyst(connection, name, schema, password)


def _first_line(path: Path) -> str:
    try:
        text = sys.stdin.readline() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the password from '{path}': {error}") from error
    password = text.partition("\n")[0]
    if not password:
        raise UsageError(f"the first line of '{path}' is empty", hint="write the password there")
    return password


def load_default_rules(connection: Connection) -> LoadedRules:
    """Add the default rules that the database has never had, and renew the rules that no admin has changed.

    A rule that an admin edited, disabled or deleted is left alone.
    """
    added, updated, kept = [], [], []
    with connection.transaction():
        connection.execute(_LOCK)
        for rule in default_rules():
            history = admission_rules.versions(connection, rule.name)
            wanted = (rule.priority, rule.enabled, rule.text)
            if not history:
                admission_rules.add(
                    connection, rule.name, rule.text, priority=rule.priority, enabled=rule.enabled, by=SIGNATURE
                )
                added.append(rule.name)
            elif any(version.changed_by != SIGNATURE for version in history):
                if history[-1].deleted or (history[-1].priority, history[-1].enabled, history[-1].text) != wanted:
                    kept.append(rule.name)
            elif (history[-1].priority, history[-1].enabled, history[-1].text) != wanted:
                admission_rules.change(
                    connection, rule.name, text=rule.text, priority=rule.priority, enabled=rule.enabled, by=SIGNATURE
                )
                updated.append(rule.name)
    return LoadedRules(tuple(added), tuple(updated), tuple(kept))


def check(dsn: str) -> tuple[str, ...]:
    """Return the faults of the installation's database, one line each; empty when all is well."""
    from oarpy.store.schema.checks import check as schema_check

    with reachable(), connect(dsn, "db check") as connection:
        # the schema first: without it there is no table of rules to look at
        return schema_check.check(dsn) or tuple(_missing_rules(connection))


def check_accounting(configuration: Configuration) -> tuple[str, ...]:
    """Return the rows of the accounting that differ from the sums of the counted jobs, one line each.

    A schema that cannot be read is one line: nothing was compared.
    """
    try:
        return _wrong_sums(configuration)
    except psycopg.ProgrammingError as error:
        reason = str(error).partition("\n")[0]
        return (f"the sums were not compared with the jobs, the schema is not that of this version: {reason}",)


def _wrong_sums(configuration: Configuration) -> tuple[str, ...]:
    with reachable(), connect(database_dsn(configuration), "db check") as connection:
        lengths = recount.window_lengths(connection) or [configuration.modules.accounting_window]
        if len(lengths) > 1:
            seconds = " and ".join(map(str, lengths))
            return (f"there are sums of windows of {seconds} seconds: oaraccounting --reinitialize counts all again",)
        sums = tuple(
            f"{difference.kind} of {difference.user} (project {difference.project}, queue {difference.queue})"
            f" from {difference.window:%Y-%m-%d %H:%M:%S%z} on is {difference.counted} resource-seconds,"
            f" the jobs make {difference.recounted}"
            for difference in recount.differences(connection, lengths[0])
        )
        return sums + tuple(
            f"{difference.column} of {difference.user} (project {difference.project}, queue {difference.queue})"
            f" on {difference.day} is {difference.counted:.12g} in job_days, the jobs make {difference.recounted:.12g}"
            for difference in recount.day_differences(connection)
        )


def _missing_rules(connection: Connection) -> Iterator[str]:
    for rule in default_rules():
        # a deleted rule has left its history
        if not admission_rules.versions(connection, rule.name):
            yield f"default admission rule '{rule.name}' was never loaded: run 'oarpy db upgrade'"


def _own_directory(configuration: Configuration) -> str:
    if configuration.database.url:
        raise UsageError(
            "the database is not the embedded one: database.url is set", hint="start and stop that server where it runs"
        )
    return configuration.database.directory
