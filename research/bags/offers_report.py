"""``oarpy reproduce offers``: do the runs, write the files, tell the claims."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from research.bags.offers import METRICS, SCHEMAS, WORKLOADS, offers_runs, scenario
from research.bags.offers_figures import BY_OFFERS, FIGURES, POLICIES, SLOTS, PolicyTable, write_figures
from research.runs.drawing import can_draw, wanted_figures
from research.runs.experiment import Parameters, Values
from research.runs.judged_claims import JudgedClaim, judged_claim, report_of_claims
from research.runs.pools import Pool
from research.runs.result_files import write_rows, write_scenarios
from research.runs.runner import run_experiment

_COLUMNS = ("days", "schema", "policy", "seed")


def reproduce_offers(
    traces: Path,
    output: Path,
    pool: Pool,
    err: TextIO,
    *,
    figures: Sequence[int] = (),
    seed: int = 1,
    quick: bool = False,
    full: bool = False,
    fresh: bool = False,
    as_json: bool = False,
    write: Path | None = None,
) -> tuple[str, int]:
    """Return the claims as text, and the exit status; with ``write``, only write the files of the runs, a line each.

    Each figure needs all runs. Raises :class:`UsageError` for a figure or a log that there is not.
    """
    wanted = wanted_figures(FIGURES, figures)
    experiment = offers_runs(_points(seed, quick=quick, full=full), traces)
    if write is not None:
        return write_scenarios(write, experiment, scenario), 0
    done = run_experiment(experiment, output, pool, err, fresh=fresh)
    rows = [(experiment.runs[place], values) for place, values in done.values.items()]
    _write_files(output, rows)
    table = PolicyTable(rows)
    write_figures(output, table, wanted, drawing=can_draw(err))
    claims = offers_claims(table, wanted)
    return report_of_claims(output, claims, failed=bool(done.failed), quick=quick, as_json=as_json)


def _points(seed: int, *, quick: bool, full: bool) -> list[Parameters]:
    seeds = 30 if full and not quick else 1
    return [
        dict(zip(_COLUMNS, (10 if quick else 60, schema, policy, seed + more), strict=True))
        for more in range(seeds)
        for schema in SCHEMAS
        for policy in POLICIES
    ]


def _write_files(folder: Path, rows: Sequence[tuple[Parameters, Values]]) -> None:
    inputs = {}
    for run, values in rows:
        for name, (jobs, lost, added, load) in values["inputs"].items():
            log = WORKLOADS[name]
            facts = (log.name, log.first_day, jobs, lost, added, log.load, round(load, 3))
            inputs[name, run["days"]] = facts
    heads = ("workload", "days", "log", "first_day", "records", "lost", "added", "load_published", "load_reached")
    write_rows(folder / "inputs.csv", [heads, *((*about, *facts) for about, facts in sorted(inputs.items()))])
    lines = [(*(run[name] for name in _COLUMNS), *(values[name] for name in METRICS)) for run, values in rows]
    write_rows(folder / "runs.csv", [(*_COLUMNS, *METRICS), *lines])


Found = tuple[str, bool]
Judge = Callable[[PolicyTable], Found]


def offers_claims(table: PolicyTable, figures: Collection[int]) -> list[JudgedClaim]:
    """Return the claims, and whether they hold; open where runs are missing, or figures were not asked for."""
    return [
        judged_claim(claim, paper, judge(table) if table.seeds and needed <= set(figures) else None, judged=judged)
        for claim, paper, judged, needed, judge in _CLAIMS
    ]


def _texts(means: Mapping[str, float], digits: int = 2) -> str:
    return ", ".join(f"{policy} {value:.{digits}f}" for policy, value in means.items())


def _by_schema(words: Iterable[str]) -> str:
    return "; ".join(f"schema {schema}: {text}" for schema, text in zip(SCHEMAS, words, strict=True))


def _all_below_slots(means: Mapping[str, float]) -> bool:
    return all(means[policy] < means[SLOTS] for policy in BY_OFFERS)


def _fewer_bags_are_late(table: PolicyTable) -> Found:
    jobs = [table.means(schema, "external_delayed") for schema in SCHEMAS]
    work = [table.means(schema, "external_work_delayed") for schema in SCHEMAS]
    words = [f"jobs {_texts(some)}, work {_texts(more)}" for some, more in zip(jobs, work, strict=True)]
    return f"% delayed: {_by_schema(words)}", all(map(_all_below_slots, [*jobs, *work]))


def _slots_spare_local_jobs(table: PolicyTable) -> Found:
    means = [table.means(schema, "local_delayed") for schema in SCHEMAS]
    holds = all(some[SLOTS] <= min(some[policy] for policy in BY_OFFERS) + 1 for some in means)
    return f"% delayed: {_by_schema(map(_texts, means))}", holds


def _plb_shifts_delays(table: PolicyTable) -> Found:
    everybody = [table.means(schema, "all_delayed") for schema in SCHEMAS]
    local = [table.means(schema, "local_delayed") for schema in SCHEMAS]
    words = [f"all {_texts(some)}, local {_texts(more)}" for some, more in zip(everybody, local, strict=True)]
    fewer = all(some["plb"] < some[SLOTS] for some in everybody)
    shifted = all(some["plb"] > some[SLOTS] and some["dplb"] <= some["plb"] + 0.5 for some in local)
    return f"% delayed: {_by_schema(words)}", fewer and shifted


def _bags_are_less_late(table: PolicyTable) -> Found:
    means = [table.means(schema, "external_tw_delay") for schema in SCHEMAS]
    return _by_schema(_texts(some, 0) for some in means), all(map(_all_below_slots, means))


def _relaxed_ones_differ_more(table: PolicyTable) -> Found:
    spreads = []
    for schema in SCHEMAS:
        means = [table.mean(schema, policy, "all_delayed") for policy in BY_OFFERS]
        spreads.append(max(means) - min(means))
    return f"points: {_by_schema(f'{spread:.2f}' for spread in spreads)}", spreads[0] > spreads[1]


def _tight_ones_are_on_fewer(table: PolicyTable) -> Found:
    relaxed, tight = (table.means(schema, "clusters_per_bag") for schema in SCHEMAS)
    return _by_schema(map(_texts, (relaxed, tight))), all(tight[policy] < relaxed[policy] for policy in POLICIES)


def _as_much_is_used(table: PolicyTable) -> Found:
    means = [table.means(schema, "utilisation") for schema in SCHEMAS]
    near = all(max(some.values()) - min(some.values()) <= 3 for some in means)
    return f"%: {_by_schema(map(_texts, means))}", near


_CLAIMS: Sequence[tuple[str, str, bool, set[int], Judge]] = (
    (
        "6a-external",
        "fewer bags, and less of their work, are delayed by offers than by slots",
        True,
        {1, 2},
        _fewer_bags_are_late,
    ),
    (
        "6a-local",
        "local jobs delayed: slots at most 1 point above the best of offers",
        False,
        {1},
        _slots_spare_local_jobs,
    ),
    (
        "6b",
        "plb delays fewer jobs than slots, but more local ones; dplb at most 0.5 points more of these than plb",
        False,
        {1},
        _plb_shifts_delays,
    ),
    (
        "6c",
        "weighted delay of bags lower by offers than by slots (published: down to half)",
        True,
        {3},
        _bags_are_less_late,
    ),
    (
        "6d",
        "jobs delayed by offers differ more by policy with relaxed deadlines",
        False,
        {1},
        _relaxed_ones_differ_more,
    ),
    ("6e", "fewer clusters a bag with tight deadlines, each policy", True, {4}, _tight_ones_are_on_fewer),
    ("6f", "utilisation of all policies within 3 points (published: 1)", True, {5}, _as_much_is_used),
)
"""Name, words, whether it is judged, the figures that show it, and the judge."""
