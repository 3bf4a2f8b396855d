"""When room is looked for: the Repeated Placing Policy, begun X seconds before the deadline (Wait-X).

From "Simulating grid schedulers with deadlines and co-allocation": PT0 = S' + Lp (D - S') with S' = max(S, D - X), and
PT(m+1) = PTm + Lp (D - PTm). With Lp below 1 none of them reaches D, so one more follows there::

    S          S'= D - X     PT0     PT1 PT2 D
    |.............|___________|_______|___|__|

Real clusters need a ``lead``: the tries that would come less than that before D are one, at D - lead.
"""

from __future__ import annotations

from oarpy.grid.core.broker_state import CoAllocatedJob, DeadlineRules, PlannedTry


def first_try(job: CoAllocatedJob, rules: DeadlineRules) -> PlannedTry:
    """Return the try at PT0."""
    begin = max(job.submitted, job.deadline - rules.wait)
    return _planned(0, begin + rules.lp * (job.deadline - begin), job, rules)


def next_try(tried: PlannedTry, job: CoAllocatedJob, rules: DeadlineRules) -> PlannedTry:
    """Return the try after a failed try that was not the last."""
    if tried.number < rules.tries:
        return _planned(tried.number + 1, tried.at + rules.lp * (job.deadline - tried.at), job, rules)
    return PlannedTry(tried.number, job.deadline - rules.lead, last=True)


def _planned(number: int, at: float, job: CoAllocatedJob, rules: DeadlineRules) -> PlannedTry:
    end = job.deadline - rules.lead
    instant = min(at, end)
    last = instant == end or (rules.evict_at == "last_try" and number == rules.tries)
    return PlannedTry(number, instant, last)
