from __future__ import annotations

from itertools import pairwise

import pytest

from oarpy.model.errors import UsageError
from oarpy.simulation.engines.draining import Draining
from oarpy.simulation.engines.engine import replay
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.policies import make_scheduler
from oarpy.simulation.traces.trace import TraceJob
from oarpy.simulation.workloads.esp2 import TYPES, all_at_once, efficiency, job_mix, multimode, size, work


def test_the_mix_has_230_jobs_and_228_without_those_of_the_whole_machine() -> None:
    assert len(job_mix(Machine(34))) == 230
    assert len(job_mix(Machine(34), full_machine=False)) == 228
    assert len({job.name for job in job_mix(Machine(34))}) == 230


def test_sizes_on_34_processors_by_both_roundings() -> None:
    nearest = {kind.name: size(kind, Machine(34)) for kind in TYPES}
    packed = {kind.name: size(kind, Machine(34, 2)) for kind in TYPES}
    assert list(nearest.values()) == [1, 2, 17, 9, 17, 2, 4, 5, 1, 2, 3, 4, 9, 34]
    assert list(packed.values()) == [2, 2, 18, 10, 18, 2, 4, 6, 2, 2, 4, 4, 10, 34]


@pytest.mark.parametrize(("cores", "seconds"), [(1, 358_838), (2, 434_138)])
def test_work_of_the_mix_on_34_processors(cores: int, seconds: int) -> None:
    assert work(all_at_once(job_mix(Machine(34, cores)))) == seconds


def test_the_order_follows_the_benchmarks_generator() -> None:
    names = [job.name for job in job_mix(Machine(34), full_machine=False)]
    assert sorted(names) == sorted(f"{kind.name}{n}" for kind in TYPES[:-1] for n in range(1, kind.count + 1))
    lexical = sorted(names, key=lambda name: (name[0], int(name[1:])))
    first = (142 * 3476221 + 1) % 1_000_000
    second = (first * 3476221 + 1) % 1_000_000
    assert names[0] == lexical.pop(first % 228)
    assert names[1] == lexical.pop(second % 227)


def test_multimode_submits_50_jobs_at_once_and_the_rest_every_30_seconds() -> None:
    jobs, urgent = multimode(job_mix(Machine(34)), 1)
    others = [job for index, job in enumerate(jobs) if index not in urgent]
    assert sum(job.submit == 0 for job in others) == 50
    gaps = [later.submit - earlier.submit for earlier, later in pairwise(others[49:])]
    assert min(gaps) > 10
    assert sum(gaps) / len(gaps) == pytest.approx(30, abs=1.5)
    assert [jobs[index].submit for index in sorted(urgent)] == [2400, 7200]


def test_nobody_overtakes_a_job_of_the_whole_machine() -> None:
    jobs, urgent = multimode(job_mix(Machine(34)), 1)
    starts = replay(jobs, Draining(make_scheduler("easy", "fifo", jobs, Machine(34)), urgent))
    for index in urgent:
        ends = starts[index] + jobs[index].run
        others = [starts[job] for job in range(len(jobs)) if job != index]
        assert not [start for start in others if jobs[index].submit < start < ends]


def test_two_urgent_jobs_run_one_after_the_other_on_the_empty_machine() -> None:
    jobs = (TraceJob(1, 0, 10, 10, 1), TraceJob(2, 1, 5, 5, 4), TraceJob(3, 2, 5, 5, 4), TraceJob(4, 3, 5, 5, 1))
    starts = replay(jobs, Draining(make_scheduler("fcfs", "fifo", jobs, Machine(4)), frozenset({1, 2})))
    assert starts == [0, 10, 15, 20]


def test_efficiency_is_the_lower_bound_over_the_makespan() -> None:
    jobs = (TraceJob(1, 0, 10, 10, 2), TraceJob(2, 0, 10, 10, 1))
    assert efficiency(jobs, [0, 10], 2) == 0.75


def test_smallest_first_beats_strict_fifo() -> None:
    jobs = all_at_once(job_mix(Machine(34, 2)))
    got = {
        order: efficiency(jobs, replay(jobs, make_scheduler("fcfs", order, jobs, Machine(34))), 34)
        for order in ("fifo", "smallest")
    }
    assert got["fifo"] < 0.8543 < got["smallest"] < 1


def test_processors_must_be_whole_nodes() -> None:
    with pytest.raises(UsageError, match="35 processors are not whole nodes of 2"):
        job_mix(Machine(35, 2))
