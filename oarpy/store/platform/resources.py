"""Resources as users see them: their properties, the jobs that hold them, and set-wise changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from psycopg.errors import RaiseException
from psycopg.sql import SQL, Composable, Identifier

from oarpy.model.errors import OarpyError
from oarpy.store.database import Connection
from oarpy.store.events import NewEvent, log
from oarpy.store.jobs.scope import Condition
from oarpy.store.past.reading import with_past
from oarpy.store.platform import properties

PropertyValue: TypeAlias = "int | str | bool | datetime | None"

_FIXED = ("resource_id", "type", "network_address", "state")
_TYPES = {"integer": "integer[]", "text": "text[]", "boolean": "boolean[]", "timestamptz": "timestamptz[]"}


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """One resource; ``state_since`` is in epoch seconds, ``properties`` are its columns that are not named here."""

    resource_id: int
    type: str
    network_address: str | None
    state: str
    state_by: str
    state_since: float
    properties: Mapping[str, PropertyValue]


@dataclass(frozen=True, slots=True)
class ResourceScope:
    """Resources that meet everything given (None: no restriction)."""

    resource_ids: tuple[int, ...] | None = None
    hosts: tuple[str, ...] | None = None
    condition: Condition | None = None

    def where(self) -> tuple[Composable, list[object]]:
        """Return the condition on ``resources`` named ``r``, and the values of its ``%s``."""
        parts: list[Composable] = [SQL("true")]
        values: list[object] = []
        for given, part in (
            (self.resource_ids, "r.resource_id = ANY(%s)"),
            (self.hosts, "r.network_address = ANY(%s)"),
        ):
            if given is not None:
                parts.append(SQL(part))
                values.append(list(given))
        if self.condition is not None:
            text, parameters = self.condition
            parts.append(
                SQL("r.resource_id IN (SELECT resource_id FROM resources WHERE {condition})").format(
                    condition=SQL(text)
                )
            )
            values += parameters
        return SQL(" AND ").join(parts), values


_RESOURCES = """
    SELECT r.resource_id, r.type, r.network_address, r.state, r.state_by, extract(epoch FROM r.state_since)::float8
           {columns}
    FROM resources r WHERE {where}
    ORDER BY r.network_address NULLS LAST, r.resource_id
"""

_OF_JOBS = """
    SELECT a.job_id, r.resource_id, r.type, r.network_address, r.state, r.state_by,
           extract(epoch FROM r.state_since)::float8 {columns}
    FROM assigned_resources a JOIN resources r ON r.resource_id = a.resource_id
    WHERE a.job_id = ANY(%s)
    ORDER BY a.job_id, r.resource_id
"""

# The present holders of resources, suspended or not, by the index of open assignments. In the order of jobs, PostgreSQL
# would walk through all assignments that ever existed.
_HOLDERS = """
    SELECT resource_id, job_id FROM assigned_resources
    WHERE (upper_inf(during) OR suspended) AND resource_id = ANY(%s)
"""

_UPDATE = "UPDATE resources SET {changes} WHERE resource_id = ANY(%s)"
_SET_STATE = """
    UPDATE resources SET state = %s, state_by = 'admin' WHERE resource_id = ANY(%s)
"""

_NODES = """
    INSERT INTO nodes (network_address, transport, host, port)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::integer[])
    ON CONFLICT (network_address) DO UPDATE
        SET transport = excluded.transport, host = excluded.host, port = excluded.port
"""

_INSERT = """
    INSERT INTO resources ({columns})
    SELECT {columns} FROM unnest({arrays}) WITH ORDINALITY AS given ({columns}, place) ORDER BY place
    RETURNING resource_id
"""

_USED = """
    SELECT id FROM unnest(%s::integer[]) AS id
    WHERE EXISTS (SELECT FROM assigned_resources a WHERE a.resource_id = id)
       OR EXISTS (SELECT FROM reserved_resources a WHERE a.resource_id = id)
    ORDER BY id
"""
_DELETE = "DELETE FROM resources WHERE resource_id = ANY(%s)"
_DELETE_NODES = """
    DELETE FROM nodes n WHERE NOT EXISTS (SELECT FROM resources r WHERE r.network_address = n.network_address)
"""


def resources(connection: Connection, scope: ResourceScope) -> tuple[ResourceRow, ...]:
    """Return the resources of ``scope`` by node and id."""
    names, columns = _other_columns(connection)
    where, values = scope.where()
    cursor = connection.execute(SQL(_RESOURCES).format(columns=columns, where=where), values)
    return tuple(_resource(names, row) for row in cursor.fetchall())


def of_jobs(connection: Connection, job_ids: Sequence[int]) -> tuple[tuple[int, ResourceRow], ...]:
    """Return ``(job id, resource)`` for all that the jobs hold or held."""
    names, columns = _other_columns(connection)
    cursor = connection.execute(SQL(_OF_JOBS).format(columns=columns), (list(job_ids),))
    return tuple((row[0], _resource(names, row[1:])) for row in cursor.fetchall())


def _other_columns(connection: Connection) -> tuple[list[str], Composable]:
    names = [column.name for column in properties.properties(connection) if column.name not in _FIXED]
    return names, SQL("").join(SQL(", r.{}").format(Identifier(name)) for name in names)


def _resource(names: Sequence[str], row: Sequence[Any]) -> ResourceRow:
    number, kind, address, state, state_by, since, *others = row
    return ResourceRow(number, kind, address, state, state_by, since, dict(zip(names, others, strict=True)))


def holders(connection: Connection, resource_ids: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Return the jobs that hold each of the resources now; resources without a holder are missing."""
    jobs_of: dict[int, list[int]] = defaultdict(list)
    for resource, job in connection.execute(_HOLDERS, (list(resource_ids),)):
        jobs_of[resource].append(job)
    return {resource: tuple(sorted(jobs)) for resource, jobs in jobs_of.items()}


# How many resources jobs hold now, and how many are up, among the resources that can be held.
_OCCUPATION = """
    SELECT (SELECT count(DISTINCT a.resource_id) FROM assigned_resources a WHERE upper_inf(a.during) OR a.suspended),
           (SELECT count(*) FROM resources WHERE state = 'Alive')
"""


def occupation(connection: Connection) -> tuple[int, int]:
    """Return how many resources jobs hold now, and how many are Alive."""
    row = connection.execute(_OCCUPATION).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def set_state(connection: Connection, resource_ids: Sequence[int], state: str) -> None:
    """Put the resources in ``state`` by an admin's decision, which the monitor leaves alone."""
    connection.execute(_SET_STATE, (state, list(resource_ids)))


def set_properties(connection: Connection, resource_ids: Sequence[int], values: Mapping[str, PropertyValue]) -> None:
    """Give the resources these values, by names of existing properties.

    Raises :class:`OarpyError` when a job holds an amount in the block that a resource would leave.
    """
    changes = SQL(", ").join(SQL("{} = %s").format(Identifier(name)) for name in values)
    try:
        connection.execute(SQL(_UPDATE).format(changes=changes), [*values.values(), list(resource_ids)])
    except RaiseException as error:
        raise OarpyError(error.diag.message_primary or "", hint="nothing was changed") from error


@dataclass(frozen=True, slots=True)
class AddressRow:
    """How a node is reached; ``host`` None is the node's own name, ``port`` None the configured one."""

    name: str
    transport: str
    host: str | None
    port: int | None


def describe_nodes(connection: Connection, nodes: Sequence[AddressRow]) -> None:
    """Record how these nodes are reached, whether they are known or not."""
    columns = ([n.name for n in nodes], [n.transport for n in nodes], [n.host for n in nodes], [n.port for n in nodes])
    connection.execute(_NODES, columns)


def add(
    connection: Connection, kinds: Mapping[str, str], rows: Sequence[Mapping[str, PropertyValue]]
) -> tuple[int, ...]:
    """Insert resources in one statement and return their ids; ``kinds`` gives the columns and the type of each."""
    arrays = SQL(", ").join(SQL("%s::" + _TYPES[kind]) for kind in kinds.values())
    columns = SQL(", ").join(map(Identifier, kinds))
    values = [[row.get(name) for row in rows] for name in kinds]
    statement = SQL(_INSERT).format(columns=columns, arrays=arrays)
    return tuple(int(row[0]) for row in connection.execute(statement, values).fetchall())


def used(connection: Connection, resource_ids: Sequence[int]) -> tuple[int, ...]:
    """Return the resources among these that a job holds, held or has reserved."""
    with with_past(connection):
        return tuple(row[0] for row in connection.execute(_USED, (list(resource_ids),)).fetchall())


def delete(connection: Connection, resource_ids: Sequence[int]) -> None:
    """Remove resources that no job ever used, and nodes left without any."""
    connection.execute(_DELETE, (list(resource_ids),))
    connection.execute(_DELETE_NODES)


# No other session changes resources until the end of the transaction; reading and starting jobs go on.
_LOCK = "LOCK TABLE resources IN SHARE ROW EXCLUSIVE MODE"
_HIGHEST = "SELECT {maxima} FROM resources"
_KNOWN_NODES = "SELECT network_address FROM nodes WHERE network_address = ANY(%s)"


def lock(connection: Connection) -> None:
    """Keep every other session from adding or changing resources until the end of the transaction."""
    connection.execute(_LOCK)


def highest(connection: Connection, names: Sequence[str]) -> dict[str, int]:
    """Return the highest value of each of these integer properties, 0 if there is none."""
    if not names:
        return {}
    maxima = SQL(", ").join(SQL("coalesce(max({}), 0)").format(Identifier(name)) for name in names)
    row = connection.execute(SQL(_HIGHEST).format(maxima=maxima)).fetchone()
    assert row is not None
    return dict(zip(names, row, strict=True))


def known_nodes(connection: Connection, names: Sequence[str]) -> set[str]:
    """Return the nodes among ``names`` that are described already."""
    return {row[0] for row in connection.execute(_KNOWN_NODES, (list(names),))}


def log_change(connection: Connection, nodes: Sequence[str], description: str) -> None:
    """Note an action of a user in the events of the nodes."""
    log(connection, [NewEvent("NODE_STATE_CHANGED", description, hosts=tuple(nodes))])
