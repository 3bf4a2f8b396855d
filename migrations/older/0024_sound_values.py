"""No table takes an instant, interval, number or array that its readers cannot compute with.

What such rows hold is mended, and told in the events of the job where it is a job's.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import CheckConstraint, Column, Connection, Table
from sqlalchemy.dialects.postgresql import INTERVAL, TIMESTAMP, TSTZMULTIRANGE, TSTZRANGE

from oarpy.store.schema.columns import sound
from oarpy.store.schema.tables import TABLES

_EARLIEST, _LAST = "TIMESTAMPTZ '1970-01-01 00:00:00+00'", "TIMESTAMPTZ '2999-12-31 00:00:00+00'"
_INSTANT = f"least(greatest({{0}}, {_EARLIEST}), {_LAST})"
_RANGE = (
    f"tstzrange(greatest(lower({{0}}), {_EARLIEST}),"
    f" CASE WHEN NOT upper_inf({{0}}) THEN least(upper({{0}}), {_LAST}) END)"
)
_PLAIN = "regexp_replace({0}, '[^ -~]', '?', 'g')"
_FLAT = "ARRAY(SELECT one FROM unnest({0}) WITH ORDINALITY AS u(one, place) WHERE one IS NOT NULL ORDER BY place)"


def _seconds(least: int, most: int) -> str:
    return f"greatest(least(EXTRACT(epoch FROM {{0}}), {most}), {least}) * interval '1 second'"


# what a value becomes that the column does not take
_OF_KINDS = {
    TIMESTAMP: _INSTANT,
    INTERVAL: _seconds(-1_000_000_000, 1_000_000_000),
    TSTZRANGE: _RANGE,
    TSTZMULTIRANGE: _RANGE,
}
_OF_COLUMNS = {
    "site.platform_version": "0",
    "scheduling_passes.pass": "0",
    "scheduling_passes.seconds": "0",
    "nodes.load_average": "NULL",
    "resources.cpuset": "NULL",
    "reserved_resources.during": f"tstzrange(greatest(lower({{0}}), {_EARLIEST}), least(upper({{0}}), {_LAST}))",
    "quotas.max_resource_hours": "-1",
    "submissions.environment": "(SELECT jsonb_object_agg(key, coalesce(value, '')) FROM jsonb_each_text({0}))",
    "moldable_descriptions.walltime": _seconds(1, 316_224_000),
    "jobs.project": f"left({_PLAIN}, 200)",
    "jobs.types": f"ARRAY(SELECT {_PLAIN.format('one')} FROM unnest({{0}}) WITH ORDINALITY AS u(one, place)"
    " WHERE one IS NOT NULL ORDER BY place LIMIT 50)",
    "jobs.command": "left({0}, 32767)",
    "jobs.launching_directory": "left('/' || {0}, 1024)",
    "jobs.checkpoint": _seconds(0, 1_000_000_000),
    "jobs.walltime": _seconds(1, 1_000_000_000),
    "jobs.suspended_time": _seconds(0, 1_000_000_000),
    "event_logs.hosts": _FLAT,
    "notices.attempts": "1000",
    "accounting.consumption": "0",
}
_OF_JOBS = frozenset(
    {"jobs", "job_dependencies", "walltime_changes", "assigned_resources", "assigned_amounts", "reserved_resources"}
)
_BEFORE = (
    "INSERT INTO site DEFAULT VALUES ON CONFLICT DO NOTHING",
    "INSERT INTO scheduling_passes DEFAULT VALUES ON CONFLICT DO NOTHING",
    "UPDATE notices SET due = at WHERE due = '-infinity' AND isfinite(at)",
    "DELETE FROM assigned_resources WHERE isempty(during)",
    "DELETE FROM resource_state_logs WHERE isempty(during)",
    "DELETE FROM reserved_resources WHERE isempty(during)",
)
_AFTER = (
    "UPDATE jobs SET started_at = NULL WHERE state IN ('Hold', 'Waiting', 'toAckReservation', 'toLaunch')"
    " AND started_at IS NOT NULL",
    "UPDATE jobs SET ended_at = started_at WHERE ended_at - started_at >= interval '200000 hours'",
)


def rows(connection: Connection) -> None:
    """Mend what is unsound, table by table."""
    mended = (one for table in TABLES for column in table.columns for one in _mended(table, column))
    for statement in (*_BEFORE, *mended, *_AFTER):
        _run(connection, statement)
    _bound_properties(connection)


def _mended(table: Table, column: Column[object]) -> Iterator[str]:
    """Yield what mends the values of a column that do not meet its condition."""
    mended = _OF_COLUMNS.get(f"{table.name}.{column.name}") or _OF_KINDS.get(type(column.type))
    checks = [rule.sqltext for rule in column.constraints if isinstance(rule, CheckConstraint)]
    if mended is None or not checks:
        return
    if table.name in _OF_JOBS:
        yield (
            f"INSERT INTO event_logs (type, job_id, description) SELECT 'ROW_MENDED', job_id,"
            f" '{table.name}.{column.name} was ' || left({column.name}::text, 200)"
            f" FROM {table.name} WHERE NOT ({checks[0]})"
        )
    yield f"UPDATE {table.name} SET {column.name} = {mended.format(column.name)} WHERE NOT ({checks[0]})"


def _bound_properties(connection: Connection) -> None:
    """Bound the dates that an admin added as properties."""
    query = "SELECT name FROM resource_properties WHERE kind = 'timestamptz' AND NOT protected"
    for (name,) in connection.exec_driver_sql(query).fetchall():
        _run(connection, f"UPDATE resources SET {name} = {_INSTANT.format(name)}")
        _run(connection, f"ALTER TABLE resources ADD CHECK ({sound(name, TIMESTAMP)})")


def _run(connection: Connection, statement: str) -> None:
    connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
