"""Whatever a scheduling pass reads may be changed by hand: a pass is made at once, and sees it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import ClientCursor

from oarpy.cluster_state.snapshot_reader import SnapshotReader
from oarpy.cluster_state.trace import scenario_of
from oarpy.modules.automaton import REACTIONS
from oarpy.scheduler.snapshot import conditions
from oarpy.store.jobs import suspensions
from oarpy.store.schema.jobs import READ_BY_PASSES
from tests.harness.small_cluster import Connection, SmallCluster, with_settings
from tests.harness.waiting import until

pytestmark = pytest.mark.db

SETTINGS = with_settings(
    energy={"enabled": True, "wake_command": "true", "sleep_command": "true", "idle_time": 0.0},
    jobs={"users_may_suspend": True},
)

CHANGES = {
    "accounting": {
        "consumption": "consumption = 7200",
        "consumption_type": "consumption_type = 'ASKED'",
        "project": "project = 'moon'",
        "queue_name": "queue_name = 'besteffort'",
        "user_name": "user_name = 'zoe'",
        "window_start": "window_start = now() - interval '1 year'",
    },
    "assigned_amounts": {
        "amount": "amount = 2 WHERE job_id = {running}",
    },
    "bags": {
        "ended": "ended = NULL",
    },
    "consumable_capacities": {
        "capacity": "capacity = 99 WHERE block = 'n4'",
        "consumable": "consumable = 'disk' WHERE block = 'n4'",
        "block": "block = 'n9' WHERE block = 'n4'",
    },
    "consumables": {
        "level": "level = 'host' WHERE name = 'tape'",
        "unit": "unit = 'bytes' WHERE name = 'tape'",
        "name": "name = 'reel' WHERE name = 'tape'",
    },
    "consumption_descriptions": {
        "amount": "amount = 4 WHERE moldable_id = {alternative}",
        "consumable": "consumable = 'disk' WHERE moldable_id = {alternative}",
        "position": "position = 9 WHERE moldable_id = {alternative}",
        "moldable_id": "moldable_id = {other_alternative} WHERE moldable_id = {alternative}",
    },
    "job_dependencies": {
        "earliest_edge": "earliest_edge = 'end' WHERE required_job_id = {running}",
        "earliest_shift": "earliest_shift = '7 minutes' WHERE required_job_id = {running}",
        "latest_edge": "latest_edge = 'end' WHERE required_job_id = {running}",
        "latest_shift": "latest_shift = '70 hours' WHERE required_job_id = {running}",
        "outcome": "outcome = 'notok' WHERE required_job_id = {running}",
        "job_id": "job_id = {moldable} WHERE required_job_id = {running}",
        "required_job_id": "required_job_id = {suspended} WHERE required_job_id = {running}",
    },
    "jobs": {
        "array_id": "array_id = 4242, throttle = 1 WHERE job_id = {waiting}",
        "checkpoint": "checkpoint = '10 minutes' WHERE job_id = {running}",
        "ended_at": "ended_at = ended_at + interval '7 minutes' WHERE job_id = {ended}",
        "exit_status": "exit_status = 256 WHERE job_id = {ended}",
        "job_name": "job_name = 'new' WHERE job_id = {waiting}",
        "moldable_id": "moldable_id = {reserved_otherwise} WHERE job_id = {reserved}",
        "nice": "nice = 7 WHERE job_id = {waiting}",
        "project": "project = 'moon' WHERE job_id = {running}",
        "properties": "properties = 'core > 1' WHERE job_id = {waiting}",
        "queue_name": "queue_name = 'admin' WHERE job_id = {waiting}",
        "reservation_start": "reservation_start = reservation_start + interval '1 hour' WHERE job_id = {reserved}",
        "reservation_state": "reservation_start = now() + interval '1 day', reservation_state = 'toSchedule'"
        " WHERE job_id = {waiting}",
        "started_at": "started_at = started_at - interval '5 minutes' WHERE job_id = {running}",
        "submission_id": "submission_id = (SELECT submission_id FROM jobs WHERE job_id = {moldable})"
        " WHERE job_id = {waiting}",
        "submitted_at": "submitted_at = submitted_at - interval '1 hour' WHERE job_id = {waiting}",
        "suspended_at": "suspended_at = suspended_at - interval '1 hour' WHERE job_id = {suspended}",
        "suspended_time": "suspended_time = '50 seconds' WHERE job_id = {running}",
        "throttle": "throttle = 1 WHERE job_id = {waiting}",
        "types": "types = '{{besteffort}}' WHERE job_id = {waiting}",
        "user_name": "user_name = 'zoe' WHERE job_id = {waiting}",
        "walltime": "walltime = '3 hours' WHERE job_id = {running}",
        "state": "state = 'Hold' WHERE job_id = {waiting}",
    },
    "kill_requests": {
        "not_before": "not_before = now() + interval '1 hour'",
        "requested_by": "job_id = {running}, requested_by = 'door'",
        "job_id": "job_id = {waiting}",
        "state": "state = 'done'",
    },
    "suspend_requests": {
        "job_id": "job_id = {running}",
        "not_before": "not_before = now() + interval '2 hours'",
    },
    "launch_gates": {
        "expected_at": "expected_at = now() + interval '3 hours'",
        "job_id": "job_id = {waiting}",
        "lapses_at": "lapses_at = now() + interval '1 minute'",
        "opens_at": "opens_at = now() + interval '2 hours'",
        "walltime": "walltime = '1 hour'",
    },
    "maintenance_nodes": {
        "network_address": "network_address = 'n3'",
        "window_id": "window_id = (SELECT max(window_id) FROM maintenance_windows)",
    },
    "maintenance_windows": {
        "during": "during = tstzrange(now() + '3 days', now() + '5 days') WHERE reason = 'cleaning'",
        "reason": "reason = 'repair' WHERE reason = 'cleaning'",
        "author": "author = 'bob' WHERE reason = 'paint'",
        "planned_at": "planned_at = now() WHERE reason = 'paint'",
        "cancelled_by": "cancelled_at = now(), cancelled_by = 'bob' WHERE reason = 'paint'",
        "cancelled_at": "cancelled_at = now(), cancelled_by = 'admin' WHERE reason IN ('cleaning', 'repair')",
    },
    "moldable_descriptions": {
        "position": "position = 7 WHERE moldable_id = {alternative}",
        "walltime": "walltime = '5 hours' WHERE moldable_id = {alternative}",
        "submission_id": "position = 7, submission_id = (SELECT submission_id FROM jobs WHERE job_id = {waiting})"
        " WHERE moldable_id = {alternative}",
    },
    "node_power": {
        "asked": "asked = 'wake'",
        "asked_at": "asked_at = now()",
        "sent_at": "sent_at = NULL",
        "tries": "tries = 1, sent_at = NULL",
        "retry_at": "retry_at = now()",
        "network_address": "network_address = 'n3'",
    },
    "projects": {
        "gives_way_to": "gives_way_to = '{{}}' WHERE project = 'guests'",
        "manner": "manner = 'suspend' WHERE project = 'guests'",
        "parent": "parent = NULL WHERE project = 'default'",
        "project": "project = 'former' WHERE project = 'default'",
    },
    "queues": {
        "gives_way_to": "gives_way_to = '{{empty}}' WHERE queue_name = 'default'",
        "active": "active = false WHERE queue_name = 'default'",
        "manner": "manner = 'suspend', gives_way_to = '{{empty}}' WHERE queue_name = 'default'",
        "policy": "policy = 'fifo' WHERE queue_name = 'default'",
        "priority": "priority = 7 WHERE queue_name = 'default'",
        "queue_name": "queue_name = 'night' WHERE queue_name = 'empty'",
    },
    "quota_exceptions": {
        "begins_at": "begins_at = now()",
        "ends_at": "ends_at = now() + interval '3 days'",
        "label": "label = 'feast'",
        "set_name": "set_name = 'day'",
    },
    "quota_periods": {
        "begins": "begins = '08:00'",
        "ends": "ends = '09:00'",
        "label": "label = 'late'",
        "set_name": "set_name = 'day'",
        "weekday": "weekday = 3",
    },
    "quota_sets": {
        "otherwise": "otherwise = NOT otherwise WHERE set_name = 'night'",
        "set_name": "set_name = 'dark' WHERE set_name = 'night'",
    },
    "quotas": {
        "job_type": "job_type = 'deploy'",
        "level": "level = 'sites'",
        "max_jobs": "max_jobs = 50",
        "max_resource_hours": "max_resource_hours = 50",
        "max_resources": "max_resources = 50",
        "project": "project = '/'",
        "queue_name": "queue_name = '/'",
        "quota_id": "quota_id = DEFAULT",
        "set_name": "set_name = 'day'",
        "user_name": "user_name = '/'",
    },
    "reservation_windows": {
        "asked_deadline": "asked_deadline = asked_deadline + interval '1 hour'",
        "asked_ready": "asked_ready = now()",
        "deadline": "deadline = deadline + interval '1 hour'",
        "farthest": "farthest = 2",
        "fix_after": "fix_after = 50",
        "fixed_at": "fixed_at = now()",
        "job_id": "job_id = {other_windowed}",
        "ready": "ready = ready - interval '1 hour'",
        "slack_percent": "slack_percent = 50",
        "take": "take = deadline",
    },
    "reserved_resources": {
        "resource_id": "resource_id = {free} WHERE job_id = {reserved}",
        "job_id": "job_id = {other_reserved} WHERE job_id = {reserved}",
    },
    "resource_descriptions": {
        "count": "count = 2 WHERE group_id = {part} AND position = 1",
        "level": "level = 'cpu' WHERE group_id = {part} AND position = 1",
        "position": "position = 7 WHERE group_id = {part} AND position = 0",
        "group_id": "group_id = {other_part}, position = 7 WHERE group_id = {part} AND position = 1",
    },
    "resource_groups": {
        "filter": "filter = 'core > 1' WHERE group_id = {part}",
        "position": "position = 7 WHERE group_id = {part}",
        "moldable_id": "moldable_id = {other_alternative}, position = 7 WHERE group_id = {part}",
    },
    "resource_properties": {
        "kind": "kind = 'text' WHERE name = 'gpu'",
        "name": "name = 'fpga' WHERE name = 'gpu'",
        "protected": "protected = true WHERE name IN ('gpu', 'fpga')",
    },
    "resources": {
        "available_upto": "available_upto = now() + interval '1 day' WHERE resource_id = {free}",
        "besteffort": "besteffort = false WHERE resource_id = {free}",
        "core": "core = 77 WHERE resource_id = {free}",
        "cpu": "cpu = 77 WHERE resource_id = {free}",
        "cpuset": "cpuset = 77 WHERE resource_id = {free}",
        "deploy": "deploy = true WHERE resource_id = {free}",
        "drain": "drain = true WHERE resource_id = {free}",
        "host": "host = 'n77' WHERE resource_id = {free}",
        "network_address": "network_address = 'n77' WHERE resource_id = {free}",
        "state": "state = 'Absent' WHERE resource_id = {free}",
        "state_by": "state_by = 'monitor' WHERE resource_id = {free}",
        "state_since": "state_since = now() - interval '1 hour' WHERE resource_id = {free}",
        "type": "type = 'licence' WHERE resource_id = {free}",
    },
    "walltime_changes": {
        "forced": "pending = '9 hours', forced = NOT forced",
        "give_up_at": "pending = '9 hours', give_up_at = now() + interval '5 hours'",
        "granted": "pending = '9 hours', granted = '7 minutes'",
        "job_id": "pending = '9 hours', job_id = {suspended}",
        "pending": "pending = '2 hours'",
        "requested_at": "pending = '9 hours', requested_at = now() - interval '1 minute'",
        "whole": "pending = '9 hours', whole = NOT whole",
        "delay_next_jobs": "pending = '9 hours', delay_next_jobs = NOT delay_next_jobs",
    },
}
"""By table and column: what follows UPDATE ... SET."""

KEPT = {
    "applications": {"state"},
    "extensions": {"state"},
    "assigned_amounts": {"consumable", "during", "job_id"},
    "assigned_resources": {"during", "job_id", "resource_id", "suspended"},
    "consumable_capacities": {"held"},
    "door_parts": {"job_id"},
    "held_blocks": {"job_id", "property"},
    "jobs": {"job_id"},
    "maintenance_windows": {"window_id"},
    "mapped_jobs": {"live"},
    "moldable_descriptions": {"moldable_id"},
    "resource_groups": {"group_id"},
    "resources": {"resource_id"},
    "scheduling_passes": {"karma_window"},
    "site": {"platform_version", "usage_version"},
}
"""What nobody changes: jobs keep what they hold and their numbers; passes and the database write the rest."""

SEEN_BY_OTHERS = {
    ("bags", "ended"),
    ("consumables", "unit"),
    ("consumption_descriptions", "position"),
    ("kill_requests", "not_before"),
    ("launch_gates", "lapses_at"),
    ("maintenance_windows", "author"),
    ("maintenance_windows", "cancelled_by"),
    ("maintenance_windows", "planned_at"),
    ("moldable_descriptions", "position"),
    ("node_power", "asked_at"),
    ("node_power", "retry_at"),
    ("node_power", "tries"),
    ("quotas", "quota_id"),
    ("quota_exceptions", "label"),
    ("quota_periods", "label"),
    ("quota_sets", "set_name"),
    ("resource_groups", "position"),
    ("resource_properties", "kind"),
    ("resource_properties", "protected"),
    ("resource_descriptions", "position"),
    ("suspend_requests", "not_before"),
    ("walltime_changes", "requested_at"),
}
"""What is read for the sake of an order, or of a name: a change of it alone need not lead to another snapshot."""

FIRST = {
    ("resource_properties", "kind"): "ALTER TABLE resources ALTER gpu TYPE text",
    ("resource_properties", "name"): "ALTER TABLE resources RENAME gpu TO fpga",
}
"""What must be done before: a property is a column of that name and type."""

SITUATION = """
ALTER TABLE resources ADD gpu integer;
INSERT INTO resource_properties VALUES ('gpu', 'integer');
INSERT INTO consumables VALUES ('disk', 'network_address', 'count'), ('tape', 'network_address', 'count');
INSERT INTO queues (queue_name, priority) VALUES ('empty', 1);
UPDATE queues SET policy = 'fairshare' WHERE queue_name = 'default';
INSERT INTO projects (project, parent, gives_way_to, grace) VALUES
    ('staff', NULL, '{}', 0), ('guests', NULL, '{staff}', 1), ('default', 'guests', '{}', 0);
INSERT INTO quota_sets VALUES ('night'), ('day');
INSERT INTO quotas (max_jobs, set_name) VALUES (100, 'night');
INSERT INTO quota_periods (set_name, weekday, begins, ends) VALUES ('night', 2, '02:00', '12:00');
INSERT INTO quota_exceptions (set_name, begins_at, ends_at) VALUES ('night', now() + '1 day', now() + '2 days');
INSERT INTO maintenance_windows (during, reason) VALUES
    (tstzrange(now() + '3 days', now() + '4 days'), 'cleaning'),
    (tstzrange(now() + '6 days', now() + '7 days'), 'paint');
INSERT INTO maintenance_nodes SELECT min(window_id), 'n4' FROM maintenance_windows;
INSERT INTO accounting VALUES (now() - interval '2 hours', now(), 'ann', 'default', 'default', 'USED', 3600);
"""

BIG = "/nodes=4/core=4"
"""Nothing that can start while any job runs."""


class Situation:
    """A cluster with rows in every table that passes read; ``names`` are ids for the texts above."""

    def __init__(self, connection: Connection) -> None:
        self.cluster = SmallCluster(connection, SETTINGS)
        self.cluster.add_nodes("n1", "n2", "n3", "n4", cores=4)
        self.cluster.add_consumable("memory", n1=10, n2=10, n3=10, n4=10)
        connection.execute(SITUATION)
        submit, settle = self.cluster.submit, self.cluster.settle
        ended, running, suspended = (
            submit(),
            submit("/core=1,memory=1,walltime=9:0:0"),
            submit("/core=1,walltime=9:0:0"),
        )
        gated = submit("/core=1,walltime=9:0:0")
        connection.execute("INSERT INTO launch_gates VALUES (%s, now() + '1 hour', NULL, '8 hours')", [gated])
        settle()
        assert self.cluster.state(gated) == "toLaunch"
        self.cluster.end(ended)
        suspensions.ask(connection, [suspended], "ann")
        reserved, other_reserved = (
            submit("/core=1,walltime=1:0:0", "/core=2,walltime=1:0:0", reservation=self._in(hours))
            for hours in (48, 48)
        )
        windowed, other_windowed = (submit("/core=1,walltime=1:0:0", reservation=self._in(hours)) for hours in (72, 72))
        settle()
        assert self.cluster.states([ended, running, suspended]) == ["Terminated", "Running", "Suspended"]
        moldable = submit(f"{BIG},memory=3,walltime=1:0:0", f"{BIG},walltime=2:0:0")
        dependent, dying = submit(BIG), submit(BIG)
        self.names = {
            "ended": ended,
            "dependent": dependent,
            "running": running,
            "suspended": suspended,
            "reserved": reserved,
            "other_reserved": other_reserved,
            "other_windowed": other_windowed,
            "moldable": moldable,
            "waiting": submit(BIG),
            "free": self._one("SELECT max(resource_id) FROM resources"),
        }
        self.names["alternative"], self.names["other_alternative"] = self._ways(moldable)
        self.names["reserved_otherwise"] = self._ways(reserved)[1]
        self.cluster.sql(
            "INSERT INTO reservation_windows (job_id, ready, deadline, asked_ready, asked_deadline)"
            " SELECT job_id, reservation_start, reservation_start + interval '9 hours', reservation_start,"
            " reservation_start + interval '8 hours'"
            " FROM jobs WHERE job_id = %s",
            windowed,
        )
        self.names["part"], self.names["other_part"] = self._parts(moldable)
        connection.execute(
            "INSERT INTO job_dependencies VALUES (%s, %s, 'any', 'start', '5 minutes', 'start', '60 hours')",
            [dependent, running],
        )
        connection.execute("INSERT INTO job_dependencies VALUES (%s, %s)", [dependent, ended])
        connection.execute("INSERT INTO kill_requests (job_id) VALUES (%s)", [dying])
        connection.execute("INSERT INTO suspend_requests (job_id, not_before) VALUES (%s, '2100-01-01')", [dying])
        connection.execute("INSERT INTO bags (bag_id, user_name, tasks, ended) VALUES (1, 'ann', 1, now())")
        connection.execute("INSERT INTO node_power VALUES ('n2', 'sleep', now(), now())")
        connection.execute(
            "INSERT INTO walltime_changes (job_id, pending, whole) VALUES (%s, '9 hours', true)", [running]
        )

    def change(self, table: str, column: str) -> None:
        """Change a column of a row by hand."""
        connection = self.cluster.connection
        if (table, column) in FIRST:
            connection.execute(FIRST[table, column])
        statement = f"UPDATE {table} SET {CHANGES[table][column]}".format(**self.names)  # noqa: S608 - texts of this file
        with connection.transaction():
            # some are changes of what happened
            connection.execute("SET LOCAL oarpy.rewrite_history = on")
            assert connection.execute(statement.encode()).rowcount == 1, statement

    def way(self, job: int) -> int:
        """The first alternative of a job."""
        return self._ways(job)[0]

    def part(self, job: int) -> int:
        """The first group of a job."""
        return self._parts(job)[0]

    def _ways(self, job: int) -> list[int]:
        query = "SELECT m.moldable_id FROM moldable_descriptions m JOIN jobs USING (submission_id) WHERE job_id = %s"
        return sorted(number for (number,) in self.cluster.sql(query, job))

    def _parts(self, job: int) -> list[int]:
        query = "SELECT group_id FROM resource_groups WHERE moldable_id = ANY(%s) ORDER BY moldable_id"
        return [number for (number,) in self.cluster.sql(query, self._ways(job))]

    def _in(self, hours: float) -> datetime:
        return datetime.now(UTC).replace(microsecond=0) + timedelta(hours=hours)

    def _one(self, query: str, *values: object) -> int:
        ((value,),) = self.cluster.sql(query, *values)
        return int(value)


@pytest.fixture
def situation(connection: Connection) -> Situation:
    return Situation(connection)


class Recording(psycopg.Cursor[Any]):
    """Keeps what was executed and returned rows, with the number of columns."""

    statements: list[tuple[str, int]]

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        result = super().execute(query, params, **options)
        if self.description:
            self.statements.append((ClientCursor(self.connection).mogrify(query, params), len(self.description)))
        return result


# the columns that a view called "reading" depends on, by itself or through other views
READ = """
    WITH RECURSIVE used AS (
        SELECT 'reading'::regclass::oid AS relation, 'v'::"char" AS kind, NULL::smallint AS number
        UNION
        SELECT d.refobjid, c.relkind, d.refobjsubid::smallint
        FROM used u JOIN pg_rewrite w ON w.ev_class = u.relation AND u.kind = 'v'
            JOIN pg_depend d ON d.objid = w.oid AND d.classid = 'pg_rewrite'::regclass
            JOIN pg_class c ON c.oid = d.refobjid AND d.refclassid = 'pg_class'::regclass AND c.oid <> u.relation
    )
    SELECT DISTINCT u.relation::regclass::text, a.attname
    FROM used u JOIN pg_attribute a ON a.attrelid = u.relation AND a.attnum = u.number AND a.attnum > 0
    WHERE u.kind IN ('r', 'p')
"""


def columns_read(connection: Connection, now: int) -> set[tuple[str, str]]:
    """Every column of every table that the statements of a snapshot name, as the server understands them."""
    statements: list[tuple[str, int]] = []
    connection.cursor_factory = type("_", (Recording,), {"statements": statements})
    try:
        with connection.transaction():
            SnapshotReader(SETTINGS).read(connection, now)
    finally:
        connection.cursor_factory = psycopg.Cursor
    found: set[tuple[str, str]] = set()
    for statement, width in statements:
        columns = ", ".join(f"c{number}" for number in range(width))
        with connection.transaction(force_rollback=True):
            connection.execute(f"CREATE VIEW reading ({columns}) AS {statement}".encode())
            found.update((table, column) for table, column in connection.execute(READ))
    return found


def test_each_column_that_a_snapshot_reads_has_its_change_here(situation: Situation) -> None:
    """Whoever lets a pass read more says here how to change that."""
    told = {(table, column) for table, changes in CHANGES.items() for column in changes}
    kept = {(table, column) for table, columns in KEPT.items() for column in columns}
    properties = {("resources", name) for name in ("gpu",)}
    read = columns_read(situation.cluster.connection, int(time.time())) - properties
    assert told | kept == read
    assert not told & kept
    # a change of the state is announced as a move
    assert {*READ_BY_PASSES, "job_id", "state"} == {column for table, column in read if table == "jobs"}


def test_what_is_changed_by_hand_wakes_a_pass_that_sees_it(situation: Situation) -> None:
    """A reader that is kept sees what a fresh one sees."""
    connection, now = situation.cluster.connection, int(time.time())
    connection.execute("CREATE TABLE heard (kind text)")
    connection.execute(
        "CREATE OR REPLACE FUNCTION announce(kinds text[]) RETURNS void LANGUAGE sql"
        " AS 'INSERT INTO heard SELECT unnest(kinds)'"
    )
    kept = SnapshotReader(SETTINGS)

    def seen(reader: SnapshotReader) -> tuple[object, ...]:
        reading = reader.read(connection, now)
        snapshot = reading.snapshot
        used = conditions((*snapshot.waiting, *(one.job for one in snapshot.reservations)))
        filters = {text: bits for text, bits in snapshot.filters.items() if text in used}
        written = {**scenario_of(snapshot), "filters": filters}
        return written, {job: one.moldables for job, one in reading.requests.items()}

    for table, changes in CHANGES.items():
        for column in changes:
            with connection.transaction(force_rollback=True):
                before = seen(kept)
                situation.change(table, column)
                woken = {name for (kind,) in connection.execute("SELECT kind FROM heard") for name in REACTIONS[kind]}
                assert "metascheduler" in woken, f"nobody hears of a change of {table}.{column}"
                after = seen(kept)
                assert after == seen(SnapshotReader(SETTINGS)), f"a change of {table}.{column} is not seen"
                assert after != before or (table, column) in SEEN_BY_OTHERS, f"{table}.{column} makes no difference"


CONFIGURATION = """
[modules]
metascheduler = 3600.0
[scheduler]
security_time = 1
[energy]
enabled = true
wake_command = "true"
sleep_command = "true"
"""
"""Nothing but news wakes the meta-scheduler."""


@pytest.fixture
def running(situation: Situation, cluster_environment: dict[str, str]) -> Iterator[Situation]:
    """The situation with the processes that plan, which have planned it."""
    with Path(cluster_environment["OARPY_CONFIG"]).open("a", encoding="utf-8") as file:
        file.write(CONFIGURATION)
    with ExitStack() as stack:
        for name in ("automaton", "metascheduler"):
            command = [sys.executable, "-m", "oarpy.modules", name]
            process = subprocess.Popen(command, env=cluster_environment, stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.kill)
        until(lambda: predicted(situation, situation.names["waiting"]), "nothing is planned")
        yield situation


def predicted(situation: Situation, job: int) -> tuple[Any, ...] | None:
    """The verdict on a waiting job, its start, for how long, and how many resources."""
    rows = situation.cluster.sql(
        "SELECT verdict, start_time, end_time - start_time, (SELECT coalesce(sum(upper(part) - lower(part)), 0)"
        " FROM unnest(resources) AS part) FROM gantt_predictions WHERE job_id = %s",
        job,
    )
    return rows[0] if rows else None


def test_the_plan_follows_changes_by_hand(running: Situation) -> None:
    """The meta-scheduler runs for changes alone: whoever waits for the plan waits for the news of them."""
    sql, names = running.cluster.sql, running.names
    job, reserved = names["waiting"], names["reserved"]
    second, third = running.cluster.submit(BIG), running.cluster.submit(BIG)

    def follows(place: int, value: object, of: int = job) -> None:
        until(
            lambda: (predicted(running, of) or ())[place : place + 1] == (value,), lambda: str(predicted(running, of))
        )

    follows(0, "resources_busy", third)

    way, part = running.way(job), running.part(job)
    sql("UPDATE moldable_descriptions SET walltime = '5 hours' WHERE moldable_id = %s", way)
    follows(2, timedelta(hours=5))
    sql("UPDATE resource_descriptions SET count = 5 WHERE group_id = %s AND level = 'core'", part)
    follows(0, "never")
    sql("UPDATE resource_groups SET filter = 'core > 9999' WHERE group_id = %s", running.part(second))
    follows(0, "never", second)
    sql("INSERT INTO job_dependencies VALUES (%s, %s, 'notok')", third, names["ended"])
    follows(0, "dependency", third)
    sql("UPDATE jobs SET reservation_start = reservation_start + interval '1 hour' WHERE job_id = %s", reserved)
    ((start,),) = sql("SELECT reservation_start FROM jobs WHERE job_id = %s", reserved)
    follows(1, start, reserved)


def test_a_pass_is_made_for_each_change_by_hand(running: Situation) -> None:
    def passes() -> int:
        ((number,),) = running.cluster.sql("SELECT pass FROM scheduling_passes")
        return int(number)

    for table, changes in CHANGES.items():
        for column in changes:
            job = running.names["waiting"] = running.cluster.submit(BIG)
            until(lambda job=job: predicted(running, job), f"job {job} is not planned")  # type: ignore[misc]
            before = passes()
            running.change(table, column)
            until(lambda before=before: passes() > before, f"no pass after a change of {table}.{column}")  # type: ignore[misc]
