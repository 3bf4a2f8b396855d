"""Launchers of the simulation speak with a real server, whose nodes are simulated."""

from __future__ import annotations

import pytest

from oarpy.negotiation.core.applications import NegotiationRules
from oarpy.negotiation.run_times import Cluster
from oarpy.negotiation.simulation.workload import Participant, Workload
from research.benchmarks.negotiated_run import run_for_real
from research.ndrms.workloads import TICKS, DrawnApplication

pytestmark = pytest.mark.e2e


def test_applications_of_an_experiment_run_for_real() -> None:
    clusters = (Cluster("c1", 2, 1), Cluster("c2", 2, 1.1))
    applications = (
        DrawnApplication(2, 2, 1.0, 1000.0, 100.0),
        DrawnApplication(1, 2, 0.9, 1000.0, 100.0),
        DrawnApplication(1, 2, 1.0, 0.0, 100.0, 1000),
    )
    participants = tuple(
        Participant(number, 0, ("c1", "c2"), launcher=one.launcher(clusters))
        for number, one in enumerate(applications, 1)
    )
    rules = NegotiationRules(0, 0, "always")
    size, seconds = run_for_real(Workload({"c1": 2, "c2": 2}, participants, rules, TICKS, TICKS))
    # each subscribes, is told a view and its token, asks, starts and is done: there is no run with fewer bytes
    assert size > 3 * 300
    assert seconds > 0
