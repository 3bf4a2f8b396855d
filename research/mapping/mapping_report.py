"""``oarpy reproduce mapping``: ask the questions, write the files, tell the claims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, fields
from pathlib import Path
from typing import TextIO

from research.mapping.published_sets import MODELS, SETS, TRANSFERS, mapping_runs, question
from research.mapping.real_runs import RealRun, real_claims, run_for_real
from research.runs.judged_claims import JudgedClaim, report_of_claims, verdict
from research.runs.pools import Pool
from research.runs.result_files import write_rows, write_scenarios
from research.runs.runner import run_experiment

_COMPUTED = {
    "sync": (729.5, 786.9, 786.9, 854.1, 854.1, 923.1, 1008.4),
    "async": (500.0, 577.1, 570.1, 629.1, 649.3, 675.2, 786.2),
}
"""Seconds of each set without transfers, by the published algorithms and rates."""
_PUBLISHED = {"sync": 35, "async": 57}
"""By how many % set 7 takes longer than set 1; it has the transfers and merges of a real run."""
_REAL_COLUMNS = tuple(field.name for field in fields(RealRun))
Seconds = Mapping[tuple[float, str], Mapping[int, float]]
"""Seconds of each set, by transfer and model."""


def reproduce_mapping(
    output: Path,
    pool: Pool,
    err: TextIO,
    *,
    real: bool = False,
    fresh: bool = False,
    as_json: bool = False,
    write: Path | None = None,
) -> tuple[str, int]:
    """Return the claims as text, and the exit status; with ``write``, only write the questions, a line each.

    With ``real``, programs with maps are run, too.
    """
    experiment = mapping_runs()
    if write is not None:
        return write_scenarios(write, experiment, lambda run, _: question(run), "questions"), 0
    done = run_experiment(experiment, output, pool, err, fresh=fresh)
    seconds: dict[tuple[float, str], dict[int, float]] = {}
    for place, values in done.values.items():
        run = experiment.runs[place]
        seconds.setdefault((float(run["transfer"]), str(run["model"])), {})[int(run["set"])] = values["seconds"]
    _write_table(output / "table.csv", seconds)
    claims = mapping_claims(seconds)
    if real:
        found = run_for_real(err)
        write_rows(output / "runs.csv", [_REAL_COLUMNS, *map(astuple, found.runs)])
        claims += real_claims(found)
    return report_of_claims(output, claims, failed=bool(done.failed), quick=False, as_json=as_json)


def _write_table(path: Path, seconds: Seconds) -> None:
    rows: list[Iterable[object]] = [("transfer", "model", "set", "minutes", "longer_than_set_1")]
    for (transfer, model), times in seconds.items():
        for number, value in times.items():
            longer = f"{_longer(times, number):.1f}" if 1 in times else ""
            rows.append((transfer, model, number, f"{value / 60:.2f}", longer))
    write_rows(path, rows)


def _longer(times: Mapping[int, float], number: int) -> float:
    """Return by how many % a set takes longer than set 1."""
    return 100 * (times[number] / times[1] - 1)


def mapping_claims(seconds: Seconds) -> list[JudgedClaim]:
    """Return the claims, and whether they hold; open where a run is missing."""
    claims = []
    for model in MODELS:
        wanted = _COMPUTED[model]
        paper = f"{model}: the published algorithm takes {', '.join(map(str, wanted))} s on sets 1 to 7"
        times = _all_sets(seconds, 0.0, model)
        ours, holds = "not run", None
        if times is not None:
            ours = ", ".join(f"{value:.1f}" for value in times.values())
            holds = all(abs(value - given) <= 0.1 for value, given in zip(times.values(), wanted, strict=True))
        claims.append(_claim(f"5d-{model}", paper, ours, holds, judged=True))
    claims.append(_longer_claim([_all_sets(seconds, 0.0, model) for model in MODELS]))
    claims += [
        _shorter_claim(transfer, [_all_sets(seconds, transfer, model) for model in MODELS]) for transfer in TRANSFERS
    ]
    return claims


def _longer_claim(both: list[Mapping[int, float] | None]) -> JudgedClaim:
    published = ", ".join(f"{value} % {model}" for model, value in _PUBLISHED.items())
    paper = f"set 7 takes longer than set 1: {published}, with merges; 38 and 57 % by the published algorithms"
    found = [round(_longer(times, max(SETS))) for times in both if times is not None]
    ours = ", ".join(f"{value} % {model}" for value, model in zip(found, MODELS, strict=False)) or "not run"
    return _claim("5d", paper, ours, found == [38, 57] if len(found) == len(both) else None, judged=True)


def _shorter_claim(transfer: float, both: list[Mapping[int, float] | None]) -> JudgedClaim:
    sync, apart = both
    ours, holds = "not run", None
    if sync is not None and apart is not None:
        gains = [100 * (1 - apart[number] / sync[number]) for number in SETS]
        ours = f"% shorter, transfer {transfer:g} s: {', '.join(f'{gain:.1f}' for gain in gains)}"
        holds = all(gain > 0 for gain in gains)
    return _claim(f"5c-{transfer:g}", "async is shorter than sync on every set", ours, holds, judged=True)


def _all_sets(seconds: Seconds, transfer: float, model: str) -> Mapping[int, float] | None:
    times = seconds.get((transfer, model), {})
    return {number: times[number] for number in SETS} if times.keys() >= SETS.keys() else None


def _claim(name: str, paper: str, ours: str, holds: bool | None, *, judged: bool) -> JudgedClaim:
    return JudgedClaim(name, paper, ours, judged, "-" if holds is None else verdict(holds))
