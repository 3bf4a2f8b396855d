"""What ``oarsub --dry-run`` prints: lines for people, or one JSON object."""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.client.rendering import JsonValue, dated, local_date, one_line
from oarpy.client.submission.dry_run import DryRun, Forecast, Place, PredictedStart
from oarpy.client.submission.report import trace_lines
from oarpy.model.durations import format_duration
from oarpy.scheduler.verdicts import Verdict

_MOST_NODES = 8


def text(run: DryRun) -> str:
    """Return the rules' notes and trace, what each alternative would get, and the verdict."""
    lines = [*run.notes, *(f"# {line}" for line in run.warnings), *trace_lines(run.trace)]
    if run.refusal is not None:
        lines.append(f"Refused: {run.refusal}")
    if run.admitted is not None and run.prediction is not None:
        asked = run.admitted.submission
        lines.append(f"Admitted: queue {asked.queue}, project {asked.project}" + _types(asked.types))
        lines += _alternatives(run.prediction)
        lines += _verdicts(run.prediction)
    lines.append("Nothing was submitted.")
    return "".join(f"{one_line(line)}\n" for line in lines)


def record(run: DryRun) -> dict[str, JsonValue]:
    """Return the JSON object of ``oarsub --dry-run -J``; times are epoch seconds, durations seconds.

    It always has ``admitted``, ``refused``, ``reason``, ``verdict``, ``trace``, ``notes``, ``warnings``. When admitted
    it also has:

    - ``queue``, ``project``, ``types``, ``properties``, ``cancelled``, ``asleep``.
    - Where it would run: ``start``, ``end`` (null without a prediction), ``resources`` (how many), ``resource_ids``,
      ``nodes``.
    - ``alternatives``, each with ``request``, ``walltime`` and those five; ``chosen``, its place there from 0, or null.
    - ``array`` with ``size``, ``planned``, ``first`` and ``last``.
    - ``reservation`` with ``date``, ``accepted`` and ``next_date``, null for others.
    """
    result: dict[str, JsonValue] = {
        "admitted": run.refusal is None,
        "refused": run.refused,
        "verdict": "refused",
        "reason": "" if run.refusal is None else str(run.refusal),
        "trace": list(run.trace),
        "notes": list(run.notes),
        "warnings": list(run.warnings),
    }
    if run.admitted is None or run.prediction is None:
        return result
    asked, found = run.admitted.submission, run.prediction
    result |= {
        "queue": asked.queue,
        "project": asked.project,
        "types": list(asked.types),
        "properties": asked.properties,
        **_forecast_record(found.first),
        "alternatives": [
            {"request": way.request, "walltime": way.walltime, **_place_record(way.place)} for way in found.ways
        ],
        "chosen": found.first.alternative,
        "cancelled": list(found.cancelled),
        "asleep": list(found.asleep),
        "array": {
            "size": found.size,
            "planned": found.planned,
            "first": _forecast_record(found.first),
            "last": _forecast_record(found.last),
        },
        "reservation": None
        if found.reservation is None
        else {"date": found.reservation, "accepted": not found.refused, "next_date": found.next_date},
    }
    return result


def _types(types: Sequence[str]) -> str:
    return f", types {', '.join(types)}" if types else ""


def _alternatives(found: PredictedStart) -> list[str]:
    lines = []
    for rank, way in enumerate(found.ways):
        chosen = " (chosen)" if rank == found.first.alternative and len(found.ways) > 1 else ""
        where = "no predicted start" if way.place is None else _where(way.place)
        lines.append(f"Alternative {rank + 1}{chosen}: {way.request},walltime={format_duration(way.walltime)}: {where}")
    return lines


def _where(place: Place) -> str:
    nodes = f" on {_named(place.nodes)}" if place.nodes else ""
    plural = "" if len(place.resources) == 1 else "s"
    return f"start {local_date(place.start)}, {len(place.resources)} resource{plural}{nodes}"


def _named(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - _MOST_NODES} more" if len(nodes) > _MOST_NODES else ""
    return ", ".join(nodes[:_MOST_NODES]) + more


def _verdicts(found: PredictedStart) -> list[str]:
    lines = []
    if found.size > 1:
        first, last = _when(found.first), _when(found.last)
        lines.append(f"Array of {found.size}: first member {first}, member {found.planned} {last}")
    lines.append(f"Verdict: {found.first.verdict}: {dated(found.first.reason)}")
    if found.asleep:
        lines.append(f"These nodes have to wake first: {_named(found.asleep)}")
    if found.reservation is not None:
        lines.append("Reservation refused." if found.refused else "Reservation accepted.")
        if found.next_date is not None:
            lines.append(f"Next possible date: {local_date(found.next_date)}")
    if found.first.verdict is Verdict.NEVER and not found.refused:
        lines.append("The job would be stored, and wait until the cluster changes.")
    return lines


def _when(forecast: Forecast) -> str:
    if forecast.place is None:
        return f"has no predicted start ({forecast.verdict})"
    return f"starts {local_date(forecast.place.start)}"


def _forecast_record(forecast: Forecast) -> dict[str, JsonValue]:
    place = _place_record(forecast.place)
    return {"verdict": str(forecast.verdict), "reason": dated(forecast.reason), **place}


def _place_record(place: Place | None) -> dict[str, JsonValue]:
    if place is None:
        return {"start": None, "end": None, "resources": 0, "resource_ids": [], "nodes": []}
    return {
        "start": place.start,
        "end": place.end,
        "resources": len(place.resources),
        "resource_ids": list(place.resources),
        "nodes": list(place.nodes),
    }
