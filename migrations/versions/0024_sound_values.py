"""No table takes an instant, interval, number or array that its readers cannot compute with.

What such rows hold is mended, and told in the events of the job where it is a job's.

Revision ID: 0024
"""

from __future__ import annotations

from alembic import op

from oarpy.store.schema.statements import make

revision = "0024"
down_revision = "0023"

_EARLIEST, _LATEST = "TIMESTAMPTZ '1970-01-01 00:00:00+00'", "TIMESTAMPTZ '3000-01-01 00:00:00+00'"
_LAST = "TIMESTAMPTZ '2999-12-31 00:00:00+00'"
_MANY = 9007199254740992
_INSTANTS = {
    "event_logs": ("at",),
    "site": ("created_at",),
    "nodes": ("channel_since", "away_since", "load_at"),
    "node_power": ("asked_at", "sent_at"),
    "resources": ("state_since", "available_upto"),
    "admission_rule_versions": ("changed_at",),
    "quota_exceptions": ("begins_at", "ends_at"),
    "jobs": ("reservation_start", "submitted_at", "started_at", "ended_at", "reservation_offer", "suspended_at"),
    "gantt_predictions": ("start_time", "end_time"),
    "scheduling_passes": ("at",),
    "kill_requests": ("requested_at", "not_before"),
    "signal_requests": ("requested_at",),
    "suspend_requests": ("requested_at",),
    "walltime_changes": ("requested_at", "give_up_at"),
    "notices": ("at", "due"),
    "accounting": ("window_start", "window_stop"),
    "server_scripts": ("began_at",),
    "module_runs": ("at",),
}
_INTERVALS = {
    "job_dependencies": ("earliest_shift", "latest_shift"),
    "walltime_changes": (
        "pending",
        "granted",
        "granted_with_force",
        "granted_with_whole",
        "granted_with_delay_next_jobs",
    ),
}
_RANGES = {
    "job_state_logs": "",
    "assigned_resources": "",
    "assigned_amounts": "",
    "resource_state_logs": "NOT isempty(during)",
    "reserved_resources": "upper(during) > lower(during)",
}
_PLAIN = "regexp_replace({}, '[^ -~]', '?', 'g')"
_FLAT = "ARRAY(SELECT one FROM unnest({0}) WITH ORDINALITY AS u(one, place) WHERE one IS NOT NULL ORDER BY place)"


def _instant(column: str) -> str:
    return f"({column} >= {_EARLIEST}) AND ({column} < {_LATEST})"


def _interval(column: str) -> str:
    return f"EXTRACT(epoch FROM {column}) BETWEEN -1000000000 AND 1000000000"


def _seconds(column: str, least: str, most: int) -> str:
    return f"greatest(least(EXTRACT(epoch FROM {column}), {most}), {least}) * interval '1 second'"


def _range(condition: str) -> str:
    sound = (
        f"isempty(during) OR ((NOT lower_inf(during)) AND (lower(during) >= {_EARLIEST})"
        f" AND (upper_inf(during) OR (upper(during) < {_LATEST})))"
    )
    return f"({condition}) AND ({sound})" if condition else sound


def _flat(column: str) -> str:
    return f"({column} = '{{}}') OR ((array_ndims({column}) = 1) AND (array_position({column}, NULL) IS NULL))"


def _number(column: str) -> str:
    return f"{column} BETWEEN -{_MANY} AND {_MANY}"


# table, column, the condition from now on, the condition before, what a value that does not meet it becomes
_OTHERS = (
    ("site", "platform_version", f"platform_version BETWEEN 0 AND {_MANY}", "", "0"),
    ("scheduling_passes", "pass", f"pass BETWEEN 0 AND {_MANY}", "", "0"),
    ("scheduling_passes", "seconds", _number("seconds"), "", "0"),
    ("nodes", "load_average", _number("load_average"), "", "NULL"),
    ("resources", "cpuset", "cpuset >= 0", "", "NULL"),
    (
        "quotas",
        "max_resource_hours",
        f"((max_resource_hours >= 0) OR (max_resource_hours = -1)) AND ({_number('max_resource_hours')})",
        "(max_resource_hours >= 0) OR (max_resource_hours = -1)",
        "-1",
    ),
    (
        "submissions",
        "environment",
        "(jsonb_typeof(environment) = 'object')"
        " AND (NOT jsonb_path_exists(environment, '$.* ? (@.type() <> \"string\")'))",
        "jsonb_typeof(environment) = 'object'",
        "(SELECT jsonb_object_agg(key, coalesce(value, '')) FROM jsonb_each_text(environment))",
    ),
    (
        "moldable_descriptions",
        "walltime",
        f"(EXTRACT(epoch FROM walltime) BETWEEN 1 AND 316224000) AND ({_interval('walltime')})",
        "walltime > interval '0'",
        _seconds("walltime", "1", 316_224_000),
    ),
    ("job_passages", "through", f"(through <> '{{}}') AND ({_flat('through')})", "through <> '{}'", "through"),
    (
        "jobs",
        "project",
        "project ~ '^[ -~]{1,200}$'",
        "project <> ''",
        f"left({_PLAIN.format('project')}, 200)",
    ),
    (
        "jobs",
        "types",
        f"((cardinality(types) <= 50) AND (array_to_string(types, '') ~ '^[ -~]*$')) AND ({_flat('types')})",
        "",
        f"ARRAY(SELECT {_PLAIN.format('one')} FROM unnest(types) WITH ORDINALITY AS u(one, place)"
        " WHERE one IS NOT NULL ORDER BY place LIMIT 50)",
    ),
    ("jobs", "command", "octet_length(command) <= 131071", "", "left(command, 32767)"),
    (
        "jobs",
        "launching_directory",
        "(launching_directory ~ '^/') AND (octet_length(launching_directory) <= 4096)",
        "",
        "left('/' || launching_directory, 1024)",
    ),
    (
        "jobs",
        "checkpoint",
        f"(EXTRACT(epoch FROM checkpoint) >= 0) AND ({_interval('checkpoint')})",
        "checkpoint >= interval '0'",
        _seconds("checkpoint", "0", 1_000_000_000),
    ),
    (
        "jobs",
        "walltime",
        f"(EXTRACT(epoch FROM walltime) > 0) AND ({_interval('walltime')})",
        "walltime > interval '0'",
        _seconds("walltime", "1", 1_000_000_000),
    ),
    (
        "jobs",
        "suspended_time",
        f"(EXTRACT(epoch FROM suspended_time) >= 0) AND ({_interval('suspended_time')})",
        "",
        _seconds("suspended_time", "0", 1_000_000_000),
    ),
    ("event_logs", "hosts", _flat("hosts"), "", _FLAT.format("hosts")),
    ("notices", "attempts", "attempts BETWEEN 0 AND 1000", "attempts >= 0", "1000"),
    (
        "accounting",
        "consumption",
        f"(consumption >= 0) AND ({_number('consumption')})",
        "consumption >= 0",
        "0",
    ),
)
_BEFORE = {("resources", "available_upto"): "isfinite(available_upto)"} | {
    ("resource_state_logs", "during"): "NOT isempty(during)"
}
# about more than one column of jobs: name, condition, how rows that do not meet it are mended
_RULES = (
    (
        "not_started_before_launch",
        "(state NOT IN ('Hold', 'Waiting', 'toAckReservation', 'toLaunch')) OR (started_at IS NULL)",
        "started_at = NULL",
    ),
    ("not_endless", "(ended_at - started_at) < interval '200000 hours'", "ended_at = started_at"),
)
_STRUCTURE = ("rows_stay", "property_stays", "held_is_counted", "reservation_moved")
_CHANGED = ("hold_amounts", "resource_state_logged")
_OLDER = """
CREATE OR REPLACE FUNCTION hold_amounts(names text[], blocks text[], changes bigint[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE lacking record;
BEGIN
    -- always in one order, so that two sessions never wait for each other
    PERFORM FROM consumable_capacities c
        JOIN unnest(names, blocks) AS w(consumable, block) USING (consumable, block)
        ORDER BY c.consumable, c.block FOR NO KEY UPDATE OF c;
    SELECT w.consumable, w.block, w.change, coalesce(c.capacity - c.held, 0) AS remaining INTO lacking
        FROM unnest(names, blocks, changes) AS w(consumable, block, change)
            LEFT JOIN consumable_capacities c USING (consumable, block)
        WHERE w.change > 0 AND (c.capacity IS NULL OR c.held + w.change > c.capacity)
        ORDER BY w.consumable, w.block LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% more of % is wanted on %, % is left',
            lacking.change, lacking.consumable, lacking.block, lacking.remaining
            USING ERRCODE = 'check_violation', TABLE = 'consumable_capacities', CONSTRAINT = 'enough_left';
    END IF;
    UPDATE consumable_capacities c SET held = c.held + w.change
        FROM unnest(names, blocks, changes) AS w(consumable, block, change)
        WHERE (c.consumable, c.block) = (w.consumable, w.block);
END $$;
CREATE OR REPLACE FUNCTION capacities_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE site SET platform_version = platform_version + 1;
    PERFORM announce(ARRAY['platform changed']);
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION resource_state_logged() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE moment timestamptz := clock_timestamp();
BEGIN
    UPDATE resource_state_logs SET during = tstzrange(lower(during), moment)
        WHERE resource_id = NEW.resource_id AND upper_inf(during) AND lower(during) < moment;
    INSERT INTO resource_state_logs VALUES (NEW.resource_id, NEW.state, NEW.state_by, tstzrange(moment, NULL));
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER forbidden_move BEFORE UPDATE OF state ON jobs FOR EACH ROW
    WHEN (NEW.state <> OLD.state AND (
        (NEW.state IN ('Terminated', 'Error')) <> (NEW.ended_at IS NOT NULL)
        OR (NEW.state IN ('toLaunch', 'Launching', 'Running', 'Suspended', 'Resuming', 'Finishing', 'Terminated')
            AND (NEW.moldable_id IS NULL OR NEW.walltime IS NULL))
        OR (NEW.state IN ('Running', 'Suspended', 'Resuming', 'Terminated') AND NEW.started_at IS NULL)
        OR (NEW.state = 'Finishing' AND NEW.final_state IS NULL)))
    EXECUTE FUNCTION forbidden_move();
COMMENT ON COLUMN site.platform_version IS 'grows whenever resources, nodes or properties change';
COMMENT ON COLUMN reserved_resources.during IS 'when';
"""
_TABLES = tuple(dict.fromkeys((*_INSTANTS, *_INTERVALS, *_RANGES, *(row[0] for row in _OTHERS))))
_OF_JOBS = frozenset(
    {"jobs", "job_dependencies", "walltime_changes", "assigned_resources", "assigned_amounts", "reserved_resources"}
)


def upgrade() -> None:
    """Mend what is unsound, table by table, and refuse it from now on."""
    for table in _TABLES:
        op.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    op.execute("INSERT INTO site DEFAULT VALUES ON CONFLICT DO NOTHING")
    op.execute("INSERT INTO scheduling_passes DEFAULT VALUES ON CONFLICT DO NOTHING")
    op.execute("ALTER TABLE notices ALTER COLUMN due SET DEFAULT now()")
    op.execute("UPDATE notices SET due = at WHERE due = '-infinity' AND isfinite(at)")
    for table, columns in _INSTANTS.items():
        for column in columns:
            _refuse(table, column, _instant(column), f"least(greatest({column}, {_EARLIEST}), {_LAST})")
    for table, columns in _INTERVALS.items():
        for column in columns:
            _refuse(table, column, _interval(column), _seconds(column, "-1000000000", 1_000_000_000))
    for table, condition in _RANGES.items():
        if condition:
            op.execute(f"DELETE FROM {table} WHERE isempty(during)")
        _refuse(
            table,
            "during",
            _range(condition),
            f"tstzrange(greatest(lower(during), {_EARLIEST}),"
            f" CASE WHEN NOT upper_inf(during){' OR true' if table == 'reserved_resources' else ''}"
            f" THEN least(upper(during), {_LAST}) END)",
        )
    for table, column, condition, _, mended in _OTHERS:
        _refuse(table, column, condition, mended)
    for name, condition, mended in _RULES:
        op.execute(f"UPDATE jobs SET {mended} WHERE NOT ({condition})")
        op.execute(f"ALTER TABLE jobs ADD CONSTRAINT {name} CHECK ({condition})")
    for table in _TABLES:
        op.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
    _bound_properties()
    op.execute("COMMENT ON COLUMN site.platform_version IS 'changes whenever resources, nodes or properties do'")
    op.execute("COMMENT ON COLUMN reserved_resources.during IS 'when; it goes along with the job''s start'")
    make(op.get_bind(), "functions", *_STRUCTURE, *_CHANGED)


def _refuse(table: str, column: str, condition: str, mended: str) -> None:
    """Mend the values of a column that do not meet a condition, then make it its check."""
    if table in _OF_JOBS:
        op.execute(
            "INSERT INTO event_logs (type, job_id, description)"
            f" SELECT 'ROW_MENDED', job_id, '{table}.{column} was ' || left({column}::text, 200)"
            f" FROM {table} WHERE NOT ({condition})"
        )
    op.execute(f"UPDATE {table} SET {column} = {mended} WHERE NOT ({condition})")
    op.execute(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {table}_{column}_check")
    op.execute(f"ALTER TABLE {table} ADD CONSTRAINT {table}_{column}_check CHECK ({condition})")


def _bound_properties() -> None:
    """Bound the dates that an admin added as properties."""
    query = "SELECT name FROM resource_properties WHERE kind = 'timestamptz' AND NOT protected"
    for (name,) in op.get_bind().exec_driver_sql(query).fetchall():
        op.execute(f"UPDATE resources SET {name} = least(greatest({name}, {_EARLIEST}), {_LAST})")
        op.execute(f"ALTER TABLE resources ADD CHECK ({_instant(name)})")


def downgrade() -> None:
    """Take the checks away, and have those that were there before."""
    for name in _STRUCTURE:
        op.execute(f"DROP FUNCTION {name} CASCADE")
    for name, _, _ in _RULES:
        op.execute(f"ALTER TABLE jobs DROP CONSTRAINT {name}")
    before = _BEFORE | {(row[0], row[1]): row[3] for row in _OTHERS}
    columns = [(table, one) for kind in (_INSTANTS, _INTERVALS) for table, some in kind.items() for one in some]
    for key in (*columns, *((table, "during") for table in _RANGES), *((row[0], row[1]) for row in _OTHERS)):
        table, column = key
        op.execute(f"ALTER TABLE {table} DROP CONSTRAINT {table}_{column}_check")
        if before.get(key):
            op.execute(f"ALTER TABLE {table} ADD CONSTRAINT {table}_{column}_check CHECK ({before[key]})")
    op.execute("ALTER TABLE notices ALTER COLUMN due SET DEFAULT '-infinity'")
    op.get_bind().exec_driver_sql(_OLDER, execution_options={"no_parameters": True})
