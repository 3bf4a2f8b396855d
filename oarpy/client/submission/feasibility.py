"""Whether a request can ever be served by the resources that exist, and how many it would take.

The planner's own matching decides, on a platform on which everything that is not Dead is free.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oarpy.admission.filters.filters import check_condition, compile_filter, join_conditions
from oarpy.admission.filters.parts import without_usual
from oarpy.client.session import Session
from oarpy.model.amounts import format_amount
from oarpy.model.billing import GPU, part_of_gpus
from oarpy.model.errors import AdmissionRefused, UsageError
from oarpy.model.job_types import read_types
from oarpy.model.request import Consumption, Count, Group, ResourceRequest
from oarpy.model.submission import Submission
from oarpy.store.database import Connection
from oarpy.store.jobs import submissions
from oarpy.store.platform.consumables import consumables

if TYPE_CHECKING:
    from oarpy.cluster_state.existing_resources import ExistingResources
    from oarpy.scheduler.resources.consumables import Consumable

_ALIASES: Mapping[str, str] = {"nodes": "network_address"}
_ACCELERATORS = ("gpu", "gpudevice", "gpu_model")
"""Properties whose names look like others, where a site has no accelerators."""
_NOUNS: Mapping[str, str] = {"network_address": "nodes", "resource_id": "resources"}


def level_column(level: str, properties: Mapping[str, str]) -> str:
    """Return the column a level stands for; raise :class:`UsageError` when there is none, with close names."""
    if level in properties:
        return level
    if level in _ALIASES:
        return _ALIASES[level]
    if level in _ACCELERATORS:
        raise UsageError(f"no resource here has a {level}", hint="oarproperty --list shows what they have")
    close = difflib.get_close_matches(level, [*properties, *_ALIASES], n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(close)}?" if close else "oarproperty --list shows the properties"
    raise UsageError(f"unknown resource level '{level}'", hint=hint)


def check_names(alternatives: tuple[ResourceRequest, ...], filter_text: str, properties: Mapping[str, str]) -> None:
    """Raise :class:`UsageError` for a level or a filter that the resources do not have."""
    if filter_text:
        compile_filter(filter_text, properties)
    for request in alternatives:
        for group in request.groups:
            columns = [level_column(level.name, properties) for level in group.levels]
            if len(set(columns)) < len(columns):
                raise UsageError(f"'{group}' names one level twice", hint="nodes is network_address")
            if group.filter:
                compile_filter(group.filter, properties)


def check_consumables(
    connection: Connection, alternatives: Sequence[ResourceRequest], properties: Mapping[str, str]
) -> None:
    """Raise :class:`UsageError` for an amount of an unknown consumable, and for a consumable in place of a level."""
    levels = {level.name for way in alternatives for group in way.groups for level in group.levels}
    wanted = [consumption.name for way in alternatives for consumption in way.consumes]
    if not wanted and levels <= {"nodes", *properties}:
        return
    known = [consumable.name for consumable in consumables(connection)]
    for name in wanted:
        if name not in known and name in {"nodes", *properties}:
            raise UsageError(f"{name} is a level, no amount: '/' stands before it", hint=f"-l nodes=1/{name}=2")
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            listed = f"consumables: {', '.join(known)}" if known else "leave it out of the request"
            raise UsageError(
                f"there is no consumable '{name}' here", hint=f"did you mean {close[0]}?" if close else listed
            )
    for name in levels & set(known) - set(properties):
        raise UsageError(f"'{name}' is a consumable, not a level", hint=f"amounts come last: /nodes=1,{name}=4")


def consumable_names(session: Session) -> tuple[str, ...]:
    """Return the names of the site's consumables."""
    return tuple(consumable.name for consumable in consumables(session.connection))


@dataclass(frozen=True, slots=True)
class Need:
    """The first possible alternative (its position) and its number of resources; warnings about impossible ones.

    What is billed: ``cores`` are the resources of type default among them, ``gpus`` the GPUs that it asks for, or its
    parts of them, ``amounts`` those of consumables on all blocks.
    """

    alternative: int
    resources: int
    warnings: tuple[str, ...] = ()
    cores: int = 0
    gpus: float = 0
    amounts: Mapping[str, int] = field(default_factory=dict)


def needed_resources(session: Session, submission: Submission) -> Need:
    """Return the need of the first possible alternative, with a warning for each impossible one.

    Raises :class:`AdmissionRefused` with the reason when no alternative can ever be served.
    """
    condition, requests = submission.properties, submission.alternatives
    existing = _existing(session, condition, requests)
    whole_nodes = read_types(submission.types).whole_nodes
    taken = [_bits(existing, request, condition, whole_nodes=whole_nodes) for request in requests]
    reasons = {
        place: _reason(existing, request, condition) for place, request in enumerate(requests) if not taken[place]
    }
    if not any(taken):
        raise AdmissionRefused(f"the request can never run: {reasons[0]}", hint="oarnodes shows what exists")
    warnings = (f"Warning: alternative {place + 1} can never run: {reason}" for place, reason in reasons.items())
    first = next(place for place, resources in enumerate(taken) if resources)
    cores = (taken[first] & existing.platform.default_type).bit_count()
    gpus, amounts = _gpus(existing, requests[first], taken[first]), _amounts(existing, requests[first], taken[first])
    return Need(first, taken[first].bit_count(), tuple(warnings), cores, gpus, amounts)


class KnownNeeds:
    """The needs of submissions of one moment, worked out once for all equal requests."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[tuple[object, ...], Need] = {}

    def of(self, submission: Submission) -> Need:
        """Return and raise as :func:`needed_resources`."""
        key = submission.properties, submission.alternatives, read_types(submission.types).whole_nodes
        if key not in self._known:
            self._known[key] = needed_resources(self._session, submission)
        return self._known[key]


def resources_taken(session: Session, request: ResourceRequest, condition: str, types: Iterable[str]) -> int:
    """Return how many resources a request takes, 0 if it can never be served. Raises :class:`UsageError`."""
    check_names((request,), condition, submissions.properties(session.connection))
    existing = _existing(session, condition, (request,))
    return _bits(existing, request, condition, whole_nodes=read_types(types).whole_nodes).bit_count()


def _existing(session: Session, condition: str, requests: Sequence[ResourceRequest]) -> ExistingResources:
    """Return the existing resources, with the properties that the request names."""
    filters = {condition, *(group.filter for request in requests for group in request.groups)} - {""}
    named = set().union(*map(check_condition, filters)) - {"drain"}
    return session.existing_reader().read(session.connection, named)


def _bits(existing: ExistingResources, request: ResourceRequest, condition: str, *, whole_nodes: bool) -> int:
    """Return the resources that the request takes as a set, which is empty if it can never be served."""
    if _too_much(existing.consumables, request):
        return 0
    masks = [existing.admitted(join_conditions(condition, group.filter), request.consumes) for group in request.groups]
    matcher = existing.matcher(request.groups, masks, whole_nodes=whole_nodes)
    return matcher.match(matcher.usable)


def _gpus(existing: ExistingResources, request: ResourceRequest, bits: int) -> float:
    """Return how many GPUs the resources belong to that the request names, or its part of those that it shares."""
    shared = [one for one in request.consumes if existing.consumables[one.name].level == GPU]
    if not shared and all(level.name != GPU for group in request.groups for level in group.levels):
        return 0
    return _blocks(existing, GPU, bits) * (part_of_gpus(shared) if shared else 1)


def _amounts(existing: ExistingResources, request: ResourceRequest, bits: int) -> dict[str, int]:
    return {
        one.name: one.amount * _blocks(existing, existing.consumables[one.name].level, bits) for one in request.consumes
    }


def _blocks(existing: ExistingResources, level: str, bits: int) -> int:
    return sum(bool(block.bits & bits) for block in existing.platform.blocks(level))


def _reason(existing: ExistingResources, request: ResourceRequest, condition: str) -> str:
    """Say why a request can never be served: amounts, a group, or the groups together."""
    if reason := _too_much(existing.consumables, request):
        return reason
    for group in request.groups:
        if not (reason := _shortage(existing, group, condition, request.consumes)):
            continue
        # say whether the amounts make it impossible, or the existing resources
        amounts = " and ".join(map(str, request.consumes))
        without = _shortage(existing, group, condition, ()) if amounts else reason
        return without or f"{reason} where there is {amounts}"
    return f"the groups of {request} need more resources together than exist"


def _too_much(consumables: Mapping[str, Consumable], request: ResourceRequest) -> str:
    """Say which amount no block has, nothing when each is somewhere."""
    for consumption in request.consumes:
        known = consumables[consumption.name]
        largest = max(known.capacities.values(), default=0)
        if largest < consumption.amount:
            return f"{consumption} is more than any {known.level} has (the largest has {format_amount(largest)})"
    return ""


def _shortage(existing: ExistingResources, group: Group, condition: str, consumes: tuple[Consumption, ...]) -> str:
    """Name the shortage for a group; empty when it can be served."""
    whole = join_conditions(condition, group.filter)
    reason = _lacking(existing, group, existing.admitted(whole, consumes))
    if not whole or not reason:
        return reason
    # say whether the condition makes it impossible, or the existing resources
    if alone := _lacking(existing, group, existing.of_type(whole, consumes)):
        return alone
    unusual = without_usual(whole)
    if existing.admitted(whole):
        return f"{reason} among those that meet {unusual[:200]}" if unusual else reason
    return f"no resource meets {unusual or whole}"


def _lacking(existing: ExistingResources, group: Group, mask: int) -> str:
    """Say which level of a group fails among the resources of ``mask``, nothing when none does."""
    # imported here, like its own imports: the numpy under it is loaded when a request is looked at
    from oarpy.scheduler.resources.matching import bottleneck

    (matcher,) = existing.matcher((group,), (mask,)).groups
    depth, best = bottleneck(matcher)
    if depth < 0:
        return ""
    columns = [level_column(level.name, existing.kinds) for level in group.levels]
    if not best and depth == len(columns) - 1:
        return f"no resource has {' and '.join(columns)}"
    level, inner = group.levels[depth], "".join(map(str, group.levels[depth + 1 :]))
    what = f"{_noun(columns[depth])} with {inner}" if inner else _noun(columns[depth])
    within = f" in one {_single(columns[depth - 1])}" if depth else ""
    wanted = Count(level.count).name if level.count < 0 else level.count
    return f"needs {wanted} {what}{within}, {best} exist"


def _noun(column: str) -> str:
    return _NOUNS.get(column, f"values of {column}" if column.endswith("s") else f"{column}s")


def _single(column: str) -> str:
    return _NOUNS.get(column, column).removesuffix("s") if column in _NOUNS else column
