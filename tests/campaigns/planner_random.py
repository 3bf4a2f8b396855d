"""Random scenario files, planned by the planner and by the naive reference of the same rules.

``python -m tests.campaigns.planner_random --count 10000 --seed 1`` compares the plans of that many files, and checks
that no best-effort job goes where idle resources do. It prints what it counted, and a file that differs. Some are a
test.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from random import Random

from oarpy.cluster_state.trace import placement_json
from oarpy.model.reasons import plain_instant
from oarpy.model.setting_values import POLICIES
from oarpy.scheduler.plan import plan
from oarpy.simulation.scenarios.reader import read_scenario
from tests.prop.scheduler.naive_planner import Reference
from tests.prop.scheduler.random_scenarios import Json, random_scenario

_COMPARED = ("alternative", "start", "end", "resources")


def difference(scenario: Json, counted: Counter[str]) -> str | None:
    """Return how the plan differs from the naive one, None where it does not; count what was looked at."""
    made, reference = plan(read_scenario(json.dumps(scenario))), Reference(scenario)
    reference.run()
    if list(made.kill) != sorted(reference.kill):
        return f"kill: here {made.kill}, naive {sorted(reference.kill)}"
    counted["files"] += 1
    counted["jobs that are cancelled"] += len(made.kill)
    for placement in made.placements:
        here, naive = placement_json(placement, plain_instant), reference.results[placement.job]
        there = {"verdict": naive.verdict, **{name: getattr(naive, name) for name in _COMPARED}}
        # EASY tries a job behind the head now alone: why it waits depends on how hard a planner tries
        unforeseen = scenario["policy"] == "easy" and naive.start is None and naive.verdict not in _SURE
        if any(here[name] != there[name] for name in there if name != "verdict" or not unforeseen):
            return f"job {placement.job}: here {here}, naive {there}"
        counted[str(here["verdict"])] += 1
    return idle_would_do(scenario, reference)


_SURE = ("starts", "reserved", "reservation")


def idle_would_do(scenario: Json, reference: Reference) -> str | None:
    """Name a job for which another was cancelled though idle resources, those left at the end even, would do."""
    if scenario["policy"] == "easy":  # the head may have moved since
        return None
    for job in scenario["jobs"]:
        found = reference.results[job["id"]]
        if found.verdict != "resources_busy" or found.start != reference.now:
            continue
        holds = reference.holds
        reference.holds = [hold for hold in holds if hold.job is not job]
        with reference.sparing(job):
            ways = 1 if job.get("reservation") is not None else len(job["requests"])
            idle = reference.best_at(job, list(range(ways)), reference.now)
        reference.holds = holds
        if idle is not None:
            return f"job {job['id']} makes others go, though {sorted(idle[2])} are idle"
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; return 0 when nothing differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policy", choices=POLICIES, help="plan all files by this policy (default: any)")
    options = parser.parse_args(arguments)
    counted: Counter[str] = Counter()
    for number in range(options.seed, options.seed + options.count):
        scenario = random_scenario(Random(number))
        scenario["policy"] = options.policy or scenario["policy"]
        if (found := difference(scenario, counted)) is not None:
            sys.stdout.write(f"seed {number}: {found}\n{json.dumps(scenario)}\n")
            return 1
    sys.stdout.writelines(f"{number:>9} {what}\n" for what, number in counted.most_common())
    return 0


if __name__ == "__main__":
    sys.exit(main())
