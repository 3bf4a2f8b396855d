"""A scenario file (JSON) becomes the snapshot of a scheduling pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import cast

from msgspec import UNSET

from oarpy.model import typed_values
from oarpy.model.amounts import parse_amount
from oarpy.model.dependency import Dependency, Outcome
from oarpy.model.errors import UsageError
from oarpy.model.request import Consumption, parse_request
from oarpy.model.typed_values import Misfit, shown
from oarpy.scheduler.consumables import Consumable
from oarpy.scheduler.orders import ORDERS
from oarpy.scheduler.platform import RESOURCE_ID, Platform, Resource
from oarpy.scheduler.snapshot import (
    DEFAULT_QUEUES,
    Alternative,
    HoldingJob,
    Queue,
    QuotaRule,
    Snapshot,
    WaitingJob,
)
from oarpy.simulation.scenario_fields import (
    LARGEST,
    ConsumableEntry,
    JobEntry,
    QueueEntry,
    QuotaEntry,
    RequestEntry,
    ResourceEntry,
    RunningEntry,
    ScenarioFile,
)
from oarpy.simulation.scenario_filters import admitted

_OWNERS = {
    "resources": "resource",
    "queues": "queue",
    "quotas": "quota",
    "consumables": "consumable",
    "running": "running job",
    "jobs": "job",
}
"""How errors call the entries of the lists of a scenario."""

_parsed = lru_cache(maxsize=10_000)(parse_request)


def read_scenario(text: str) -> Snapshot:
    """Read the text of a scenario. Raises :class:`UsageError` naming the key and the job that are wrong."""
    try:
        file = typed_values.from_json(text, ScenarioFile)
    except Misfit as error:
        raise _named(error) from None
    if file.security_time < 0:
        raise _wrong("scenario", "security_time", "it is below 0")
    rows = [_resource(row, rank) for rank, row in enumerate(file.resources)]
    platform = Platform.build(rows, None if file.hierarchy is UNSET else file.hierarchy)
    consumables = tuple(_consumable(entry, rank) for rank, entry in enumerate(file.consumables))
    names = frozenset(one.name for one in consumables)
    holding = tuple(_running(entry, platform, names) for entry in file.running)
    waiting = tuple(_job(entry, names) for entry in file.jobs)
    _refuse_repeated("resource", "id", (row.id for row in rows))
    _refuse_repeated("job", "id", (*(job.id for job in holding), *(job.id for job in waiting)))
    filters, errors = admitted(platform, waiting)
    return Snapshot(
        now=_exact(file.now),
        platform=platform,
        queues=DEFAULT_QUEUES if file.queues is UNSET else _queues(file.queues),
        quotas=_quotas(file.quotas),
        holding=holding,
        waiting=waiting,
        security_time=_exact(file.security_time),
        policy=file.policy,
        filters=filters,
        filter_errors=errors,
        consumables=consumables,
    )


def read_quotas(text: str) -> tuple[QuotaRule, ...]:
    """Read a JSON list of quota rules, as under the key ``quotas`` of a scenario. Raises :class:`UsageError`."""
    try:
        return _quotas(typed_values.from_json(text, list[QuotaEntry]))
    except Misfit as error:
        if not error.path:
            hint = 'for example [{"user": "/", "resources": 64}]'
            raise UsageError("quotas are a list of rules", hint=hint) from None
        raise _named(Misfit({"quotas": error.document}, ("quotas", *error.path), error.problem, error.hint)) from None


def _named(error: Misfit) -> UsageError:
    """Return the error under the name of the entry that it is about: ``job 7: request 1: key 'walltime': missing``."""
    match error.path:
        case (str(key), int(place), *rest) if key in _OWNERS:
            entry = error.document[key][place]
            number = entry.get("id") if isinstance(entry, dict) else None
            owner = f"{_OWNERS[key]} {number}" if isinstance(number, int) else _at_place(_OWNERS[key], place)
            match rest:
                case ["requests", int(request), *rest]:
                    owner = _request(owner, request)
            return Misfit(entry, tuple(rest), error.problem, error.hint).error(owner)
    return error.error("scenario")


def _at_place(what: str, place: int) -> str:
    return f"{what} at place {place + 1}"


def _request(job: str, place: int) -> str:
    return f"{job}: request {place + 1}"


def _wrong(owner: str, key: str, problem: str, hint: str = "") -> UsageError:
    return UsageError(f"{owner}: key '{key}': {problem}", hint=hint)


def _refuse_repeated(what: str, key: str, names: Iterable[object]) -> None:
    seen: set[object] = set()
    for name in names:
        if name in seen:
            raise _wrong(f"{what} {name if isinstance(name, int) else shown(name)}", key, "given twice")
        seen.add(name)


def _exact(number: float) -> float:
    """Return a whole number as an integer."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _resource(row: dict[str, object], place: int) -> Resource:
    try:
        entry = typed_values.from_values(row, ResourceEntry)
    except Misfit as error:
        number = row.get("id")
        known = isinstance(number, int)
        raise error.error(f"resource {number}" if known else _at_place("resource", place)) from None
    properties = {key: value for key, value in row.items() if key not in entry.__struct_fields__}
    for key, value in properties.items():
        if isinstance(value, dict | list):
            raise _wrong(f"resource {entry.id}", key, "a property is a string, a number, true, false or null")
    if RESOURCE_ID in properties:
        raise _wrong(f"resource {entry.id}", RESOURCE_ID, "it is the resource's id", hint="leave it out")
    return Resource(entry.id, entry.type, entry.state, properties)


def _queues(entries: Sequence[QueueEntry]) -> tuple[Queue, ...]:
    for place, entry in enumerate(entries):
        if entry.policy not in ORDERS:
            problem = f"{shown(entry.policy)} is not a policy"
            raise _wrong(_at_place("queue", place), "policy", problem, hint=f"one of {', '.join(ORDERS)}")
    _refuse_repeated("queue", "name", (entry.name for entry in entries))
    return tuple(Queue(entry.name, _exact(entry.priority), entry.policy) for entry in entries)


def _quotas(entries: Sequence[QuotaEntry]) -> tuple[QuotaRule, ...]:
    return tuple(_quota(entry, place) for place, entry in enumerate(entries))


def _quota(entry: QuotaEntry, place: int) -> QuotaRule:
    for key in ("resources", "jobs", "resource_hours"):
        limit = getattr(entry, key)
        if limit < 0 and limit != -1:
            problem = f"{limit} is not a limit"
            raise _wrong(_at_place("quota", place), key, problem, hint="0 or more, -1 for no limit")
    resources, jobs, resource_hours = map(_exact, (entry.resources, entry.jobs, entry.resource_hours))
    return QuotaRule(entry.queue, entry.project, entry.type, entry.user, resources, jobs, resource_hours)


def _consumable(entry: ConsumableEntry, place: int) -> Consumable:
    owner = _at_place("consumable", place)
    capacities = {block: _amount(owner, "capacity", amount) for block, amount in entry.capacity.items()}
    return Consumable(entry.name, entry.level, capacities)


def _amount(owner: str, key: str, value: object) -> int:
    """Read an amount: a whole number, or a text with a unit."""
    if isinstance(value, str):
        try:
            return parse_amount(value)
        except UsageError as error:
            raise _wrong(owner, key, error.message, error.hint) from None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
        raise _wrong(owner, key, f"{shown(value)} is not an amount", hint='a whole number or "16G"')
    return value


def _running(entry: RunningEntry, platform: Platform, consumables: frozenset[str]) -> HoldingJob:
    owner = f"running job {entry.id}"
    if entry.walltime < 0:
        raise _wrong(owner, "walltime", "it is below 0")
    for number in entry.resources:
        if number not in platform.position:
            raise _wrong(owner, "resources", f"there is no resource {number}")
    for name in entry.consumes:
        if name not in consumables:
            raise _wrong(owner, "consumes", f"'{name[:40]}' is not a consumable")
    return HoldingJob(
        id=entry.id,
        user=entry.user,
        start=_exact(entry.start),
        walltime=_exact(entry.walltime),
        resources=entry.resources,
        project=entry.project,
        queue=entry.queue,
        name=entry.name,
        types=entry.types,
        consumes=_consumptions(owner, entry.consumes),
    )


def _consumptions(owner: str, amounts: Mapping[str, object]) -> tuple[Consumption, ...]:
    return tuple(Consumption(name, _amount(owner, "consumes", amount)) for name, amount in amounts.items())


def _job(entry: JobEntry, consumables: frozenset[str]) -> WaitingJob:
    owner = f"job {entry.id}"
    return WaitingJob(
        id=entry.id,
        user=entry.user,
        project=entry.project,
        queue=entry.queue,
        name=entry.name,
        types=entry.types,
        submitted=_exact(entry.submitted),
        alternatives=tuple(
            [_alternative(request, _request(owner, rank), consumables) for rank, request in enumerate(entry.requests)]
        ),
        filter=entry.properties.strip(),
        depends_on=tuple([_dependency(owner, item) for item in entry.depends_on]),
        reservation=None if entry.reservation is None else _exact(entry.reservation),
    )


def _alternative(entry: RequestEntry, owner: str, consumables: frozenset[str]) -> Alternative:
    try:
        request = _parsed(entry.resources)
    except UsageError as error:
        raise _wrong(owner, "resources", error.message, error.hint) from None
    if request.walltime is not None or not request.groups:
        raise _wrong(owner, "resources", "it has a walltime", hint="the key 'walltime' holds it, in seconds")
    if unknown := [one for one in request.consumes if one.name not in consumables]:
        raise _wrong(owner, "resources", f"unexpected ',{unknown[0]}': it is not a consumable")
    if entry.walltime <= 0:
        raise _wrong(owner, "walltime", f"{entry.walltime} is not above 0")
    return Alternative(request.groups, _exact(entry.walltime), request.consumes)


def _dependency(owner: str, item: int | str) -> Dependency:
    if isinstance(item, int):
        return Dependency(item)
    outcome, colon, number = item.partition(":")
    digits = number.removeprefix("-")
    if colon and outcome in ("ok", "notok") and digits.isascii() and digits.isdigit() and len(digits) < 17:
        return Dependency(int(number), cast("Outcome", outcome))
    raise _wrong(owner, "depends_on", f"{shown(item)} is not a job", hint='an id, "ok:ID" or "notok:ID"')
