"""``oarpy simulate --from-database``: the site's own past under another policy, order, quotas or rules."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TextIO, cast

from oarpy.client.past.admission import AdmissionAnew, read_rules
from oarpy.client.past.workload import PastWorkload, read_past, rules_of
from oarpy.client.platform.quota_file import QuotaFile
from oarpy.client.platform.quotas import read as read_file
from oarpy.client.session import Session
from oarpy.cluster_state.order_plugins import SiteOrders
from oarpy.model.errors import UsageError
from oarpy.model.setting_values import POLICIES, PolicyName
from oarpy.scheduler.resources.bit_sets import positions
from oarpy.scheduler.snapshot import QuotaRule
from oarpy.simulation.charts.gantt import check_plot, write_plot
from oarpy.simulation.charts.processor_rows import Bar
from oarpy.simulation.engines.history_replay import HistoryReplay, ReplayOutcome
from oarpy.simulation.reports.history_report import HistoryResult, history_json, history_table, write_history_csv
from oarpy.simulation.reports.output_files import ProgressBar, check_places, own_file, write_file
from oarpy.simulation.scenarios.reader import read_quotas
from oarpy.simulation.traces.past import Admission, admit_as_they_were


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """The differences from the present cluster; none, by default.

    ``policies`` and ``order`` are names, ``quotas`` a file of rules or ``none``, ``rules`` a folder of admission rules.
    """

    policies: Sequence[str] = ()
    order: str | None = None
    quotas: str | None = None
    rules: Path | None = None


@dataclass(frozen=True, slots=True)
class Sinks:
    """The outputs of the replay beside ``stdout``: CSV file and picture, progress on ``stderr``."""

    as_json: bool = False
    output: Path | None = None
    plot: Path | None = None
    stdout: TextIO | None = None
    stderr: TextIO | None = None


def replay_history(
    session: Session, since: datetime | None, until: datetime | None, change: PolicyChange, sinks: Sinks
) -> int:
    """Replay the jobs submitted between ``since`` and ``until`` with ``change``, print which users wait more or less.

    Returns the exit status, 0. Raises :class:`UsageError` for a period without jobs and for unknown names.
    """
    if since is not None and until is not None and since >= until:
        raise UsageError("the period is empty", hint="--since is before --until")
    check_plot(sinks.plot)
    policies = _policies(session, change)
    check_places((sinks.output, sinks.plot), policies)
    rules = None if change.rules is None else read_rules(change.rules)
    past = changed_past(session, read_past(session, since, until), change)
    if not any(job.measured for job in past.jobs):
        raise UsageError("no job of that period has run and ended", hint="oarstat --gantt shows when jobs ran")
    results = []
    for policy in policies:
        admission: Admission = admit_as_they_were if rules is None else AdmissionAnew(session, past, rules)
        result = _replay(session, past, policy, change.order, admission, sinks.stderr or sys.stderr)
        results.append(result)
        if sinks.output is not None:
            write_file(own_file(sinks.output, policy, policies), partial(write_history_csv, past.jobs, result.outcome))
        if sinks.plot is not None:
            bars = _bars(past, result.outcome)
            rows = len(past.base.platform.ids)
            write_plot(own_file(sinks.plot, policy, policies), bars, rows, f"the past under {policy}")
    render = history_json if sinks.as_json else history_table
    resources = past.base.platform.default_type.bit_count()
    (sinks.stdout or sys.stdout).write(render(past.jobs, past.left_out, resources, results) + "\n")
    return 0


def replay_once(session: Session, past: PastWorkload, change: PolicyChange, err: TextIO) -> HistoryResult:
    """Replay a past that is already changed, under the one policy of ``change`` and through its rules."""
    (policy,) = _policies(session, change)
    rules = None if change.rules is None else read_rules(change.rules)
    admission: Admission = admit_as_they_were if rules is None else AdmissionAnew(session, past, rules)
    return _replay(session, past, policy, change.order, admission, err)


def check_change(session: Session, change: PolicyChange) -> None:
    """Raise :class:`UsageError` for policies, orders and rules that are not there, before anything is replayed."""
    _policies(session, change)
    if change.rules is not None:
        read_rules(change.rules)


def _policies(session: Session, change: PolicyChange) -> Sequence[PolicyName]:
    names = change.policies or [session.configuration.scheduler.policy]
    for name in names:
        if name not in POLICIES:
            raise UsageError(f"unknown policy '{name[:40]}'", hint="use one of " + ", ".join(POLICIES))
    if len(set(names)) < len(names):
        raise UsageError(f"a policy is given twice in '{','.join(names)}'", hint="name each policy once")
    if change.order is not None and change.order not in (known := SiteOrders()):
        raise UsageError(
            f"unknown order '{change.order[:40]}'", hint="use one of " + ", ".join(known) + ", or NAME/SECONDS"
        )
    return [cast("PolicyName", name) for name in names]


def _quotas(session: Session, source: str) -> tuple[QuotaRule, ...] | QuotaFile:
    """Read a list of rules as a scenario has it, or an object as ``oaradmin quotas load`` reads it."""
    if source == "none":
        return ()
    try:
        text = Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"cannot read the quotas '{source}': {reason}", hint="a JSON file, or none") from None
    try:
        if text.lstrip().startswith("{"):
            return read_file(session, text)
        return read_quotas(text)
    except UsageError as error:
        raise UsageError(f"{source}: {error.message}", hint=error.hint) from None


def changed_past(session: Session, past: PastWorkload, change: PolicyChange) -> PastWorkload:
    """Return a past with the order and the quotas of ``change``."""
    base = past.base
    if change.order is not None:
        base = replace(base, queues=tuple(replace(queue, order=change.order) for queue in base.queues))
    if change.quotas is not None:
        quotas = _quotas(session, change.quotas)
        rules = rules_of(quotas, past) if isinstance(quotas, QuotaFile) else quotas
        base = replace(base, quotas=(*rules, *(rule for rule in base.quotas if rule.of_jobs)))
    return replace(past, base=base)


def _replay(
    session: Session, past: PastWorkload, policy: PolicyName, order: str | None, admission: Admission, err: TextIO
) -> HistoryResult:
    began = time.perf_counter()
    replayed = HistoryReplay(
        replace(past.base, policy=policy),
        past.jobs,
        past.occupations,
        SiteOrders(),
        admission=admission,
        usage_window=session.configuration.priority.window,
    )
    with ProgressBar(policy, len(past.jobs), err) as bar:
        outcome = replayed.run(bar)
    return HistoryResult(policy, order, outcome, time.perf_counter() - began)


def _bars(past: PastWorkload, outcome: ReplayOutcome) -> list[Bar]:
    """Return the jobs of the replay on the rows of their resources."""
    platform = past.base.platform
    submitted = {job.job.id: job.job.submitted for job in past.jobs}
    return [
        Bar(job, submitted[job], run.start, run.end - run.start, list(positions(platform.bits_of(run.resources))))
        for job, run in outcome.runs.items()
    ]
