"""ESP2 in virtual time: the efficiency of each policy and order beside the published values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oarpy.simulation.engines.draining import Draining
from oarpy.simulation.engines.engine import replay
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.policies import make_scheduler
from oarpy.simulation.workloads.esp2 import all_at_once, efficiency, job_mix, multimode, work

PROCS = 34
PUBLISHED = (
    ("OAR, smallest first", 0.9289),
    ("SGE", 0.9206),
    ("Torque", 0.8800),
    ("Torque+Maui", 0.8627),
    ("OAR, fifo", 0.8543),
)
"""N. Capit et al., "A batch scheduler with high level components" (CCGrid 2005), table 3: 34 processors."""

MACHINES = {"nearest processor": Machine(PROCS), "whole 2-processor nodes": Machine(PROCS, 2)}
REPORTED_ORDERS = ("fifo", "smallest", "largest", "longest/3600", "widest/3600")
"""The orders of the report. Orders with a window starve no job, whatever is submitted later; neither does fifo."""

_SEED = 1


@dataclass(frozen=True, slots=True)
class EspResult:
    """One replay of the mix: its rounding and submission, lower bound and elapsed time in seconds."""

    rounding: str
    submission: str
    policy: str
    order: str
    bound: float
    elapsed: float

    @property
    def efficiency(self) -> float:
        """Lower bound over elapsed time."""
        return self.bound / self.elapsed


def esp2_results(policies: Sequence[str], orders: Sequence[str], *, light: bool = False) -> list[EspResult]:
    """Replay the mix on 34 processors with every rounding, both ways of submission, each policy and order."""
    results = []
    for rounding, machine in MACHINES.items():
        mix = job_mix(machine, light=light)
        at_once = all_at_once(mix)
        spread, urgent = multimode(mix, _SEED, light=light)
        for policy in policies:
            for order in orders:
                starts = replay(at_once, make_scheduler(policy, order, at_once, machine))
                drained = replay(spread, Draining(make_scheduler(policy, order, spread, machine), urgent))
                for name, jobs, times in (("all at once", at_once, starts), ("multimode", spread, drained)):
                    bound = work(jobs) / PROCS
                    elapsed = bound / efficiency(jobs, times, PROCS)
                    results.append(EspResult(rounding, name, policy, order, bound, elapsed))
    return results


def esp2_table(results: Sequence[EspResult]) -> str:
    """Return the results beside the published efficiencies as text, best first within a rounding and submission."""
    lines = [f"ESP2 on {PROCS} processors, published, all at once"]
    lines += [f"  {name:<28}{value:>8.4f}" for name, value in PUBLISHED]
    for heading in dict.fromkeys((result.rounding, result.submission) for result in results):
        chosen = [result for result in results if (result.rounding, result.submission) == heading]
        lines.append(f"{heading[0]}, {heading[1]}, bound {chosen[0].bound:.1f} s")
        for result in sorted(chosen, key=lambda outcome: (-outcome.efficiency, outcome.policy, outcome.order)):
            name = f"{result.policy}, {result.order}"
            lines.append(f"  {name:<28}{result.efficiency:>8.4f}{result.elapsed:>12.0f} s")
    return "\n".join(lines)
