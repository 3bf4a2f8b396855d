"""Rows of nodes that told what they are made of: numbers through the cluster, and a GPU for every core."""

from __future__ import annotations

from oarpy.client.platform.resource_creation import ProbedNodes, dealt
from oarpy.transport.probing import ProbedCore, ProbedGpu, ProbeReport, StateDisk

DISK = StateDisk("/", 1, 1, True)


def report(cores: list[ProbedCore], gpus: list[ProbedGpu]) -> ProbeReport:
    return ProbeReport(0.0, (3, 11, 0), DISK, cores, gpus, 1024)


TWO_SOCKETS = [ProbedCore(n // 2, [n, n + 4]) for n in range(4)]


def test_numbers_go_on_after_the_highest_in_use() -> None:
    nodes = ProbedNodes({"a": report(TWO_SOCKETS, []), "b": report(TWO_SOCKETS[:1], [])})
    rows = nodes.rows({"cpu": 10, "core": 20})
    assert [(row["host"], row["cpu"], row["core"], row["cpuset"], row["threads"]) for row in rows] == [
        ("a", 11, 21, 0, 2),
        ("a", 11, 22, 1, 2),
        ("a", 12, 23, 2, 2),
        ("a", 12, 24, 3, 2),
        ("b", 13, 25, 0, 2),
    ]
    assert "gpu" not in rows[0]


def test_cores_get_a_gpu_that_is_close_and_nodes_without_have_none() -> None:
    gpus = [ProbedGpu("0", [2, 3]), ProbedGpu("1", [0, 1])]
    rows = ProbedNodes({"a": report(TWO_SOCKETS, gpus), "b": report(TWO_SOCKETS[:1], [])}).rows({"gpu": 4})
    assert [(row["gpu"], row["gpudevice"]) for row in rows] == [(6, 1), (6, 1), (5, 0), (5, 0), (None, None)]


def test_gpus_that_do_not_tell_where_they_are_share_the_cores_evenly() -> None:
    assert dealt(TWO_SOCKETS, [ProbedGpu("0", []), ProbedGpu("1", [])]) == [0, 1, 0, 1]
    assert dealt(TWO_SOCKETS, []) == [None] * 4
