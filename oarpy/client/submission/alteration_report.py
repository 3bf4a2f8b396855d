"""The output of ``oaralter``: the changes, and the present answer of a pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypedDict

import msgspec

from oarpy.client.jobs.selection import ids_in_brief
from oarpy.client.rendering import one_line
from oarpy.client.submission.alteration import Altered
from oarpy.client.submission.dry_run import Forecast
from oarpy.client.submission.dry_run_report import (
    ForecastDocument,
    forecast_record,
    period_text,
    reason_text,
    when_text,
    where_text,
)
from oarpy.model.reasons import Change, ChangeDocument, changes_text


class AlteredDocument(TypedDict):
    """The selected jobs, and the changes of each job whose request is another now, by its number.

    ``first`` and ``last`` are the forecasts of the first and the last job; null if that job does not wait any more.
    """

    action: str
    jobs: Sequence[int]
    changes: Mapping[str, Sequence[ChangeDocument]]
    notes: Sequence[str]
    warnings: Sequence[str]
    first: ForecastDocument | None
    last: ForecastDocument | None


def text(altered: Altered, forecasts: Mapping[int, Forecast]) -> str:
    """Return the notes of the rules, a line for jobs with the same changes, and the forecasts of first and last."""
    lines = [*altered.notes, *(f"# {line}" for line in altered.warnings)]
    alike = defaultdict[tuple[Change, ...], list[int]](list)
    for job in altered.job_ids:
        alike[altered.changes.get(job, ())].append(job)
    for changes, jobs in alike.items():
        changed = changes_text(changes)
        lines.append(f"[{ids_in_brief(jobs)}] {changed or 'as asked for already: nothing was changed'}")
    first, last = altered.job_ids[0], altered.job_ids[-1]
    if first in forecasts:
        lines += _forecast_lines(forecasts[first], last, forecasts.get(last) if last != first else None)
    return "".join(f"{one_line(line)}\n" for line in lines)


def record(altered: Altered, forecasts: Mapping[int, Forecast]) -> AlteredDocument:
    """Return the JSON object of ``oaralter -J``."""
    first, last = (forecasts.get(job) for job in (altered.job_ids[0], altered.job_ids[-1]))
    return {
        "action": "alter",
        "jobs": altered.job_ids,
        "changes": {str(job): msgspec.to_builtins(changes) for job, changes in altered.changes.items()},
        "notes": altered.notes,
        "warnings": altered.warnings,
        "first": None if first is None else forecast_record(first),
        "last": None if last is None else forecast_record(last),
    }


def _forecast_lines(forecast: Forecast, last: int, of_last: Forecast | None) -> list[str]:
    return [
        f"Where: {where_text(forecast)}",
        f"When: {period_text(forecast)}" + ("" if of_last is None else f"; job {last} {when_text(of_last)}"),
        f"Why: {reason_text(forecast)}",
    ]
