"""Nodes that come back never make a job ``never``; what is told names what the user wrote, or the admin's state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness.oarsub_cluster import Connection, Submitter, run_pass

pytestmark = [pytest.mark.db, pytest.mark.kept]


def why(oarsub: Submitter, job: int) -> tuple[dict[str, Any], str]:
    result = oarsub("--why", str(job), "-J", command="oarstat")
    assert (result.status, result.err) == (0, ""), result
    return dict(json.loads(result.out)), oarsub("--why", str(job), command="oarstat").out


AWAY = [
    ("UPDATE resources SET drain = true", "too few resources are Alive and not drained: no resource"),
    ("UPDATE resources SET state = 'Suspected'", "too few resources are Alive: no resource"),
    ("UPDATE resources SET state = 'Absent', drain = true", "too few resources are Alive: no resource"),
    (
        "UPDATE resources SET drain = true WHERE network_address <> 'n1'",
        "too few resources are Alive and not drained: no resource",
    ),
]


@pytest.mark.parametrize(("change", "reason"), AWAY)
@pytest.mark.parametrize("wanted", [[], ["-p", "mem > 4"], ["-p", "state = 'Alive'"]])
def test_what_is_drained_or_down_comes_back(
    connection: Connection, oarsub: Submitter, change: str, reason: str, wanted: list[str]
) -> None:
    job = oarsub.job_id("-l", "/nodes=1", *wanted, "date")
    connection.execute(change)
    run_pass(connection)
    found, text = why(oarsub, job)
    ((verdict, told),) = connection.execute("SELECT verdict, reason FROM gantt_predictions").fetchall()
    assert (found["verdict"], verdict) == ("resources_down", "resources_down")
    assert found["reason"].startswith(reason)
    assert told.startswith(reason)
    assert "drain = " not in text
    assert "drain = " not in told


def drain(connection: Connection) -> None:
    """Leave one node of the four that is Alive and not drained."""
    connection.execute("UPDATE resources SET state = 'Alive' WHERE network_address = 'n1'")
    connection.execute("UPDATE resources SET drain = true WHERE network_address <> 'n1'")
    connection.execute("UPDATE nodes SET away_reason = 'a fan is loud', away_by = 'root' WHERE network_address = 'n2'")


def test_the_drained_nodes_are_told_and_not_the_filter_of_the_rule(connection: Connection, oarsub: Submitter) -> None:
    drain(connection)
    job = oarsub.job_id("-l", "{mem>4}/nodes=2", "-p", "mem>3", "date")
    run_pass(connection)
    found, text = why(oarsub, job)
    assert found["verdict"] == "resources_down"
    assert "too few resources are Alive and not drained: " in text
    assert "\nn2 is drained or down since 20" in text
    assert "(root): a fan is loud.\n" in text
    assert "(n3" not in text
    assert {one["node"]: one["reason"] for one in found["away"]}["n2"] == "a fan is loud"
    for foreign in ("drain =", "type ="):
        assert foreign not in text
        assert all(foreign not in repr(value) for value in found.values()), found
    # what the user wrote is told as it was typed
    assert found["missing"][0]["condition"] == "(mem>3) AND (mem>4)"


def test_what_a_rule_asks_for_is_not_told_as_the_users(connection: Connection, oarsub: Submitter) -> None:
    connection.execute("UPDATE resources SET besteffort = network_address IS DISTINCT FROM 'n2'")
    holder = oarsub.job_id("-p", "host <> 'n2'", "-l", "/nodes=2,walltime=2:0:0", "sleep 7200")
    run_pass(connection)
    job = oarsub.job_id("-t", "besteffort", "-p", "mem > 4", "-l", "/nodes=2,walltime=1:0:0", "date")
    run_pass(connection)
    found, text = why(oarsub, job)
    assert connection.execute("SELECT state FROM jobs WHERE job_id = %s", [holder]).fetchall() == [("Running",)]
    assert found["start"] is not None
    for foreign in ("besteffort = 'YES'", "drain =", "type ="):
        assert foreign not in text
        assert foreign not in json.dumps(found)


def test_a_filter_that_was_changed_by_hand_is_told(connection: Connection, oarsub: Submitter) -> None:
    job = oarsub.job_id("-l", "/nodes=1", "date")
    connection.execute("UPDATE jobs SET properties = '(mem > 900) AND (drain = ''NO'')' WHERE job_id = %s", [job])
    found, text = why(oarsub, job)
    assert (found["verdict"], found["missing"][0]["unmet"]) == ("never", "mem > 900")
    assert "Missing: no resource meets mem > 900.\n" in text
    assert "drain =" not in text


def test_maintenance_is_the_reason_with_its_end(connection: Connection, oarsub: Submitter) -> None:
    connection.execute("INSERT INTO maintenance_windows (during, reason) VALUES (tstzrange(now(), now() + '1 h'), 'x')")
    connection.execute("INSERT INTO maintenance_nodes SELECT 1, network_address FROM nodes")
    job = oarsub.job_id("-l", "/nodes=1", "date")
    run_pass(connection)
    found, text = why(oarsub, job)
    assert found["verdict"] == "resources_down"
    ((end,),) = connection.execute("SELECT to_char(upper(during), 'YYYY-MM-DD HH24:MI') FROM maintenance_windows")
    assert "(resources_down): maintenance of n1, n2, n3, n4, n5 (x) until " in text
    assert f"Predicted start: {end}"[:30] in text


@pytest.mark.parametrize("change", ["state = 'Suspected'", "state = 'Absent', drain = true"])
def test_a_request_on_the_state_of_nodes_is_not_refused_while_they_are_away(
    connection: Connection, oarsub: Submitter, change: str
) -> None:
    connection.execute(f"UPDATE resources SET {change}")  # noqa: S608
    assert oarsub.job_id("-p", "state = 'Alive'", "-l", "/nodes=1", "date")
