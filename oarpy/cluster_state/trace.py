"""Snapshots and decisions as JSON; :mod:`oarpy.simulation.scenarios.reader` reads a snapshot again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, asdict, fields
from math import inf, isinf
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from oarpy.model.job_types import BESTEFFORT
from oarpy.model.reasons import Show, local_instant, sentence
from oarpy.model.request import ResourceRequest
from oarpy.scheduler.decide import Decisions
from oarpy.scheduler.gantt.gantt import bits_held
from oarpy.scheduler.plan import Placement
from oarpy.scheduler.predictors.predicted_pass import PredictedStep
from oarpy.scheduler.resources.platform import NETWORK_ADDRESS, RESOURCE_ID, Platform, Resource
from oarpy.scheduler.snapshot import (
    Alternative,
    HoldingJob,
    Outage,
    Queue,
    QuotaRule,
    Reservation,
    Snapshot,
    WaitingJob,
)
from oarpy.scheduler.verdicts import Verdict
from oarpy.scheduler.windows.reservation_windows import Windows
from oarpy.scheduler.windows.window_pass import NO_ANSWERS, WindowAnswers

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Json = dict[str, object]

_ROWS = frozenset({"id", "type", "state", RESOURCE_ID})
"""Keys of a resource that are no properties."""
_AMOUNTS = ("consumes", "kept_amounts", "amounts_given_back")
"""Fields of a job that holds resources which are amounts of consumables."""


def scenario_of(snapshot: Snapshot) -> Json:
    """Return ``snapshot`` as a scenario; its conditions are in it as the sets of resources that they admit.

    Extensions that wait are left out: a scenario has no jobs that grow.
    """
    platform, reserved = snapshot.platform, {reservation.job.id for reservation in snapshot.reservations}
    written: Json = {
        "now": snapshot.now,
        "security_time": snapshot.security_time,
        "policy": snapshot.policy,
        "hierarchy": sorted(platform.levels - {NETWORK_ADDRESS, RESOURCE_ID}),
        "recorded": True,
        "resources": [_resource(row) for row in platform.resources],
        "queues": [_queue(queue) for queue in snapshot.queues],
        "quotas": [_quota(rule) for rule in snapshot.quotas],
        "consumables": [
            {"name": consumable.name, "level": consumable.level, "capacity": dict(consumable.capacities)}
            for consumable in snapshot.consumables
        ],
        "running": [_running(job, platform) for job in snapshot.holding if job.id not in reserved],
        "jobs": [_job(job) for job in snapshot.waiting],
        "reservations": [_reservation(reservation, platform) for reservation in snapshot.reservations],
        "walltime_requests": [_changed(request) for request in snapshot.walltime_requests],
        "filters": {text: platform.ids_of(bits) for text, bits in snapshot.filters.items()},
        "filter_errors": dict(snapshot.filter_errors),
        "returning": {text: platform.ids_of(bits) for text, bits in snapshot.returning.items()},
        "shown": dict(snapshot.shown),
        "outcomes": {str(job): outcome for job, outcome in snapshot.outcomes.items()},
        "spans": {str(job): list(span) for job, span in snapshot.spans.items()},
        "outages": [_outage(outage, platform) for outage in snapshot.outages],
        "priorities": _changed(snapshot.priorities),
        "besteffort_minimum_life": snapshot.besteffort_minimum_life,
        "ration": _changed(snapshot.ration),
        "rules": _changed(snapshot.rules),
        "asleep": platform.ids_of(snapshot.asleep),
        "power": dict(snapshot.power),
        "rested": sorted(snapshot.rested),
        "local_dates": snapshot.show_instant is local_instant,
    }
    if snapshot.exclusive_levels:
        written["exclusive_levels"] = list(snapshot.exclusive_levels)
    if snapshot.projects is not None:
        written["projects"] = [_changed(project) for project in snapshot.projects.of.values()]
        written["billing"] = dict(snapshot.projects.weights)
    if snapshot.windows is not None:
        written["windows"] = _windows(snapshot.windows)
    if snapshot.amending:
        written["amending"] = {str(job): old for job, old in snapshot.amending.items()}
    if snapshot.quota_horizon < inf:
        written["quota_horizon"] = snapshot.quota_horizon
    if isinstance(snapshot.step, PredictedStep):
        written["predictions"] = _by_id(snapshot.step.runs)
    return written


def decisions_json(decided: Decisions) -> Json:
    """Return everything that was decided but the placements of waiting jobs."""
    ids_of, show = decided.kept.snapshot.platform.ids_of, decided.kept.snapshot.show_instant
    windows = {} if decided.windows == NO_ANSWERS else {"windows": _window_answers(decided.windows)}
    return {
        "starts": [
            {
                "id": start.job,
                "alternative": start.alternative,
                "walltime": start.walltime,
                "resources": ids_of(start.bits),
            }
            for start in decided.starts
        ],
        "accepted": [placement.job for placement in decided.accepted],
        "refused": [{**asdict(refusal), "reason": sentence(refusal.reason, show)} for refusal in decided.refused],
        "moved": [
            {"id": reservation.job.id, "resources": sorted(reservation.resources)} for reservation in decided.kept.moves
        ],
        "resumptions": [asdict(resumption) for resumption in decided.kept.resumptions],
        "resumed": list(decided.resumed),
        "victims": list(decided.victims),
        "awaiting": {str(job): sentence(reason, show) for job, reason in decided.awaiting.items()},
        "events": [list(event) for event in decided.events],
        "walltimes": asdict(decided.walltimes),
        "power": asdict(decided.power),
        "wake_at": instant(decided.wake_at),
        **windows,
    }


def _window_answers(answers: WindowAnswers) -> Json:
    """Return the moves of reservations inside their windows, and the answers to new requests."""
    return {
        "moves": [
            {
                "id": move.reservation.job.id,
                "start": move.reservation.start,
                "before": move.before,
                "reason": move.reason,
            }
            for move in answers.moves
        ],
        "dated": _by_id(answers.dated),
        "strict": {str(job): list(window) for job, window in answers.strict.items()},
        "offers": {str(job): [offer._asdict() for offer in some] for job, some in answers.offers.items()},
        "fixed": list(answers.fixed),
        "changed": _by_id(answers.changed),
    }


def _by_id(values: Mapping[int, object]) -> Json:
    return {str(job): value for job, value in values.items()}


def _windows(windows: Windows) -> Json:
    return {**_changed(windows, "of"), "of": {str(job): _changed(window) for job, window in windows.of.items()}}


def placement_json(placement: Placement, show: Show) -> Json:
    """Return the place of a waiting job with its verdict and reason; ``show`` writes the instants in the reason.

    A reservation whose date has come waits for best-effort jobs to go as other jobs do, though it is accepted.
    """
    waits = placement.verdict is Verdict.RESERVED and placement.victims
    return {
        "id": placement.job,
        "alternative": placement.alternative,
        "start": instant(placement.start),
        "end": instant(placement.end),
        "resources": placement.resources,
        "verdict": (Verdict.RESOURCES_BUSY if waits else placement.verdict).value,
        "reason": sentence(placement.reason, show),
    }


def instant(value: float | None) -> float | None:
    """Return whole numbers without a fraction."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _changed(value: DataclassInstance | Struct, *left_out: str) -> Json:
    """Return the fields of a flat value that differ from their defaults."""
    contents = {field.name: getattr(value, field.name) for field in _fields(value) if field.name not in left_out}
    defaults = {field.name: _default(field) for field in _fields(value)}
    return {name: _plain(content) for name, content in contents.items() if content != defaults[name]}


def _fields(value: DataclassInstance | Struct) -> Sequence[Field[object] | structs.FieldInfo]:
    return structs.fields(value) if isinstance(value, Struct) else fields(value)


def _default(field: Field[object] | structs.FieldInfo) -> object:
    return field.default_factory() if callable(field.default_factory) else field.default


def _plain(value: object) -> object:
    """Return a value as JSON has it: objects for dataclasses, lists for tuples."""
    if hasattr(value, "__dataclass_fields__"):
        return _changed(value)  # type: ignore[arg-type]
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def _resource(row: Resource) -> Json:
    """Return a resource; property values that JSON does not have become texts."""
    known = {name: value for name, value in row.properties.items() if name not in _ROWS and value is not None}
    named = {name: value if isinstance(value, (str, int, float)) else str(value) for name, value in known.items()}
    return {"id": row.id, "type": row.type, "state": row.state, **named}


def _queue(queue: Queue) -> Json:
    """Return a queue; a scenario calls its order ``policy``."""
    written = _changed(queue)
    if "order" in written:
        written["policy"] = written.pop("order")
    return written


def _quota(rule: QuotaRule) -> Json:
    """Return a quota rule; a rule valid for ever has no end in its span. A scenario calls its level ``set``."""
    written = _changed(rule, "valid")
    if "level" in written:
        written["set"] = written.pop("level")
    if rule.valid is not None:
        written["valid"] = [[begin, None if isinf(end) else end] for begin, end in rule.valid]
    return written


def _running(job: HoldingJob, platform: Platform) -> Json:
    """Return a job that holds resources, these by their ids."""
    written = _changed(job, "bits", "resources", *_AMOUNTS, "given_back", "resumes", "part")
    if job.part is not None:  # other jobs take its resources as they take those of a best-effort job
        written["types"] = [*job.types, BESTEFFORT]
    written["resources"] = platform.ids_of(bits_held(platform, job))
    for name in _AMOUNTS:
        if amounts := getattr(job, name):
            written[name] = {consumption.name: consumption.amount for consumption in amounts}
    if job.given_back:
        written["given_back"] = platform.ids_of(job.given_back)
    return written


def _job(job: WaitingJob) -> Json:
    """Return a waiting job, its dependencies as ``oarsub -a`` takes them."""
    written = _changed(job, "alternatives", "depends_on", "dates")
    written["requests"] = [_alternative(way) for way in job.alternatives]
    if job.depends_on:
        written["depends_on"] = [
            str(dependency) if "," in str(dependency) or ":" in str(dependency) else dependency.job
            for dependency in job.depends_on
        ]
    bounds = _finite(asdict(job.dates))
    return {**written, "dates": bounds} if bounds else written


def _finite(values: Mapping[str, float]) -> Json:
    return {name: value for name, value in values.items() if not isinf(value)}


def _alternative(way: Alternative) -> Json:
    return {"resources": str(ResourceRequest(way.groups, consumes=way.consumes)), "walltime": way.walltime}


def _outage(outage: Outage, platform: Platform) -> Json:
    """Return an outage; one for ever has no end."""
    ends = {} if isinf(outage.end) else {"end": outage.end}
    return {**_changed(outage, "bits", "end"), **ends, "resources": platform.ids_of(outage.bits)}


def _reservation(reservation: Reservation, platform: Platform) -> Json:
    kept: Iterable[int] = platform.ids_of(platform.bits_of(reservation.resources))
    return {
        "job": _job(reservation.job),
        "start": reservation.start,
        "walltime": reservation.walltime,
        "resources": list(kept),
        "alternative": reservation.alternative,
    }
