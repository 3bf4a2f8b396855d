"""Learning from past starts how far predicted starts can be trusted."""

from __future__ import annotations

from oarpy.scheduler.forecast.start_intervals import WINDOW, PastStart, StartForecast
from oarpy.scheduler.verdicts import Verdict
from oarpy.store.database import Connection
from oarpy.store.passes.first_predictions import came

CHANCE = frozenset({Verdict.RESOURCES_BUSY, Verdict.BEHIND_HIGHER_PRIORITY, Verdict.QUOTA, Verdict.DEPENDENCY})
"""The verdicts of jobs whose start depends on the ends of others. Other starts are dates or not foreseen."""


def learnt(connection: Connection) -> StartForecast:
    """Learn from the latest starts that the database knows."""
    rows = came(connection, WINDOW)
    return StartForecast([PastStart(row.queue, row.planned, row.waited, row.held) for row in rows])
