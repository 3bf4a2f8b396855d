"""``oaradmin resources``, ``oarnodes``, ``oarnodesetting``, ``oarproperty``, ``oarqueue``."""

from __future__ import annotations

import json

import psycopg
import pytest

from oarpy.client.rendering import Look
from oarpy.store.platform.nodes import record_loads
from tests.harness.sample_cluster import EPOCH, Connection, Shell, add_job, add_nodes

pytestmark = pytest.mark.db


def rows(connection: Connection, columns: str) -> list[tuple[object, ...]]:
    return connection.execute(f"SELECT {columns} FROM resources ORDER BY resource_id").fetchall()  # noqa: S608


def test_a_pattern_becomes_resources(connection: Connection, shell: Shell) -> None:
    said = shell.done("oaradmin", "resources", "add", "/switch={1}/host=node[1-2]/cpu={2}/core={2}", "-p", "deploy=YES")
    assert said == "8 resources added on 2 nodes\n"
    assert rows(connection, "switch, network_address, host, cpu, core, cpuset, deploy") == [
        (1, "node1", "node1", 1, 1, 0, True),
        (1, "node1", "node1", 1, 2, 1, True),
        (1, "node1", "node1", 2, 3, 2, True),
        (1, "node1", "node1", 2, 4, 3, True),
        (1, "node2", "node2", 3, 5, 0, True),
        (1, "node2", "node2", 3, 6, 1, True),
        (1, "node2", "node2", 4, 7, 2, True),
        (1, "node2", "node2", 4, 8, 3, True),
    ]
    shell.done("oaradmin", "resources", "add", "/host=node3/cpu={1}/core={2}", "--transport", "local")
    assert rows(connection, "host, cpu, core")[8:] == [("node3", 5, 9), ("node3", 5, 10)]
    nodes = connection.execute("SELECT network_address, transport FROM nodes ORDER BY 1").fetchall()
    assert nodes == [("node1", "ssh"), ("node2", "ssh"), ("node3", "local")]


def test_addresses_and_ports_go_node_by_node(connection: Connection, shell: Shell) -> None:
    shell.done(
        "oaradmin", "resources", "add", "/host=n[1-3]/core={1}", "--address", "127.0.0.[1-3]", "--port", "2201-2203"
    )
    nodes = connection.execute("SELECT network_address, transport, host, port FROM nodes ORDER BY 1").fetchall()
    assert nodes == [
        ("n1", "ssh", "127.0.0.1", 2201),
        ("n2", "ssh", "127.0.0.2", 2202),
        ("n3", "ssh", "127.0.0.3", 2203),
    ]


def test_dry_run_prints_rows_and_stores_nothing(connection: Connection, shell: Shell) -> None:
    said = shell.done("oaradmin", "resources", "add", "/rack=r1/host=n1/core={2}", "--dry-run")
    assert said == (
        "rack host core type    network_address cpuset\n"
        "---- ---- ---- ------- --------------- ------\n"
        "r1   n1   1    default n1              0\n"
        "r1   n1   2    default n1              1\n"
    )
    assert rows(connection, "resource_id") == []
    assert "rack" not in shell.done("oarproperty")


def test_resources_without_a_node(connection: Connection, shell: Shell) -> None:
    shell.done("oaradmin", "resources", "add", "/licence={3}", "--type", "licence")
    assert rows(connection, "type, licence, network_address") == [("licence", n, None) for n in (1, 2, 3)]
    assert shell.done("oarnodes", "-s").startswith("(no node)\n    1 : Alive\n")


def test_list_and_delete_resources(connection: Connection, shell: Shell) -> None:
    cores = add_nodes(connection, "node1", "node2")
    listed = json.loads(shell.done("oaradmin", "resources", "list", "-h", "node2", "-J"))
    assert [one["resource_id"] for one in listed] == cores[2:]
    assert shell.done("oaradmin", "resources", "delete", "--host", "node2") == "2 resources deleted\n"
    assert connection.execute("SELECT network_address FROM nodes").fetchall() == [("node1",)]
    add_job(connection, "Terminated", resources=cores[:1])
    result = shell("oaradmin", "resources", "delete", "--sql", "host = 'node1'")
    assert (result.status, len(rows(connection, "1"))) == (1, 2)
    assert "has been used by jobs" in result.err


def test_oarnodes_in_full(connection: Connection, shell: Shell) -> None:
    cores = add_nodes(connection, "node1", cores=1)
    job = add_job(connection, "Running", resources=cores)
    assert shell.done("oarnodes") == (
        "network_address: node1\n"
        "resource_id: 1\n"
        "state: Alive\n"
        f"jobs: {job}\n"
        "properties: type=default, besteffort=YES, core=1, cpuset=0, deploy=NO, drain=NO, cpu=1, host=node1\n"
    )
    document = json.loads(shell.done("oarnodes", "-J"))["1"]
    assert (document["jobs"], document["besteffort"], document["channel"]) == ([job], True, "unknown")


def test_oarnodes_shows_the_load_that_a_node_told(connection: Connection, shell: Shell) -> None:
    add_nodes(connection, "node1", "node2", cores=1)
    record_loads(connection, [("node1", 0.126, 31000, 93784)])
    first, other = shell.done("oarnodes").split("\n\n")
    assert "\nload: 0.13, 31000 MiB available, up 26:3:4 (20" in first
    assert "load" not in other
    document = json.loads(shell.done("oarnodes", "-J"))
    at = document["1"]["load"].pop("at")
    assert document["1"]["load"] == {"average": 0.126, "available_memory": 31000, "uptime": 93784}
    ((told,),) = connection.execute("SELECT extract(epoch FROM load_at)::float8 FROM nodes WHERE uptime > 0").fetchall()
    assert (at, document["2"]["load"]) == (int(told), None)


def test_oarnodes_views(connection: Connection, shell: Shell) -> None:
    cores = add_nodes(connection, "node1", "node2", "node10")
    add_job(connection, "Running", resources=cores[1:3])
    shell.done("oarnodesetting", "-h", "node10", "-s", "absent")
    assert shell.done("oarnodes", "-l") == "node1\nnode10\nnode2\n"
    assert shell.done("oarnodes", "-s", "node[1-2]") == (
        "node1\n    1 : Alive\n    2 : Alive\nnode2\n    3 : Alive\n    4 : Alive\n"
    )
    assert json.loads(shell.done("oarnodes", "-s", "-J", "node10")) == {"node10": {"5": "Absent", "6": "Absent"}}
    assert shell.done("oarnodes", "-j") == "node1\n    2 : 1\nnode2\n    3 : 1\n"
    assert shell.done("oarnodes", "-l", "--sql", "state = 'Absent'") == "node10\n"
    assert shell.done("oarnodes", "-s", "-r", "3") == "node2\n    3 : Alive\n"
    events = shell.done("oarnodes", "-e").splitlines()
    assert len(events) == 1
    assert events[0].startswith("[node10] ")
    assert "NODE_STATE_CHANGED: set Absent by " in events[0]
    assert shell.done("oarnodes", "-e", "node1") == ""
    assert shell.done("oarnodes", "--events=2100-01-01") == ""


def test_absent_resources_that_can_be_woken_are_standby(connection: Connection, shell: Shell) -> None:
    add_nodes(connection, "node1", cores=1)
    shell.done("oarnodesetting", "-r", "1", "-s", "Absent", "-p", "available_upto=2100-01-01")
    assert shell.done("oarnodes", "-s") == "node1\n    1 : Absent (standby)\n"
    shell.done("oarnodesetting", "-r", "1", "-m", "on")
    assert shell.done("oarnodes", "-s") == "node1\n    1 : Absent\n"
    shell.done("oarnodesetting", "-r", "1", "-m", "off")
    shell.done("oarnodesetting", "-r", "1", "-d", "on")
    assert shell.done("oarnodes", "-s") == "node1\n    1 : Alive (drain)\n"


def test_a_node_tells_why_it_is_away_until_it_is_back(connection: Connection, shell: Shell) -> None:
    add_nodes(connection, "node1", "node2")
    shell.done("oarnodesetting", "-h", "node1", "-d", "on", "--reason", "a fan\n is loud")
    told = connection.execute("SELECT away_by, extract(epoch FROM away_since)::float8 FROM nodes WHERE away_by <> ''")
    ((user, since),) = told.fetchall()
    first, *_, other = shell.done("oarnodes").split("\n\n")
    assert f"state: Alive (drain)\nreason: a fan is loud ({user}, " in first
    assert "reason" not in other
    document = json.loads(shell.done("oarnodes", "-J"))
    assert [document[number]["away_reason"] for number in "123"] == ["a fan is loud"] * 2 + [None]
    assert (document["2"]["away_by"], document["2"]["away_since"], document["3"]["away_since"]) == (
        user,
        int(since),
        None,
    )
    shell.done("oarnodesetting", "-h", "node1", "-m", "on")
    shell.done("oarnodesetting", "-h", "node1", "-d", "off")
    shell.done("oarnodesetting", "-r", "1", "-m", "off")
    assert json.loads(shell.done("oarnodes", "-J"))["1"]["away_reason"] == "a fan is loud"
    connection.execute("UPDATE resources SET state = 'Alive', state_by = 'monitor' WHERE resource_id = 2")
    assert connection.execute("SELECT DISTINCT away_reason, away_by, away_since FROM nodes").fetchall() == [(None,) * 3]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["-h", "node1", "-d", "off"], "--reason goes with what takes a node away"),
        (["-h", "node1", "-s", "Alive"], "--reason goes with what takes a node away"),
        (["-h", "node1", "-p", "cpu=2"], "--reason goes with what takes a node away"),
        (["-a", "-h", "node2"], "--reason does not go with -a"),
        (["--sql", "type = 'licence'", "-s", "Dead"], "--reason is kept with nodes, and these resources have none"),
    ],
)
def test_a_reason_goes_with_nodes_that_go_away(
    connection: Connection, shell: Shell, options: list[str], complaint: str
) -> None:
    add_nodes(connection, "node1")
    shell.done("oaradmin", "resources", "add", "/licence={1}", "--type", "licence")
    result = shell("oarnodesetting", *options, "--reason", "repair")
    assert result.status == 2
    assert complaint in result.err
    assert "--reason has 0 characters" in shell("oarnodesetting", "-h", "node1", "-d", "on", "--reason", " ").err
    assert connection.execute("SELECT DISTINCT state FROM resources").fetchall() == [("Alive",)]


def test_jobs_on_nodes_taken_away_are_to_be_killed(connection: Connection, shell: Shell) -> None:
    cores = add_nodes(connection, "node1", "node2")
    add_job(connection, "Running", resources=cores[1:3])
    add_job(connection, "Running", resources=cores[3:])
    assert (
        shell.done("oarnodesetting", "-h", "node1", "-s", "Dead") == "resources changed: 1, 2\njobs to be killed: 1\n"
    )
    asked = connection.execute("SELECT job_id, reason FROM kill_requests").fetchall()
    assert asked == [(1, "node1 set Dead")]
    assert rows(connection, "state, state_by")[:2] == [("Dead", "admin")] * 2
    outcome = json.loads(shell.done("oarnodesetting", "-J", "-r", "1", "-s", "Alive"))
    assert outcome == {"resources": [1], "killed_jobs": []}


def test_properties_are_set_and_unset(connection: Connection, shell: Shell) -> None:
    add_nodes(connection, "node1")
    shell.done("oarproperty", "-a", "mem")
    shell.done("oarproperty", "-a", "model", "-c")
    shell.done("oarnodesetting", "--sql", "core = 2", "-p", "mem=64", "-p", "model=x=y", "-p", "besteffort=NO")
    assert rows(connection, "mem, model, besteffort") == [(None, None, True), (64, "x=y", False)]
    shell.done("oarnodesetting", "-h", "node1", "-p", "mem!")
    assert rows(connection, "mem, model") == [(None, None), (None, "x=y")]


def test_single_resources_are_added(connection: Connection, shell: Shell) -> None:
    assert shell.done("oarnodesetting", "-a", "-h", "node[1-2]", "-p", "core=7", "-s", "Absent") == (
        "resources added: 1, 2\n"
    )
    assert rows(connection, "network_address, core, state") == [("node1", 7, "Absent"), ("node2", 7, "Absent")]


def test_nodes_are_added_where_hosts_are_no_property(connection: Connection, shell: Shell) -> None:
    shell.done("oarproperty", "-q", "-d", "host")
    shell.done("oaradmin", "resources", "add", "/network_address=node1/core={1}")
    shell.done("oarnodesetting", "-a", "-h", "node1", "-p", "core=7")
    assert rows(connection, "network_address, core") == [("node1", 1), ("node1", 7)]
    shell.done("oaradmin", "resources", "add", "/host=node2/core={1}")
    assert rows(connection, "network_address, host")[2:] == [("node2", "node2")]


def test_oarproperty(connection: Connection, shell: Shell) -> None:
    assert shell.done("oarproperty", "-a", "mem") == "Added property: mem\n"
    assert shell.done("oarproperty", "-q", "-r", "mem,memory") == ""
    assert json.loads(shell.done("oarproperty", "-J"))["memory"] == {"type": "integer", "protected": False}
    assert "memory               integer     no\n" in shell.done("oarproperty", "-l")
    job = add_job(connection, properties="memory > 4")
    result = shell("oarproperty", "-d", "memory")
    assert result.err == (
        f"oarproperty: property 'memory' is in the request of job {job} (wait for it, or delete it first)\n"
    )
    connection.execute("UPDATE jobs SET state = 'Error', ended_at = now()")
    assert shell.done("oarproperty", "-d", "memory") == "Deleted property: memory\n"
    shell.done("oarproperty", "-a", "mem")
    connection.execute("ALTER TABLE resources DROP COLUMN mem")
    assert shell.done("oarproperty", "-d", "mem") == "Deleted property: mem\n"


@pytest.mark.parametrize(("setting", "value"), [("resource_order", "mem,resource_id"), ("node_type", "mem")])
def test_oarproperty_keeps_what_a_setting_names(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, setting: str, value: str
) -> None:
    shell.done("oarproperty", "-a", "mem")
    monkeypatch.setenv(f"OARPY_SCHEDULER_{setting.upper()}", value)
    result = shell("oarproperty", "-d", "mem")
    assert (result.status, result.err) == (
        1,
        f"oarproperty: property 'mem' is in scheduler.{setting} (take it out of there first)\n",
    )


def test_oarproperty_gives_up_while_somebody_reads(
    connection: Connection, dsn: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oarpy.store.platform.properties._PATIENCE", "SET LOCAL lock_timeout = '10ms'")
    with psycopg.connect(dsn) as reader:
        reader.execute("SELECT FROM resources")
        result = shell("oarproperty", "-a", "mem")
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith("oarproperty: the table of resources is in use")
    shell.done("oarproperty", "-a", "mem")


def test_oarqueue(connection: Connection, shell: Shell) -> None:
    shell.done("oarqueue", "--add", "night,5,fifo")
    shell.done("oarqueue", "-d", "night", "-d", "default")
    assert shell.done("oarqueue") == (
        "Queue          Priority Policy     State\n"
        "-------------- -------- ---------- -----\n"
        "admin          10       fifo       Active\n"
        "night          5        fifo       notActive\n"
        "default        3        fifo       notActive\n"
        "besteffort     0        fifo       Active\n"
    )
    shell.done("oarqueue", "-E")
    shell.done("oarqueue", "--change", "night,7")
    assert json.loads(shell.done("oarqueue", "-l", "-J"))["night"] == {
        "priority": 7,
        "policy": "fifo",
        "active": True,
        "message": "",
        "gives_way_to": [],
        "manner": "end",
        "grace": 0,
        "grace_signal": 15,
    }
    shell.done("oarqueue", "-D")
    assert not any(one["active"] for one in json.loads(shell.done("oarqueue", "-J")).values())
    assert "night" not in json.loads(shell.done("oarqueue", "--remove", "night", "-J"))
    add_job(connection, started=EPOCH)
    assert shell("oarqueue", "--remove", "default").err == (
        "oarqueue: queue 'default' has jobs (job 1) (oarqueue -d default closes it)\n"
    )


def test_chosen_properties_are_columns(connection: Connection, shell: Shell) -> None:
    add_nodes(connection, "node1", cores=2)
    assert shell.done("oarnodes", "-p", "core,cpu", "-p", "type") == (
        "resource_id network_address core cpu type\n"
        "----------- --------------- ---- --- ----\n"
        "1           node1           1    1   default\n"
        "2           node1           2    1   default\n"
    )
    assert json.loads(shell.done("oarnodes", "-p", "core", "-J")) == {"1": {"core": 1}, "2": {"core": 2}}
    result = shell("oarnodes", "-p", "cores")
    assert (result.status, result.err) == (4, "oarnodes: there is no property 'cores' (did you mean core?)\n")


def test_all_properties_are_a_line_a_resource(connection: Connection, shell: Shell) -> None:
    add_nodes(connection, "node1", cores=1)
    lines = shell.done("oarnodes", "-P").splitlines()
    assert lines[0] == "node1"
    assert lines[1].startswith("    1 : type=default, ")
    assert "core=1" in lines[1]
    assert json.loads(shell.done("oarnodes", "-P", "-J"))["1"]["core"] == 1


def test_the_summary_counts_nodes_and_resources_by_state(connection: Connection, shell: Shell) -> None:
    cores = add_nodes(connection, "node1", "node2", cores=2)
    connection.execute("UPDATE resources SET state = 'Suspected' WHERE network_address = 'node2'")
    add_job(connection, "Running", resources=cores[:1])
    assert [line.split() for line in shell.done("oarnodes", "-S").splitlines()[2:]] == [
        ["Alive", "1", "2", "1", "1"],
        ["Suspected", "1", "2", "0", "2"],
        ["total", "2", "4", "1", "3"],
    ]
    assert json.loads(shell.done("oarnodes", "-S", "-J"))["total"]["free"] == 3
    assert "\x1b[31mSuspected" in shell.done("oarnodes", "-s", "--color", "always")
    assert shell("oarnodes", "-S", "-s").status == 2


def test_a_terminal_gets_a_line_a_node(connection: Connection, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.done("oaradmin", "resources", "add", "/host=n[1,2,10]/core={2}", "--transport", "local")
    connection.execute("UPDATE resources SET state = 'Absent' WHERE host = 'n10' AND core % 2 = 0")
    monkeypatch.setattr("oarpy.client.rendering.look", lambda wish="auto": Look(columns=80))
    monkeypatch.setattr("oarpy.commands.oarnodes.look", lambda wish="auto": Look(columns=80))
    lines = shell.done("oarnodes").splitlines()
    assert [line.split()[0] for line in lines] == ["Node", "----", "n1", "n2", "n10"]
    assert "Absent" in lines[-1]
    assert "Alive" in lines[-1]
    assert "0/2" in lines[-1]
    assert "resource_id: 1\n" in shell.done("oarnodes", "n1"), "named ones are shown in full"


def test_new_gpus_get_their_numbers_on_their_nodes(connection: Connection, shell: Shell) -> None:
    shell.done("oarproperty", "-a", "gpu")
    shell.done("oarproperty", "-a", "gpudevice")
    shell.done("oaradmin", "resources", "add", "/host=g[1-2]/gpu={2}/core={2}")
    found = connection.execute("SELECT host, gpu, gpudevice FROM resources ORDER BY resource_id").fetchall()
    assert found == [(f"g{gpu // 3 + 1}", gpu, (gpu - 1) % 2) for gpu in (1, 2, 3, 4) for _core in range(2)]
