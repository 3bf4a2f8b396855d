"""LISTEN/NOTIFY and leadership. Notifications only hurry things up: losing one delays, never breaks."""

from __future__ import annotations

import zlib

import psycopg

from oarpy.store.database import Connection

EVENTS = "oarpy_events"
"""What happened: sent by triggers and by modules that finished, heard by the automaton."""


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
        """Take in what has arrived. Raises ``psycopg.OperationalError`` when the server is gone."""
        channel = self._connection.pgconn
        channel.consume_input()
        while notice := channel.notifies():
            if channel.notify_handler:
                channel.notify_handler(notice)

    def drain(self) -> list[str]:
        """Return what was heard, and forget it."""
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
    """Tell the automaton, and whoever looks, that ``module`` ran."""
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


def leadership_key(module: str) -> tuple[int, int]:
    """Return the advisory lock that the one active instance of ``module`` holds."""
    return 0x0A8, zlib.crc32(module.encode()) & 0x7FFFFFFF


def try_lead(connection: Connection, module: str) -> bool:
    """Take the cluster-wide lock of ``module`` if nobody has it; it goes with the connection."""
    row = connection.execute("SELECT pg_try_advisory_lock(%s, %s)", leadership_key(module)).fetchone()
    return bool(row and row[0])


_SCHEDULES = """
    SELECT EXISTS (SELECT FROM pg_stat_activity
                   WHERE datname = current_database() AND application_name = 'oarpy metascheduler')
"""


def is_scheduled(connection: Connection) -> bool:
    """Tell whether a meta-scheduler is connected: without one no waiting job starts."""
    row = connection.execute(_SCHEDULES).fetchone()
    return bool(row and row[0])
