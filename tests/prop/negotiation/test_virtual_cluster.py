"""Passes over a cluster on which applications negotiate are those of a naive reference, and keep what all must keep."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oarpy.negotiation.core.cluster_pass import negotiated_by
from oarpy.negotiation.core.events import EstimatedStart, ViewChange
from oarpy.scheduler.decide import Decisions
from oarpy.scheduler.resources.bit_sets import positions
from tests.harness.examples import examples
from tests.prop.negotiation.naive_cluster import NaivePass
from tests.prop.negotiation.virtual_cluster import VirtualCluster

RANDOMS = st.randoms(use_true_random=False)
FEW = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def decided(made: Decisions, now: float) -> dict[str, object]:
    """Return what a pass decided, as what it is compared by."""
    events = negotiated_by(made).events
    return {
        "places": {one.job: (one.start, frozenset(positions(one.bits))) for one in made.plan.placements},
        "views": {
            one.application: (one.serial, {name: some.flat(now) for name, some in one.changes.items()})
            for one in events
            if isinstance(one, ViewChange)
        },
        "estimates": {one.application: one.start for one in events if isinstance(one, EstimatedStart)},
        "ghosts": {
            one.of: (set(positions(one.bits)), one.made, one.latest_end, dict(one.viewers))
            for one in negotiated_by(made).ghosts
        },
    }


def expected(naive: NaivePass) -> dict[str, object]:
    """Return the same of the naive reference."""
    return {
        "places": {job.id: (job.start, job.got) for job in naive.jobs},
        "views": naive.sent,
        "estimates": naive.estimates,
        "ghosts": {one.of: (one.hosts, one.made, one.latest, one.viewers) for one in naive.ghosts},
    }


@FEW
@given(RANDOMS)
def test_every_pass_is_that_of_the_naive_reference_and_gives_no_host_twice(random: Random) -> None:
    cluster = VirtualCluster(random, delays=True)
    for made, _ in cluster.run():
        assert decided(made, cluster.now) == expected(cluster.naive())


@FEW
@given(RANDOMS)
def test_after_an_event_views_and_answers_come_to_rest(random: Random) -> None:
    """In at most as many rounds as there are applications in line; a round is a pass that follows answers."""
    cluster, rounds = VirtualCluster(random, delays=False), 0
    for made, happened in cluster.run():
        ghosts_ended = len(negotiated_by(made).ghosts) < len(cluster.ghosts) + len(cluster.freed)
        rounds = 0 if happened or made.starts or ghosts_ended else rounds + 1
        assert rounds <= max(1, len(cluster.line))


@FEW
@given(RANDOMS)
def test_no_request_moves_the_start_of_one_ranked_ahead(random: Random) -> None:
    cluster = VirtualCluster(random, delays=False)
    before: dict[int, float | None] = {}
    asked: Mapping[int, object] = {}
    quiet = False
    for made, happened in cluster.run():
        starts = {one.job: one.start for one in made.plan.placements}
        asking = {one.job.id: (one.job.hosts, one.job.walltime) for one in cluster.line}
        changed = [one.job.ranked for one in cluster.line if asked.get(one.job.id) != asking[one.job.id]]
        if quiet and not happened and changed:
            ahead = [one.job.id for one in cluster.line if one.job.ranked < min(changed)]
            ahead += [job.id for job in cluster.waiting if job.submitted < min(changed)]
            assert {job: starts[job] for job in ahead} == {job: before[job] for job in ahead}
        quiet = not negotiated_by(made).ghosts
        before, asked = starts, asking
