"""The optimiser of the examples: islands mapped to cores find what they find in series, and come near the front."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oarpy.examples.island_optimiser import mapped_run, run_islands
from oarpy.examples.island_optimiser.dtlz6 import OBJECTIVES, VARIABLES, epsilon, front, nondominated, objectives
from oarpy.examples.island_optimiser.islands import ARCHIVE, TOPOLOGIES, merged
from oarpy.examples.island_optimiser.mapped_run import Core, Island, Process, Workers, read_map, serial

MAP = """\
0 random node1 0 20
2 regular node1 0 20
1 scale-free node2 1 20
3 small-world node2 1 20
4 random node1 0 20
"""
ISLAND = Island(individuals=48, seed=1)
VALUES = st.lists(st.tuples(*[st.integers(0, 3)] * OBJECTIVES), min_size=1, max_size=12)


def local(_: Core) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", mapped_run.__name__], stdin=subprocess.PIPE)


def test_the_front_is_what_the_problem_has_where_the_last_ten_variables_are_zero() -> None:
    points = np.zeros((50, VARIABLES))
    points[:, 0] = np.linspace(0, 1, 50)
    assert np.allclose(objectives(points), front(50))
    assert np.all(nondominated(front(50)))
    assert epsilon(objectives(points), front(50)) == pytest.approx(0)
    points[:, -1] = 1e-9
    assert epsilon(objectives(points), front(50)) > 0.05


@given(VALUES)
def test_nondominated_rows_are_those_of_a_plain_comparison(rows: list[tuple[int, ...]]) -> None:
    def dominates(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
        return first != second and all(a <= b for a, b in zip(first, second, strict=True))

    plain = [not any(dominates(other, row) for other in rows) for row in rows]
    assert list(nondominated(np.array(rows, dtype=float))) == plain


@given(VALUES, VALUES)
def test_epsilon_is_that_of_a_plain_comparison(found: list[tuple[int, ...]], wanted: list[tuple[int, ...]]) -> None:
    plain = max(min(max(a - b for a, b in zip(row, one, strict=True)) for row in found) for one in wanted)
    assert epsilon(np.array(found, dtype=float), np.array(wanted, dtype=float)) == plain


@pytest.mark.parametrize(("topology", "count", "seed"), [*product(TOPOLOGIES, (32, 50), (1, 2))])
def test_everybody_has_a_neighbour_in_every_topology(topology: str, count: int, seed: int) -> None:
    edges = TOPOLOGIES[topology](count, np.random.default_rng(seed))
    pairs = {(int(one), int(other)) for one, other in edges}
    assert len(pairs) == len(edges)
    assert {one for one, _ in pairs} == set(range(count))
    assert all(one != other and (other, one) in pairs for one, other in pairs)


def test_archives_keep_their_ends_and_a_size() -> None:
    points = np.zeros((500, VARIABLES))
    points[:, 0] = np.linspace(0, 1, 500)
    kept = merged(points[::2], points[1::2])
    assert len(kept) == ARCHIVE
    assert {0.0, 1.0} <= set(kept[:, 0])


def test_stages_over_workers_find_what_they_find_in_series() -> None:
    core_map = read_map(MAP)
    assert core_map[Core("node1", 0)][1] == Process(2, "regular", 20)
    expected = serial(core_map, ISLAND)
    with Workers(core_map, local, "127.0.0.1") as workers:
        assert np.array_equal(workers.synchronous(core_map, ISLAND), expected)
        # nobody waits for another: other points, and as near
        free = workers.asynchronous(core_map, ISLAND)
    begin = epsilon(objectives(np.random.default_rng(1).random((200, VARIABLES))), front(100))
    for points in (expected, free):
        assert epsilon(objectives(points), front(100)) < begin / 2


def test_a_worker_that_cannot_start_is_named() -> None:
    def fails(_: Core) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["false"], stdin=subprocess.PIPE)

    with pytest.raises(OSError, match="on node1 ended with 1"):
        Workers([Core("node1", 0)], fails, "127.0.0.1")


AROUND = """
import socket, subprocess, sys
host, port, key, number = sys.stdin.readline().split()
strays = [socket.create_connection(("127.0.0.1", int(port))) for _ in range(2)]
strays[0].sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
strays[1].close()
subprocess.run([sys.executable, "-m", sys.argv[1]], input=f"127.0.0.1 {port} {key} {number}".encode())
"""
"""A worker that comes by another address than its leader has for its own name, behind two connections of others."""


def test_workers_come_by_any_address_and_others_disturb_nothing() -> None:
    def start(_: Core) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", AROUND, mapped_run.__name__], stdin=subprocess.PIPE)

    core_map = read_map(MAP)
    with Workers(core_map, start, "127.0.1.1") as workers:
        assert np.array_equal(workers.synchronous(core_map, ISLAND), serial(core_map, ISLAND))


def test_in_a_job_without_a_map_it_runs_on_its_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OAR_JOB_ID", "7")
    run_islands.main(["--processes", "2", "--cores", "2", "--iterations", "3", "--individuals", "32"])
    assert capsys.readouterr().out.startswith("2 processes on 2 cores: ")


def test_a_map_in_series_finds_what_it_finds_over_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "map").write_text(MAP.replace("node1", "localhost").replace("node2", "localhost"))
    monkeypatch.setenv("OAR_GRID_MAPFILE", str(tmp_path / "map"))
    run_islands.main(["--individuals", "32", "--address", "localhost"])
    monkeypatch.delenv("OAR_GRID_MAPFILE")
    run_islands.main(["--individuals", "32", "--serial", str(tmp_path / "map")])
    mapped, serial = (line.rpartition(",")[0] for line in capsys.readouterr().out.splitlines())
    assert re.fullmatch(r"5 processes on 2 cores: epsilon \d\.\d+", mapped)
    assert mapped == serial


def test_the_program_measures_a_process(capsys: pytest.CaptureFixture[str]) -> None:
    run_islands.main(["--rate", "random", "3", "--individuals", "32"])
    assert re.fullmatch(r"rate \d+\.\d+\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--sizes regular,round", "round: no topology"),
        ("--rate round 3", "round: no topology"),
        ("--rate random few", "few: no number of iterations"),
        ("--rate random 0", "0: no number of iterations"),
        ("--cores 0", "there must be a process"),
    ],
)
def test_what_cannot_be_run_is_told(words: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run_islands.main(words.split())
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def test_a_map_for_another_program_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "map").write_text("0 a node1 0 5\n1 random node1 0 5\n")
    monkeypatch.setenv("OAR_MAPFILE", str(tmp_path / "map"))
    with pytest.raises(SystemExit, match="size a of the map is no topology"):
        run_islands.main([])
