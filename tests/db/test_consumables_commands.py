"""Consumables as admins and users meet them: declared, given to nodes, asked for, shown, refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.oarsub_cluster import Connection, Submitter, contents, run_pass

pytestmark = [pytest.mark.db, pytest.mark.kept]
GIGA = 2**30


@pytest.fixture
def run(oarsub: Submitter) -> Submitter:
    """The cluster of 4 nodes, of which n2 and n3 have 64G of memory and n4 has 32G."""
    done(oarsub, "oaradmin", "consumables", "add", "memory", "--unit", "bytes")
    done(oarsub, "oarnodesetting", "-h", "n[2-3]", "-p", "memory=64G")
    done(oarsub, "oarnodesetting", "-h", "n4", "-p", "memory=32G")
    return oarsub


def done(run: Submitter, command: str, *arguments: str) -> str:
    """Run a command that must succeed; return what it printed."""
    result = run(*arguments, command=command)
    assert (result.status, result.err) == (0, ""), result
    return result.out


def refused(run: Submitter, connection: Connection, command: str, *arguments: str) -> tuple[int, str]:
    """Run a command that must be refused with one line and change nothing; return its status and the line."""
    before = contents(connection)
    result = run(*arguments, command=command)
    assert contents(connection) == before
    assert result.err.count("\n") == 1, result
    return result.status, result.err.strip()


def test_capacities_are_shown(run: Submitter, connection: Connection) -> None:
    assert done(run, "oaradmin", "consumables", "list") == (
        "Consumable Level           Unit  Block Capacity Held\n"
        "---------- --------------- ----- ----- -------- ----\n"
        "memory     network_address bytes n2    64G      0\n"
        "memory     network_address bytes n3    64G      0\n"
        "memory     network_address bytes n4    32G      0\n"
    )
    run.job_id("-l", "/nodes=2/core=1,memory=40G", "sleep 9")
    run_pass(connection)
    found = json.loads(done(run, "oaradmin", "consumables", "list", "-J"))
    assert found["memory"]["blocks"]["n2"] == {"capacity": 64 * GIGA, "held": 40 * GIGA}
    assert "consumables: memory=64G (40G held)\n" in done(run, "oarnodes", "n2")
    assert "consumables" not in done(run, "oarnodes", "n1")
    shown = json.loads(done(run, "oarnodes", "-J"))
    assert {one["network_address"]: one["consumables"] for one in shown.values() if one["type"] == "default"} == {
        "n1": {},
        "n2": {"memory": {"capacity": 64 * GIGA, "held": 40 * GIGA}},
        "n3": {"memory": {"capacity": 64 * GIGA, "held": 40 * GIGA}},
        "n4": {"memory": {"capacity": 32 * GIGA, "held": 0}},
        "n5": {},
    }


def test_a_job_shows_what_it_asked_for_and_holds(run: Submitter, connection: Connection) -> None:
    job = run.job_id("-l", "/nodes=2/core=1,memory=40G,walltime=1:0:0", "sleep 9")
    waiting = json.loads(done(run, "oarstat", "-J", "-j", str(job)))[str(job)]
    assert waiting["wanted_resources"].startswith('-l "{')
    assert waiting["wanted_resources"].endswith('/nodes=2/core=1,memory=40G,walltime=1:0:0"')
    assert waiting["assigned_amounts"] == {}
    run_pass(connection)
    running = json.loads(done(run, "oarstat", "-J", "-j", str(job)))[str(job)]
    assert running["assigned_amounts"] == {"memory": {"n2": 40 * GIGA, "n3": 40 * GIGA}}
    assert "    assigned_amounts = memory=40G on n2, memory=40G on n3\n" in done(run, "oarstat", "-f", "-j", str(job))


def test_arrays_and_moldable_jobs_ask_for_amounts(run: Submitter, connection: Connection) -> None:
    jobs = run.job_ids("--array", "3", "-l", "/nodes=1/core=2,memory=64G", "-l", "/nodes=1/core=1,memory=32G", "date")
    run_pass(connection)
    found = connection.execute("SELECT job_id, block, amount FROM assigned_amounts ORDER BY 1").fetchall()
    assert [job for job, _, _ in found] == jobs
    assert sorted((block, amount // GIGA) for _, block, amount in found) == [("n2", 64), ("n3", 64), ("n4", 32)]


def test_rules_see_amounts_and_may_change_them(run: Submitter, connection: Connection, tmp_path: Path) -> None:
    rule = tmp_path / "most.py"
    rule.write_text(
        "for request in job.alternatives:\n"
        "    for one in request.consumes:\n"
        "        if one.name == 'memory' and one.amount > 48 * 2**30:\n"
        "            refuse(f'{one} is too much')\n",
        encoding="utf-8",
    )
    done(run, "oaradmissionrules", "add", "most", "--file", str(rule))
    status, line = refused(run, connection, "oarsub", "-l", "/nodes=1,memory=50G", "date")
    assert (status, "memory=50G is too much" in line) == (3, True)
    run.job_id("-l", "/nodes=1,memory=48G", "date")


def test_who_names_no_amount_may_be_given_one(
    run: Submitter, connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = Path(__file__).parents[2] / "docs" / "guides" / "consumables.md"
    rule = tmp_path / "usual.py"
    rule.write_text(guide.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0], encoding="utf-8")
    done(run, "oaradmissionrules", "add", "usual", "--file", str(rule))
    monkeypatch.setenv("OARPY_SUBMISSION_DEFAULT_RESOURCES", "/resource_id=1,memory=1G")
    jobs = [
        run.job_id("-l", "/nodes=1,walltime=0:30:0", "date"),
        run.job_id("-l", "/nodes=1,memory=7G", "date"),
        run.job_id("date"),
        run.job_id("-l", "walltime=0:10:0", "date"),
    ]
    query = (
        "SELECT job_id, amount, m.walltime::text FROM jobs JOIN moldable_descriptions m USING (submission_id)"
        " JOIN consumption_descriptions d ON d.moldable_id = m.moldable_id ORDER BY 1"
    )
    amounts = [(2, "00:30:00"), (7, "02:00:00"), (1, "02:00:00"), (1, "00:10:00")]
    found = connection.execute(query).fetchall()
    assert found == [(job, amount * GIGA, walltime) for job, (amount, walltime) in zip(jobs, amounts, strict=True)]


@pytest.mark.parametrize(
    ("request_text", "status", "words"),
    [
        ("/nodes=1,memory=65G", 3, "memory=65G is more than any network_address has (the largest has 64G)"),
        ("/nodes=3,memory=33G", 3, "needs 3 nodes, 2 exist where there is memory=33G"),
        ("/nodes=5,memory=1G", 3, "needs 5 nodes, 4 exist"),
        ("/nodes=2+/nodes=1,memory=33G", 3, "need more resources together than exist"),
        ("/nodes=1,memori=1G", 2, "there is no consumable 'memori' here (did you mean memory?)"),
        ("/nodes=1,memory=1G,memory=2G", 2, "a consumable is given twice"),
        ("/nodes=1,memory=0", 2, "is out of range"),
        ("/nodes=1/memory=2", 2, "'memory' is a consumable, not a level"),
        ("/memory=16G", 2, "amounts come last"),
    ],
)
def test_requests_that_are_refused(
    run: Submitter, connection: Connection, request_text: str, status: int, words: str
) -> None:
    found, line = refused(run, connection, "oarsub", "-l", request_text, "date")
    assert found == status
    assert words in line


def test_an_impossible_alternative_is_warned_of(run: Submitter) -> None:
    result = run("-l", "/nodes=1,memory=65G", "-l", "/nodes=1,memory=64G", "date")
    assert result.status == 0
    assert "alternative 1 can never run: memory=65G is more than any" in result.out + result.err


def test_dry_run_and_why_know_amounts(run: Submitter, connection: Connection) -> None:
    holder = run.job_id("-l", "/nodes=2/core=1,memory=48G,walltime=1:0:0", "sleep 9")
    run_pass(connection)
    dry = json.loads(done(run, "oarsub", "--dry-run", "-J", "-l", "/nodes=2/core=1,memory=20G", "date"))
    assert (dry["verdict"], "16G left on n2" in dry["reason"]) == ("resources_busy", True)
    job = run.job_id("-l", "/nodes=2/core=1,memory=20G", "date")
    run_pass(connection)
    said = done(run, "oarstat", "--why", str(job))
    assert "memory: 20G asked on each network_address, 16G left on n2" in said
    assert "It would start now with memory=16G." in said
    assert f"job {holder} " in said
    answer = json.loads(done(run, "oarstat", "--why", str(job), "-J"))
    assert answer["would_start_now"]["consumables"] == {"memory": 16 * GIGA}


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("consumables", "add", "memory"), 1, "consumable 'memory' exists already"),
        (("consumables", "add", "mem"), 1, "'mem' is a property already"),
        (("consumables", "add", "nodes"), 2, "'nodes' has a meaning in requests"),
        (("consumables", "add", "A-b"), 2, "is no name for a consumable"),
        (("consumables", "add", "disk", "--level", "rack"), 4, "there is no property 'rack'"),
        (("consumables", "add", "disk", "--level", "deploy"), 2, "property 'deploy' cannot be a level"),
        (("consumables", "add", "disk", "--unit", "litres"), 2, "'litres' is no unit (bytes or count)"),
        (("consumables", "delete", "disk"), 4, "there is no consumable 'disk'"),
    ],
)
def test_declarations_that_are_refused(
    run: Submitter, connection: Connection, arguments: tuple[str, ...], status: int, words: str
) -> None:
    found, line = refused(run, connection, "oaradmin", *arguments)
    assert found == status
    assert words in line


def test_what_jobs_need_of_a_consumable_stays(run: Submitter, connection: Connection) -> None:
    job = run.job_id("-l", "/nodes=2/core=1,memory=40G", "sleep 9")
    assert refused(run, connection, "oaradmin", "consumables", "delete", "memory") == (
        1,
        f"oaradmin: job {job} asks for consumable 'memory' (wait for it, or delete it first)",
    )
    run_pass(connection)
    for word in ("memory=39G", "memory!"):
        status, line = refused(run, connection, "oarnodesetting", "-h", "n2", "-p", word)
        assert (status, f"jobs hold 40G of memory on n2: {job}" in line) == (1, True)
    done(run, "oarnodesetting", "-h", "n2", "-p", "memory=40G")
    done(run, "oarnodesetting", "-h", "n4", "-p", "memory!")
    status, line = refused(run, connection, "oarproperty", "-a", "memory")
    assert "'memory' is a consumable already" in line


def test_levels_of_consumables_stay(run: Submitter, connection: Connection) -> None:
    done(run, "oarproperty", "-a", "rack", "-c")
    done(run, "oarnodesetting", "-h", "n[2-4]", "-p", "rack=r1")
    done(run, "oaradmin", "consumables", "add", "power", "--level", "rack")
    done(run, "oarnodesetting", "-h", "n2", "-p", "power=1000")
    assert "is the level of consumable 'power'" in refused(run, connection, "oarproperty", "-d", "rack")[1]
    status, line = refused(run, connection, "oarnodesetting", "-h", "n1", "-p", "power=10")
    assert (status, "none of the resources has a rack" in line) == (2, True)
    job = run.job_id("-l", "/nodes=1,power=900", "sleep 9")
    run_pass(connection)
    node = connection.execute("SELECT min(network_address) FROM resources JOIN assigned_resources USING (resource_id)")
    host = str(node.fetchall()[0][0])
    status, line = refused(run, connection, "oarnodesetting", "-h", host, "-p", "rack=r2")
    assert (status, f"job {job} holds power there" in line) == (1, True)


def test_new_nodes_come_with_their_capacities(run: Submitter, connection: Connection) -> None:
    done(run, "oaradmin", "resources", "add", "/host=n[6-7]/core={2}", "-p", "memory=128G")
    done(run, "oarnodesetting", "-a", "-h", "n8", "-p", "memory=1T")
    found = connection.execute("SELECT block, capacity FROM consumable_capacities WHERE block >= 'n6' ORDER BY 1")
    assert found.fetchall() == [("n6", 128 * GIGA), ("n7", 128 * GIGA), ("n8", 1024 * GIGA)]


def views(connection: Connection, query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query).fetchall()


def test_analysts_see_amounts(run: Submitter, connection: Connection) -> None:
    job = run.job_id("-l", "/nodes=1/core=1,memory=40G", "sleep 9")
    run_pass(connection)
    assert views(connection, "SELECT block, capacity, held, remaining FROM oar_report.consumables ORDER BY 1")[0] == (
        "n2",
        64 * GIGA,
        40 * GIGA,
        24 * GIGA,
    )
    assert views(
        connection, "SELECT job_id, consumable, unit, block, amount, released_at FROM oar_report.assigned_amounts"
    ) == [(job, "memory", "bytes", "n2", 40 * GIGA, None)]
    ((request,),) = views(connection, "SELECT request FROM oar_report.moldable_alternatives")
    assert str(request).endswith(f"/nodes=1/core=1,memory={40 * GIGA}")
