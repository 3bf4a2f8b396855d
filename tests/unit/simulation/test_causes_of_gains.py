"""What is changed of the bags of an experiment, one thing at a time, leaves all else as it is."""

from __future__ import annotations

import pytest

from research.bags.causes import CHANGES, Jobs

JOBS: Jobs = [
    {"id": "b1", "submit": 0, "tasks": 2, "run": 10, "walltime": 25},
    {"id": "b2", "submit": 1, "tasks": 1, "run": 40, "walltime": 100},
]


def test_one_thing_is_changed_at_a_time() -> None:
    half, even, equal = (CHANGES[name](JOBS, 1) for name in ("half the load", "even gaps", "equal run times"))
    assert CHANGES["nothing"](JOBS, 1) == JOBS
    assert half == [{**JOBS[0], "submit": 0}, {**JOBS[1], "submit": 2}]
    assert even == [{**JOBS[0], "submit": 0}, {**JOBS[1], "submit": 43200}]
    assert equal == [pytest.approx({**job, "run": 20, "walltime": 50}) for job in JOBS]
