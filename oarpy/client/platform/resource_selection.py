"""Resources as admins and users name them: ids, node sets, ``--sql CONDITION``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from oarpy.client.jobs.selection import parse_ids
from oarpy.client.session import Session
from oarpy.model.errors import NotFound, UsageError
from oarpy.model.resource_pattern import node_names
from oarpy.store.platform import properties, resources
from oarpy.store.platform.resources import ResourceRow, ResourceScope


def find(
    session: Session, ids: Sequence[str] = (), hosts: Sequence[str] = (), condition: str | None = None
) -> tuple[ResourceRow, ...]:
    """Return the resources with these ids or on these nodes, or that meet the condition; all when nothing is given.

    Raises :class:`NotFound` naming ids and nodes without resources.
    """
    numbers = parse_ids(ids, "resource")
    names = node_names(*hosts)
    if numbers and names:
        raise UsageError("resource ids and nodes exclude each other")
    compiled = None
    if condition is not None:
        from oarpy.admission.filters.filters import compile_filter

        columns = {row.name: row.kind for row in properties.properties(session.connection)}
        compiled = compile_filter(condition, columns, datetime.now().astimezone()).sql
    scope = ResourceScope(numbers or None, names or None, compiled)
    rows = resources.resources(session.connection, scope)
    if compiled is None:
        _require(numbers, {row.resource_id for row in rows}, "resource")
        _require(names, {row.network_address for row in rows}, "node")
    return rows


def _require(wanted: Sequence[int | str], known: set[int] | set[str | None], what: str) -> None:
    missing = [str(wanted_name) for wanted_name in wanted if wanted_name not in known]
    if missing:
        shown = ", ".join(missing[:10]) + (" ..." if len(missing) > 10 else "")
        raise NotFound(f"there is no {what} {shown}", hint="oarnodes lists them")
