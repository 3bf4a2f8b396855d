"""Quota rules as a scheduling pass needs them: each with the spans of time in which it is valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, inf
from zoneinfo import ZoneInfo

from oarpy.configuration import Configuration
from oarpy.model.quota_calendar import WEEK, QuotaCalendar, Span, valid_spans
from oarpy.scheduler.snapshot import QuotaRule
from oarpy.store.database import Connection
from oarpy.store.passes import quotas

AHEAD = 13 * WEEK
"""Seconds from now for which passes know the calendar at least, beyond the longest walltime."""
_STEP = 4 * WEEK

Known = tuple[tuple[QuotaRule, ...], float]
"""The rules, and the instant until which the valid rules are known."""


class QuotaRules:
    """Reads the rules; the spans of a calendar that has not changed are kept from pass to pass."""

    def __init__(self, configuration: Configuration) -> None:
        name = configuration.scheduler.time_zone
        self._zone = ZoneInfo(name) if name else None
        self._source: tuple[QuotaCalendar, float, float] | None = None
        self._spans: dict[str, tuple[Span, ...]] = {}

    def read(self, connection: Connection, now: int, longest: float) -> Known:
        """Return the rules for a pass at ``now`` whose jobs last at most ``longest`` seconds, throttles of arrays last.

        The span of time that is read moves in steps, so that the rules of most passes are equal.
        """
        begin = now // WEEK * WEEK - WEEK
        rules, horizon = self.between(connection, begin, ceil((now + AHEAD + longest) / _STEP) * _STEP)
        arrays = (QuotaRule.of_array(array, throttle) for array, throttle in quotas.throttles(connection))
        return (*rules, *arrays), horizon

    def between(self, connection: Connection, begin: float, end: float) -> Known:
        """Return the rules with their spans within [begin, end)."""
        rows = quotas.rules(connection)
        if all(row.rule_set is None for row in rows):
            return spanned(rows, {}), inf
        source = quotas.calendar(connection, self._zone), begin, end
        if source != self._source:
            self._source, self._spans = source, valid_spans(*source)
        return spanned(rows, self._spans), end


def spanned(rows: Sequence[quotas.QuotaRuleRow], spans: Mapping[str, tuple[Span, ...]]) -> tuple[QuotaRule, ...]:
    """Return rules with the spans of their sets; a set without spans is never valid."""
    return tuple(_rule(row, None if row.rule_set is None else spans.get(row.rule_set, ())) for row in rows)


def _rule(row: quotas.QuotaRuleRow, valid: tuple[Span, ...] | None) -> QuotaRule:
    return QuotaRule(
        row.queue,
        row.project,
        row.type,
        row.user,
        row.resources,
        row.jobs,
        row.resource_hours,
        valid,
        row.rule_set or "",
        row.level,
    )
