"""The runs of INRIA RR-7226: mapped jobs of seven scenarios, with and without passes that move them.

A run is a scenario, a platform (``homog``, or ``heterog``: sites of different speeds), a policy of the queues (FCFS, or
CBF: conservative backfilling), an algorithm and a heuristic. A reference moves nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from oarpy.grid.core.broker_state import GridCluster, HeuristicName, ReallocationRules
from oarpy.grid.simulation.grid_run import GridRun, JobCourse
from oarpy.grid.simulation.metrics import judge
from oarpy.grid.simulation.scenario import EngineName, GridJob, GridScenario, QueuePolicy
from oarpy.model.errors import UsageError
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.traces.swf import read_swf, records
from oarpy.simulation.traces.trace import TraceJob
from research.grids.bursty_months import bursty_month
from research.runs.experiment import Parameters, RunList, Values, uncollected

VERSION = 1
MONTHS = {"jan": 31, "feb": 29, "mar": 31, "apr": 30, "may": 31, "jun": 30}
"""Months of 2008 and their days."""
PWA = "pwa-g5k"
SCENARIOS = (*MONTHS, PWA)
PLATFORMS = ("homog", "heterog")
POLICIES: Mapping[str, QueuePolicy] = {"FCFS": "fcfs", "CBF": "conservative"}
ALGORITHMS: Mapping[str, int] = {"none": 0, "nocancel": 1, "cancel": 2}
HEURISTICS: Mapping[str, HeuristicName] = {
    "Mct": "mct",
    "MinMin": "minmin",
    "MaxMin": "maxmin",
    "MaxGain": "maxgain",
    "MaxRelGain": "maxrelgain",
    "Sufferage": "sufferage",
}
SITES = {"Bordeaux": 640, "Lyon": 270, "Toulouse": 434, "CTC": 430, "SDSC": 128}
_SPEEDS = (1.0, 1.2, 1.4)
_OF_MONTHS = {
    "Bordeaux": (13084, 5822, 11673, 33250, 6765, 4094),
    "Lyon": (583, 2695, 8315, 1330, 2179, 3540),
    "Toulouse": (488, 1123, 949, 1461, 1573, 1548),
}
"""Published numbers of jobs of each month."""
_BORDEAUX_IN_ALL = 74647
_LOGS = {"CTC": "CTC-SP2-1996-3.1-cln.swf.gz", "SDSC": "SDSC-SP2-1998-4.2-cln.swf.gz"}
_CTC_RECORDS = 42873
_SDSC_END = 182 * 86400
_SDSC_PUBLISHED = 15615
_DAY = 86400


@dataclass(frozen=True, slots=True)
class SiteInput:
    """The jobs of a site, with how many records there were, and how many the paper has."""

    site: str
    origin: str
    records: int
    published: int
    jobs: Sequence[TraceJob]


def reallocation_runs(scenarios: Sequence[str], seed: int, traces: Path | None, first: int = 0) -> RunList:
    """Return the runs of scenarios, those of January with the planner of real clusters too.

    With ``first``, only so many jobs of each site are replayed.

    Raises :class:`UsageError` when a log is needed that is not there.
    """
    if PWA in scenarios and traces is None:
        raise UsageError(f"scenario {PWA} needs two logs", hint="--traces DIR, or other scenarios by --scenario")
    places = {} if traces is None else {site: str(find_log(traces, site)) for site in _LOGS if PWA in scenarios}
    runs = [run for scenario in scenarios for run in _runs(scenario, "counting", seed, first)]
    if "jan" in scenarios:
        runs += _runs("jan", "production", seed, first)
    return RunList("reallocation", VERSION, reallocation_run, runs, places)


def _runs(scenario: str, engine: EngineName, seed: int, first: int) -> Iterator[Parameters]:
    for platform in PLATFORMS:
        for batch in POLICIES:
            for algorithm in ALGORITHMS:
                for heuristic in HEURISTICS if algorithm != "none" else ("",):
                    yield {
                        "scenario": scenario,
                        "platform": platform,
                        "batch": batch,
                        "algorithm": algorithm,
                        "heuristic": heuristic,
                        "engine": engine,
                        "seed": seed,
                        "first": first,
                    }


def find_log(traces: Path, site: str) -> Path:
    """Return the log of a site below a folder. Raises :class:`UsageError` if it is not there."""
    log = next(iter(sorted(traces.rglob(_LOGS[site]))), None)
    if log is None:
        raise UsageError(f"no {_LOGS[site]} below '{traces}'", hint="get it from the Parallel Workloads Archive")
    return log


@uncollected
def reallocation_run(run: Parameters, places: Mapping[str, str]) -> Values:
    """Do one run: what it is judged by."""
    scenario = _scenario(run, places)
    outcome = GridRun(scenario, keep_moves=False).run()
    without = outcome.courses
    if run["algorithm"] != "none":
        reference = {**run, "algorithm": "none", "heuristic": ""}
        without = _reference(tuple(reference.items()), tuple(places.items()))
    judged = judge(scenario, outcome, without)
    return {
        "jobs": len(scenario.jobs),
        "moves": judged.moves,
        "impacted": judged.impacted,
        "early": judged.early,
        "rel": judged.rel,
        "mean_response": judged.mean_response,
    }


@lru_cache(maxsize=1)
def _reference(run: tuple[tuple[str, str | int], ...], places: tuple[tuple[str, str], ...]) -> Sequence[JobCourse]:
    return GridRun(_scenario(dict(run), dict(places))).run().courses


def _scenario(run: Parameters, places: Mapping[str, str]) -> GridScenario:
    inputs = site_inputs(str(run["scenario"]), int(run["seed"]), tuple(places.items()))
    first = int(run["first"]) or None
    speeds = _SPEEDS if run["platform"] == "heterog" else (1.0,) * len(inputs)
    clusters = [
        GridCluster(inputs_of_site.site, SITES[inputs_of_site.site], speed)
        for inputs_of_site, speed in zip(inputs, speeds, strict=True)
    ]
    jobs = [job for inputs_of_site in inputs for job in inputs_of_site.jobs[:first]]
    merged = sorted(jobs, key=lambda job: job.submit)  # ties stay in the order of the sites, then of the log
    heuristic = HEURISTICS.get(str(run["heuristic"]), "mct")
    algorithm = ALGORITHMS[str(run["algorithm"])]
    return GridScenario(
        clusters=tuple(clusters),
        policies=(POLICIES[str(run["batch"])],) * len(clusters),
        jobs=tuple(
            GridJob(number, float(job.submit), job.procs, float(job.run), float(job.estimate))
            for number, job in enumerate(merged)
        ),
        engine="production" if run["engine"] == "production" else "counting",
        reallocation=ReallocationRules(algorithm=algorithm, heuristic=heuristic),  # type: ignore[arg-type]
    )


@lru_cache(maxsize=2)
def site_inputs(scenario: str, seed: int, places: tuple[tuple[str, str], ...]) -> tuple[SiteInput, ...]:
    """Return the jobs of each site of a scenario, in the configured order."""
    if scenario != PWA:
        return tuple(_month(site, scenario, seed) for site in _OF_MONTHS)
    logs = dict(places)
    return (_six_months(seed), _ctc(Path(logs["CTC"])), _sdsc(Path(logs["SDSC"])))


def _month(site: str, month: str, seed: int) -> SiteInput:
    count = _OF_MONTHS[site][list(MONTHS).index(month)]
    jobs = bursty_month(SITES[site], count, MONTHS[month], f"{seed}/{site}/{month}")
    return SiteInput(site, "stand-in", count, count, jobs)


def _six_months(seed: int) -> SiteInput:
    """Return the six months of Bordeaux one after the other, as many jobs as the paper has."""
    jobs: list[TraceJob] = []
    begin = 0
    for month, days in MONTHS.items():
        jobs += (
            TraceJob(len(jobs) + number, begin + job.submit, job.run, job.estimate, job.procs)
            for number, job in enumerate(_month("Bordeaux", month, seed).jobs, 1)
        )
        begin += days * _DAY
    return SiteInput("Bordeaux", "stand-in", len(jobs), _BORDEAUX_IN_ALL, tuple(jobs[:_BORDEAUX_IN_ALL]))


def _ctc(path: Path) -> SiteInput:
    return _logged("CTC", path, _CTC_RECORDS, _CTC_RECORDS)


def _sdsc(path: Path) -> SiteInput:
    count = sum(values[1] < _SDSC_END for _, values in records(path))
    return _logged("SDSC", path, count, _SDSC_PUBLISHED)


def _logged(site: str, path: Path, count: int, published: int) -> SiteInput:
    """Return what can be replayed of the first ``count`` records of a log."""
    trace = read_swf(path, Machine(SITES[site]))
    last = [values[0] for _, values in records(path)][count - 1]
    return SiteInput(site, "log", count, published, tuple(job for job in trace.jobs if job.number <= last))
