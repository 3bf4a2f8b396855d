"""The output of ``oarsub --dry-run``: lines for people, or one JSON object."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NotRequired, TypedDict

from oarpy.admission.filters.parts import as_asked
from oarpy.client.jobs.description import few_starts, start_interval
from oarpy.client.rendering import local_date, one_line
from oarpy.client.submission.dry_run import DryRun, Forecast, Place, PredictedStart, Way
from oarpy.client.submission.report import trace_lines
from oarpy.model.durations import format_duration
from oarpy.model.reasons import ReasonDocument, reason_record, sentence
from oarpy.model.request import parse_request
from oarpy.model.submission import Submission
from oarpy.scheduler.forecast.start_intervals import LEVEL
from oarpy.scheduler.verdicts import Verdict

_MOST_NODES = 8


class PlaceDocument(TypedDict):
    """The nodes and the time (epoch seconds) of a job; nulls and empty lists without a prediction."""

    start: float | None
    end: float | None
    resources: int
    resource_ids: Sequence[int]
    nodes: Sequence[str]


class ForecastDocument(PlaceDocument):
    """The verdict on a job, and where and when it would run, in epoch seconds."""

    verdict: str
    reason: str
    reason_data: ReasonDocument | None


class AlternativeDocument(PlaceDocument):
    """An alternative, and where and when it alone would run, in epoch seconds; the walltime in seconds."""

    request: str
    walltime: float


class ForetoldStartDocument(TypedDict):
    """The predicted interval of the start (epoch seconds); both ends are null if too few past starts are known."""

    earliest: float | None
    latest: float | None
    level: float
    learnt_from: int


class ForetoldArrayDocument(TypedDict):
    """An array, of which so many members were planned, the first and the last of them."""

    size: int
    planned: int
    first: ForecastDocument
    last: ForecastDocument


class ForetoldWindowDocument(TypedDict):
    """The window in which a reservation may move, in epoch seconds."""

    ready: float
    deadline: float


class ForetoldOfferDocument(TypedDict):
    """Another start that a refused reservation could have, in epoch seconds."""

    start: float
    end: float
    phi: float


class ForetoldReservationDocument(TypedDict):
    """The answer to a reservation; ``window`` if it has one, ``offers`` if it is refused and there are some."""

    date: float
    accepted: bool
    next_date: int | None
    window: NotRequired[ForetoldWindowDocument]
    offers: NotRequired[Sequence[ForetoldOfferDocument]]


class _PredictionDocument(TypedDict):
    verdict: str
    reason: str
    reason_data: ReasonDocument | None
    queue: str | None
    project: str | None
    types: Sequence[str]
    properties: str
    start: float | None
    end: float | None
    resources: int
    resource_ids: Sequence[int]
    nodes: Sequence[str]
    expected_start: ForetoldStartDocument | None
    alternatives: Sequence[AlternativeDocument]
    chosen: int | None
    cancelled: Sequence[int]
    asleep: Sequence[str]
    array: ForetoldArrayDocument
    reservation: ForetoldReservationDocument | None


class DryRunDocument(TypedDict):
    """The result of a dry run; the keys after ``warnings`` are there if the submission is admitted.

    ``chosen`` is a place in ``alternatives`` from 0, ``resources`` says how many, ``reservation`` is null for others.
    Times are epoch seconds, durations seconds.
    """

    admitted: bool
    refused: bool
    verdict: str
    reason: str
    trace: Sequence[str]
    notes: Sequence[str]
    warnings: Sequence[str]
    queue: NotRequired[str | None]
    project: NotRequired[str | None]
    types: NotRequired[Sequence[str]]
    properties: NotRequired[str]
    reason_data: NotRequired[ReasonDocument | None]
    start: NotRequired[float | None]
    end: NotRequired[float | None]
    resources: NotRequired[int]
    resource_ids: NotRequired[Sequence[int]]
    nodes: NotRequired[Sequence[str]]
    expected_start: NotRequired[ForetoldStartDocument | None]
    alternatives: NotRequired[Sequence[AlternativeDocument]]
    chosen: NotRequired[int | None]
    cancelled: NotRequired[Sequence[int]]
    asleep: NotRequired[Sequence[str]]
    array: NotRequired[ForetoldArrayDocument]
    reservation: NotRequired[ForetoldReservationDocument | None]


def text(run: DryRun, *, verbose: bool = False) -> str:
    """Return the submission, where and when it would run, and why then: a line each.

    The rules' notes stand before that; with ``verbose`` also the action of each rule, and the place of each
    alternative.
    """
    lines = [*run.notes, *(f"# {line}" for line in run.warnings)]
    if verbose:
        lines += trace_lines(run.trace)
    if run.refusal is not None:
        lines.append(f"Refused: {run.refusal}")
    if run.admitted is not None and run.prediction is not None:
        if verbose:
            lines += _alternatives(run.prediction)
        lines += _four_lines(run.admitted.submission, run.prediction)
    return "".join(f"{one_line(line)}\n" for line in lines)


def record(run: DryRun) -> DryRunDocument:
    """Return the JSON object of ``oarsub --dry-run -J``."""
    result: DryRunDocument = {
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
    submission, prediction = run.admitted.submission, run.prediction
    predicted: _PredictionDocument = {
        "queue": submission.queue,
        "project": submission.project,
        "types": list(submission.types),
        "properties": submission.properties,
        **forecast_record(prediction.first),
        "expected_start": _expected_record(prediction),
        "alternatives": [
            {"request": way.request, "walltime": way.walltime, **_place_record(way.place)} for way in prediction.ways
        ],
        "chosen": prediction.first.alternative,
        "cancelled": list(prediction.cancelled),
        "asleep": list(prediction.asleep),
        "array": {
            "size": prediction.size,
            "planned": prediction.planned,
            "first": forecast_record(prediction.first),
            "last": forecast_record(prediction.last),
        },
        "reservation": None
        if prediction.reservation is None
        else _reservation_record(prediction, prediction.reservation),
    }
    return {**result, **predicted}


def _reservation_record(prediction: PredictedStart, date: float) -> ForetoldReservationDocument:
    window = prediction.window
    reservation: ForetoldReservationDocument = {
        "date": date,
        "accepted": not prediction.refused,
        "next_date": None if prediction.next_date is None else int(prediction.next_date),
    }
    if window is not None:
        reservation["window"] = {"ready": window.ready.timestamp(), "deadline": window.deadline.timestamp()}
    if prediction.offers:
        reservation["offers"] = [
            {"start": offer.start, "end": offer.end, "phi": offer.phi} for offer in prediction.offers
        ]
    return reservation


def _four_lines(submission: Submission, prediction: PredictedStart) -> list[str]:
    return [
        f"What: {_what(submission, prediction)}",
        f"Where: {where_text(prediction.first)}{_asleep(prediction)}",
        f"When: {_period(prediction)}",
        f"Why: {reason_text(prediction.first)}{_consequences(prediction)}",
        *_window(prediction),
    ]


def _window(prediction: PredictedStart) -> list[str]:
    """Return a line about the window in which a reservation may move, and one for each other start of a refused one."""
    window = prediction.window
    lines = []
    if window is not None:
        lines.append(f"Window: {local_date(window.ready.timestamp())} to {local_date(window.deadline.timestamp())}")
    lines += [
        f"Instead: {local_date(offer.start)} to {local_date(offer.end)}, phi {offer.phi:.2f}"
        for offer in prediction.offers
    ]
    return lines


def reason_text(forecast: Forecast) -> str:
    """Return the verdict and its reason, which alone is enough where it begins with the verdict."""
    reason = sentence(forecast.reason, local_date)
    return reason if reason.startswith(str(forecast.verdict)) else f"{forecast.verdict}: {reason}"


def _what(submission: Submission, prediction: PredictedStart) -> str:
    """Name the request that was chosen, or would be tried first, and the queue, project and types of the job."""
    rank = prediction.first.alternative or 0
    way = prediction.ways[rank]
    several = f" (alternative {rank + 1} of {len(prediction.ways)})" if len(prediction.ways) > 1 else ""
    size = f"array of {prediction.size}, each " if prediction.size > 1 else ""
    kinds = f", types {', '.join(submission.types)}" if submission.types else ""
    request = f"{size}{_shown(way)},walltime={format_duration(way.walltime)}{several}"
    return f"{request} in queue {submission.queue} for project {submission.project}{kinds}"


def _shown(way: Way) -> str:
    return str(as_asked(parse_request(way.request)))


def _period(prediction: PredictedStart) -> str:
    when = period_text(prediction.first) + _expected(prediction)
    return f"{when}; member {prediction.planned} {when_text(prediction.last)}" if prediction.size > 1 else when


def period_text(forecast: Forecast) -> str:
    """Return from when to when the job has its place."""
    place = forecast.place
    return "no start is predicted" if place is None else f"{local_date(place.start)} to {local_date(place.end)}"


def _expected(prediction: PredictedStart) -> str:
    """Return the predicted interval of the job, or why there is none."""
    if prediction.interval is not None:
        interval = start_interval(*prediction.interval, time.time())
        return f"; expected start: {interval} (of {prediction.past_starts} past starts like it)"
    return "" if prediction.past_starts is None else f"; {few_starts(prediction.past_starts)}"


def _asleep(prediction: PredictedStart) -> str:
    return f"; these nodes have to wake first: {_named(prediction.asleep)}" if prediction.asleep else ""


def _consequences(prediction: PredictedStart) -> str:
    """Say the other consequences: the answer of a reservation, jobs that give way, a wait without end."""
    parts = []
    if prediction.reservation is not None:
        parts.append("reservation refused" if prediction.refused else "reservation accepted")
    if prediction.next_date is not None:
        parts.append(f"next possible date: {local_date(prediction.next_date)}")
    if prediction.cancelled:
        parts.append(f"jobs that would give way: {', '.join(map(str, prediction.cancelled[:_MOST_NODES]))}")
    if prediction.first.verdict is Verdict.NEVER and not prediction.refused:
        parts.append("the job would be stored, and wait until the cluster changes")
    return "".join(f"; {part}" for part in parts)


def _alternatives(prediction: PredictedStart) -> list[str]:
    lines = []
    for rank, way in enumerate(prediction.ways):
        chosen = " (chosen)" if rank == prediction.first.alternative and len(prediction.ways) > 1 else ""
        where = "no predicted start" if way.place is None else f"{local_date(way.place.start)}, {_where(way.place)}"
        lines.append(f"Alternative {rank + 1}{chosen}: {_shown(way)},walltime={format_duration(way.walltime)}: {where}")
    return lines


def where_text(forecast: Forecast) -> str:
    """Return how many resources the job has, and on which nodes."""
    return "nowhere yet" if forecast.place is None else _where(forecast.place)


def _where(place: Place) -> str:
    nodes = f" on {_named(place.nodes)}" if place.nodes else ""
    plural = "" if len(place.resources) == 1 else "s"
    return f"{len(place.resources)} resource{plural}{nodes}"


def _named(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - _MOST_NODES} more" if len(nodes) > _MOST_NODES else ""
    return ", ".join(nodes[:_MOST_NODES]) + more


def when_text(forecast: Forecast) -> str:
    """Return when the job starts, behind a word for it."""
    if forecast.place is None:
        return f"has no predicted start ({forecast.verdict})"
    return f"starts {local_date(forecast.place.start)}"


def forecast_record(forecast: Forecast) -> ForecastDocument:
    """Return the object of JSON that tells of one job."""
    place = _place_record(forecast.place)
    return {
        "verdict": str(forecast.verdict),
        "reason": sentence(forecast.reason, local_date),
        "reason_data": reason_record(forecast.reason),
        **place,
    }


def _expected_record(prediction: PredictedStart) -> ForetoldStartDocument | None:
    if prediction.past_starts is None:
        return None
    earliest, latest = prediction.interval or (None, None)
    return {"earliest": earliest, "latest": latest, "level": LEVEL, "learnt_from": prediction.past_starts}


def _place_record(place: Place | None) -> PlaceDocument:
    if place is None:
        return {"start": None, "end": None, "resources": 0, "resource_ids": [], "nodes": []}
    return {
        "start": place.start,
        "end": place.end,
        "resources": len(place.resources),
        "resource_ids": list(place.resources),
        "nodes": list(place.nodes),
    }
