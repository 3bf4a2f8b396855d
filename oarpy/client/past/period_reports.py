"""The output of ``oarstat`` for a period: the Gantt chart and the accounting."""

from __future__ import annotations

from datetime import datetime, timedelta

from oarpy.client.past import consumption, gantt_chart
from oarpy.client.past.consumption import ConsumptionDocument
from oarpy.client.past.gantt_chart import GanttDocument
from oarpy.client.rendering import Report, TwoForms, look
from oarpy.client.session import Session
from oarpy.store import accounting as accounting_store
from oarpy.store.passes import gantt as gantt_store
from oarpy.store.platform import resources
from oarpy.store.platform.consumables import weights_of_units
from oarpy.store.platform.resources import ResourceScope

Period = tuple[datetime, datetime]


_LEAST = timedelta(minutes=10)
_MOST = timedelta(days=7)


def to_come(session: Session) -> Period:
    """Return the time from now until everything planned is over: ten minutes at least, a week at most."""
    now = datetime.now().astimezone()
    last = max((bar.end for bar in gantt_store.bars(session.connection, now, now + _MOST)), default=0.0)
    return now, min(max(datetime.fromtimestamp(last, now.tzinfo), now + _LEAST), now + _MOST)


def gantt(session: Session, period: Period, user: str | None) -> Report[GanttDocument]:
    """Return the bars of past, running and planned jobs in ``period``."""
    bars = gantt_store.bars(session.connection, *period, user)
    nodes = {
        resource.resource_id: resource.network_address or f"{resource.type} {resource.resource_id}"
        for resource in resources.resources(session.connection, ResourceScope())
    }
    return TwoForms(
        lambda: gantt_chart.chart(bars, nodes, *period, look().columns),
        lambda: gantt_chart.document(bars, nodes, *period),
    )


def accounting(session: Session, period: Period, user: str | None) -> Report[list[ConsumptionDocument]]:
    """Return the consumption of all users, a line each, or of one in detail."""
    rows = accounting_store.consumption(session.connection, *period, user)
    weights = weights_of_units(session.connection, session.configuration.accounting.weights)
    return TwoForms(
        lambda: consumption.table(rows, weights) if user is None else consumption.summary(rows, weights, user, *period),
        lambda: consumption.document(rows, weights),
    )
