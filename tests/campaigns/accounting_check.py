"""The accounting against a second one, written apart: rational arithmetic over what jobs of all kinds did.

``python -m tests.campaigns.accounting_check --jobs 1000`` makes a cluster in a database, lets the jobs live there on a
clock that jumps (:mod:`~tests.campaigns.lives_of_jobs`), and compares every row of the accounting. A smaller round is a
test.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import psycopg

from oarpy.client.past.consumption import document
from oarpy.local_cluster.sandbox import Sandbox
from oarpy.postgres import embedded_server
from oarpy.store.accounting import consumption
from oarpy.store.analytics import recount
from tests.campaigns.lives_of_jobs import CORES, KINDS, NODES, SECOND, WINDOW, Connection, Record, Site
from tests.harness import bare_environment

Key = tuple[int, str, str, str, str]
"""Begin of the window (epoch seconds), user, project, queue, USED or ASKED, of cores, GPUs, shares or memory."""

WEIGHTS = {"core": Fraction(3), "gpu": Fraction(20), "memory": Fraction(5, 1 << 30)}
"""Billing units of a core, of a GPU, and of a byte."""
ROUNDED = (3 + 20 + 1) / 3600 / 2
"""Hours of billing units: a user's seconds of cores, and of the like, are told as whole ones."""

_ROWS = """
    SELECT extract(epoch FROM window_start)::bigint, user_name, project, queue_name, consumption_type, consumption
    FROM accounting
"""


def sums(records: Iterable[Record]) -> dict[Key, Fraction]:
    """Return what each window should have, in resource-seconds and GPU-seconds."""
    found: defaultdict[Key, Fraction] = defaultdict(Fraction)
    for one in records:
        if one.cores == 0 or one.started == one.ended:
            continue
        shares = one.gpus * 100 * one.shared
        held = (("", one.cores), ("GPU_", one.gpus), ("memory_", one.memory * one.nodes), ("gpu_share_", shares))
        for prefix, number in held:
            for begin, end in stretches(one):
                add(found, one, f"{prefix}USED", begin, end, number)
            add(found, one, f"{prefix}ASKED", one.started, one.started + one.walltime, number)
        for moment, cores, gpus, nodes in one.left:
            add(found, one, "USED", moment, one.ended, -cores)
            add(found, one, "GPU_USED", moment, one.ended, -gpus)
            add(found, one, "gpu_share_USED", moment, one.ended, -gpus * 100 * one.shared)
            add(found, one, "memory_USED", moment, one.ended, -nodes * one.memory)
    return {key: value for key, value in found.items() if value}


def stretches(one: Record) -> list[tuple[int, int]]:
    """Return when a job ran and had its resources."""
    left = [one.started, *(end for _, end in one.away)]
    right = [*(begin for begin, _ in one.away), one.ended]
    return list(zip(left, right, strict=True))


def add(found: defaultdict[Key, Fraction], one: Record, kind: str, begin: int, end: int, count: Fraction | int) -> None:
    """Add a stretch of so many cores, or the like, to each window that it meets."""
    length = WINDOW * SECOND
    for number in range(begin // length, end // length + 1):
        inside = min(end, (number + 1) * length) - max(begin, number * length)
        if inside > 0:
            key = (number * WINDOW, one.user, one.project, one.queue, kind)
            found[key] += Fraction(inside, SECOND) * count


def billed_otherwise(connection: Connection, records: Sequence[Record]) -> list[str]:
    """Return the users and projects for which other billing units are told than jobs make, but for rounding."""
    expected: defaultdict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for (_, user, project, _, kind), seconds in sums(records).items():
        of_kind = {"USED": "core", "GPU_USED": "gpu", "memory_USED": "memory"}
        expected[user, project] += seconds * WEIGHTS.get(of_kind.get(kind, ""), 0) / 3600
    everything = datetime(2000, 1, 1, tzinfo=UTC), datetime(2900, 1, 1, tzinfo=UTC)
    rows = consumption(connection, *everything)
    real = {
        (row["user"], row["project"]): row["billed"]
        for row in document(rows, {kind: float(one) for kind, one in WEIGHTS.items()})
    }
    return [
        f"{user} for {project}: {real.get((user, project))} billing units instead of {float(units)}"
        for (user, project), units in expected.items()
        if abs(real.get((user, project), 0.0) - units) > ROUNDED
    ]


def stored(connection: Connection) -> dict[Key, Fraction]:
    """Return what each window has."""
    rows = connection.execute(_ROWS).fetchall()
    return {(row[0], row[1], row[2], row[3], row[4]): Fraction(row[5]) for row in rows if row[5]}


def above_capacity(found: dict[Key, Fraction]) -> list[int]:
    """Return the windows in which jobs that share with nobody used more than there is."""
    total: defaultdict[int, Fraction] = defaultdict(Fraction)
    for (window, _, project, _, kind), value in found.items():
        if kind == "USED" and project != "shared":
            total[window] += value
    return [window for window, value in total.items() if value > NODES * CORES * WINDOW]


def check(connection: Connection, jobs: int, seed: int) -> tuple[Counter[str], int, list[str]]:
    """Let at least ``jobs`` jobs live; return how many of each kind, how many rows there are, and what is wrong."""
    site = Site(connection, seed)
    site.run([KINDS[number % len(KINDS)](site) for number in range(jobs)])
    real, expected = stored(connection), sums(site.records)
    wrong = [
        f"{key}: {real.get(key, 0)} instead of {expected.get(key, 0)}"
        for key in sorted(real.keys() | expected.keys())
        if real.get(key) != expected.get(key)
    ]
    wrong += billed_otherwise(connection, site.records)
    wrong += [f"window {window} is above the capacity" for window in above_capacity(real)]
    wrong += [f"oarpy db check --accounting says: {one}" for one in recount.differences(connection, WINDOW)]
    wrong += [f"oarpy db check --accounting says: {one}" for one in recount.day_differences(connection)]
    return Counter(one.kind for one in site.records), len(real), wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it in a database made for it, and print what happened; exit status 1 if any row differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="oarpy-accounting-") as folder:
        sandbox = Sandbox(Path(folder))
        try:
            sandbox.create()
            began = time.monotonic()
            with psycopg.connect(sandbox.dsn(), autocommit=True) as connection:
                kinds, rows, wrong = check(connection, options.jobs, options.seed)
            print(
                f"{kinds.total()} jobs of {len(kinds)} kinds (seed {options.seed}) in {time.monotonic() - began:.0f} s"
            )
            print("  " + ", ".join(f"{kind} {number}" for kind, number in sorted(kinds.items())))
            print(f"  {rows} rows of the accounting, {len(wrong)} different")
            print("".join(f"  WRONG: {line}\n" for line in wrong[:20]), end="")
        finally:
            sandbox.stop()
            embedded_server.remove(Path(folder) / "postgresql")
    return 1 if wrong else 0


if __name__ == "__main__":
    bare_environment.enter()
    sys.exit(main())
