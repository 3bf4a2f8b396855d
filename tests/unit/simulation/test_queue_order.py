from __future__ import annotations

import pytest

from oarpy.model.errors import UsageError
from oarpy.simulation.engines.queue_order import ranks
from oarpy.simulation.traces.trace import TraceJob

JOBS = (TraceJob(1, 0, 9, 50, 2), TraceJob(2, 10, 9, 90, 2), TraceJob(3, 70, 9, 20, 5), TraceJob(4, 71, 9, 20, 1))


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("fifo", [1, 2, 3, 4]),
        ("smallest", [4, 1, 2, 3]),
        ("largest", [3, 1, 2, 4]),
        ("shortest", [3, 4, 1, 2]),
        ("longest", [2, 1, 3, 4]),
        ("widest", [3, 2, 1, 4]),
        ("widest/60", [2, 1, 3, 4]),
        ("smallest/60", [1, 2, 4, 3]),
    ],
)
def test_orders(order: str, expected: list[int]) -> None:
    rank = ranks(order, JOBS)
    assert [JOBS[job].number for job in sorted(range(4), key=rank.__getitem__)] == expected


@pytest.mark.parametrize("order", ["", "best", "fifo/", "fifo/0", "fifo/-5", "fifo/1.5", "/60", "fifo/²"])
def test_unknown_orders_are_refused(order: str) -> None:
    with pytest.raises(UsageError):
        ranks(order, JOBS)
