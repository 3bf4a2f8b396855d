"""``oarpy reproduce mapping --real``: the optimiser of the examples as jobs with maps, on nodes of two speeds.

The nodes are processes of this machine whose iterations are padded, so few processors carry many of them. There is one
set of fast nodes, one of slow ones, and one of both. The sets run at the same time, each with a job after another.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TextIO

import psycopg

from oarpy.local_cluster.sandbox import Sandbox, Settings, local_nodes, running_sandbox
from oarpy.local_cluster.transcript import FINAL
from oarpy.model.errors import OarpyError
from research.mapping.padded_islands import WEIGHTS
from research.mapping.published_sets import MODELS
from research.runs.judged_claims import JudgedClaim, verdict

RUNS = 3
PROCESSES, ITERATIONS = 16, 600
_FAST, _SLOW = 6, 10
"""The paces of the two types: milliseconds of an iteration of the lightest size."""
REAL_SETS: Mapping[str, Sequence[int]] = {
    "fast": (_FAST,) * 4,
    "both": (_FAST,) * 2 + (_SLOW,) * 2,
    "slow": (_SLOW,) * 4,
}
"""The paces of the nodes of each set; a node has a core."""
_PATIENCE = 900.0
_ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, slots=True)
class RealRun:
    """A job that ran: what its map said it would take (seconds), what it took, and its distance from the front."""

    nodes: str
    model: str
    predicted: float
    ran: float
    computed: float
    epsilon: float


@dataclass(frozen=True, slots=True)
class RealRuns:
    """The jobs that ran; ``measured`` and ``used`` are core-seconds of the jobs that measured rates and of all."""

    runs: Sequence[RealRun]
    measured: float
    used: float


def run_for_real(err: TextIO) -> RealRuns:
    """Run all jobs on a cluster of this machine. Raises :class:`OarpyError` when one does not end in time."""
    nodes = {name: _names(name, paces) for name, paces in REAL_SETS.items()}
    # what is wrong with a prediction is to be seen, not cut
    settings: Settings = {"scheduler": {"node_type": "pace", "security_time": 1}, "processes": {"margin": 100}}
    with tempfile.TemporaryDirectory(prefix="oarpy-mapping-") as folder:
        adding = [local_nodes(f"/host={name}/cpu={{1}}/core={{1}}") for names in nodes.values() for name in names]
        with running_sandbox(Path(folder), settings, ("oarproperty", "--add", "pace", "--varchar"), *adding) as cluster:
            cluster.wait_for_gateway(30)
            for name in (name for names in nodes.values() for name in names):
                cluster.run("oarnodesetting", "-h", name, "-p", f"pace={name.rpartition('-')[2]}")
            _write_programs(cluster)
            runs = []
            for number in range(RUNS):
                for model in MODELS:
                    runs += _round(cluster, nodes, model, number)
                    err.write(f"runs: {len(runs)} of {RUNS * len(MODELS) * len(nodes)} done\n")
            return RealRuns(runs, *_core_seconds(cluster))


def _names(name: str, paces: Sequence[int]) -> list[str]:
    return [f"{name}{number}-{pace}" for number, pace in enumerate(paces)]


def _write_programs(cluster: Sandbox) -> None:
    """Write what the user has: the script that measures, and the program."""
    program = f"exec {shlex.quote(sys.executable)} -m {__package__}.padded_islands"
    for name, words in (("rate.sh", 'rate "$@"'), ("islands", 'run "$@"')):
        path = cluster.directory / "work" / name
        text = f"#!/bin/sh\nexport PYTHONPATH={shlex.quote(str(_ROOT))}\n{program} {words}\n"
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)


def _round(cluster: Sandbox, nodes: Mapping[str, Sequence[str]], model: str, number: int) -> list[RealRun]:
    """Run a job on each set at the same time."""
    asked = ("--processes", str(PROCESSES), "--iterations", str(ITERATIONS), "--sizes", ",".join(WEIGHTS))
    jobs = {}
    for name, hosts in nodes.items():
        where = f"host IN ({', '.join(repr(host) for host in hosts)})"
        files = ("-O", f"{name}-{model}-{number}", "-E", f"{name}-{model}-{number}.err")
        mapped = (*asked, "--model", model, "--rate", "./rate.sh", "-p", where, "-l", f"core={len(hosts)}")
        (job,) = cluster.job_ids(*mapped, *files, f"./islands {model}")
        jobs[name] = job
    ended = cluster.wait_for(list(jobs.values()), FINAL, _PATIENCE)
    for name, job in jobs.items():
        written = (cluster.directory / "work" / f"{name}-{model}-{number}.err").read_text(encoding="utf-8")
        if ended[job] != "Terminated" or written:
            raise OarpyError(f"job {job} on {name} nodes is {ended[job]}: {written[-500:]}")
    with psycopg.connect(cluster.dsn()) as connection:
        return [_found(connection, cluster, name, model, number, job) for name, job in jobs.items()]


def _found(
    connection: psycopg.Connection[tuple[float, float]], cluster: Sandbox, name: str, model: str, number: int, job: int
) -> RealRun:
    row = connection.execute(
        "SELECT m.seconds, extract(epoch FROM j.ended_at - j.started_at)::float8"
        " FROM mapped_jobs m JOIN jobs j USING (job_id) WHERE job_id = %s",
        [job],
    ).fetchone()
    assert row is not None
    printed = (cluster.directory / "work" / f"{name}-{model}-{number}").read_text(encoding="utf-8").split()
    computed, far = map(float, printed[-2:])
    return RealRun(name, model, row[0], row[1], computed, far)


def _core_seconds(cluster: Sandbox) -> tuple[float, float]:
    with psycopg.connect(cluster.dsn()) as connection:
        row = connection.execute(
            "SELECT coalesce(sum(seconds) FILTER (WHERE measures), 0)::float8, sum(seconds)::float8 FROM ("
            " SELECT extract(epoch FROM j.ended_at - j.started_at) * count(*) AS seconds,"
            " EXISTS (SELECT FROM rate_measurements w WHERE w.job_id = j.job_id) AS measures"
            " FROM jobs j JOIN assigned_resources a USING (job_id) WHERE j.ended_at IS NOT NULL GROUP BY j.job_id) used"
        ).fetchone()
    assert row is not None
    return row


def real_claims(found: RealRuns) -> list[JudgedClaim]:
    """Return the claims about jobs that ran."""
    claims = []
    for model, published in zip(MODELS, (8.5, 7.3), strict=True):
        errors = [100 * abs(run.predicted - run.ran) / run.ran for run in found.runs if run.model == model]
        paper = f"{model}: predictions are wrong by at most 15 % of the run in the mean (published: {published})"
        ours = f"{fmean(errors):.1f} %, {max(errors):.1f} % at most"
        claims.append(JudgedClaim(f"5b-{model}", paper, ours, True, verdict(fmean(errors) <= 15)))
    gains = {
        name: 100 * (1 - _mean(found, name, "async", "ran") / _mean(found, name, "sync", "ran")) for name in REAL_SETS
    }
    ours = ", ".join(f"{gain:.1f} % on {name} nodes" for name, gain in gains.items())
    shorter = verdict(all(gain > 0 for gain in gains.values()))
    claims.append(JudgedClaim("5c-real", "async is shorter than sync on every set", ours, True, shorter))
    share = 100 * found.measured / found.used
    cheap = "rates cost at most 5 % of the core-seconds (published: 2 % of the longest run)"
    claims.append(JudgedClaim("5a-real", cheap, f"{share:.1f} %", True, verdict(share <= 5)))
    sync, apart = (fmean(run.epsilon for run in found.runs if run.model == model) for model in MODELS)
    ours = f"epsilon {apart:.4f} async, {sync:.4f} sync"
    claims.append(JudgedClaim("5f-real", "the result of async is no worse", ours, False, verdict(apart <= sync)))
    return claims


def _mean(found: RealRuns, nodes: str, model: str, field: str) -> float:
    return fmean(getattr(run, field) for run in found.runs if (run.nodes, run.model) == (nodes, model))
