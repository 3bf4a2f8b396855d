"""A pass that ends early starts, cancels and answers what a full pass does."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from oarpy.scheduler.passes.starts_only import plan_starts, starts_suffice
from oarpy.scheduler.plan import plan
from oarpy.scheduler.snapshot import PassShare, Snapshot
from oarpy.scheduler.verdicts import Verdict
from oarpy.simulation.scenarios.reader import read_scenario
from tests.harness.examples import examples
from tests.prop.scheduler.test_invariants import snapshots
from tests.prop.scheduler.test_reference import scenarios


def agree(snapshot: Snapshot) -> int:
    """Compare both passes; return how many jobs were left out."""
    assert starts_suffice(snapshot)
    full, made = plan(snapshot), plan_starts(snapshot)
    seen = tuple(one for one in full.placements if one.job not in made.unseen)
    assert made.placements == seen
    assert made.kill == full.kill
    answers = (Verdict.STARTS, Verdict.RESERVED, Verdict.RESERVATION)
    assert not any(one.verdict in answers for one in full.placements if one.job in made.unseen)
    return len(made.unseen)


@given(snapshots())
@settings(max_examples=examples(150), deadline=None)
def test_long_queues(snapshot: Snapshot) -> None:
    agree(snapshot)


@given(scenarios(), st.integers(0, 3), st.integers(0, 2))
@settings(
    max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_all_features(scenario: dict[str, Any], jobs: int, jobs_of_a_user: int) -> None:
    ration = PassShare(jobs, jobs_of_a_user)
    snapshot = replace(read_scenario(json.dumps(scenario)), policy="conservative", ration=ration)
    assume(starts_suffice(snapshot))
    agree(snapshot)
