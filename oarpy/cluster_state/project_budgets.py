"""Projects as a scheduling pass needs them: the tree, the use of their hours, and when these begin anew."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from math import inf

from oarpy.configuration import Configuration
from oarpy.scheduler.order.budgets import Project, Projects
from oarpy.store.database import Connection
from oarpy.store.passes import project_use
from oarpy.store.passes.project_use import ProjectUseRow
from oarpy.store.platform.consumables import weights_of_units

FORESEEN = 14
"""The number of coming periods that passes know; later use counts for the last of them."""
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


class ProjectBudgets:
    """Reads the projects, where a submission has to name one of its user."""

    def __init__(self, configuration: Configuration) -> None:
        self._pay = configuration.submission.projects == "members"
        self._weights = configuration.accounting.weights

    def read(self, connection: Connection, now: float) -> Projects | None:
        """Return the projects for a pass at ``now``, None where they pay for nothing."""
        if not self._pay:
            return None
        projects = (_project(row, row.used, now, now) for row in project_use.project_use(connection))
        weights = weights_of_units(connection, self._weights)
        return Projects({project.name: project for project in projects}, weights)

    def between(self, connection: Connection, begin: float, end: float) -> Projects | None:
        """Return the projects of today for passes from ``begin`` to ``end``, with the use before."""
        if not self._pay:
            return None
        rows = project_use.project_use(connection)
        first = {row.project: period_begins(row.period, begin, begin)[0] for row in rows}
        used = project_use.used_between(connection, first, begin)
        projects = (_project(row, used.get(row.project, 0), begin, end) for row in rows)
        weights = weights_of_units(connection, self._weights)
        return Projects({project.name: project for project in projects}, weights)


def _project(row: ProjectUseRow, used: float, now: float, end: float) -> Project:
    return Project(
        row.project,
        row.parent or "",
        row.share,
        row.weight,
        inf if row.hours is None else row.hours,
        (used,),
        period_begins(row.period, now, end),
        inf if row.until is None else row.until,
        row.gives_way_to,
    )


def period_begins(period: str, now: float, end: float) -> tuple[float, ...]:
    """Return when the period of ``now`` and the next ones begin, in UTC: as many beyond ``end`` as passes know.

    >>> [datetime.fromtimestamp(one, UTC).strftime("%m-%d") for one in period_begins("quarter", 0, 0)[:3]]
    ['01-01', '04-01', '07-01']
    """
    if period == "ever":
        return (-inf,)
    begins: list[float] = []
    beyond = 0
    for begin in _begins(period, datetime.fromtimestamp(now, UTC)):
        begins.append(begin)
        beyond += begin >= end
        if beyond == FORESEEN:
            break
    return tuple(begins)


def _begins(period: str, moment: datetime) -> Iterator[int]:
    """Yield when the period of a moment begins, and all later ones."""
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if period == "week":
        monday = day - timedelta(days=day.weekday())
        yield from (int((monday + timedelta(weeks=place)).timestamp()) for place in count())
    step = _MONTHS[period]
    first = day.year * 12 + (day.month - 1) // step * step
    for place in count():
        year, month = divmod(first + place * step, 12)
        yield int(datetime(year, month + 1, 1, tzinfo=UTC).timestamp())
