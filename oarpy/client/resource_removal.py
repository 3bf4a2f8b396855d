"""``oaradmin resources delete``: take back what was added and never used."""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.client.resource_selection import find
from oarpy.client.session import Session
from oarpy.model.errors import NotFound, OarpyError, UsageError
from oarpy.store import resources


def delete(session: Session, ids: Sequence[str], hosts: Sequence[str], condition: str | None) -> tuple[int, ...]:
    """Remove resources that no job ever used, and their nodes when nothing is left there; return their ids."""
    session.require_admin("delete resources")
    if not ids and not hosts and condition is None:
        raise UsageError("no resource given", hint="give ids, --host or --sql")
    with session.connection.transaction():
        resources.lock(session.connection)
        chosen = tuple(one.resource_id for one in find(session, ids, hosts, condition))
        if not chosen:
            raise NotFound("no resource meets the condition", hint="oarnodes lists them")
        used = resources.used(session.connection, chosen)
        if used:
            raise OarpyError(
                f"resource {used[0]} has been used by jobs, so history needs it",
                hint="oarnodesetting -s Dead takes it out of service; nothing was deleted",
            )
        resources.delete(session.connection, chosen)
    return chosen
