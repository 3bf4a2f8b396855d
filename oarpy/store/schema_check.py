"""Whether a database is what this version of oarpy expects: for ``oarpy db check``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import CheckConstraint, Connection, text
from sqlalchemy.dialects.postgresql import ExcludeConstraint

from oarpy.model.states import FINAL_STATES, HOLDING_STATES, PASSAGES, TRANSITIONS, JobState, ResourceState
from oarpy.store import migrations
from oarpy.store.tables import METADATA, is_ours

OLDEST_SERVER = 15

TRIGGERS = frozenset(
    {
        ("admission_rules", "rule_numbered"),
        ("admission_rules", "rule_versioned"),
        ("assigned_amounts", "amounts_changed"),
        ("assigned_amounts", "amounts_given_back"),
        ("assigned_amounts", "amounts_taken"),
        ("assigned_resources", "amounts_assigned"),
        ("consumable_capacities", "capacities_changed"),
        ("consumable_capacities", "held_capacities_stay"),
        ("consumables", "consumables_changed"),
        ("event_logs", "events_noticed"),
        ("jobs", "forbidden_move"),
        ("assigned_resources", "resources_returned"),
        ("jobs", "job_paused"),
        ("jobs", "jobs_inserted"),
        ("jobs", "jobs_moved"),
        ("jobs", "jobs_noticed"),
        ("jobs", "jobs_released"),
        ("jobs", "live_jobs_stay"),
        ("jobs", "walltime_changed"),
        ("kill_requests", "announced_new"),
        ("kill_requests", "kills_moved"),
        ("nodes", "announced"),
        ("nodes", "announced_gone"),
        ("nodes", "announced_new"),
        ("notices", "announced_new"),
        ("queues", "announced"),
        ("queues", "announced_gone"),
        ("queues", "announced_new"),
        ("quota_exceptions", "announced"),
        ("quota_exceptions", "announced_gone"),
        ("quota_exceptions", "announced_new"),
        ("quota_periods", "announced"),
        ("quota_periods", "announced_gone"),
        ("quota_periods", "announced_new"),
        ("quota_sets", "announced"),
        ("quota_sets", "announced_gone"),
        ("quota_sets", "announced_new"),
        ("quotas", "announced"),
        ("quotas", "announced_gone"),
        ("quotas", "announced_new"),
        ("resource_properties", "platform_changed"),
        ("resource_properties", "platform_grown"),
        ("resource_properties", "platform_shrunk"),
        ("resources", "held_blocks_stay"),
        ("resources", "node_of_resource"),
        ("resources", "platform_changed"),
        ("resources", "platform_grown"),
        ("resources", "platform_shrunk"),
        ("resources", "resource_born"),
        ("resources", "resource_moved"),
        ("signal_requests", "announced_new"),
        ("suspend_requests", "announced_new"),
        ("walltime_changes", "announced"),
        ("walltime_changes", "announced_new"),
    }
)
"""Table and name of every trigger: the rules of the schema that constraints cannot say."""

VIEWS = frozenset(
    {
        "accounting",
        "assigned_amounts",
        "assigned_resources",
        "consumables",
        "job_state_history",
        "job_types",
        "jobs",
        "karma",
        "moldable_alternatives",
        "node_state_history",
        "predictions",
        "waiting_jobs",
    }
)
"""The views of schema oar_report."""

# every constraint that is in force, by table and name
_CONSTRAINTS = """
SELECT c.relname, k.conname FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
WHERE c.relnamespace = 'public'::regnamespace AND k.convalidated
"""
# every trigger of ours that fires
_TRIGGERS = """
SELECT c.relname, t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') AND c.relnamespace = 'public'::regnamespace
"""
# the views for analysts
_VIEWS = "SELECT viewname FROM pg_views WHERE schemaname = 'oar_report'"
# properties without a column, and columns that are no property
_PROPERTIES = """
SELECT p.name, a.attname FROM resource_properties p
FULL JOIN (SELECT attname FROM pg_attribute
           WHERE attrelid = 'resources'::regclass AND attnum > 0 AND NOT attisdropped
             AND attname NOT IN ('state_by', 'state_since')) a ON a.attname = p.name
WHERE p.name IS NULL OR a.attname IS NULL
"""
# blocks whose sum of what is held is not that of the amounts
_SUMS = """
SELECT c.consumable, c.block, c.held, coalesce(sum(a.amount), 0)
FROM consumable_capacities c
    LEFT JOIN assigned_amounts a ON (a.consumable, a.block) = (c.consumable, c.block) AND upper_inf(a.during)
GROUP BY c.consumable, c.block HAVING c.held <> coalesce(sum(a.amount), 0) ORDER BY 1, 2
"""


def check(dsn: str) -> tuple[str, ...]:
    """What is wrong with the database, one line each; empty when all is well."""
    with migrations.connected(dsn) as connection:
        revision, head = migrations.revision_of(connection), migrations.head()
        if revision is None:
            return ("there is no oarpy schema in this database: run 'oarpy db upgrade'",)
        if revision != head:
            return (f"the schema is at revision {revision}, this oarpy needs {head}: run 'oarpy db upgrade'",)
        return tuple(_problems(connection))


def _problems(connection: Connection) -> Iterator[str]:
    version = int(_rows(connection, "SHOW server_version_num")[0][0]) // 10000
    if version < OLDEST_SERVER:
        yield f"the server is PostgreSQL {version}, the oldest that serves is {OLDEST_SERVER}"
    if not _rows(connection, "SELECT FROM pg_extension WHERE extname = 'btree_gist'"):
        yield "extension btree_gist is missing"
    yield from _differences(connection)
    yield from _missing(connection)
    yield from _states(connection)
    for property_name, column in _rows(connection, _PROPERTIES):
        if property_name is None:
            yield f"column resources.{column} is not listed in resource_properties"
        else:
            hint = f"oarproperty -d {property_name} takes it off the list"
            yield f"property {property_name} has no column in resources ({hint})"
    for consumable, block, held, amounts in _rows(connection, _SUMS):
        yield f"{held} of {consumable} on {block} counts as held, jobs hold {amounts}"


def _differences(connection: Connection) -> Iterator[str]:
    context = MigrationContext.configure(connection, opts={"compare_type": True, "include_object": is_ours})
    for difference in compare_metadata(context, METADATA):
        steps: list[Any] = difference if isinstance(difference, list) else [difference]
        for step in steps:
            if "comment" not in step[0]:
                yield f"difference from the schema of this version: {_named(step)}"


def _named(step: tuple[Any, ...]) -> str:
    """``("add_column", None, "jobs", Column("state", ...))`` as ``add_column jobs state``."""
    words = (getattr(part, "name", part) for part in step if not isinstance(part, dict))
    return " ".join(str(word) for word in words if word is not None)


def _missing(connection: Connection) -> Iterator[str]:
    present = set(_rows(connection, _CONSTRAINTS))
    for table, name in sorted(expected_constraints() - present):
        yield f"constraint {name} of table {table} is missing or not valid"
    firing = set(_rows(connection, _TRIGGERS))
    for table, name in sorted(TRIGGERS - firing):
        yield f"trigger {name} of table {table} is missing or disabled"
    for view in sorted(VIEWS - {row[0] for row in _rows(connection, _VIEWS)}):
        yield f"view oar_report.{view} is missing"


def expected_constraints() -> set[tuple[str, str]]:
    """Table and name of the CHECK and exclusion constraints, which Alembic does not compare."""
    return {
        (table.name, str(constraint.name))
        for table in METADATA.tables.values()
        for constraint in table.constraints
        if isinstance(constraint, CheckConstraint | ExcludeConstraint)
    }


def _states(connection: Connection) -> Iterator[str]:
    wanted: tuple[tuple[str, str, set[tuple[Any, ...]]], ...] = (
        (
            "job_states",
            "SELECT state, letter, final, holding FROM job_states",
            {(s.value, s.letter, s in FINAL_STATES, s in HOLDING_STATES) for s in JobState},
        ),
        (
            "job_transitions",
            "SELECT from_state, to_state, event, who FROM job_transitions",
            {(move.source.value, move.target.value, move.event, move.who) for move in TRANSITIONS},
        ),
        (
            "job_passages",
            "SELECT from_state, to_state, array_to_string(through, ' ') FROM job_passages",
            {(source.value, target.value, " ".join(through)) for (source, target), through in PASSAGES.items()},
        ),
        ("resource_states", "SELECT state FROM resource_states", {(state.value,) for state in ResourceState}),
    )
    for table, query, expected in wanted:
        present = set(_rows(connection, query))
        for row in sorted(expected - present):
            yield f"{table} lacks the row {row}"
        for row in sorted(present - expected):
            yield f"{table} has the unknown row {row}"


def _rows(connection: Connection, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(text(query))]
