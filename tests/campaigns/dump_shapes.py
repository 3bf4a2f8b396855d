"""Databases of twelve shapes, dumped and restored between servers of all versions of PostgreSQL: nothing may differ.

``python -m tests.campaigns.dump_shapes`` has a server of each version twice, and takes the dump of each shape from each
version to each. A row, a definition or a role that is another one afterwards is told, and the exit status is 1. A dump
that an older server cannot take has to be refused with a sentence, and leave nothing. Two shapes are a test.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from oarpy.client import dumps, installation
from oarpy.configuration import Configuration, load
from oarpy.model.errors import OarpyError
from oarpy.modules.accounting import account, file_away
from oarpy.postgres import embedded_server
from oarpy.postgres.binaries import available_versions
from oarpy.store.analytics import roles
from oarpy.store.database import connect
from oarpy.store.grid import broker_jobs, clusters, transactions
from oarpy.store.grid.broker_jobs import NewGridComponent, NewGridJob
from oarpy.store.grid.transactions import NewGridPart
from oarpy.store.past import months
from oarpy.store.past.tables import filed_tables
from oarpy.store.schema.checks.check import check
from tests.harness import bare_environment
from tests.harness.past_jobs import APRIL, MARCH, MONTH, NOW, ended, some_past
from tests.harness.sample_cluster import add_job, add_nodes

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
ANALYST = "analyst_of_shapes"
KEPT = Path(__file__).parent.parent / "db"


def empty(connection: Connection) -> None:
    """A new installation."""


def nodes(connection: Connection) -> None:
    """Nodes with properties of the site, one of them drained, and a maintenance window."""
    connection.execute("ALTER TABLE resources ADD COLUMN rack integer, ADD COLUMN \"odd name\" text DEFAULT 'it''s'")
    add_nodes(connection, "n1", "n2", "n3")
    connection.execute("UPDATE resources SET rack = 7, drain = host = 'n2'")


def live_jobs(connection: Connection) -> None:
    """Jobs in all states, an array, a dependency, odd letters."""
    held = add_nodes(connection, "n1", "n2", cores=8)
    first = add_job(connection)
    for number, state in enumerate(("Hold", "toLaunch", "Launching", "Running", "Finishing", "Terminated", "Error")):
        add_job(connection, state, resources=[held[number]], user="änn", command="echo 'a\tb\\c' \"\\N\"")
    for index in (2, 3):
        add_job(connection, array_id=first, array_index=index)
    later = add_job(connection, types=["besteffort", "idempotent"])
    connection.execute("INSERT INTO job_dependencies (job_id, required_job_id) VALUES (%s, %s)", [later, first])


def suspended(connection: Connection) -> None:
    """A job that is suspended, and one that was."""
    held = add_nodes(connection, "n1", "n2")
    for resource in held[:2]:
        job = add_job(connection, "Running", resources=[resource])
        connection.execute("UPDATE jobs SET state = 'Suspended', suspended_at = now() WHERE job_id = %s", [job])
    connection.execute("UPDATE jobs SET state = 'Resuming' WHERE job_id = %s", [job])
    connection.execute(
        "UPDATE jobs SET state = 'Running', suspended_at = NULL, suspended_time = '5 min' WHERE job_id = %s", [job]
    )


def filed_past(connection: Connection) -> None:
    """Months of the past beside live jobs, all accounted."""
    some_past(connection)
    account(connection, 86400)
    file_away(connection, NOW, MONTH)


def dropped_past(connection: Connection) -> None:
    """A month of the past that was archived and dropped."""
    filed_past(connection)
    with connection.transaction():
        connection.execute("SET LOCAL oarpy.rewrite_history = on")
        connection.execute("UPDATE past_months SET archive = '/srv/march.sql', archived_at = now() WHERE month = %s",
                           [MARCH.date().replace(day=1)])  # fmt: skip
        months.lock(connection)
        months.drop(connection, filed_tables(connection), MARCH.date().replace(day=1))


def site_tables(connection: Connection) -> None:
    """Tables, views and a function of the site's own, which hang on those of oarpy."""
    add_nodes(connection, "n1")
    ended(connection, APRIL)
    connection.execute("""
        CREATE TABLE teams (name text PRIMARY KEY, job bigint REFERENCES jobs (job_id) ON DELETE SET NULL);
        INSERT INTO teams SELECT 'red', min(job_id) FROM jobs;
        CREATE VIEW jobs_of_teams AS SELECT t.name, j.state, j.ended_at FROM teams t JOIN jobs j ON j.job_id = t.job;
        CREATE FUNCTION of_team(text) RETURNS bigint LANGUAGE sql AS 'SELECT job FROM public.teams WHERE name = $1';
        CREATE VIEW oar_report.of_the_site AS SELECT * FROM jobs_of_teams
    """)


def analysts(connection: Connection) -> None:
    """Analysts with passwords, who left a large object."""
    add_nodes(connection, "n1")
    ended(connection, APRIL)
    with connection.transaction():
        roles.make_analyst(connection, ANALYST, "oar_compat", "open")
    connection.execute("SELECT lo_from_bytea(0, 'left behind')")


def rules_and_quotas(connection: Connection) -> None:
    """Rules that an admin changed, quotas with a calendar, consumables, queues."""
    add_nodes(connection, "n1", "n2")
    connection.execute("""
        UPDATE admission_rules SET enabled = false WHERE name LIKE '05%';
        INSERT INTO queues (queue_name, priority) VALUES ('night', 2);
        INSERT INTO consumables VALUES ('memory', 'network_address', 'count');
        INSERT INTO consumable_capacities SELECT 'memory', network_address, 100 FROM nodes;
        INSERT INTO quota_sets VALUES ('dark', false), ('bright', true);
        INSERT INTO quotas (queue_name, max_jobs, set_name) VALUES ('night', 90, NULL), ('night', 80, 'dark');
        INSERT INTO quota_periods (set_name, weekday, begins, ends) VALUES ('dark', 1, '20:00', '24:00');
        INSERT INTO quota_exceptions (set_name, begins_at, ends_at) VALUES ('dark', '2030-01-01', '2030-01-02')
    """)


def broker(connection: Connection) -> None:
    """A broker's clusters, jobs, parts and transactions, one of them decided."""
    for place, name in enumerate(("north", "south")):
        clusters.put(connection, name, "oarpy", ["ssh", name], place=place)
    components = (NewGridComponent("/core=1", 1), NewGridComponent("/core=2", 2))
    new = NewGridJob("alice", "coallocated", "date", 60, components, deadline=2_000_000_000.0)
    for decided in (False, True):
        (job,) = broker_jobs.insert(connection, new)
        number = transactions.begin(connection, "claim", "claimer", job, 60, 2_000_000_000.0)
        parts = [
            NewGridPart(f"{job}.{one}", job, one, name, "claim", 60) for one, name in enumerate(("north", "south"))
        ]
        transactions.add_parts(connection, number, parts)
        transactions.note_prepared(connection, number, {part.name: part.name for part in parts})
        transactions.hold(connection, number)
        if decided:
            transactions.decide(connection, number, 2_000_000_000.0)


def restored_once(connection: Connection) -> None:
    """A database that knows of an earlier restore, with jobs of two generations."""
    live_jobs(connection)
    connection.execute("SELECT begin_generation('restored')")
    add_job(connection, walltime=timedelta(hours=2))


OLDER = "cluster_at_0064"
"""What an older version left: live jobs of all kinds, one of them a negotiating application."""

SHAPES: Mapping[str, Callable[[Connection], None]] = {
    one.__name__: one
    for one in (
        empty,
        nodes,
        live_jobs,
        suspended,
        filed_past,
        dropped_past,
        site_tables,
        analysts,
        rules_and_quotas,
        broker,
        restored_once,
    )
}


@dataclass(frozen=True, slots=True)
class Journey:
    """A dump of a shape from one version of PostgreSQL to another, and what came of it."""

    shape: str
    source: str
    target: str
    told: str = ""
    """The sentence of a refusal."""
    differences: tuple[str, ...] = ()


# What a database is, in lines: rows of all tables, and what there is beside them.
_TABLES = """
    SELECT schemaname, tablename FROM pg_tables WHERE schemaname IN ('public', 'oar_past') ORDER BY 1, 2
"""
_DEFINITIONS = """
    SELECT format('%%s %%s: %%s', c.relkind, c.oid::regclass,
                  CASE WHEN c.relkind IN ('v', 'm') AND %(texts)s THEN md5(pg_get_viewdef(c.oid)) ELSE '' END)
    FROM pg_class c WHERE c.relnamespace::regnamespace::text = ANY (%(schemas)s) AND c.relkind <> 't'
    UNION ALL SELECT format('function %%s: %%s', p.oid::regprocedure, md5(p.prosrc))
    FROM pg_proc p WHERE p.pronamespace::regnamespace::text = ANY (%(schemas)s)
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
    UNION ALL SELECT format('column %%s.%%s %%s %%s %%s', a.attrelid::regclass, a.attname, a.atttypid::regtype,
                            a.attnotnull, pg_get_expr(d.adbin, d.adrelid))
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
         LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
    WHERE c.relnamespace::regnamespace::text = ANY (%(schemas)s) AND c.relkind IN ('r', 'p') AND a.attnum > 0
      AND NOT a.attisdropped
    UNION ALL SELECT format('trigger %%s of %%s: %%s %%s', t.tgname, t.tgrelid::regclass, t.tgenabled,
                            t.tgfoid::regproc)
    FROM pg_trigger t WHERE NOT t.tgisinternal
    UNION ALL SELECT format('sequence %%s %%s', sequencename, last_value) FROM pg_sequences
    WHERE schemaname = ANY (%(schemas)s)
"""
_SCHEMAS = ["public", "oar_past", "oar_all", "oar_report", "oar_compat"]


def lines(dsn: str, *, texts: bool = True) -> set[str]:
    """Return all that a database has of oarpy and of its site, a line each; ``texts``: also those of views.

    Versions of PostgreSQL write the text of a view in different ways.
    """
    with psycopg.connect(dsn, autocommit=True) as connection:
        found = {row[0] for row in connection.execute(_DEFINITIONS, {"schemas": _SCHEMAS, "texts": texts})}
        for schema, table in connection.execute(_TABLES).fetchall():
            statement = SQL("SELECT t::text FROM {} t").format(Identifier(schema, table))
            found |= {f"{schema}.{table}: {row[0]}" for row in connection.execute(statement)}
        found |= {f"analyst {one}" for one in roles.analysts(connection)}
    return found


@dataclass(slots=True)
class Servers:
    """Two servers of each version: dumps are taken on one, and come back on the other, which knows no role of it."""

    sources: dict[str, str]
    targets: dict[str, str]

    @contextmanager
    def database(self, server: str, name: str) -> Iterator[str]:
        """An empty database on a server; roles of analysts go with it."""
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        try:
            yield make_conninfo(server, dbname=name)
        finally:
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))
                for role in (ANALYST, roles.GROUP):
                    connection.execute(SQL("DROP ROLE IF EXISTS {}").format(Identifier(role)))


@contextmanager
def servers(folder: Path, versions: Sequence[str]) -> Iterator[Servers]:
    """Start two servers of each version below a folder; at the end they are removed."""
    with ExitStack() as stack:

        def started(what: str, version: str) -> str:
            place = folder / f"{what}-{version}"
            stack.callback(embedded_server.remove, place)
            return embedded_server.start(place, version=version, settings={"fsync": "off", "max_connections": "50"})

        yield Servers(
            {version: started("source", version) for version in versions},
            {version: started("target", version) for version in versions},
        )


def at(dsn: str) -> Configuration:
    """The configuration of a database."""
    return load({"OARPY_DATABASE_URL": dsn, "OARPY_CONFIG": ""})


def fill(dsn: str, shape: str) -> None:
    """Give an empty database the shape."""
    if shape == OLDER:
        dumps.restore(at(dsn), KEPT / f"{OLDER}.sql.gz", replace=False)
        return
    installation.upgrade_installation(at(dsn), 0)
    with connect(dsn, "shape") as connection:
        SHAPES[shape](connection)


def travel(there: Servers, shape: str, folder: Path) -> Iterator[Journey]:
    """Take a shape from each version to each."""
    for source, server in there.sources.items():
        with there.database(server, "shape") as dsn:
            fill(dsn, shape)
            file = folder / f"{shape}-{source}.dump"
            dumps.dump(at(dsn), file)
            known = check(dsn)
            for target, other in there.targets.items():
                with there.database(other, "shape") as copy:
                    before = lines(dsn, texts=source == target)
                    yield arrive(Journey(shape, source, target), file, copy, before, known)


def arrive(journey: Journey, file: Path, copy: str, before: set[str], known: Collection[str]) -> Journey:
    """Restore a dump, and tell what differs, and what is wrong but for what was ``known`` before.

    Nothing may be there after a refusal.
    """
    try:
        restored = dumps.restore(at(copy), file, replace=False)
    except OarpyError as error:
        left = lines(copy)
        return replace(journey, told=error.message, differences=tuple(sorted(left)))
    after = lines(copy, texts=journey.source == journey.target)
    problems = (one for one in restored.problems if one not in known)
    gone, new = (f"gone: {one}" for one in sorted(before - after)), (f"new: {one}" for one in sorted(after - before))
    return replace(journey, differences=(*problems, *gone, *new))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign, print a line a journey, and return 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="+", choices=[*SHAPES, OLDER], default=[*SHAPES, OLDER], metavar="NAME")
    options = parser.parse_args(arguments)
    versions = available_versions()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="oarpy-shapes-") as name, servers(Path(name), versions) as there:
        Path(name).chmod(0o711)
        for shape in options.shapes:
            for one in travel(there, shape, Path(name)):
                result = one.told or f"{len(one.differences)} differences"
                print(f"{one.shape}: PostgreSQL {one.source} -> {one.target}: {result}", flush=True)
                print("".join(f"  {line[:300]}\n" for line in one.differences[:20]), end="", flush=True)
                wrong += bool(one.differences) or (bool(one.told) and int(one.source) <= int(one.target))
    print(f"{len(options.shapes)} shapes, PostgreSQL {' and '.join(versions)}: {wrong} journeys went wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    bare_environment.enter()
    sys.exit(main())
