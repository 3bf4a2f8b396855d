"""Who has something on a node."""

from __future__ import annotations

from oarpy.store.database import Connection

# By the index of each resource's holders.
_THERE = """
    SELECT DISTINCT j.types
    FROM resources r JOIN assigned_resources a ON a.resource_id = r.resource_id AND upper_inf(a.during)
        JOIN jobs j ON j.job_id = a.job_id
    WHERE r.network_address = %s AND j.user_name = %s
      AND j.state IN ('Launching', 'Running', 'Suspended', 'Resuming', 'Finishing')
"""

_ANYWHERE = """
    SELECT DISTINCT types FROM jobs
    WHERE user_name = %s AND state IN ('Launching', 'Running', 'Suspended', 'Resuming', 'Finishing')
"""


def types_there(connection: Connection, node: str, user: str) -> list[tuple[str, ...]]:
    """Return the different lists of types of the jobs that a user has now on resources of ``node``."""
    return [tuple(types) for (types,) in connection.execute(_THERE, (node, user))]


def types_anywhere(connection: Connection, user: str) -> list[tuple[str, ...]]:
    """Return the different lists of types of the jobs that a user has now."""
    return [tuple(types) for (types,) in connection.execute(_ANYWHERE, (user,))]
