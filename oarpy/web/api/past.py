"""Periods: who held what, and what users consumed."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request

from oarpy.client.jobs.selection import parse_user
from oarpy.client.past import period_reports
from oarpy.client.past.consumption import ConsumptionDocument
from oarpy.client.past.gantt_chart import GanttDocument
from oarpy.client.past.periods import parse_period
from oarpy.model.errors import UsageError
from oarpy.web.answers import Route
from oarpy.web.identity import Reader
from oarpy.web.seats import seats_of

router = APIRouter(tags=["past"], route_class=Route)

_LONGEST_GANTT = timedelta(days=93)

Since = Annotated[str, Query(max_length=60, description="a date, epoch seconds, now, -7d ...")]
Whose = Annotated[str | None, Query(max_length=256)]


@router.get("/gantt")
def gantt(
    request: Request, identity: Reader, since: Since = "-1d", until: Since = "+1d", user: Whose = None
) -> GanttDocument:
    """Return who held, holds and should hold what, as ``oarstat --gantt -J``; three months at most."""
    begin, end = parse_period(f"{since},{until}")
    if end - begin > _LONGEST_GANTT:
        raise UsageError("the period is too long", hint=f"at most {_LONGEST_GANTT.days} days")
    with seats_of(request).session(identity) as session:
        return period_reports.gantt(session, (begin, end), _user(user)).data()


@router.get("/accounting")
def accounting(
    request: Request, identity: Reader, since: Since = "-30d", until: Since = "now", user: Whose = None
) -> list[ConsumptionDocument]:
    """Return what users and projects asked for and used, in resource-seconds, as ``oarstat --accounting -J``."""
    period = parse_period(f"{since},{until}")
    with seats_of(request).session(identity) as session:
        return period_reports.accounting(session, period, _user(user)).data()


def _user(text: str | None) -> str | None:
    return None if text is None else parse_user(text)
