"""``oarpy reproduce reallocation``: do the runs, write the files, tell the claims."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from oarpy.model.errors import UsageError
from research.grids.reallocation import SCENARIOS, reallocation_runs
from research.grids.reallocation_charts import write_charts
from research.grids.reallocation_tables import RunTable, reallocation_claims, write_tables
from research.runs.drawing import can_draw
from research.runs.judged_claims import report_of_claims
from research.runs.pools import Pool
from research.runs.runner import run_experiment

_QUICK = 150
"""Jobs of each site in a quick call."""


def reproduce_reallocation(
    output: Path,
    pool: Pool,
    err: TextIO,
    *,
    traces: Path | None = None,
    scenarios: Sequence[str] = (),
    seed: int = 1,
    quick: bool = False,
    fresh: bool = False,
    as_json: bool = False,
) -> tuple[str, int]:
    """Return the claims as text, and the exit status. Raises :class:`UsageError` for what cannot be asked for."""
    for name in scenarios:
        if name not in SCENARIOS:
            raise UsageError(f"there is no scenario '{name}'", hint=", ".join(SCENARIOS))
    wanted = [name for name in SCENARIOS if name in scenarios] or list(SCENARIOS)
    experiment = reallocation_runs(wanted, seed, traces, _QUICK if quick else 0)
    done = run_experiment(experiment, output, pool, err, fresh=fresh)
    table = RunTable(experiment, done.values)
    write_tables(output, experiment, table, wanted)
    claims = reallocation_claims(table)
    report = report_of_claims(output, claims, failed=bool(done.failed), quick=quick, as_json=as_json)
    if can_draw(err):
        write_charts(output, table)
    return report
