"""One run of a workload in either system, and what is measured of it, as plain values."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from oarpy.model.setting_values import RankRule
from oarpy.negotiation.core.applications import NegotiationRules
from oarpy.negotiation.profiles import Time
from oarpy.negotiation.simulation.journal import Journal
from oarpy.negotiation.simulation.run import NegotiationRun
from oarpy.negotiation.simulation.workload import Participant, Workload
from research.ndrms.oar_like import BYTES, OarLikeRun
from research.ndrms.workloads import (
    JOBS,
    TICKS,
    DrawnApplication,
    LoggedJob,
    Sizes,
    platform,
    read_log,
    sequence,
    with_complex,
)
from research.runs.experiment import Parameters, RunList, Values

VERSION = 1
"""The version of the runs: it changes when the same parameters give other values."""
System = Literal["ours", "oar"]
WorkloadName = Literal["W0", "W1", "W2"]

INTERVAL, TIMER = TICKS, TICKS
"""The time between two arrivals, and the least time between two passes."""
ORIGIN = 1_790_000_000 * TICKS
"""The first arrival. Instants have as many digits as those of a cluster."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One run, of ``JOBS`` jobs of the log from ``first`` on; in W1 the complex one comes as number ``place``.

    ``fair_start`` and ``delay`` are seconds; ``delay`` is the adaptation delay of the complex application of W1. Jobs
    above ``largest`` processor-seconds are left out.
    """

    system: System
    workload: WorkloadName
    sizes: Sizes
    rank: RankRule | None = None
    clusters: int = 1
    p_mo: float = 0.2
    p_cem: float = 0.0
    fair_start: int = 5
    delay: int = 0
    draw: int = 1
    first: int = 0
    place: int = 40
    largest: int | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """The cost of a run. ``seconds`` are of the processor, ``waste`` is in host-seconds.

    ``complex_end`` is when the complex application of W1 ended, in seconds. Where jobs are left out, ``bytes`` are
    those of all lines, and ``real_bytes`` and ``real_seconds`` what they and the processor time are for real.
    """

    unique_configurations: int
    bytes: int
    rms_operations: int
    application_operations: int
    seconds: float
    waste: float | None = None
    complex_end: float | None = None
    real_bytes: int | None = None
    real_seconds: float | None = None

    @property
    def operations(self) -> int:
        """Basic operations of scheduler and applications."""
        return self.rms_operations + self.application_operations


Results = Mapping[Experiment, Measured]


def measure(experiment: Experiment, log: Sequence[LoggedJob]) -> Measured:
    """Run an experiment on the jobs of ``log``."""
    if experiment.system == "oar":
        return _measure_oar_like(experiment, _applications(experiment, log))
    return _measure_ours(experiment, log)


def _applications(experiment: Experiment, log: Sequence[LoggedJob]) -> list[DrawnApplication]:
    if experiment.largest is not None:
        log = [job for job in log if job.processors * job.run <= experiment.largest]
    jobs = log[experiment.first : experiment.first + JOBS]
    sizes, p_cem = experiment.sizes, experiment.p_cem if experiment.workload == "W2" else 0.0
    applications = sequence(jobs, experiment.draw, p_mo=experiment.p_mo, p_cem=p_cem, sizes=sizes)
    if experiment.workload == "W1":
        return with_complex(applications, jobs, experiment.place, experiment.draw, sizes)
    return applications


def _measure_oar_like(experiment: Experiment, applications: Sequence[DrawnApplication]) -> Measured:
    done = OarLikeRun(platform(experiment.clusters), applications, INTERVAL, TIMER).run()
    return Measured(done.configurations, done.configurations * BYTES, done.operations, 0, done.seconds)


def workload(experiment: Experiment, log: Sequence[LoggedJob]) -> Workload:
    """Return what a run of our system has: applications with new launchers, clusters and rules."""
    assert experiment.rank is not None
    clusters = platform(experiment.clusters)
    names = tuple(cluster.name for cluster in clusters)
    participants = tuple(
        Participant(
            id=number,
            arrives=ORIGIN + (number - 1) * INTERVAL,
            clusters=names,
            delay=0 if application.work is None else experiment.delay * TICKS,
            launcher=application.launcher(clusters),
        )
        for number, application in enumerate(_applications(experiment, log), 1)
    )
    rules = NegotiationRules(experiment.fair_start * TICKS, 0, "always", experiment.rank)
    return Workload({cluster.name: cluster.hosts for cluster in clusters}, participants, rules, TIMER, TICKS)


def _measure_ours(experiment: Experiment, log: Sequence[LoggedJob]) -> Measured:
    totals = NegotiationRun(workload(experiment, log)).run()
    return Measured(
        unique_configurations=sum(totals.configurations.values()),
        bytes=totals.bytes if experiment.largest is None else _bytes_of_lines(workload(experiment, log)),
        rms_operations=totals.rms_operations,
        application_operations=totals.application_operations,
        seconds=totals.seconds,
        waste=_seconds(totals.waste),
        complex_end=_seconds(totals.ends[experiment.place] - ORIGIN) if experiment.workload == "W1" else None,
    )


def _bytes_of_lines(run: Workload) -> int:
    """Return how many bytes all messages have as lines, without what only a real server can tell."""
    lines = io.StringIO()
    journal = Journal(lines, run.ticks)
    NegotiationRun(run, journal.note).run()
    lines_read = (json.loads(line) for line in lines.getvalue().splitlines())
    messages = ({key: line[key] for key in line if key not in ("t", "app")} for line in lines_read if "message" in line)
    return sum(len(json.dumps(message, separators=(",", ":"))) + 1 for message in messages)


def _seconds(ticks: Time) -> float:
    return float(ticks) / TICKS


def ndrms_runs(experiments: Iterable[Experiment], traces: Path) -> RunList:
    """Return experiments as runs, each once, the longest first: none of them is left over at the end."""
    ordered = sorted(
        dict.fromkeys(experiments), key=lambda fromkey: (fromkey.system == "ours", -fromkey.p_mo, -fromkey.clusters)
    )
    runs = [_parameters(experiment) for experiment in ordered]
    return RunList("ndrms", VERSION, ndrms_run, runs, {"traces": str(traces.resolve())})


def ndrms_run(run: Parameters, places: Mapping[str, str]) -> Values:
    """Do one run on the log that lies below the place ``traces``."""
    return asdict(measure(experiment_of(run), _log(places["traces"])))


def experiment_of(run: Parameters) -> Experiment:
    """Return the experiment with these parameters."""
    values: dict[str, Any] = {name: None if value == "" else value for name, value in run.items()}
    return Experiment(**values)


def _parameters(experiment: Experiment) -> Parameters:
    """Return its values by name; one that there is not is an empty text."""
    return {name: "" if value is None else value for name, value in asdict(experiment).items()}


@cache
def _log(traces: str) -> Sequence[LoggedJob]:
    return read_log(Path(traces))
