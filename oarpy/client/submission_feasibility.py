"""Whether a request can ever be served by the resources that exist, and how many it would take.

All resources count that are not Dead: what is absent, suspected or drained comes back, what is busy gets free. One
group is decided exactly by counting blocks in SQL; groups joined with ``+`` must also fit beside each other, which the
scheduler's own matching decides.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from oarpy.admission.filter_values import Value
from oarpy.admission.filters import Filter, compile_filter, join_conditions
from oarpy.client.submission_amounts import SqlCondition, enough, too_much
from oarpy.model.errors import AdmissionRefused, UsageError
from oarpy.model.request import Count, Group, Level, ResourceRequest
from oarpy.store.database import Connection
from oarpy.store.submissions import BlockRow, blocks, resource_values

_ALIASES: Mapping[str, str] = {"nodes": "network_address"}
_NOUNS: Mapping[str, str] = {"network_address": "nodes", "resource_id": "resources"}


@dataclass(frozen=True, slots=True)
class Impossible:
    """Why a group can never be served."""

    reason: str


def level_column(level: str, properties: Mapping[str, str]) -> str:
    """Return the column a level stands for; raise :class:`UsageError` when there is none, with close names."""
    if level in properties:
        return level
    if level in _ALIASES:
        return _ALIASES[level]
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


@dataclass(frozen=True, slots=True)
class Need:
    """The first possible alternative (its position) and how many resources it takes; warnings about impossible ones."""

    alternative: int
    resources: int
    warnings: tuple[str, ...] = ()


def needed_resources(
    connection: Connection, alternatives: tuple[ResourceRequest, ...], filter_text: str, properties: Mapping[str, str]
) -> Need:
    """Return what the first possible alternative takes, with a warning for each impossible one.

    Raises :class:`AdmissionRefused` with the reason when no alternative can ever be served.
    """
    answers = [_alternative(connection, request, filter_text, properties) for request in alternatives]
    reasons = {place: answer.reason for place, answer in enumerate(answers) if isinstance(answer, Impossible)}
    for place, answer in enumerate(answers):
        if not isinstance(answer, Impossible):
            warnings = [f"Warning: alternative {n + 1} can never run: {reason}" for n, reason in reasons.items()]
            return Need(place, answer, tuple(warnings))
    raise AdmissionRefused(f"the request can never run: {reasons[0]}", hint="oarnodes shows what exists")


def _alternative(
    connection: Connection, request: ResourceRequest, filter_text: str, properties: Mapping[str, str]
) -> int | Impossible:
    if reason := too_much(connection, request):
        return Impossible(reason)
    supply = enough(connection, request)
    total = 0
    for group in request.groups:
        answer = _group(connection, group, filter_text, properties, supply)
        if isinstance(answer, Impossible) and supply is not None:
            # say whether it is the amounts that make it impossible, or what exists at all
            without = _group(connection, group, filter_text, properties, None)
            amounts = " and ".join(map(str, request.consumes))
            if not isinstance(without, Impossible):
                return Impossible(f"{answer.reason} where there is {amounts}")
            return without
        if isinstance(answer, Impossible):
            return answer
        total += answer
    if len(request.groups) > 1:
        conditions = [_condition(group, filter_text, properties) for group in request.groups]
        if not _fit_together(connection, request.groups, conditions, properties, supply):
            return Impossible(f"the groups of {request} need more resources together than exist")
    return total


def _group(
    connection: Connection,
    group: Group,
    filter_text: str,
    properties: Mapping[str, str],
    supply: SqlCondition | None,
) -> int | Impossible:
    condition = _condition(group, filter_text, properties)
    columns = [level_column(level.name, properties) for level in group.levels]
    default_type = condition is None or "type" not in condition.columns
    answer = _count(
        group.levels,
        columns,
        blocks(
            connection, columns, _both(_undrained(condition) if condition else None, supply), default_type=default_type
        ),
    )
    if condition is None or not isinstance(answer, Impossible):
        return answer
    # say whether it is the condition that makes it impossible, or what exists at all
    anyhow = _count(group.levels, columns, blocks(connection, columns, supply, default_type=default_type))
    if isinstance(anyhow, Impossible):
        return anyhow
    return Impossible(f"{answer.reason} among those that meet {condition.text[:200]}")


def _fit_together(
    connection: Connection,
    groups: tuple[Group, ...],
    conditions: list[Filter | None],
    properties: Mapping[str, str],
    supply: SqlCondition | None,
) -> bool:
    """Tell whether an empty cluster serves all groups at once, no resource twice."""
    # imported here: most requests have one group and need neither the matching nor the numpy under it
    from oarpy.scheduler.matching import Matchers
    from oarpy.scheduler.platform import Platform, Resource
    from oarpy.store.scheduling import matching

    columns = sorted({level_column(level.name, properties) for group in groups for level in group.levels})
    resources = [
        Resource(number, kind, state, dict(zip(columns, values, strict=True)))
        for number, kind, state, values in resource_values(connection, columns)
    ]
    platform = Platform.build(resources, columns, aliases=_ALIASES)
    masks = []
    for condition in conditions:
        mask = platform.not_dead
        if condition is None or "type" not in condition.columns:
            mask &= platform.default_type
        if condition is not None:
            mask &= platform.bits_of(matching(connection, *_undrained(condition)))
        if supply is not None:
            mask &= platform.bits_of(matching(connection, *supply))
        masks.append(mask)
    return bool(Matchers(platform).request(groups, masks).match(platform.not_dead))


def _undrained(condition: Filter) -> tuple[str, tuple[Value, ...]]:
    """Return the SQL of a condition as if nothing were drained; the compiler quotes names, and binds every text."""
    text, values = condition.sql
    return text.replace('"drain"', "FALSE"), values


def _both(condition: SqlCondition | None, supply: SqlCondition | None) -> SqlCondition | None:
    if condition is None or supply is None:
        return condition or supply
    return f"({condition[0]}) AND {supply[0]}", (*condition[1], *supply[1])


def _condition(group: Group, filter_text: str, properties: Mapping[str, str]) -> Filter | None:
    joined = join_conditions(filter_text, group.filter)
    return compile_filter(joined, properties) if joined else None


def _count(levels: tuple[Level, ...], columns: list[str], rows: list[BlockRow]) -> int | Impossible:
    """Fold the blocks from the innermost level outwards: a block counts when it holds enough blocks of the next."""
    rows = [row for row in rows if row.blocks]
    if not rows:
        return Impossible(f"no resource has {' and '.join(columns)}")
    best = max(row.blocks for row in rows)
    wanted = levels[-1].count
    if best < max(wanted, 1):
        return Impossible(_short_of(levels, columns, len(levels) - 1, best))
    held = {row.path: _share(wanted, row.blocks, row.resources) for row in rows if row.blocks >= wanted}
    for depth in range(len(levels) - 2, -1, -1):
        inside: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for path, resources in held.items():
            inside[path[:depth]].append(resources)
        wanted = levels[depth].count
        best = max(map(len, inside.values()))
        if best < max(wanted, 1):
            return Impossible(_short_of(levels, columns, depth, best))
        held = {
            path: _share(wanted, len(members), sum(members))
            for path, members in inside.items()
            if len(members) >= wanted
        }
    return max(1, next(iter(held.values())))


def _share(wanted: int, blocks_there: int, resources: int) -> int:
    """Return the resources in ``wanted`` of the blocks: exact when they are alike, rounded up otherwise."""
    taken = wanted if wanted > 0 else blocks_there
    if wanted == Count.BESTHALF:
        taken = max(1, blocks_there // 2)
    return -(-resources * taken // blocks_there)


def _short_of(levels: tuple[Level, ...], columns: list[str], depth: int, best: int) -> str:
    inner = "".join(map(str, levels[depth + 1 :]))
    what = f"{_noun(columns[depth])} with {inner}" if inner else _noun(columns[depth])
    within = f" in one {_single(columns[depth - 1])}" if depth else ""
    return f"needs {levels[depth].count} {what}{within}, {best} exist"


def _noun(column: str) -> str:
    return _NOUNS.get(column, f"values of {column}" if column.endswith("s") else f"{column}s")


def _single(column: str) -> str:
    return _NOUNS.get(column, column).removesuffix("s") if column in _NOUNS else column
