"""The users for whom a broker may act here, and within which limits: read from the database at each call.

A grant is made on the cluster, by the local user or by an admin. No grant is for root or an admin.
"""

from __future__ import annotations

import pwd
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from oarpy.client.session import Session, is_administrator
from oarpy.client.submission.feasibility import KnownNeeds
from oarpy.configuration import Configuration
from oarpy.grid.door.call_context import CallContext
from oarpy.grid.door.local_user import session_of
from oarpy.model.durations import format_duration
from oarpy.model.errors import NotAllowed, NotFound, UsageError
from oarpy.model.submission import Submission
from oarpy.store.grid import grants
from oarpy.store.grid.grants import GrantRow
from oarpy.store.jobs import submissions


@contextmanager
def acting(context: CallContext, broker_user: str) -> Iterator[tuple[GrantRow, Session]]:
    """Yield the grant for the broker's user and the local user's session.

    Raises :class:`NotAllowed` without a grant.
    """
    grant = grants.find(context.connection, context.broker, broker_user)
    if grant is None:
        raise NotAllowed(
            f"nobody here lets broker '{context.broker}' act for its user '{broker_user}'",
            hint=f"on the cluster: oargridctl grant {context.broker} {broker_user}",
        )
    require_ordinary(context.configuration, grant.local_user)
    with session_of(context, grant.local_user) as session:
        yield grant, session


def check(grant: GrantRow, needs: KnownNeeds, submission: Submission) -> None:
    """Raise :class:`NotAllowed` for a submission beyond a grant; ``submission`` is the request after the rules."""
    whose = f"the grant for '{grant.broker_user}' of broker '{grant.broker}'"
    hint = "oargridctl grants shows it"
    if grant.queues and submission.queue not in grant.queues:
        raise NotAllowed(f"queue '{submission.queue}' is none of {whose}", hint=hint)
    for request in submission.alternatives:
        if grant.longest_walltime is not None and (request.walltime or 0) > grant.longest_walltime:
            most = format_duration(grant.longest_walltime)
            raise NotAllowed(
                f"walltime {format_duration(request.walltime or 0)} is above the {most} of {whose}", hint=hint
            )
        if grant.most_resources is not None:
            resources = needs.of(submission.changed(alternatives=(request,))).resources
            if resources > grant.most_resources:
                raise NotAllowed(f"{resources} resources are above the {grant.most_resources} of {whose}", hint=hint)


def require_ordinary(configuration: Configuration, user: str) -> None:
    """Raise :class:`NotFound` for a user without an account, :class:`NotAllowed` for an admin or a broker's account."""
    try:
        uid = pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        raise NotFound(f"'{user[:64]}' has no account here", hint="name a user of this cluster") from None
    if is_administrator(configuration, user, uid) or user in configuration.submission.refused_users:
        raise NotAllowed(f"no broker acts for '{user}', an admin", hint="grant it to an ordinary user")
    if user in configuration.door.brokers.values():
        raise NotAllowed(f"no broker acts for '{user}', the account of one", hint="grant it to an ordinary user")


def require_broker(configuration: Configuration, broker: str) -> None:
    """Raise :class:`NotFound` for an unknown broker."""
    brokers = configuration.door.brokers
    if broker not in brokers:
        known = ", ".join(brokers) or "nobody"
        raise NotFound(f"broker '{broker[:64]}' is not let in here", hint=f"door.brokers names {known}")


def grant(
    session: Session,
    broker: str,
    broker_user: str,
    *,
    local_user: str | None = None,
    queues: Sequence[str] = (),
    most_resources: int | None = None,
    longest_walltime: int | None = None,
) -> GrantRow:
    """Let a broker act for its user as ``local_user``, by default the caller; return the grant.

    Raises :class:`NotAllowed` for another user's account, :class:`NotFound` for an unknown broker, user or queue.
    """
    local_user = session.user if local_user is None else local_user
    session.require_owner(local_user, f"account '{local_user[:64]}'")
    require_ordinary(session.configuration, local_user)
    _check_names(session, broker, broker_user, queues)
    row = GrantRow(broker, broker_user, local_user, tuple(queues), most_resources, longest_walltime, session.user)
    with session.connection.transaction():
        there = grants.find(session.connection, broker, broker_user, lock=True)
        if there is not None:
            session.require_owner(there.local_user, f"the grant for '{broker_user}' of broker '{broker}'")
        grants.grant(session.connection, row)
    return row


def revoke(session: Session, broker: str, broker_user: str) -> GrantRow:
    """Take a grant back and return it; its jobs stay. Raises :class:`NotFound`, :class:`NotAllowed`."""
    with session.connection.transaction():
        there = grants.find(session.connection, broker, broker_user, lock=True)
        if there is None:
            raise NotFound(
                f"there is no grant for '{broker_user[:64]}' of broker '{broker[:64]}'", hint="oargridctl grants"
            )
        session.require_owner(there.local_user, f"the grant for '{broker_user}' of broker '{broker}'")
        grants.revoke(session.connection, broker, broker_user)
    return there


def visible(session: Session) -> list[GrantRow]:
    """Return the grants of the caller; all of them for an admin."""
    return grants.grants(session.connection, None if session.is_admin else session.user)


def _check_names(session: Session, broker: str, broker_user: str, queues: Sequence[str]) -> None:
    require_broker(session.configuration, broker)
    if not re.fullmatch(r"[!-~]{1,64}", broker_user):
        raise UsageError(f"'{broker_user[:64]}' cannot be a user", hint="1 to 64 letters of ASCII, without blanks")
    there = submissions.queues(session.connection)
    for queue in queues:
        if queue not in there:
            raise NotFound(f"unknown queue '{queue[:80]}'", hint=f"queues: {', '.join(there)}")
