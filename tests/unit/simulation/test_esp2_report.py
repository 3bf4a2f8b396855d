from __future__ import annotations

from oarpy.simulation.engines.engine import replay
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.policies import make_scheduler
from oarpy.simulation.reports.esp2_report import PROCS, PUBLISHED, REPORTED_ORDERS, esp2_results, esp2_table
from oarpy.simulation.workloads.esp2 import all_at_once, efficiency, job_mix


def test_esp2_report_shows_every_replay_beside_the_published_values() -> None:
    results = esp2_results(["fcfs", "easy"], ["fifo", "smallest"])
    assert len(results) == 2 * 2 * 2 * 2
    assert all(0 < result.efficiency < 1 for result in results)
    text = esp2_table(results)
    assert all(f"{value:.4f}" in text for _, value in PUBLISHED)
    assert text.count("easy, smallest") == 4


def test_an_order_that_starves_nobody_is_above_the_published_best() -> None:
    jobs = all_at_once(job_mix(Machine(PROCS)))
    starts = replay(jobs, make_scheduler("conservative", "widest/3600", jobs, Machine(PROCS)))
    assert efficiency(jobs, starts, PROCS) > 0.93


def test_the_light_mix_is_replayed_with_every_order() -> None:
    results = esp2_results(["easy"], REPORTED_ORDERS, light=True)
    assert len(results) == 2 * 2 * len(REPORTED_ORDERS)
    assert all(0 < result.efficiency < 1 for result in results)
    assert len(esp2_table(results).splitlines()) == 1 + len(PUBLISHED) + 4 + len(results)
