"""What the database refuses and does by itself when nodes, resources, queues, quotas and rules are changed by hand."""

from __future__ import annotations

import itertools
from typing import Any

import psycopg
import pytest
from psycopg.errors import CheckViolation, ExclusionViolation, ForeignKeyViolation, UniqueViolation

from tests.harness.hand_written import Connection, add_job, add_resource, insert, one

pytestmark = [pytest.mark.db, pytest.mark.oldest, pytest.mark.kept]


@pytest.mark.parametrize(
    ("table", "columns", "error"),
    [
        ("queues", {"queue_name": "a b", "priority": 1}, CheckViolation),
        ("queues", {"queue_name": "1st", "priority": 1}, CheckViolation),
        ("queues", {"queue_name": "", "priority": 1}, CheckViolation),
        ("queues", {"queue_name": "q", "priority": -1}, CheckViolation),
        ("queues", {"queue_name": "q", "priority": 1, "policy": ""}, CheckViolation),
        ("queues", {"queue_name": "default", "priority": 1}, UniqueViolation),
        ("quotas", {"max_resources": -2}, CheckViolation),
        ("quotas", {"max_jobs": -2}, CheckViolation),
        ("quotas", {"max_resource_hours": "-0.5"}, CheckViolation),
        ("nodes", {"network_address": "a b"}, CheckViolation),
        ("nodes", {"network_address": ""}, CheckViolation),
        ("nodes", {"network_address": "n9", "port": 0}, CheckViolation),
        ("nodes", {"network_address": "n9", "port": 65536}, CheckViolation),
        ("nodes", {"network_address": "n9", "transport": "rsh"}, CheckViolation),
        ("nodes", {"network_address": "n9", "channel": "perhaps"}, CheckViolation),
        ("resources", {"state": "Sleepy", "network_address": "n9"}, ForeignKeyViolation),
        ("resources", {"state_by": "ghost", "network_address": "n9"}, CheckViolation),
        ("resources", {"type": "a b"}, CheckViolation),
        ("resources", {"type": "default"}, CheckViolation),
        ("resources", {"type": "token", "available_upto": "infinity"}, CheckViolation),
        ("resource_properties", {"name": "gpu", "kind": "integer"}, CheckViolation),
        ("resource_properties", {"name": "Gpu", "kind": "integer"}, CheckViolation),
        ("resource_properties", {"name": "gpu; drop", "kind": "integer"}, CheckViolation),
        ("resource_properties", {"name": "gpu", "kind": "float"}, CheckViolation),
        ("resource_properties", {"name": "core", "kind": "integer"}, UniqueViolation),
        ("admission_rules", {"name": "", "priority": 1, "rule_text": "pass"}, CheckViolation),
        ("admission_rules", {"name": "a/b", "priority": 1, "rule_text": "pass"}, CheckViolation),
        ("admission_rules", {"name": "a", "priority": -1, "rule_text": "pass"}, CheckViolation),
    ],
    ids=str,
)
def test_row_is_checked(unchanged: Connection, table: str, columns: dict[str, Any], error: type[psycopg.Error]) -> None:
    with pytest.raises(error):
        insert(unchanged, table, **columns)


def test_quota_is_unique_for_its_key(connection: Connection) -> None:
    insert(connection, "quotas", user_name="/", max_jobs=3)
    with pytest.raises(UniqueViolation):
        insert(connection, "quotas", user_name="/", max_jobs=4)


def test_queue_with_jobs_cannot_go(connection: Connection) -> None:
    add_job(connection)
    with pytest.raises(ForeignKeyViolation):
        connection.execute("DELETE FROM queues WHERE queue_name = 'default'")


def test_resource_brings_its_node(connection: Connection) -> None:
    add_resource(connection, network_address="n7")
    assert one(connection, "SELECT transport FROM nodes WHERE network_address = 'n7'") == "ssh"
    with pytest.raises(ForeignKeyViolation):
        connection.execute("DELETE FROM nodes")


def test_resource_of_another_type_needs_no_node(connection: Connection) -> None:
    resource = insert(connection, "resources", type="licence")
    since = one(connection, "SELECT state_since FROM resources WHERE resource_id = %s", resource)
    connection.execute("UPDATE resources SET state = 'Absent'")
    assert one(connection, "SELECT state_since FROM resources WHERE resource_id = %s", resource) > since
    assert one(connection, "SELECT count(*) FROM nodes") == 0


def test_resource_with_history_cannot_go(connection: Connection) -> None:
    job, resource = add_job(connection), add_resource(connection)
    insert(connection, "assigned_resources", job_id=job, resource_id=resource, during="{[now,)}")
    with pytest.raises(ForeignKeyViolation):
        connection.execute("DELETE FROM resources")


def test_states_of_a_resource_are_logged_without_gap(connection: Connection) -> None:
    resource = add_resource(connection)
    connection.execute("UPDATE resources SET state = 'Suspected', state_by = 'monitor'")
    connection.execute("UPDATE resources SET cpuset = 3")
    connection.execute("UPDATE resources SET state = 'Alive'")
    log = connection.execute(
        "SELECT state, state_by, lower(during), upper(during) FROM resource_state_logs WHERE resource_id = %s"
        " ORDER BY lower(during)",
        [resource],
    ).fetchall()
    assert [row[:2] for row in log] == [("Alive", "admin"), ("Suspected", "monitor"), ("Alive", "monitor")]
    for (_, _, _, left), (_, _, entered, _) in itertools.pairwise(log):
        assert left == entered
    assert log[-1][3] is None
    assert one(connection, "SELECT state_since FROM resources") <= log[-1][2]


def test_log_of_states_refuses_overlaps(connection: Connection) -> None:
    resource = add_resource(connection)
    with pytest.raises(ExclusionViolation):
        insert(
            connection,
            "resource_state_logs",
            resource_id=resource,
            state="Dead",
            state_by="admin",
            during="[2200-01-01,)",
        )


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO resources (network_address) VALUES ('n2')",
        "UPDATE resources SET core = 5",
        "DELETE FROM resource_properties WHERE name = 'cpu'",
        "DELETE FROM resources",
    ],
)
def test_platform_version_counts_changes(connection: Connection, change: str) -> None:
    add_resource(connection)
    before = one(connection, "SELECT platform_version FROM site")
    connection.execute(change)
    assert one(connection, "SELECT platform_version FROM site") > before


HISTORY = """
SELECT version, priority, enabled, rule_text, deleted FROM admission_rule_versions WHERE name = 'r' ORDER BY version
"""


def test_rule_keeps_every_version(connection: Connection) -> None:
    insert(connection, "admission_rules", name="r", priority=5, rule_text="one")
    connection.execute("UPDATE admission_rules SET rule_text = 'two'")
    connection.execute("UPDATE admission_rules SET enabled = false")
    connection.execute("UPDATE admission_rules SET enabled = false, rule_text = 'two'")
    connection.execute("DELETE FROM admission_rules")
    insert(connection, "admission_rules", name="r", priority=6, rule_text="again")
    assert connection.execute(HISTORY).fetchall() == [
        (1, 5, True, "one", False),
        (2, 5, True, "two", False),
        (3, 5, False, "two", False),
        (4, 5, False, "two", True),
        (5, 6, True, "again", False),
    ]
    assert one(connection, "SELECT version FROM admission_rules") == 5


def test_rule_version_cannot_be_forged(connection: Connection) -> None:
    insert(connection, "admission_rules", name="r", priority=5, rule_text="one", version=40)
    connection.execute("UPDATE admission_rules SET version = 50")
    assert one(connection, "SELECT version FROM admission_rules") == 1
    assert len(connection.execute(HISTORY).fetchall()) == 1


def test_refused_second_rule_of_a_name_leaves_no_version(connection: Connection) -> None:
    add = "INSERT INTO admission_rules (name, priority, rule_text) VALUES ('r', 5, %s) ON CONFLICT DO NOTHING"
    connection.execute(add, ["one"])
    connection.execute(add, ["two"])
    assert [row[3] for row in connection.execute(HISTORY)] == ["one"]


def test_rule_cannot_be_renamed(connection: Connection) -> None:
    insert(connection, "admission_rules", name="r", priority=5, rule_text="one")
    with pytest.raises(CheckViolation, match="rule r cannot be renamed"):
        connection.execute("UPDATE admission_rules SET name = 's'")
