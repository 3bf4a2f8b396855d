"""For which users of the server a node may vouch: for those who have something there, and never with more rights."""

from __future__ import annotations

import pwd

from oarpy.configuration import Configuration
from oarpy.model.errors import NotAllowed
from oarpy.modules.launcher.places import Places
from oarpy.store import presence
from oarpy.store.database import Connection


def vouched_user(connection: Connection, settings: Configuration, node: str, name: str) -> int:
    """Return the id, here, of the user whom ``node`` calls ``name``; raise :class:`NotAllowed`."""
    try:
        uid = pwd.getpwnam(name).pw_uid
    except (KeyError, ValueError):
        raise NotAllowed(f"user '{name[:64]}' of node {node} has no account on the server") from None
    if uid == 0:
        raise NotAllowed(f"root of node {node} is not root of the server", hint="use this command on a frontend")
    if not _is_there(connection, settings, node, name):
        raise NotAllowed(f"'{name}' has no running job on node {node}", hint="use this command on a frontend")
    return uid


def _is_there(connection: Connection, settings: Configuration, node: str, user: str) -> bool:
    places = Places(settings.jobs)
    with connection.transaction():
        there = presence.types_there(connection, node, user)
        # what runs on a host of the site may have its resources anywhere
        anywhere = presence.types_anywhere(connection, user) if node in places.hosts else []
    found = [*(places.of(types, (node,)) for types in there), *(places.of(types, ()) for types in anywhere)]
    return any(node in names for names in found)
