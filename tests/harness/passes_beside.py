"""Passes that run beside the commands of a test, and the offers that commands print to refused reservations."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import psycopg

from oarpy.configuration import load
from oarpy.modules.metascheduler.metascheduler import Metascheduler

_OFFER = re.compile(r"OAR_OFFER_ID=(\d+) start=(\S+) end=(\S+) phi=(\d+\.\d\d)")


@contextmanager
def passes(dsn: str) -> Iterator[None]:
    """Run a pass whenever something is announced."""
    over = threading.Event()
    scheduler = Metascheduler(load())

    def run() -> None:
        with psycopg.connect(dsn, autocommit=True, application_name="oarpy metascheduler") as connection:
            connection.execute("LISTEN oarpy_events")
            while not over.is_set():
                scheduler.run_once(connection, datetime.now().astimezone())
                for _ in connection.notifies(timeout=0.2, stop_after=1):
                    pass

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def offers(text: str) -> list[tuple[str, str, str, str]]:
    """Return the offers in the output of a command: number, start, end and phi of each."""
    return [match.groups() for line in text.splitlines() if (match := _OFFER.fullmatch(line))]  # type: ignore[misc]
