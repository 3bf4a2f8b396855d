"""``oaradmin policy try``: the last days planned as now and with changes, and which users wait more or less."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from math import fsum
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape

from oarpy.client.caller import ProcessCaller, current
from oarpy.client.past.history_replay import PolicyChange, changed_past, check_change, replay_once
from oarpy.client.past.workload import read_past
from oarpy.client.rendering import Column, Table
from oarpy.client.session import Session
from oarpy.configuration import Configuration, Priority
from oarpy.model.durations import format_duration
from oarpy.model.errors import UsageError
from oarpy.model.typed_values import Misfit, from_values
from oarpy.simulation.engines.history_replay import Run
from oarpy.simulation.reports.history_report import compared
from oarpy.simulation.reports.metrics import bounded_slowdown
from oarpy.simulation.traces.past import PastJob

_MOST_REASONS = 5
"""Reasons of refusals that are shown."""


@dataclass(frozen=True, slots=True)
class GroupWaits:
    """The jobs of a user or queue that run in both worlds: mean waits (seconds) and mean bounded slowdowns."""

    kind: str
    name: str
    jobs: int
    wait_now: float
    wait_changed: float
    slowdown_now: float
    slowdown_changed: float

    @property
    def difference(self) -> float:
        """Seconds of mean wait; above 0 they would wait longer."""
        return self.wait_changed - self.wait_now


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The result of a trial: groups, the greatest loss first; jobs that changed rules refuse or that never start.

    ``reasons`` of refusals come with the number of their jobs, the most frequent first.
    """

    since: datetime
    days: float
    jobs: int
    changes: tuple[str, ...]
    groups: tuple[GroupWaits, ...]
    refused: int
    never_started: int
    reasons: tuple[tuple[str, int], ...] = ()


def try_policy(
    session: Session, days: float, change: PolicyChange, weights: Sequence[str], now: datetime
) -> TrialResult:
    """Replay the jobs of the last ``days`` twice, with the present settings and with changes, and compare.

    Both are replays, so the real events on nodes count on neither side. Raises :class:`UsageError`.
    """
    session.require_admin("try policies on everybody's jobs")
    if not isinstance(current(), ProcessCaller):
        raise UsageError("policies are tried on the server itself", hint="run oaradmin policy try there")
    if not days > 0:
        raise UsageError(f"{days:g} days are no period", hint="a number above 0")
    since = now.astimezone(UTC) - timedelta(days=days)
    altered = replace(session, configuration=_weighed(session.configuration, weights)) if weights else session
    check_change(altered, change)
    past = read_past(session, since, None)
    other = changed_past(altered, read_past(altered, since, None) if weights else past, change)
    if not any(job.measured for job in past.jobs):
        raise UsageError(f"no job of the last {days:g} days has run and ended", hint="--days gives more")
    before = replay_once(session, past, PolicyChange(), sys.stderr)
    after = replay_once(altered, other, change, sys.stderr)
    refused = {job: why for job, why in after.outcome.refused.items() if job not in before.outcome.refused}
    runs = {job.job.id: run for job, run in compared(past.jobs, after.outcome)}
    pairs = [(job, run, runs[job.job.id]) for job, run in compared(past.jobs, before.outcome) if job.job.id in runs]
    return TrialResult(
        since,
        days,
        len(pairs),
        _named(change, weights),
        (*_groups("queue", pairs), *_groups("user", pairs)),
        len(refused),
        len(after.outcome.not_started.keys() - before.outcome.not_started.keys()),
        tuple(Counter(refused.values()).most_common(_MOST_REASONS)),
    )


def _weighed(configuration: Configuration, weights: Sequence[str]) -> Configuration:
    """Return the configuration with other settings of ``[priority]``, each written as ``name=number``."""
    given: dict[str, Any] = {}
    for text in weights:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or name not in Priority.__dataclass_fields__:
            raise UsageError(f"'{text[:60]}' is no weight", hint="a setting of [priority], as age_weight=2")
        try:
            given[name] = json.loads(value)
        except ValueError:
            raise UsageError(f"'{value[:40]}' of {name} is no value", hint="as in JSON: 2, 0.5, true") from None
    try:
        known = {field: getattr(configuration.priority, field) for field in Priority.__dataclass_fields__}
        return replace(configuration, priority=from_values({**known, **given}, Priority))
    except Misfit as error:
        raise UsageError(f"weights: {error}", hint="docs/configuration.md has the settings of [priority]") from None


def _named(change: PolicyChange, weights: Sequence[str]) -> tuple[str, ...]:
    given = {
        "policy": ",".join(change.policies),
        "order": change.order,
        "quotas": change.quotas,
        "rules": change.rules and str(change.rules),
    }
    return (*(f"{name} {value}" for name, value in given.items() if value), *weights)


def _groups(kind: str, pairs: Sequence[tuple[PastJob, Run, Run]]) -> list[GroupWaits]:
    of: dict[str, list[tuple[PastJob, Run, Run]]] = {}
    for pair in pairs:
        of.setdefault(pair[0].job.queue if kind == "queue" else pair[0].job.user, []).append(pair)
    groups = [
        GroupWaits(
            kind,
            name,
            len(mine),
            _mean([now.start - past.job.submitted for past, now, _ in mine]),
            _mean([then.start - past.job.submitted for past, _, then in mine]),
            _mean([_slowdown(past, now) for past, now, _ in mine]),
            _mean([_slowdown(past, then) for past, _, then in mine]),
        )
        for name, mine in of.items()
    ]
    return sorted(groups, key=lambda group: (-group.difference, group.name))


def _slowdown(past: PastJob, run: Run) -> float:
    return bounded_slowdown(run.start - past.job.submitted, run.end - run.start)


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)


def document(result: TrialResult) -> Mapping[str, Any]:
    """Return the result as JSON: times in seconds."""
    return {
        **asdict(result),
        "since": result.since.isoformat(),
        "groups": [{**asdict(group), "difference": group.difference} for group in result.groups],
    }


_TITLES = ("", "name", "jobs", "wait now", "changed", "difference", "slowdown now", "changed")


def table(result: TrialResult) -> str:
    """Return the result as text, durations as h:m:s."""
    columns = tuple(Column(title) for title in _TITLES)
    lines = "\n".join([_headline(result), *_refusals(result)])
    return f"{lines}\n\n{Table(columns, tuple(map(_cells, result.groups))).text()}"


def page(result: TrialResult) -> str:
    """Return the result as one page of HTML that needs no other file."""
    environment = Environment(loader=PackageLoader("oarpy.client.past"), autoescape=select_autoescape())
    largest = max((abs(group.difference) for group in result.groups), default=0) or 1
    rows = [(_cells(group), group.difference > 0, 100 * abs(group.difference) / largest) for group in result.groups]
    return environment.get_template("policy_trial.html").render(
        headline=_headline(result), reasons=_refusals(result), titles=_TITLES, rows=rows
    )


def _headline(result: TrialResult) -> str:
    changes = ", ".join(result.changes) or "nothing changed"
    lost = f"; {result.refused} more refused, {result.never_started} more that never start"
    return f"{result.jobs} jobs since {result.since:%Y-%m-%d %H:%M} UTC with {changes}{lost}"


def _refusals(result: TrialResult) -> list[str]:
    return [f"refused, {jobs} of them: {reason}" for reason, jobs in result.reasons]


def _cells(waits: GroupWaits) -> tuple[str, ...]:
    sign = "-" if waits.difference < 0 else "+"
    return (
        waits.kind,
        waits.name,
        str(waits.jobs),
        format_duration(waits.wait_now),
        format_duration(waits.wait_changed),
        sign + format_duration(abs(waits.difference)),
        f"{waits.slowdown_now:.2f}",
        f"{waits.slowdown_changed:.2f}",
    )
