"""Quotas: rules, the sets they belong to, and when these are valid."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from oarpy.model.quota_calendar import DEFAULT_LEVEL, DatedPeriod, QuotaCalendar, WeeklyPeriod
from oarpy.store.database import Connection


@dataclass(frozen=True, slots=True)
class QuotaRuleRow:
    """A rule; -1 is no limit. ``rule_set`` is None for a rule that always holds."""

    queue: str
    project: str
    type: str
    user: str
    resources: int
    jobs: int
    resource_hours: float
    rule_set: str | None
    level: str = DEFAULT_LEVEL


_RULES = """
    SELECT queue_name, project, job_type, user_name, max_resources, max_jobs, max_resource_hours::float8, set_name,
           level
    FROM quotas ORDER BY quota_id
"""
_SETS = "SELECT set_name, otherwise FROM quota_sets ORDER BY set_name"
# 24:00 is a time of the day to PostgreSQL alone
_PERIODS = """
    SELECT weekday - 1, extract(epoch FROM begins)::integer, extract(epoch FROM ends)::integer, set_name, label
    FROM quota_periods ORDER BY weekday, begins
"""
_EXCEPTIONS = """
    SELECT extract(epoch FROM begins_at)::float8, extract(epoch FROM ends_at)::float8, set_name, label
    FROM quota_exceptions ORDER BY begins_at
"""
_COUNTABLE = "SELECT count(*) FROM resources WHERE type = 'default' AND state <> 'Dead'"
_CLEAR_RULES = "DELETE FROM quotas"
_CLEAR_SETS = "DELETE FROM quota_sets"
_ADD_SETS = "INSERT INTO quota_sets (set_name, otherwise) SELECT * FROM unnest(%s::text[], %s::boolean[])"
_ADD_RULES = """
    INSERT INTO quotas (queue_name, project, job_type, user_name, max_resources, max_jobs, max_resource_hours, set_name,
                        level)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::integer[], %s::integer[], %s::numeric[],
                         %s::text[], %s::text[])
"""
_ADD_PERIODS = """
    INSERT INTO quota_periods (weekday, begins, ends, set_name, label)
    SELECT weekday, '0:00'::time + make_interval(secs => begins),
           CASE ends WHEN 86400 THEN '24:00' ELSE '0:00'::time + make_interval(secs => ends) END, set_name, label
    FROM unnest(%s::smallint[], %s::integer[], %s::integer[], %s::text[], %s::text[])
         AS p (weekday, begins, ends, set_name, label)
"""
_ADD_EXCEPTIONS = """
    INSERT INTO quota_exceptions (begins_at, ends_at, set_name, label)
    SELECT to_timestamp(begins), to_timestamp(ends), set_name, label
    FROM unnest(%s::float8[], %s::float8[], %s::text[], %s::text[]) AS e (begins, ends, set_name, label)
"""


def rules(connection: Connection) -> list[QuotaRuleRow]:
    """Return every rule, in the order in which they were made."""
    return [QuotaRuleRow(*row) for row in connection.execute(_RULES)]


# The partial index is empty where no array has a throttle.
_THROTTLES = """
    SELECT array_id, min(throttle) FROM jobs WHERE throttle IS NOT NULL AND is_live(state)
    GROUP BY array_id ORDER BY array_id
"""


def throttles(connection: Connection) -> list[tuple[int, int]]:
    """Return the live arrays with a limit on members that run at once, each with its limit."""
    return connection.execute(_THROTTLES).fetchall()


def sets(connection: Connection) -> list[str]:
    """Return the names of all sets of rules."""
    return [name for name, _ in connection.execute(_SETS)]


def calendar(connection: Connection, zone: tzinfo | None) -> QuotaCalendar:
    """Return when each set is valid; times of the day are in ``zone``."""
    otherwise = [name for name, chosen in connection.execute(_SETS) if chosen]
    return QuotaCalendar(
        weekly=tuple(WeeklyPeriod(*row) for row in connection.execute(_PERIODS)),
        dated=tuple(DatedPeriod(*row) for row in connection.execute(_EXCEPTIONS)),
        otherwise=otherwise[0] if otherwise else None,
        zone=zone,
    )


def countable(connection: Connection) -> int:
    """Count the resources that quotas count and that are not Dead."""
    row = connection.execute(_COUNTABLE).fetchone()
    return 0 if row is None else int(row[0])


def clear(connection: Connection) -> None:
    """Remove all rules, sets and periods."""
    connection.execute(_CLEAR_RULES)
    connection.execute(_CLEAR_SETS)


def add(connection: Connection, names: Collection[str], rows: Sequence[QuotaRuleRow], when: QuotaCalendar) -> None:
    """Add sets called ``names``, rules, and when they are valid."""
    connection.execute(_ADD_SETS, (list(names), [name == when.otherwise for name in names]))
    columns = [
        [row.queue for row in rows],
        [row.project for row in rows],
        [row.type for row in rows],
        [row.user for row in rows],
        [row.resources for row in rows],
        [row.jobs for row in rows],
        [float(row.resource_hours) for row in rows],
        [row.rule_set for row in rows],
        [row.level for row in rows],
    ]
    connection.execute(_ADD_RULES, columns)
    weekly, dated = when.weekly, when.dated
    connection.execute(
        _ADD_PERIODS,
        (
            [period.weekday + 1 for period in weekly],
            [period.begin for period in weekly],
            [period.end for period in weekly],
            [period.rule_set for period in weekly],
            [period.label for period in weekly],
        ),
    )
    connection.execute(
        _ADD_EXCEPTIONS,
        (
            [float(exception.begin) for exception in dated],
            [float(exception.end) for exception in dated],
            [exception.rule_set for exception in dated],
            [exception.label for exception in dated],
        ),
    )
