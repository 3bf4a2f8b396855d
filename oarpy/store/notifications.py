"""LISTEN/NOTIFY and leadership. Notifications only hurry things up: losing one delays, never breaks."""

from __future__ import annotations

import secrets
import zlib

import psycopg

from oarpy.model.errors import Unreachable
from oarpy.store.database import Connection

EVENTS = "oarpy_events"
"""Events: sent by triggers and by modules that finished, received by the automaton."""


def run_channel(module: str) -> str:
    """Return the channel on which the automaton tells ``module`` to run."""
    return f"oarpy_run_{module}"


class Ear:
    """Listens on one channel. ``heard`` holds the payloads that arrived on the connection since the last ``drain``."""

    def __init__(self, connection: Connection, channel: str) -> None:
        self._connection = connection
        self.heard: list[str] = []
        connection.add_notify_handler(lambda notice: self.heard.append(notice.payload))
        # The name is one of ours; LISTEN takes no parameter.
        connection.execute(psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(channel)))

    def fileno(self) -> int:
        """Return the socket to wait on; call :meth:`listen` when it is readable."""
        return self._connection.fileno()

    def listen(self) -> None:
        """Take in the notifications that have arrived. Raises ``psycopg.OperationalError`` when the server is gone."""
        channel = self._connection.pgconn
        channel.consume_input()
        while notice := channel.notifies():
            if channel.notify_handler:
                channel.notify_handler(notice)

    def drain(self) -> list[str]:
        """Return the messages that have come, and forget them."""
        heard, self.heard = self.heard, []
        return heard


def tell(connection: Connection, module: str) -> None:
    """Ask a module to run."""
    connection.execute("SELECT pg_notify(%s, '')", [run_channel(module)])


# One row a module, for people, and the automaton's "done" in the same round trip.
_REPORT = """
    WITH told AS (SELECT pg_notify(%(channel)s, %(payload)s))
    INSERT INTO module_runs (module, at, outcome, pid, host)
        SELECT %(module)s, now(), %(outcome)s, %(pid)s, %(host)s FROM told
        ON CONFLICT (module) DO UPDATE SET at = now(), outcome = excluded.outcome, pid = excluded.pid,
            host = excluded.host
"""


def report(connection: Connection, module: str, outcome: str, pid: int, host: str) -> None:
    """Report to the automaton, and to readers of the table, that ``module`` ran."""
    connection.execute(
        _REPORT,
        {
            "channel": EVENTS,
            "payload": f"done {module}",
            "module": module,
            "outcome": outcome,
            "pid": pid,
            "host": host,
        },
    )


_BITS = 62
# Our locks are held by sessions whose role has the rights of the tables' owner; superusers have them. Others may lock
# too.
_HOLDERS = """
    FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
_OURS = "pg_has_role(a.usesysid, (SELECT relowner FROM pg_class WHERE oid = 'leads'::regclass), 'USAGE') IS TRUE"
_OF_THE_LEAD = """
    ((l.objsubid = 1
      AND (l.classid::bigint << 32 | l.objid::bigint) = (SELECT lock FROM leads WHERE module = %(module)s))
     OR (l.objsubid = 2 AND l.classid::bigint = %(class)s AND l.objid::bigint = %(number)s))
"""
_LEADER = f"SELECT l.pid {_HOLDERS} AND {_OF_THE_LEAD} AND {_OURS} LIMIT 1"
_STRANGERS = f"SELECT DISTINCT a.usename::text, l.pid {_HOLDERS} AND NOT {_OURS} ORDER BY 2"
_KNOWN = "INSERT INTO leads (module, lock) VALUES (%s, %s) ON CONFLICT (module) DO NOTHING"
_LOCK = "SELECT lock FROM leads WHERE module = %s FOR UPDATE"
_RENEW = "UPDATE leads SET lock = %s WHERE module = %s"


def leader(connection: Connection, module: str) -> int | None:
    """Return the process of PostgreSQL of the session that leads ``module``, None without a leader.

    Modules of older versions lead by a lock that is the same everywhere.
    """
    values = {"module": module, "class": 0x0A8, "number": zlib.crc32(module.encode()) & 0x7FFFFFFF}
    try:
        row = connection.execute(_LEADER, values).fetchone()
    except psycopg.errors.UndefinedTable as error:
        raise Unreachable("the database is not ready: it has no table leads", hint="run 'oarpy db upgrade'") from error
    return None if row is None else row[0]


def is_led(connection: Connection, module: str) -> bool:
    """Tell whether an instance of ``module`` leads."""
    return leader(connection, module) is not None


def strangers(connection: Connection) -> list[tuple[str, int]]:
    """Return role and process of the sessions that hold advisory locks here without being the server."""
    return connection.execute(_STRANGERS).fetchall()


def try_lead(connection: Connection, module: str) -> bool:
    """Take the cluster-wide lock of ``module`` if it is free; it goes with the connection.

    Its number is in a table that the server alone changes. PostgreSQL shows everybody the numbers of held locks, so
    another role may take the lock when its holder is gone. Then the lock gets another number. A session that takes it,
    or changes the number, holds the row meanwhile: two never lead.
    """
    if (leading := leader(connection, module)) is not None:
        return leading == connection.info.backend_pid
    with connection.transaction():
        connection.execute(_KNOWN, [module, secrets.randbits(_BITS)])
        row = connection.execute(_LOCK, [module]).fetchone()
        assert row is not None
        if _taken(connection, row[0]):
            return True
        if leader(connection, module) is not None:
            return False
        number = secrets.randbits(_BITS)
        connection.execute(_RENEW, [number, module])
        return _taken(connection, number)


def _taken(connection: Connection, number: int) -> bool:
    row = connection.execute("SELECT pg_try_advisory_lock(%s)", [number]).fetchone()
    return bool(row and row[0])


_CONNECTED = """
    SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s),
           to_regclass('public.leads') IS NOT NULL
"""


def is_scheduled(connection: Connection) -> bool:
    """Tell whether a meta-scheduler is connected: without one no waiting job starts."""
    row = connection.execute(_CONNECTED, ["oarpy metascheduler"]).fetchone()
    return bool(row and row[0])


def is_served(connection: Connection) -> bool:
    """Tell whether modules of a server work on the database, of whatever version its schema is."""
    row = connection.execute(_CONNECTED, ["oarpy automaton"]).fetchone()
    assert row is not None
    connected, leads = row
    return bool(connected or (leads and is_led(connection, "automaton")))
