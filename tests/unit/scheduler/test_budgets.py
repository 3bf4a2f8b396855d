"""Hours of projects by period: what a charge takes, when it fits, and what a job that is over leaves."""

from __future__ import annotations

from math import inf

import pytest

from oarpy.scheduler.order.budgets import BudgetSums, Charge, Project, Projects

HOUR = 3600
TREE = Projects(
    {
        "physics": Project("physics", hours=100, begins=(0, 10 * HOUR)),
        "fire": Project(
            "fire", "physics", weight=2, hours=6, used=(1,), begins=(0, 4 * HOUR, 8 * HOUR), until=20 * HOUR
        ),
        "free": Project("free", "physics"),
        "flat": Project("flat"),
    }
)


def test_a_job_begins_where_enough_of_it_lies_in_the_next_period() -> None:
    """The drawing of the module: 10 hours where 6 are left begin 3 hours before the end, for two cores."""
    sums = BudgetSums(Projects({"fire": Project("fire", hours=100, used=(94,), begins=(0, 20 * HOUR))}))
    lacking = sums.overdraft(sums.payers("fire"), Charge(2 * HOUR, 7 * HOUR, 2))
    assert lacking is not None
    assert (lacking.until, lacking.left, lacking.place) == (17 * HOUR, 6, 0)
    assert sums.overdraft(sums.payers("fire"), Charge(17 * HOUR, 22 * HOUR, 2)) is None


@pytest.mark.parametrize(
    ("begin", "hours", "until"),
    [
        (0, 5, None),  # 5 are left, and a part lies in the next period
        (0, 4.5, None),
        (1, 3, None),
        (4, 4, None),
        (4, 7, None),  # 4 hours of the second period, the rest lies in the third
        (8, 7, inf),  # the last period never ends
        (20, 1, inf),  # it is over
    ],
)
def test_what_fits(begin: float, hours: float, until: float | None) -> None:
    sums = BudgetSums(TREE)
    lacking = sums.overdraft(sums.payers("fire"), Charge(begin * HOUR, (begin + hours) * HOUR, 1))
    assert (None if lacking is None else lacking.until) == until


def test_what_was_placed_counts_upwards_and_is_over_sooner() -> None:
    sums = BudgetSums(TREE)
    assert [one.name for one in sums.payers("fire")] == ["fire", "physics"]
    assert [one.name for one in sums.payers("free")] == ["physics"]
    assert sums.payers("flat") == sums.payers("unknown") == ()
    rate = TREE.rate("fire", {"core": 2})
    assert rate == 4
    sums.count("fire", Charge(-HOUR, HOUR, rate))
    assert [sums.left(one, 0) for one in sums.payers("fire")] == [1, 96]
    twin = sums.copy()
    twin.count("free", Charge(0, 96 * HOUR, 10))
    assert twin.spent(twin.payers("free"), 0)
    assert not sums.spent(sums.payers("free"), 0)
    after = TREE.with_use("fire", Charge(3 * HOUR, 5 * HOUR, rate))
    assert (after.of["fire"].used, after.of["physics"].used) == ((5, 4), (8,))
