"""A program over two real clusters of unlike nodes: measured there, mapped by its rates, begun with the whole map."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from oarpy.grid.local.island_job import commands_of_nodes, let_users_run
from oarpy.grid.local.local_grid import LocalGrid, add_clusters
from oarpy.processes.mapping import Program, synchronous
from oarpy.processes.models import walltime_of
from tests.harness.brokered_clusters import brokered_clusters
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e
RATE = """#!/bin/sh
pace=100
grep -q north1 "$OAR_NODE_FILE" && pace=400
[ "$1" = b ] && pace=$((pace / 2))
echo rate $pace
"""
PROGRAM = """#!/bin/sh
cp "$OAR_GRID_MAPFILE" grid.map
cp "$OAR_MAPFILE" own.map
cp "$OAR_GRID_NODEFILE" nodes
"""
RATES = {"north": {"a": 400.0, "b": 200.0}, "south": {"a": 100.0, "b": 50.0}}
MAPPED = ("--parts", "any", "--processes", "12", "--iterations", "40000", "--sizes", "a,b", "--rate", "./rate.sh")


@pytest.fixture(scope="module")
def grid(cluster_databases: Callable[[], dict[str, str]]) -> Iterator[LocalGrid]:
    """Two clusters of four cores, and the program of their user."""
    with brokered_clusters({"north": 4, "south": 4}, cluster_databases) as found:
        add_clusters(found)
        scripts = commands_of_nodes(found)
        until(lambda: all(map(Path.exists, scripts)), "the commands of nodes")
        let_users_run(scripts)
        until(lambda: knows(found), "what the clusters can do")
        for name, text in (("rate.sh", RATE), ("program", PROGRAM)):
            path = found.home / name
            path.write_text(text)
            path.chmod(0o755)
        yield found


def knows(grid: LocalGrid) -> bool:
    """Whether the broker was told that both clusters measure rates."""
    return grid.sql("SELECT count(*) FROM grid_clusters WHERE 'rate' = ANY(abilities)") == [(2,)]


def shown(grid: LocalGrid) -> str:
    """What is known of all jobs."""
    parts = grid.sql("SELECT job, component, cluster, state, message FROM grid_parts ORDER BY name")
    jobs = grid.sql("SELECT id, state, message FROM grid_jobs")
    told = {path.name: path.read_text()[-500:] for path in grid.home.glob("OAR.*")}
    return f"{jobs} {parts} {told}"


def lines_of(grid: LocalGrid, name: str) -> list[list[str]]:
    """The words of each line of a file that the program has left."""
    return [line.split() for line in (grid.home / name).read_text().splitlines()]


def test_a_job_over_two_clusters_gets_the_map_of_both(grid: LocalGrid) -> None:
    (job,) = grid.submit(*MAPPED, "-l", "core=6", "./program")
    until(lambda: grid.sql("SELECT state FROM grid_jobs WHERE id = %s AND ended_at IS NOT NULL", job), shown(grid))
    assert grid.sql("SELECT state, exit_status FROM grid_jobs WHERE id = %s", job) == [("Terminated", 0)], shown(grid)
    expected = synchronous({"north": 4, "south": 2}, RATES, Program(12, 40000, 0.8))
    ((seconds,),) = grid.sql(
        "SELECT extract(epoch FROM m.end_at - j.deadline)::int FROM grid_metajobs m JOIN grid_jobs j ON j.id = m.job"
        " WHERE m.job = %s",
        job,
    )
    assert seconds == walltime_of(expected.seconds, 10)
    processes = lines_of(grid, "grid.map")
    assert [words[0] for words in processes] == [str(number) for number in range(12)]
    assert {words[4] for words in processes} == {"40000"}
    counted = Counter((words[2], words[1]) for words in processes)
    assert counted == {(f"{name}1", size): n for name, its in expected.assigned.items() for size, n in its.items()}
    assert Counter(words[0] for words in lines_of(grid, "nodes")) == {"north1": 4, "south1": 2}
    assert {(words[2], words[3]) for words in processes} == {
        *(("north1", str(core)) for core in range(4)),
        *(("south1", str(core)) for core in range(2)),
    }
    assert lines_of(grid, "own.map") == processes[: len(lines_of(grid, "own.map"))]
    why = grid.run("oargridstat", "--why", str(job)).stdout
    assert "its processes are mapped to cores: north: 4 of type all; south: 2 of type all. Predicted: " in why
    assert "when it was placed, south : all: a 100, b 50 iterations a second" in why
    rates = grid.run("oarrates", on="south").stdout
    assert f"{grid.home}/program" in rates


def test_the_deletion_ends_jobs_that_measure_unless_others_need_them(grid: LocalGrid) -> None:
    program, endless = grid.home / "endless", grid.home / "endless.sh"
    for path in (program, endless):
        path.write_text("#!/bin/sh\nexec sleep 600\n")
        path.chmod(0o755)
    words = (*MAPPED[:-1], "./endless.sh", "--answer-timeout", "0", "-l", "core=6", "./endless")
    for _ in range(2):
        assert grid.run("oargridsub", "-d", str(grid.home), *words, check=False).returncode == 6
    ((first,), (second,)) = grid.sql("SELECT id FROM grid_jobs ORDER BY id DESC LIMIT 2")

    def measuring() -> dict[str, int]:
        live = "SELECT count(*) FROM rate_measurements JOIN jobs USING (job_id) WHERE is_live(state)"
        found = {}
        for name, cluster in grid.clusters.items():
            with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
                ((found[name],),) = connection.execute(live)
        return found

    def deleted(job: int) -> None:
        grid.run("oargriddel", str(job))
        told = "SELECT 1 FROM grid_programs WHERE job = %s AND measured_on = '{}'"
        until(lambda: grid.sql(told, job), shown(grid))

    asked = "SELECT 1 FROM grid_jobs WHERE id = ANY(%s) AND message LIKE 'its rates are measured first%%'"
    until(lambda: len(grid.sql(asked, [first, second])) == 2, shown(grid))
    assert measuring() == {"north": 1, "south": 1}
    deleted(first)
    assert measuring() == {"north": 1, "south": 1}
    deleted(second)
    until(lambda: measuring() == {"north": 0, "south": 0}, shown(grid))


def test_wrong_options_change_nothing(grid: LocalGrid) -> None:
    before = grid.sql("SELECT count(*) FROM grid_jobs")
    wrong: dict[tuple[str, ...], str] = {
        (*MAPPED, "--sizes", ","): "--sizes",
        (*MAPPED, "--sizes", "a,a"): "twice",
        (*MAPPED, "--processes", "0"): "--processes '0' is out of range",
        (*MAPPED, "--iterations", "1e9"): "--iterations '1e9' is out of range",
        (*MAPPED, "--model", "none"): "--model 'none' is none of sync, async",
        (*MAPPED, "--rate", "./missing"): "--rate './missing' is no program",
        (*MAPPED, "--overhead", "20%"): "--overhead with --processes",
        (*MAPPED, "--dry-run"): "--processes with --dry-run",
        MAPPED[:-2]: "--processes without --rate",
        ("--parts", "any", "--model", "sync"): "--model without --processes",
        MAPPED[2:]: "--processes without --parts any",
    }
    for words, text in wrong.items():
        done = grid.run("oargridsub", *words, "-l", "core=6", "./program", check=False)
        assert done.returncode == 2, (words, done)
        assert text in done.stderr, (words, done)
        assert len(done.stderr.splitlines()) == 1, done
    for rest in (("-l", "nodes=2", "./program"), ("-l", "core=6", "./missing")):
        assert grid.run("oargridsub", *MAPPED, *rest, check=False).returncode == 2
    assert grid.sql("SELECT count(*) FROM grid_jobs") == before
