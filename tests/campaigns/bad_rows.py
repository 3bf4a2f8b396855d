"""Wrong and contradictory rows, written by hand beside a running workload: all other jobs go on.

``python -m tests.campaigns.bad_rows --seed 1`` makes 500 changes that the constraints let through, as the owner of the
database: any column of any table to any odd value, up to two more columns of its row with it, rows deleted and rows
copied. After each, a job of another queue on another node is submitted, which has to begin within 2 s; then the change
is undone. In the end all jobs are deleted and have to end. A few changes are a test.
"""

from __future__ import annotations

import argparse
import getpass
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
from psycopg.sql import SQL, Composed, Identifier, Literal
from psycopg.types.json import Jsonb

from oarpy.local_cluster.sandbox import Sandbox, Settings, local_nodes, running_sandbox
from oarpy.model.request import parse_request
from oarpy.model.submission import Submission
from oarpy.store.jobs import submissions
from tests.harness import bare_environment

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
Row: TypeAlias = "dict[str, Any]"

QUIET = "quiet"
"""The queue and the node of the jobs that have to go on; no change is about these two rows themselves."""
WITHIN = 2.0
SLOWER = 10.0
_GIVE_UP = 30.0
_END = 90.0

# Every column of every table, with what it takes.
_COLUMNS = """
    SELECT c.table_name, c.column_name, c.udt_name FROM information_schema.columns c
        JOIN information_schema.tables t USING (table_schema, table_name)
    WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND c.table_name <> 'alembic_version'
    ORDER BY 1, 2
"""
_KEYS = """
    SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
    WHERE i.indrelid = %s::regclass AND i.indisprimary
"""
# The quiet node and queue stay as they are; of jobs, live ones are of interest.
_NOT_QUIET = {
    "queues": "queue_name <> 'quiet'",
    "nodes": "network_address <> 'quiet'",
    "resources": "network_address IS DISTINCT FROM 'quiet'",
    "jobs": "is_live(state) OR random() < 0.1",
}
_EMPTIES = ("node_power", "notices", "walltime_changes", "kill_requests", "suspend_requests", "signal_requests")

# By type, values that are odd: bounds, what other programs write for none, what nobody expects in this place.
ODD: dict[str, tuple[str, ...]] = {
    "int2": ("0", "-1", "1", "32767", "12"),
    "int4": ("0", "-1", "1", "2147483647", "-2147483648", "64"),
    "int8": ("0", "-1", "1", "9223372036854775807", "9007199254740992"),
    "float8": ("0", "-1", "NaN", "Infinity", "1e300", "1e15"),
    "numeric": ("0", "-1", "NaN", "1e300", "1e15", "0.000001"),
    "bool": ("true", "false"),
    "text": (
        "",
        "x",
        "*",
        "/",
        "' OR 1=1",
        "a\nb",
        "naïve",
        "host = 'n1'",
        "core > 'x'",
        "((((",
        "x" * 5000,
        "%jobid%",
        "0",
    ),
    "timestamptz": (
        "1970-01-01 00:00:00+00",
        "2999-12-31",
        "infinity",
        "-infinity",
        "now",
        "tomorrow",
        "yesterday",
        "2038-01-19",
    ),
    "interval": ("0", "1 second", "0.000001 seconds", "-1 second", "31 years", "10 years", "1 month -30 days 1 second"),
    "tstzrange": (
        "empty",
        "[2000-01-01,)",
        "[2000-01-01,2900-01-01)",
        "[2900-01-01,)",
        "(,)",
        "[2000-01-01,2000-01-02)",
    ),
    "tstzmultirange": ("{}", "{[2000-01-01,)}", "{(,)}", "{[2000-01-01,2000-01-02),[2900-01-01,2900-01-02)}"),
    "_text": (
        "{}",
        "{NULL}",
        "{{a,b},{c,d}}",
        "{besteffort}",
        "{container}",
        "{inner=1}",
        "{noop}",
        "{cosystem}",
        '{"timesharing=*,*"}',
        "{expire=1970-01-02}",
        "{postpone=2999-01-01}",
        "{deadline=soon}",
        "{placeholder=a,allow=a,exclusive}",
        "{token:x=1}",
        "{nice=-5,qos=9,nonsense=}",
        '{""}',
    ),
    "_float8": ("{}", "{0}", "{-1}", "{NaN}", "{NULL}", "{{1,2},{3,4}}"),
    "_int4": ("{}", "{1}", "{-1}", "{NULL}", "{{1,2},{3,4}}"),
    "_int8": ("{}", "{1}", "{-1}", "{NULL}", "{{1,2},{3,4}}"),
    "jsonb": ("{}", "[]", "null", '{"A": 1}', '{"A": "b"}', '{"A=B": "c", "": "d"}', '"x"'),
    "uuid": ("00000000-0000-0000-0000-000000000000",),
    "date": ("1970-01-01", "2999-12-31", "infinity", "-infinity"),
    "time": ("00:00", "24:00", "12:00"),
    "xid8": ("0", "1", "9223372036854775807"),
    "int4multirange": ("{}", "{[1,3)}", "{[1,100000)}"),
    "int8multirange": ("{}", "{[1,3)}", "{[1,100000)}"),
}


@dataclass(frozen=True, slots=True)
class Change:
    """What was done: a row ``before`` and ``after``, None where there was none; ``columns`` if it was changed."""

    table: str
    what: str
    before: Row | None
    after: Row | None
    columns: tuple[str, ...] = ()


@dataclass(slots=True)
class Campaign:
    """Makes ``changes`` changes, chosen by ``seed``.

    Another job may take ``within`` seconds to begin, or :data:`SLOWER` times what one takes before any change: then
    the machine is slow, not the cluster.
    """

    sandbox: Sandbox
    seed: int
    changes: int
    within: float = WITHIN
    made: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    left: int = 0
    """Changes that could not be undone: what they changed had moved on."""
    latencies: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def run(self) -> list[str]:
        """Run all of it; return what is wrong."""
        chance = random.Random(self.seed)
        with psycopg.connect(self.sandbox.dsn(), autocommit=True) as connection:
            connection.execute("SELECT setseed(%s)", [chance.random()])  # rows too are chosen by the seed
            _prepare(connection)
            _populate(connection, chance)
            if (took := self._probe(connection)) > _GIVE_UP:
                return ["no job began before any change"]
            self.within = max(self.within, SLOWER * took)
            kinds = list(_kinds(connection))
            while sum(self.made.values()) < self.changes:
                chance.shuffle(kinds)
                for table, what, kind in kinds:
                    if sum(self.made.values()) >= self.changes:
                        break
                    self._step(connection, chance, table, what, kind)
            self._end(connection)
        log = (self.sandbox.directory / "server.log").read_text(errors="replace")
        self.wrong += [line[:300] for line in log.splitlines() if "module ended" in line]
        return self.wrong

    def _step(self, connection: Connection, chance: random.Random, table: str, what: str, kind: str) -> None:
        """Make one change, see that others go on, undo it."""
        change = self._change(connection, chance, table, what, kind)
        if change is None:
            return
        self.made[table] += 1
        took = self._probe(connection)
        self.latencies.append(took)
        if took > self.within:
            self.wrong.append(
                f"{took:.1f} s after {change.what} of {table}: {_short(change.before)} {_short(change.after)}"
            )
        if not _undone(connection, change):
            self.left += 1
        if sum(self.made.values()) % 10 == 0:
            _populate(connection, chance)

    def _change(self, connection: Connection, chance: random.Random, table: str, what: str, kind: str) -> Change | None:
        """Make a change that the constraints let through, of a few that are tried."""
        condition = _NOT_QUIET.get(table, "true")
        for _ in range(4):
            query = SQL("SELECT to_jsonb(t), ctid::text FROM {} t WHERE {} ORDER BY random() LIMIT 1").format(
                Identifier(table), SQL(condition)
            )
            found = connection.execute(query).fetchone()
            if found is None:
                return None
            try:
                with connection.transaction():
                    return _made(connection, chance, table, what, kind, *found)
            except psycopg.Error as error:
                if isinstance(error, psycopg.OperationalError) and connection.broken:
                    raise
                self.refused += 1
        return None

    def _probe(self, connection: Connection) -> float:
        """Submit a job to the quiet queue; return how many seconds passed until it began."""
        job = _submit(connection, "/core=1", "true", QUIET, "network_address = 'quiet'", types=("no_quotas",))
        began = time.monotonic()
        while True:
            row = connection.execute(
                "SELECT started_at IS NOT NULL, state FROM jobs WHERE job_id = %s", [job]
            ).fetchone()
            took = time.monotonic() - began
            if row is None or row[0] or took > max(_GIVE_UP, self.within):
                return took
            time.sleep(0.01)

    def _end(self, connection: Connection) -> None:
        """Delete every job; none may stay."""
        live = "SELECT array_agg(job_id || ' ' || state) FROM jobs WHERE is_live(state)"
        until = time.monotonic() + _END
        connection.execute(
            "INSERT INTO kill_requests (job_id, reason) SELECT job_id, 'the end' FROM jobs WHERE is_live(state)"
            " ON CONFLICT (job_id) DO UPDATE SET state = 'asked', not_before = NULL"
        )
        while (row := connection.execute(live).fetchone()) and row[0]:
            if time.monotonic() > until:
                self.wrong.append(f"not ended {_END:g} s after all were deleted: {', '.join(row[0])[:500]}")
                return
            time.sleep(0.05)


def _kinds(connection: Connection) -> Iterator[tuple[str, str, str]]:
    """Return what can be done: a column with its type, or DELETE and INSERT of rows, of every table."""
    columns = connection.execute(_COLUMNS).fetchall()
    if unknown := {kind for _, _, kind in columns} - ODD.keys():
        raise ValueError(f"no odd values are known for columns of type {', '.join(sorted(unknown))}")
    yield from columns
    for table in dict.fromkeys(table for table, _, _ in columns):
        yield table, "DELETE", ""
        yield table, "INSERT", ""


def _made(
    connection: Connection, chance: random.Random, table: str, what: str, kind: str, row: Row, ctid: str
) -> Change | None:
    """Change the row of ``table`` that is at ``ctid``."""
    here = SQL(" WHERE t.ctid = {}::tid").format(Literal(ctid))
    if what == "DELETE":
        done = connection.execute(SQL("DELETE FROM {} t").format(Identifier(table)) + here)
        return Change(table, what, row, None) if done.rowcount else None
    if what == "INSERT":
        columns = connection.execute(_COLUMNS).fetchall()
        column, kind = chance.choice([(name, kind) for one, name, kind in columns if one == table])
        copied = {**row, column: _odd(connection, chance, table, column, kind)}
        after = _inserted(connection, table, copied)
        return Change(table, f"INSERT with {column}", None, after)
    others = [(name, other) for one, name, other in connection.execute(_COLUMNS) if one == table and name != what]
    changed = [(what, kind), *chance.sample(others, min(len(others), chance.choice((0, 0, 1, 2))))]
    values = {name: (_odd(connection, chance, table, name, one), one) for name, one in changed}
    values = {name: (value, one) for name, (value, one) in values.items() if value != row[name]}
    if what not in values:
        return None
    settings = SQL(", ").join(SQL("{} = {}").format(Identifier(name), _cast(*value)) for name, value in values.items())
    statement = SQL("UPDATE {} t SET {}").format(Identifier(table), settings)
    found = connection.execute(statement + here + SQL(" RETURNING to_jsonb(t)")).fetchone()
    return None if found is None else Change(table, " and ".join(values), row, found[0], tuple(values))


def _odd(connection: Connection, chance: random.Random, table: str, column: str, kind: str) -> Any:
    """Return an odd value for a column: of its type, of another row, NULL."""
    roll = chance.random()
    if roll < 0.1:
        return None
    if roll < 0.5:
        other = connection.execute(
            SQL("SELECT to_jsonb(t) -> {} FROM {} t ORDER BY random() LIMIT 1").format(
                Literal(column), Identifier(table)
            )
        ).fetchone()
        if other is not None:
            return other[0]
    return chance.choice(ODD[kind])


def _cast(value: Any, kind: str) -> Composed:
    """Write a value, as JSON tells it, as SQL of its type."""
    array = kind.startswith("_")
    if isinstance(value, dict | list) and not array:
        return SQL("{}").format(Literal(Jsonb(value)))
    written = value if value is None or isinstance(value, list) else str(value)
    return SQL("{}::{}").format(Literal(written), SQL(f"{kind[1:]}[]" if array else kind))


def _inserted(connection: Connection, table: str, row: Row) -> Row:
    """Insert a row, with keys as they are."""
    statement = SQL(
        "INSERT INTO {0} AS t OVERRIDING SYSTEM VALUE SELECT * FROM jsonb_populate_record(NULL::{0}, {1})"
        " RETURNING to_jsonb(t)"
    ).format(Identifier(table), Literal(Jsonb(row)))
    found = connection.execute(statement).fetchone()
    assert found is not None
    return dict(found[0])


def _undone(connection: Connection, change: Change) -> bool:
    """Bring back what was there; tell whether that was possible."""
    key = [name for (name,) in connection.execute(_KEYS, [change.table]).fetchall()]
    now = change.after or change.before or {}
    there = SQL(" AND ").join(
        SQL("to_jsonb(t) -> {} IS NOT DISTINCT FROM {}").format(Literal(name), Literal(Jsonb(now[name])))
        for name in key or [name for name in now if not isinstance(now[name], dict | list)]
    )
    table = Identifier(change.table)
    try:
        with connection.transaction():
            if change.before is None:
                done = connection.execute(SQL("DELETE FROM {} t WHERE {}").format(table, there)).rowcount
            elif change.after is None:
                done = bool(_inserted(connection, change.table, change.before))
            else:
                columns = SQL(", ").join(map(Identifier, change.columns))
                statement = SQL(
                    "UPDATE {0} t SET ({1}) = (SELECT {1} FROM jsonb_populate_record(NULL::{0}, {2})) WHERE {3}"
                ).format(table, columns, Literal(Jsonb(change.before)), there)
                done = connection.execute(statement).rowcount
    except psycopg.Error:
        return False
    return bool(done)


def _prepare(connection: Connection) -> None:
    """Declare queues, a consumable, quotas and what else there may be rows of."""
    connection.execute("INSERT INTO queues (queue_name, priority) VALUES ('quiet', 3), ('other', 2)")
    connection.execute("INSERT INTO consumables VALUES ('memory', 'network_address', 'count')")
    connection.execute("INSERT INTO consumable_capacities SELECT 'memory', network_address, 100 FROM nodes")
    connection.execute("INSERT INTO quota_sets VALUES ('night', false), ('day', true)")
    connection.execute(
        "INSERT INTO quotas (queue_name, max_jobs, set_name) VALUES ('other', 90, NULL), ('other', 80, 'night')"
    )
    connection.execute(
        "INSERT INTO quota_periods (set_name, weekday, begins, ends) VALUES ('night', 1, '20:00', '24:00')"
    )
    connection.execute(
        "INSERT INTO quota_exceptions (set_name, begins_at, ends_at) VALUES ('night', '2030-01-01', '2030-01-02')"
    )


# how many jobs of each kind the workload has
_WORKLOAD: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("running", 4, {"request": "/core=1,walltime=1:0:0"}),
    ("amounts", 2, {"request": "/core=1,memory=10,walltime=1:0:0"}),
    ("waiting", 5, {"request": "/host=3/core=4,walltime=0:30:0"}),
    ("held", 2, {"request": "/core=1", "hold": True}),
    ("typed", 2, {"request": "/core=2", "types": ("besteffort",), "queue": "besteffort"}),
    ("container", 1, {"request": "/core=1,walltime=2:0:0", "types": ("container",)}),
    ("other", 2, {"request": "/core=1/cpu=1+/core=1", "queue": "other"}),
)


def _populate(connection: Connection, chance: random.Random) -> None:
    """Fill up the workload: jobs of each kind, reservations, dependencies, requests of users."""
    for name, number, values in _WORKLOAD:
        live = "SELECT count(*) FROM jobs WHERE job_name = %s AND is_live(state)"
        row = connection.execute(live, [name]).fetchone()
        for _ in range(number - (row[0] if row else 0)):
            given = {**values}
            _submit(
                connection,
                given.pop("request"),
                "sleep 600",
                given.pop("queue", "default"),
                "network_address <> 'quiet'",
                name=name,
                **given,
            )
    row = connection.execute(
        "SELECT count(*) FROM jobs WHERE reservation_start IS NOT NULL AND is_live(state)"
    ).fetchone()
    for number in range(2 - (row[0] if row else 0)):
        date = datetime.now(UTC) + timedelta(days=chance.randrange(1, 300), hours=number)
        _submit(connection, "/core=2", "sleep 600", "default", "network_address <> 'quiet'", reservation=date)
    some = "SELECT job_id FROM jobs WHERE state = %s AND job_name <> '' ORDER BY random() LIMIT 2"
    waiting = [job for (job,) in connection.execute(some, ["Waiting"])]
    if len(waiting) == 2:
        connection.execute(
            "INSERT INTO job_dependencies (job_id, required_job_id) VALUES (%s, %s) ON CONFLICT DO NOTHING", waiting
        )
    for (job,) in connection.execute(some, ["Running"]).fetchall():
        connection.execute(
            "INSERT INTO walltime_changes (job_id, pending) VALUES (%s, '1 minute') ON CONFLICT DO NOTHING", [job]
        )


def _submit(connection: Connection, request: str, command: str, queue: str, condition: str, **values: Any) -> int:
    """Submit a job; return its number."""
    asked = Submission(
        user=getpass.getuser(),
        queue=queue,
        command=command,
        directory="/tmp",
        properties=condition,
        stdout="/dev/null",
        stderr="/dev/null",
        alternatives=(parse_request(request if "walltime" in request else f"{request},walltime=0:10:0"),),
        **values,
    )
    with connection.transaction():
        (job,) = submissions.insert(connection, asked, message="")
    return job


def _short(row: Row | None) -> str:
    return "-" if row is None else str(row)[:300]


def run_campaign(
    directory: Path, seed: int, changes: int, within: float = WITHIN, database: str = ""
) -> tuple[Campaign, list[str]]:
    """Run the campaign in ``directory``, on a database of its own unless one is given; return it and what is wrong."""
    settings: Settings = {"modules": {"restart_delay": 0.1}, "database": {"url": database}}
    nodes = [local_nodes("/host=n[1-4]/cpu={1}/core={4}"), local_nodes("/host=quiet/cpu={1}/core={16}")]
    with running_sandbox(directory, settings, *nodes) as sandbox:
        campaign = Campaign(sandbox, seed, changes, within)
        return campaign, campaign.run()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign and print what came of it; exit status 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--changes", type=int, default=500)
    parser.add_argument("--within", type=float, default=WITHIN, help="seconds until another job begins")
    parser.add_argument("--evidence", type=Path, help="a folder where logs are kept")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="oarpy-rows-") as folder:
        directory = options.evidence or Path(folder) / "cluster"
        campaign, wrong = run_campaign(directory, options.seed, options.changes, options.within)
    taken = sorted(campaign.latencies)
    print(f"{sum(campaign.made.values())} changes of {len(campaign.made)} tables; {campaign.refused} more were refused")
    print(f"{campaign.left} could not be undone: what they were about had moved on")
    print(f"another job began after {taken[len(taken) // 2]:.2f} s (median), {taken[-1]:.2f} s at most")
    print("\n".join(f"  WRONG: {line}" for line in wrong) or "  all other jobs went on")
    return 1 if wrong else 0


if __name__ == "__main__":
    bare_environment.enter()
    sys.exit(main())
