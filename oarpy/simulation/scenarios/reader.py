"""A scenario file (JSON) becomes the snapshot of a scheduling pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, TypeVar, cast, get_args

from msgspec import UNSET, Struct

from oarpy.admission.filters.filters import Filter, compile_filter
from oarpy.model import typed_values
from oarpy.model.amounts import parse_amount
from oarpy.model.dates import NO_DATES, JobDates
from oarpy.model.dependency import Dependency, Outcome, parse_dependency
from oarpy.model.errors import UsageError
from oarpy.model.plugins import RESERVATION_ORDERS
from oarpy.model.reasons import local_instant, plain_instant
from oarpy.model.request import Consumption, parse_request
from oarpy.model.setting_values import ReservationOrder
from oarpy.model.typed_values import LARGEST, Misfit, check_named, shown
from oarpy.scheduler.levels import depths
from oarpy.scheduler.order.budgets import Project, Projects
from oarpy.scheduler.order.queue_orders import ORDERS, Order
from oarpy.scheduler.order.usage_shares import FactorRules, KarmaRules, Priorities, Usage
from oarpy.scheduler.predictors.predicted_pass import PredictedStep
from oarpy.scheduler.resources.bit_sets import bits_at
from oarpy.scheduler.resources.consumables import Consumable
from oarpy.scheduler.resources.platform import RESOURCE_ID, Platform, Resource
from oarpy.scheduler.rules.reservations import promised
from oarpy.scheduler.snapshot import (
    DEFAULT_QUEUES,
    Alternative,
    HoldingJob,
    Outage,
    PassShare,
    PowerRules,
    Queue,
    QuotaRule,
    Reservation,
    Rules,
    Snapshot,
    WaitingJob,
    WalltimeRequest,
    conditions,
)
from oarpy.scheduler.windows.reservation_windows import ReservationWindow, Windows
from oarpy.simulation.scenarios.fields import (
    ConsumableEntry,
    JobEntry,
    OutageEntry,
    PrioritiesEntry,
    ProjectEntry,
    QueueEntry,
    QuotaEntry,
    RequestEntry,
    ReservationEntry,
    ResourceEntry,
    RulesEntry,
    RunningEntry,
    ScenarioFile,
    WindowsEntry,
)

_OWNERS = {
    "resources": "resource",
    "queues": "queue",
    "quotas": "quota",
    "projects": "project",
    "consumables": "consumable",
    "running": "running job",
    "jobs": "job",
    "reservations": "reservation",
    "outages": "outage",
    "walltime_requests": "walltime request",
}
"""Names of the entries of a scenario's lists, for errors; the last two have the id of their job."""

Value = TypeVar("Value")

_AT_WORK: Mapping[object, object] = {None: None, False: False, "NO": "NO", "YES": "NO"}
"""The property ``drain`` of a node that is back, by its present values; unchanged values mean nodes at work."""


def read_scenario(text: str, orders: Mapping[str, Order] = ORDERS) -> Snapshot:
    """Read the text of a scenario. Raises :class:`UsageError` naming the wrong key and job.

    ``orders`` are the orders that queues may name.
    """
    try:
        file = typed_values.from_json(text, ScenarioFile)
    except Misfit as error:
        raise _named(error) from None
    if file.security_time < 0:
        raise _wrong("scenario", "security_time", "it is below 0")
    now, platform = _exact(file.now), _platform(file)
    consumables = tuple(_consumable(entry, rank) for rank, entry in enumerate(file.consumables))
    names = frozenset(consumable.name for consumable in consumables)
    holding = tuple(_running(entry, platform, names) for entry in file.running)
    waiting = tuple(_job(entry, names) for entry in file.jobs)
    reservations = tuple(_reservation(entry, platform, names) for entry in file.reservations)
    jobs = (*waiting, *(reservation.job for reservation in reservations))
    _refuse_repeated("job", "id", (*(job.id for job in holding), *(job.id for job in jobs)))
    filters, errors = _filters(file, platform, jobs)
    promises = (promised(reservation, now) for reservation in reservations)
    snapshot = Snapshot(
        now=now,
        platform=platform,
        queues=DEFAULT_QUEUES if file.queues is UNSET else _queues(file.queues, None if file.recorded else orders),
        quotas=_quotas(file.quotas),
        holding=(*holding, *(job for job in promises if job is not None)),
        waiting=waiting,
        security_time=_exact(file.security_time),
        policy=file.policy,
        filters=filters,
        filter_errors=errors,
        consumables=consumables,
        reservations=reservations,
        exclusive_levels=file.exclusive_levels,
        projects=_projects(file),
    )
    return _with_site(snapshot, file)


def _with_site(snapshot: Snapshot, file: ScenarioFile) -> Snapshot:
    """Return ``snapshot`` with the past, the settings and the sleeping nodes of ``file``."""
    platform, spans = snapshot.platform, _by_job("spans", file.spans)
    return replace(
        snapshot,
        quota_horizon=inf if file.quota_horizon is None else _exact(file.quota_horizon),
        outcomes=_by_job("outcomes", file.outcomes),
        amending=_by_job("amending", file.amending),
        spans={job: (_exact(start), _exact(end)) for job, (start, end) in spans.items()},
        returning=_returning(snapshot, file),
        shown=file.shown,
        outages=tuple(_outage(entry, place, platform) for place, entry in enumerate(file.outages)),
        priorities=_priorities(file.priorities),
        besteffort_minimum_life=_exact(file.besteffort_minimum_life),
        ration=_built(PassShare, file.ration),
        rules=_rules(file.rules),
        windows=None if file.windows is UNSET else _windows(file.windows),
        walltime_requests=tuple(_built(WalltimeRequest, entry) for entry in file.walltime_requests),
        asleep=_bits("scenario", "asleep", file.asleep, platform),
        power=file.power,
        rested=frozenset(file.rested),
        show_instant=local_instant if file.local_dates else plain_instant,
        step=None if file.predictions is UNSET else _predicted(file.predictions),
    )


def _predicted(predictions: Mapping[str, float]) -> PredictedStep:
    """Return the step that places jobs by their predicted run times."""
    for job, seconds in predictions.items():
        if seconds <= 0:
            raise _wrong("scenario", "predictions", f"{shown(seconds)} s of job {shown(job)} are not above 0")
    return PredictedStep({job: _exact(seconds) for job, seconds in _by_job("predictions", predictions).items()})


def _outage(entry: OutageEntry, place: int, platform: Platform) -> Outage:
    bits = _bits(_at_place("outage", place), "resources", entry.resources, platform)
    return Outage(_exact(entry.begin), bits, inf if entry.end is None else _exact(entry.end), entry.reason)


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
        case ("reservations", int(place), "job", key, *rest):
            owner, entry, rest = "job of reservation", error.document["reservations"][place]["job"], [key, *rest]
        case (str(key), int(place), *rest) if key in _OWNERS:
            owner, entry = _OWNERS[key], error.document[key][place]
        case _:
            return error.error("scenario")
    number = _id(entry)
    owner = f"{owner} {number}" if isinstance(number, int) else _at_place(owner, place)
    match rest:
        case ["requests", int(request), *rest]:
            owner = _request(owner, request)
    return Misfit(entry, tuple(rest), error.problem, error.hint).error(owner)


def _id(entry: object) -> object:
    """Return the id of an entry, which some have in the job that they are about."""
    if not isinstance(entry, dict):
        return None
    job = entry.get("job")
    return entry.get("id", job.get("id") if isinstance(job, dict) else job)


def _at_place(what: str, place: int) -> str:
    return f"{what} at place {place + 1}"


def _request(job: str, place: int) -> str:
    return f"{job}: request {place + 1}"


def _wrong(owner: str, key: str, problem: str, hint: str = "") -> UsageError:
    return UsageError(f"{owner}: key '{key}': {problem}", hint=hint)


def _refuse_repeated(what: str, key: str, names: Iterable[object]) -> None:
    """Raise :class:`UsageError` when two entries have one name."""
    seen: set[object] = set()
    for name in names:
        if name in seen:
            raise _wrong(f"{what} {name if isinstance(name, int) else shown(name)}", key, "given twice")
        seen.add(name)


def _exact(number: float) -> float:
    """Return a whole number as an integer."""
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _built(kind: type[Value], entry: Struct, **read: object) -> Value:
    """Return a value with the fields of ``entry``; the fields in ``read`` are given already converted."""
    plain: dict[str, Any] = {name: _exact(getattr(entry, name)) for name in entry.__struct_fields__ if name not in read}
    return kind(**plain, **read)


def _platform(file: ScenarioFile) -> Platform:
    """Make the platform. Resources that were recorded stay in the order of the file, as their planner had them."""
    rows = [_resource(row, rank) for rank, row in enumerate(file.resources)]
    _refuse_repeated("resource", "id", (row.id for row in rows))
    platform = Platform.build(rows, None if file.hierarchy is UNSET else file.hierarchy)
    return Platform(rows, platform.levels, platform.aliases) if file.recorded else platform


def _bits(owner: str, key: str, ids: tuple[int, ...], platform: Platform) -> int:
    """Return the ids under ``key`` as a set of resources."""
    return platform.bits_of(_known(owner, key, ids, platform))


def _known(owner: str, key: str, ids: tuple[int, ...], platform: Platform) -> tuple[int, ...]:
    """Return ``ids`` after checking that all of these resources exist."""
    for number in ids:
        if number not in platform.position:
            raise _wrong(owner, key, f"there is no resource {number}")
    return ids


def _resource(row: dict[str, object], place: int) -> Resource:
    """Make a resource; keys that are no fields of it are properties."""
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


def _queues(entries: Sequence[QueueEntry], orders: Mapping[str, Order] | None) -> tuple[Queue, ...]:
    for place, entry in enumerate(entries):
        if orders is not None and entry.order not in orders:
            problem = f"{shown(entry.order)} is not a policy"
            raise _wrong(_at_place("queue", place), "policy", problem, hint=f"one of {', '.join(orders)}")
    _refuse_repeated("queue", "name", (entry.name for entry in entries))
    lower = {entry.name: entry.gives_way_to for entry in entries if entry.gives_way_to}
    for place, entry in enumerate(entries):
        if entry.name in lower and entry.name not in depths(lower):
            raise _wrong(_at_place("queue", place), "gives_way_to", "it gives way to itself, through others")
    return tuple(_built(Queue, entry) for entry in entries)


def _quotas(entries: Sequence[QuotaEntry]) -> tuple[QuotaRule, ...]:
    return tuple(_quota(entry, place) for place, entry in enumerate(entries))


def _quota(entry: QuotaEntry, place: int) -> QuotaRule:
    for key in ("resources", "jobs", "resource_hours"):
        limit = getattr(entry, key)
        if limit < 0 and limit != -1:
            problem = f"{limit} is not a limit"
            raise _wrong(_at_place("quota", place), key, problem, hint="0 or more, -1 for no limit")
    return _built(QuotaRule, entry, valid=None if entry.valid is UNSET else tuple(map(_span, entry.valid)))


def _projects(file: ScenarioFile) -> Projects | None:
    """Return the projects that pay for jobs, None if there are none."""
    if not file.projects:
        return None
    _refuse_repeated("project", "name", (entry.name for entry in file.projects))
    by_name = {entry.name: _project(entry, place) for place, entry in enumerate(file.projects)}
    projects = Projects(by_name, {kind: _exact(weight) for kind, weight in file.billing.items()})
    for place, project in enumerate(by_name.values()):
        owner = _at_place("project", place)
        if project.parent and project.parent not in by_name:
            raise _wrong(owner, "parent", f"there is no project {shown(project.parent)}")
        if projects.line(project.name)[-1].parent:
            raise _wrong(owner, "parent", "it is below itself")
        if project.gives_way_to and project.name not in projects.levels:
            raise _wrong(owner, "gives_way_to", "it gives way to itself, through others")
    return projects


def _project(entry: ProjectEntry, place: int) -> Project:
    for key in ("share", "weight", "hours"):
        if (getattr(entry, key) or 0) < 0:
            raise _wrong(_at_place("project", place), key, "it is below 0")
    begins = (-inf,) if entry.begins is UNSET else tuple(map(_exact, entry.begins))
    if not begins or list(begins) != sorted(set(begins)):
        raise _wrong(_at_place("project", place), "begins", "instants ascend")
    hours, until = (inf if end is None else _exact(end) for end in (entry.hours, entry.until))
    used = tuple(map(_exact, entry.used))
    return _built(Project, entry, begins=begins, used=used, hours=hours, until=until)


def _span(ends: tuple[float, float | None]) -> tuple[float, float]:
    """Return the span of a rule; without an end it is valid for ever."""
    begin, end = ends
    return _exact(begin), inf if end is None else _exact(end)


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

    def amounts(key: str, entered: Mapping[str, object]) -> tuple[Consumption, ...]:
        for name in entered:
            if name not in consumables:
                raise _wrong(owner, key, f"'{name[:40]}' is not a consumable")
        return tuple(Consumption(name, _amount(owner, key, amount)) for name, amount in entered.items())

    consumes, kept = amounts("consumes", entry.consumes), amounts("kept_amounts", entry.kept_amounts)
    if not set(kept) <= set(consumes):
        raise _wrong(owner, "kept_amounts", "it has amounts that are not in 'consumes'")
    return HoldingJob.of(
        entry,
        start=_exact(entry.start),
        walltime=_exact(entry.walltime),
        checkpoint=_exact(entry.checkpoint),
        resources=_known(owner, "resources", entry.resources, platform),
        consumes=consumes,
        kept_amounts=kept,
        given_back=_bits(owner, "given_back", entry.given_back, platform),
        amounts_given_back=amounts("amounts_given_back", entry.amounts_given_back),
    )


def _job(entry: JobEntry, consumables: frozenset[str]) -> WaitingJob:
    owner = f"job {entry.id}"
    return WaitingJob.of(
        entry,
        submitted=_exact(entry.submitted),
        alternatives=tuple(
            [_alternative(request, _request(owner, rank), consumables) for rank, request in enumerate(entry.requests)]
        ),
        properties=entry.properties.strip(),
        depends_on=tuple([_dependency(owner, item) for item in entry.depends_on]),
        reservation=None if entry.reservation is None else _exact(entry.reservation),
        dates=NO_DATES if entry.dates is UNSET else _built(JobDates, entry.dates),
    )


def _reservation(entry: ReservationEntry, platform: Platform, consumables: frozenset[str]) -> Reservation:
    job = _job(entry.job, consumables)
    kept = _known(f"reservation {job.id}", "resources", entry.resources, platform)
    return _built(Reservation, entry, job=job, resources=kept)


def _alternative(entry: RequestEntry, owner: str, consumables: frozenset[str]) -> Alternative:
    try:
        request = parse_request(entry.resources)
    except UsageError as error:
        raise _wrong(owner, "resources", error.message, error.hint) from None
    if request.walltime is not None or not request.groups:
        raise _wrong(owner, "resources", "it has a walltime", hint="the key 'walltime' holds it, in seconds")
    if unknown := [consumption for consumption in request.consumes if consumption.name not in consumables]:
        raise _wrong(owner, "resources", f"unexpected ',{unknown[0]}': it is not a consumable")
    if entry.walltime <= 0:
        raise _wrong(owner, "walltime", f"{entry.walltime} is not above 0")
    return Alternative(request.groups, _exact(entry.walltime), request.consumes)


def _dependency(owner: str, item: int | str) -> Dependency:
    """Read a dependency. Ids may be below 0 here, other than after ``oarsub -a``."""
    if isinstance(item, int):
        return Dependency(item)
    outcome, colon, number = item.partition(":")
    if colon and outcome in ("ok", "notok") and _is_id(number):
        return Dependency(int(number), cast("Outcome", outcome))
    if "," not in item:
        raise _wrong(owner, "depends_on", f"{shown(item)} is not a job", hint='an id, "ok:ID" or "notok:ID"')
    try:
        dependency = parse_dependency(item)
    except UsageError as error:
        raise _wrong(owner, "depends_on", error.message, error.hint) from None
    if dependency.outcome == "corr":
        raise _wrong(owner, "depends_on", f"{shown(item)} is of an array", hint="name the job")
    return dependency


def _is_id(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 17


def _filters(
    file: ScenarioFile, platform: Platform, jobs: Sequence[WaitingJob]
) -> tuple[Mapping[str, int], Mapping[str, str]]:
    """Return the resources of conditions, and errors in some: as the file says, or else evaluated."""
    if file.filters is UNSET:
        filters, errors = admitted(platform, jobs)
        return filters, {**errors, **file.filter_errors}
    return {text: _bits("scenario", "filters", ids, platform) for text, ids in file.filters.items()}, file.filter_errors


def _returning(snapshot: Snapshot, file: ScenarioFile) -> Mapping[str, int]:
    """Return the resources of conditions when all nodes are back: as the file says, or else evaluated."""
    if file.filters is UNSET and not file.returning:
        return returning(snapshot.platform, snapshot.filters)
    return {text: _bits("scenario", "returning", ids, snapshot.platform) for text, ids in file.returning.items()}


def _by_job(key: str, values: Mapping[str, Value]) -> dict[int, Value]:
    """Return ``values`` by the ids of jobs that their keys write."""
    for job in values:
        if not _is_id(job):
            raise _wrong("scenario", key, f"{shown(job)} is not a job")
    return {int(job): value for job, value in values.items()}


def _priorities(entry: PrioritiesEntry) -> Priorities:
    usage, karma = _built(Usage, entry.usage), _built(KarmaRules, entry.karma)
    return _built(Priorities, entry, usage=usage, karma=karma, factors=_built(FactorRules, entry.factors))


def _rules(entry: RulesEntry) -> Rules:
    return _built(Rules, entry, power=None if entry.power is UNSET else _built(PowerRules, entry.power))


def _windows(entry: WindowsEntry) -> Windows:
    check_named("windows", "order", entry.order, get_args(ReservationOrder), RESERVATION_ORDERS)
    return _built(
        Windows,
        entry,
        of={job: _built(ReservationWindow, window) for job, window in _by_job("windows", entry.of).items()},
    )


def check_filters(jobs: Iterable[WaitingJob]) -> None:
    """Raise :class:`UsageError` for an invalid filter, whatever properties exist.

    Each text is read alone, so that none can change the meaning of the one it is joined with.
    """
    checked: set[str] = {""}
    for job in jobs:
        for key, text in _texts(job):
            if text not in checked:
                try:
                    compile_filter(text)
                except UsageError as error:
                    raise UsageError(f"job {job.id}: {key}: {error.message}", hint=error.hint) from None
                checked.add(text)


def admitted(platform: Platform, jobs: Sequence[WaitingJob]) -> tuple[dict[str, int], dict[str, str]]:
    """Return the resources that meet each condition of ``jobs``, and the errors in invalid conditions.

    Resources of another type than ``default`` count for conditions that name ``type``.
    """
    check_filters(jobs)
    rows = _rows(platform)
    columns = {RESOURCE_ID, "type", "state", *(name for row in rows for name in row)}
    filters: dict[str, int] = {}
    errors: dict[str, str] = {}
    for text in conditions(jobs):
        try:
            wanted = compile_filter(text, columns)
            filters[text] = _matching(wanted, rows) & (
                platform.everything if "type" in wanted.columns else platform.default_type
            )
        except UsageError as error:
            errors[text] = str(error)
    return filters, errors


def returning(platform: Platform, admitted: Mapping[str, int]) -> dict[str, int]:
    """Return the further resources of conditions that name states, were all resources Alive and not drained."""
    rows, further = _rows(platform), {}
    if all(row["state"] == "Alive" and row.get("drain") in _AT_WORK for row in rows):
        return {}
    back = [{**row, "state": "Alive", "drain": _AT_WORK.get(row.get("drain"), False)} for row in rows]
    columns = {RESOURCE_ID, "type", *(name for row in back for name in row)}
    for text, bits in admitted.items():
        wanted = compile_filter(text, columns)
        if not wanted.columns.isdisjoint({"state", "drain"}):
            of_type = platform.everything if "type" in wanted.columns else platform.default_type
            further[text] = _matching(wanted, back) & of_type & platform.not_dead & ~bits
    return further


def _matching(wanted: Filter, rows: Sequence[Mapping[str, object]]) -> int:
    return bits_at([place for place, row in enumerate(rows) if wanted.matches(row)])


def _rows(platform: Platform) -> list[dict[str, object]]:
    return [{**row.properties, RESOURCE_ID: row.id, "type": row.type, "state": row.state} for row in platform.resources]


def _texts(job: WaitingJob) -> list[tuple[str, str]]:
    """Return the filters of a job, each with its place for errors."""
    texts = [("key 'properties'", job.properties)]
    for rank, alternative in enumerate(job.alternatives):
        texts += [(f"request {rank + 1}: key 'resources'", group.filter) for group in alternative.groups]
    return texts
