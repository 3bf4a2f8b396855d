"""A scenario file (JSON) becomes the snapshot of a scheduling pass."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NoReturn, cast, get_args

from oarpy.model.amounts import parse_amount
from oarpy.model.dependency import Dependency, Outcome
from oarpy.model.errors import UsageError
from oarpy.model.request import Consumption, parse_request
from oarpy.scheduler.consumables import Consumable
from oarpy.scheduler.orders import ORDERS
from oarpy.scheduler.platform import RESOURCE_ID, Platform, Resource
from oarpy.scheduler.snapshot import (
    DEFAULT_QUEUES,
    Alternative,
    HoldingJob,
    Policy,
    Queue,
    QuotaRule,
    Snapshot,
    WaitingJob,
)
from oarpy.simulation.scenario_fields import LARGEST, Fields
from oarpy.simulation.scenario_filters import admitted

_STATES = ("Alive", "Absent", "Suspected", "Dead")


def read_scenario(text: str) -> Snapshot:
    """Read the text of a scenario. Raises :class:`UsageError` naming the key and the job that are wrong."""
    fields = Fields(_json(text), "scenario")
    now = fields.number("now", 0)
    security = fields.number("security_time", 0)
    if security < 0:
        raise fields.error("security_time", "it is below 0")
    policy = fields.text("policy", "conservative")
    if policy not in get_args(Policy):
        raise fields.error("policy", f"'{policy[:40]}' is not a policy", hint=f"one of {', '.join(get_args(Policy))}")
    rows = [_resource(value, rank) for rank, value in enumerate(fields.items("resources", required=True))]
    _refuse_repeated((row.id for row in rows), "resource")
    hierarchy = fields.texts("hierarchy") if fields.has("hierarchy") else None
    platform = Platform.build(rows, hierarchy)
    queues = _queues(fields)
    quotas = tuple(_quota(value, rank) for rank, value in enumerate(fields.items("quotas", required=False)))
    consumables = tuple(
        _consumable(value, rank) for rank, value in enumerate(fields.items("consumables", required=False))
    )
    names = frozenset(one.name for one in consumables)
    holding = tuple(_running(value, platform, names) for value in fields.items("running", required=False))
    waiting = tuple(_job(value, names) for value in fields.items("jobs", required=True))
    fields.items("hierarchy", required=False)
    fields.end()
    _refuse_repeated((*(job.id for job in holding), *(job.id for job in waiting)), "job")
    filters, errors = admitted(platform, waiting)
    return Snapshot(
        now=now,
        platform=platform,
        queues=queues,
        quotas=quotas,
        holding=holding,
        waiting=waiting,
        security_time=security,
        policy=cast("Policy", policy),
        filters=filters,
        filter_errors=errors,
        consumables=consumables,
    )


def read_quotas(text: str) -> tuple[QuotaRule, ...]:
    """Read a JSON list of quota rules, as under the key ``quotas`` of a scenario. Raises :class:`UsageError`."""
    values = _json(text)
    if not isinstance(values, list):
        raise UsageError("quotas are a list of rules", hint='for example [{"user": "/", "resources": 64}]')
    return tuple(_quota(value, rank) for rank, value in enumerate(values))


def _json(text: str) -> object:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _refuse_repeated(ids: Iterable[int], what: str) -> None:
    seen: set[int] = set()
    for number in ids:
        if number in seen:
            raise UsageError(f"{what} {number}: key 'id': given twice")
        seen.add(number)


def _resource(value: object, rank: int) -> Resource:
    fields = Fields(value, f"resource at place {rank + 1}")
    number = fields.integer("id")
    fields = fields.named(f"resource {number}")
    fields.integer("id")
    kind, state = fields.text("type", "default"), fields.text("state", "Alive")
    if state not in _STATES:
        raise fields.error("state", f"'{state[:40]}' is not a state", hint=f"one of {', '.join(_STATES)}")
    properties = fields.rest()
    if RESOURCE_ID in properties:
        raise fields.error(RESOURCE_ID, "it is the resource's id", hint="leave it out")
    return Resource(number, kind, state, properties)


def _queues(fields: Fields) -> tuple[Queue, ...]:
    if not fields.has("queues"):
        fields.items("queues", required=False)
        return DEFAULT_QUEUES
    queues = tuple(_queue(value, rank) for rank, value in enumerate(fields.items("queues", required=True)))
    names = [queue.name for queue in queues]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"queue '{name[:40]}': key 'name': given twice")
    return queues


def _queue(value: object, rank: int) -> Queue:
    fields = Fields(value, f"queue at place {rank + 1}")
    queue = Queue(fields.text("name"), fields.number("priority"), fields.text("policy", "fifo"))
    if queue.policy not in ORDERS:
        raise fields.error("policy", f"'{queue.policy[:40]}' is not a policy", hint=f"one of {', '.join(ORDERS)}")
    fields.end()
    return queue


def _quota(value: object, rank: int) -> QuotaRule:
    fields = Fields(value, f"quota at place {rank + 1}")
    patterns = [fields.text(key, "*") for key in ("queue", "project", "type", "user")]
    limits = []
    for key in ("resources", "jobs", "resource_hours"):
        limit = fields.number(key, -1)
        if limit < 0 and limit != -1:
            raise fields.error(key, f"{limit} is not a limit", hint="0 or more, -1 for no limit")
        limits.append(limit)
    fields.end()
    return QuotaRule(patterns[0], patterns[1], patterns[2], patterns[3], limits[0], limits[1], limits[2])


def _consumable(value: object, rank: int) -> Consumable:
    fields = Fields(value, f"consumable at place {rank + 1}")
    name, level = fields.text("name"), fields.text("level", "network_address")
    capacities = {block: _amount(fields, "capacity", amount) for block, amount in fields.table("capacity").items()}
    fields.end()
    return Consumable(name, level, capacities)


def _amount(fields: Fields, key: str, value: object) -> int:
    """Read an amount: a whole number, or a text with a unit."""
    if isinstance(value, str):
        try:
            return parse_amount(value)
        except UsageError as error:
            raise fields.error(key, error.message, error.hint) from None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
        raise fields.error(key, f"{value!r:.40} is not an amount", hint='a whole number or "16G"')
    return value


def _running(value: object, platform: Platform, consumables: frozenset[str]) -> HoldingJob:
    fields = Fields(value, "a running job")
    number = fields.integer("id")
    fields = fields.named(f"running job {number}")
    walltime = fields.number("walltime")
    if walltime < 0:
        raise fields.error("walltime", "it is below 0")
    job = HoldingJob(
        id=fields.integer("id"),
        user=fields.text("user"),
        start=fields.number("start"),
        walltime=walltime,
        resources=tuple(_held(fields, item, platform) for item in fields.items("resources", required=True)),
        project=fields.text("project", "default"),
        queue=fields.text("queue", "default"),
        name=fields.text("name", ""),
        types=fields.texts("types"),
        consumes=tuple(
            Consumption(name, _amount(fields, "consumes", amount))
            for name, amount in (fields.table("consumes") if fields.has("consumes") else {}).items()
        ),
    )
    if unknown := [one.name for one in job.consumes if one.name not in consumables]:
        raise fields.error("consumes", f"'{unknown[0][:40]}' is not a consumable")
    fields.number("walltime")
    fields.end()
    return job


def _held(fields: Fields, item: object, platform: Platform) -> int:
    if not isinstance(item, int) or isinstance(item, bool) or item not in platform.position:
        raise fields.error("resources", f"there is no resource {item!r:.40}")
    return item


def _job(value: object, consumables: frozenset[str]) -> WaitingJob:
    fields = Fields(value, "a waiting job")
    number = fields.integer("id")
    fields = fields.named(f"job {number}")
    requests = fields.items("requests", required=True)
    if not requests:
        raise fields.error("requests", "empty", hint="at least one alternative")
    job = WaitingJob(
        id=fields.integer("id"),
        user=fields.text("user"),
        project=fields.text("project", "default"),
        queue=fields.text("queue", "default"),
        name=fields.text("name", ""),
        types=fields.texts("types"),
        submitted=fields.number("submitted", 0),
        alternatives=tuple(_alternative(item, number, rank, consumables) for rank, item in enumerate(requests)),
        filter=fields.text("properties", "").strip(),
        depends_on=tuple(_dependency(fields, item) for item in fields.items("depends_on", required=False)),
        reservation=fields.optional_number("reservation"),
    )
    fields.end()
    return job


def _alternative(value: object, job: int, rank: int, consumables: frozenset[str]) -> Alternative:
    fields = Fields(value, f"job {job}: request {rank + 1}")
    try:
        request = parse_request(fields.text("resources"))
    except UsageError as error:
        raise fields.error("resources", error.message, error.hint) from None
    if request.walltime is not None or not request.groups:
        raise fields.error("resources", "it has a walltime", hint="the key 'walltime' holds it, in seconds")
    if unknown := [one for one in request.consumes if one.name not in consumables]:
        raise fields.error("resources", f"unexpected ',{unknown[0]}': it is not a consumable")
    walltime = fields.number("walltime")
    if walltime <= 0:
        raise fields.error("walltime", f"{walltime} is not above 0")
    fields.end()
    return Alternative(request.groups, walltime, request.consumes)


def _dependency(fields: Fields, item: object) -> Dependency:
    if isinstance(item, int) and not isinstance(item, bool):
        return Dependency(item)
    if isinstance(item, str):
        outcome, colon, number = item.partition(":")
        digits = number.removeprefix("-")
        if colon and outcome in ("ok", "notok") and digits.isascii() and digits.isdigit() and len(digits) < 17:
            return Dependency(int(number), cast("Outcome", outcome))
    raise fields.error("depends_on", f"{item!r:.60} is not a job", hint='an id, "ok:ID" or "notok:ID"')
