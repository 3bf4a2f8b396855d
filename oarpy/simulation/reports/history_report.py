"""The report on the replay of a site's past: the users who would have waited more, and less."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import TextIO

from oarpy.model.durations import format_duration
from oarpy.simulation.engines.history_replay import ReplayOutcome, Run
from oarpy.simulation.reports.metrics import bounded_slowdown
from oarpy.simulation.traces.past import PastJob

CSV_COLUMNS = (
    "job",
    "user",
    "queue",
    "submit",
    "start_really",
    "start",
    "end",
    "resources",
    "wait_really",
    "wait",
    "cancelled",
)
_USER_COLUMNS = ("user", "jobs", "mean wait really", "simulated", "difference")


@dataclass(frozen=True, slots=True)
class Waits:
    """Mean and greatest wait (seconds) and mean bounded slowdown of some jobs; all 0 when there is none."""

    mean: float
    greatest: float
    bounded_slowdown: float

    @classmethod
    def of(cls, waits_and_runs: Sequence[tuple[float, float]]) -> Waits:
        """Return the figures of jobs given as (wait, run) in seconds."""
        if not waits_and_runs:
            return cls(0.0, 0.0, 0.0)
        return cls(
            fsum(wait for wait, _ in waits_and_runs) / len(waits_and_runs),
            max(wait for wait, _ in waits_and_runs),
            fsum(bounded_slowdown(wait, run) for wait, run in waits_and_runs) / len(waits_and_runs),
        )

    def record(self) -> dict[str, float]:
        """Return the JSON object."""
        return {"mean_wait": self.mean, "max_wait": self.greatest, "mean_bounded_slowdown": self.bounded_slowdown}


@dataclass(frozen=True, slots=True)
class UserWaits:
    """The jobs of a user that ran in both worlds, and their mean waits in seconds."""

    user: str
    jobs: int
    really: float
    simulated: float

    @property
    def difference(self) -> float:
        """Seconds of mean wait; above 0 they would have waited longer."""
        return self.simulated - self.really


@dataclass(frozen=True, slots=True)
class HistoryResult:
    """One replay under ``policy`` and ``order`` (None: the queues' own), which took ``seconds`` of wall-clock time."""

    policy: str
    order: str | None
    outcome: ReplayOutcome
    seconds: float


def compared(jobs: Iterable[PastJob], outcome: ReplayOutcome) -> list[tuple[PastJob, Run]]:
    """Return the measured jobs that ran in the replay too."""
    return [(past, outcome.runs[past.job.id]) for past in jobs if past.measured and past.job.id in outcome.runs]


def by_user(pairs: Sequence[tuple[PastJob, Run]]) -> list[UserWaits]:
    """Return the waits of each user, the user with the greatest loss first."""
    waits: dict[str, list[tuple[float, float]]] = {}
    for past, run in pairs:
        waits.setdefault(past.job.user, []).append((past.waited, run.start - past.job.submitted))
    users = [
        UserWaits(
            user,
            len(both),
            fsum(really for really, _ in both) / len(both),
            fsum(really for _, really in both) / len(both),
        )
        for user, both in waits.items()
    ]
    return sorted(users, key=lambda entry: (-entry.difference, entry.user))


def _totals(pairs: Sequence[tuple[PastJob, Run]]) -> tuple[Waits, Waits]:
    really = Waits.of([(past.waited, past.ran) for past, _ in pairs])
    return really, Waits.of([(run.start - past.job.submitted, run.end - run.start) for past, run in pairs])


def history_json(jobs: Sequence[PastJob], left_out: int, resources: int, results: Sequence[HistoryResult]) -> str:
    """Return the JSON summary on one line (times in seconds; ``seconds`` is wall-clock time)."""
    return json.dumps(
        {
            "source": "database",
            "resources": resources,
            "left_out": left_out,
            "replays": [_record(jobs, result) for result in results],
        }
    )


def _record(jobs: Sequence[PastJob], result: HistoryResult) -> Mapping[str, object]:
    """Return one replay as a JSON object."""
    pairs = compared(jobs, result.outcome)
    really, simulated = _totals(pairs)
    return {
        "policy": result.policy,
        "order": result.order,
        "jobs": len(pairs),
        "really": really.record(),
        "simulated": simulated.record(),
        "users": [
            {
                "user": user.user,
                "jobs": user.jobs,
                "mean_wait_really": user.really,
                "mean_wait_simulated": user.simulated,
                "difference": user.difference,
            }
            for user in by_user(pairs)
        ],
        "refused": _reasons(result.outcome.refused),
        "not_started": _reasons(result.outcome.not_started),
        "cancelled": sorted(job for job, run in result.outcome.runs.items() if run.cancelled),
        "seconds": round(result.seconds, 3),
    }


def _reasons(reasons: Mapping[int, str]) -> list[dict[str, object]]:
    return [{"job": job, "reason": reason} for job, reason in sorted(reasons.items())]


def history_table(jobs: Sequence[PastJob], left_out: int, resources: int, results: Sequence[HistoryResult]) -> str:
    """Return the same as text, durations as h:m:s."""
    lines = [f"{len(jobs)} jobs of the past on {resources} resources ({left_out} left out: they never ran)"]
    for result in results:
        lines += _replay_lines(jobs, result)
    return "\n".join(lines)


def _replay_lines(jobs: Sequence[PastJob], result: HistoryResult) -> list[str]:
    """Return one replay as lines of text."""
    pairs = compared(jobs, result.outcome)
    really, simulated = _totals(pairs)
    order = f"order {result.order}" if result.order else "the queues' own orders"
    lines = [
        "",
        f"{result.policy}, {order}: {len(pairs)} jobs compared, replayed in {result.seconds:.1f} s",
        f"  {'':<26}{'really':>12}{'simulated':>12}",
        f"  {'mean wait':<26}{format_duration(really.mean):>12}{format_duration(simulated.mean):>12}",
        f"  {'greatest wait':<26}{format_duration(really.greatest):>12}{format_duration(simulated.greatest):>12}",
        f"  {'mean bounded slowdown':<26}{really.bounded_slowdown:>12.2f}{simulated.bounded_slowdown:>12.2f}",
    ]
    rows = [_USER_COLUMNS, *(_user_row(user) for user in by_user(pairs))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_USER_COLUMNS))]
    lines += [
        "  " + "  ".join([row[0].ljust(widths[0]), *(row[n].rjust(widths[n]) for n in range(1, len(row)))])
        for row in rows
    ]
    for what, reasons in (("refused", result.outcome.refused), ("never started", result.outcome.not_started)):
        lines += [f"  {what}: job {job}: {reason}" for job, reason in sorted(reasons.items())]
    if cancelled := sorted(job for job, run in result.outcome.runs.items() if run.cancelled):
        lines.append(f"  best-effort jobs cancelled: {', '.join(map(str, cancelled))}")
    return lines


def _user_row(waits: UserWaits) -> tuple[str, ...]:
    """Return the row of one user in the table."""
    sign = "-" if waits.difference < 0 else "+"
    return (
        waits.user,
        str(waits.jobs),
        format_duration(waits.really),
        format_duration(waits.simulated),
        sign + format_duration(abs(waits.difference)),
    )


def write_history_csv(jobs: Sequence[PastJob], outcome: ReplayOutcome, out: TextIO) -> None:
    """Write one row a compared job, in order of submission; instants in epoch seconds."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for past, run in compared(jobs, outcome):
        job = past.job
        writer.writerow(
            [
                job.id,
                job.user,
                job.queue,
                job.submitted,
                job.submitted + past.waited,
                run.start,
                run.end,
                len(run.resources),
                past.waited,
                run.start - job.submitted,
                int(run.cancelled),
            ]
        )
