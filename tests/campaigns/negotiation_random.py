"""Random applications that negotiate, against the naive reference of the same rules.

``python -m tests.campaigns.negotiation_random --count 10000 --seed 1`` runs that many files with both, compares
line by line, and checks what must hold in any run. It prints what it counted, and a file that differs. Some are a test.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from oarpy.negotiation.simulation.journal import Journal
from oarpy.negotiation.simulation.reader import read_workload
from oarpy.negotiation.simulation.run import NegotiationRun
from tests.prop.negotiation.negotiation_files import naive_lines, random_file
from tests.prop.negotiation.negotiation_properties import (
    no_host_is_given_twice,
    requests_move_nobody_ahead,
    views_and_answers_come_to_rest,
)

Json = dict[str, Any]
_MACHINE = ("rms_operations", "application_operations", "operations", "seconds")
"""Totals that depend on the implementation."""


def printed(text: str) -> list[Json]:
    """Run a file and return what is printed, without what depends on the implementation."""
    out = io.StringIO()
    workload = read_workload(text)
    journal = Journal(out, workload.ticks)
    journal.total(NegotiationRun(workload, journal.note).run())
    lines: list[Json] = [json.loads(line) for line in out.getvalue().splitlines()]
    for key in _MACHINE:
        del lines[-1]["totals"][key]
    return lines


def difference(text: str) -> str | None:
    """Return the first line that differs from the naive reference's, None where there is none."""
    ours, naive = printed(text), naive_lines(text)
    for place in range(max(len(ours), len(naive))):
        here = [json.dumps(lines[place]) if place < len(lines) else "nothing" for lines in (ours, naive)]
        if here[0] != here[1]:
            return f"line {place + 1}:\n  here  {here[0]}\n  naive {here[1]}"
    return None


def _properties(random: Random, most_applications: int) -> Counter[str]:
    """Check what must hold in a run, and what must hold in one without delays; return how much was looked at."""
    file = random_file(random, most_applications)
    no_host_is_given_twice(file, printed(json.dumps(file)))
    quick = file | {"timer": 0, "most": 200}
    for entry in quick["applications"]:
        entry.pop("delay", None)
    lines = printed(json.dumps(quick))
    rounds = views_and_answers_come_to_rest(quick, lines)
    return Counter(
        {"estimates after requests": requests_move_nobody_ahead(quick, lines), f"runs with {rounds} rounds": 1}
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; return 0 when nothing differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--applications", type=int, default=7)
    options = parser.parse_args(arguments)
    counted: Counter[str] = Counter()
    for number in range(options.seed, options.seed + options.count):
        text = json.dumps(random_file(Random(number), options.applications))
        if (found := difference(text)) is not None:
            sys.stdout.write(f"seed {number}: {found}\n{text}\n")
            return 1
        counted.update(line.get("message") or line.get("state") or "files" for line in printed(text))
        counted.update(_properties(Random(number), options.applications))
    sys.stdout.writelines(f"{number:>9} {what}\n" for what, number in counted.most_common())
    return 0


if __name__ == "__main__":
    sys.exit(main())
