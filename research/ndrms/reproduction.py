"""``oarpy reproduce ndrms``: run the experiments, write their files, print the claims."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TextIO

from oarpy.model.errors import OarpyError
from oarpy.negotiation.simulation.workload import Workload
from oarpy.simulation.reports.output_files import write_file
from research.ndrms.charts import write_chart
from research.ndrms.claims import PublishedClaim, claims, end_delays
from research.ndrms.experiments import Experiment, Measured, Results, experiment_of, ndrms_runs, workload
from research.ndrms.figures import FIGURES, JUDGED, READINGS
from research.ndrms.workloads import LoggedJob, read_log
from research.runs.drawing import NOT_DRAWN, can_draw, wanted_figures
from research.runs.pools import Pool, all_processes, local_pool
from research.runs.runner import run_experiment

RealServer = Callable[[Workload], tuple[int, float]]

COLUMNS = ("figure", "claim", "rank", "sizes", "judged", "paper", "ours", "holds")
FIELDS = (
    *("figure", "system", "workload", "rank", "sizes", "clusters", "p_mo", "p_cem", "fair_start", "delay", "draw"),
    *("unique_configurations", "bytes", "rms_operations", "application_operations", "operations", "seconds"),
    *("waste", "end_delay", "real_bytes", "real_seconds"),
)
LACKS = (
    "The curves of figures 7 to 12 are not in the text at hand: only what it says of them is compared.",
    "The log LLNL-Atlas-2006-1.1-cln of the source is not at hand: 2.1-cln is replayed instead.",
    "Parameters of complex applications are not in the text: ours are in the guide for researchers.",
)


class Reproduced(NamedTuple):
    """The claims, the report of them, and how many runs failed."""

    claims: list[PublishedClaim]
    report: str
    failed: int


def reproduce(
    traces: Path,
    figures: Sequence[int],
    *,
    quick: bool = False,
    output: Path = Path("ndrms"),
    as_json: bool = False,
    real: RealServer | None = None,
    pool: Pool | None = None,
    fresh: bool = False,
    err: TextIO | None = None,
) -> Reproduced:
    """Do the runs that ``figures`` need and ``output`` does not have; write CSV and SVG files; return the claims.

    ``real`` runs a workload on a real server, and returns the bytes of all lines and the processor seconds.

    Raises :class:`UsageError` for a figure that does not exist or a log that is not there, and :class:`OarpyError` when
    a file cannot be written.
    """
    wanted = list(wanted_figures(FIGURES, figures))
    log = read_log(traces)
    readings = (JUDGED,) if quick else READINGS
    runs = {(figure, reading): list(FIGURES[figure](reading, quick)) for figure in wanted for reading in readings}
    results, failed = _measured(runs.values(), traces, output, pool, err or sys.stderr, fresh=fresh)
    results |= _served(runs.get((12, JUDGED), ()), results, log, real, err or sys.stderr)
    drawing = can_draw()
    for figure in wanted:
        of_figure = [
            experiment for reading in readings for experiment in runs[figure, reading] if experiment in results
        ]
        rows = partial(_write_rows, figure, {experiment: results[experiment] for experiment in of_figure})
        write_file(output / f"figure{figure:02}.csv", rows)
        judged = {experiment: results[experiment] for experiment in runs[figure, JUDGED] if experiment in results}
        if drawing and judged and (figure != 12 or any(measured.real_bytes for measured in judged.values())):
            write_chart(output / f"figure{figure:02}.svg", figure, judged)
    published = [claim for figure in wanted for reading in READINGS for claim in claims(figure, reading, results)]
    lacks = LACKS if drawing else (*LACKS, NOT_DRAWN)
    return Reproduced(published, _json(published, lacks) if as_json else _table(published, lacks), failed)


def _measured(
    wanted: Iterable[Sequence[Experiment]], traces: Path, output: Path, pool: Pool | None, err: TextIO, *, fresh: bool
) -> tuple[dict[Experiment, Measured], int]:
    """Return what was measured, and how many runs failed: they are told, and missing."""
    experiment = ndrms_runs((wanted_experiment for experiments in wanted for wanted_experiment in experiments), traces)
    done = run_experiment(experiment, output, pool or local_pool(all_processes()), err, fresh=fresh)
    results = {experiment_of(experiment.runs[place]): Measured(**values) for place, values in done.values.items()}
    return results, len(done.failed)


def _served(
    experiments: Iterable[Experiment],
    results: Results,
    log: Sequence[LoggedJob],
    real: RealServer | None,
    err: TextIO,
) -> dict[Experiment, Measured]:
    """Return what was measured of experiments, with what they take on a real server; one that fails is told."""
    served: dict[Experiment, Measured] = {}
    if real is None:
        return served
    for experiment in experiments:
        try:
            size, seconds = real(workload(experiment, log))
        except OarpyError as error:
            err.write(f"figure 12 is not run: {error}\n")
            continue
        served[experiment] = replace(results[experiment], real_bytes=size, real_seconds=round(seconds, 3))
    return served


def status(published: Sequence[PublishedClaim], *, real: bool = False, failed: int = 0) -> int:
    """Return the exit status: 1 if a run or a judged claim failed, or if a ``real`` server was of no use."""
    judged = [claim for claim in published if claim.reading.judged]
    return int(
        failed > 0
        or any(claim.holds == "no" or (real and claim.figure == 12 and claim.holds == "-") for claim in judged)
    )


def _table(published: Sequence[PublishedClaim], lacks: Sequence[str]) -> str:
    lines = ["\t".join(COLUMNS), *("\t".join(map(str, claim.cells().values())) for claim in published)]
    return "\n".join([*lines, "", *lacks]) + "\n"


def _json(published: Sequence[PublishedClaim], lacks: Sequence[str]) -> str:
    import json

    return json.dumps({"claims": [claim.cells() for claim in published], "lacks": lacks}, indent=1) + "\n"


def _write_rows(figure: int, results: Results, file: TextIO) -> None:
    """Write the runs of a figure as CSV; a cell is empty where it does not apply."""
    writer = csv.DictWriter(file, FIELDS, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(_rows(figure, results))


def _rows(figure: int, results: Results) -> Iterator[Mapping[str, object]]:
    delays = end_delays(results)
    for experiment, measured in results.items():
        row = {name: getattr(experiment, name) for name in FIELDS if hasattr(experiment, name)}
        row |= {name: getattr(measured, name) for name in FIELDS if hasattr(measured, name)}
        row |= {"figure": figure, "seconds": round(measured.seconds, 3), "end_delay": delays.get(experiment)}
        yield {name: value for name, value in row.items() if value is not None and _applies(name, experiment)}


def _applies(name: str, experiment: Experiment) -> bool:
    """Say whether a column means something for an experiment."""
    if experiment.system == "oar":
        return name not in ("rank", "fair_start", "delay", "p_cem")
    return name != "delay" or experiment.workload == "W1"
