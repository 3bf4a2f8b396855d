"""``oarstat --failures``: the failed members of an array, by error and place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oarpy.client.caller import current
from oarpy.client.jobs.description import end_reason
from oarpy.client.jobs.selection import ids_in_brief
from oarpy.client.rendering import RED, Column, JsonValue, Look, Report, Table, TwoForms
from oarpy.client.session import Session
from oarpy.model.errors import NotFound
from oarpy.model.file_names import file_name
from oarpy.store.jobs import job_listing, scope
from oarpy.store.jobs.job_listing import ArrayProgress, FailedMember
from oarpy.store.jobs.scope import JobScope

MOST_SAMPLES = 20
"""Groups whose output files are looked into."""


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Members that failed on a node (or on none) for the same cause; ``sample``: the last line of a stderr."""

    cause: str
    node: str
    members: tuple[FailedMember, ...]
    sample: str = ""


def failures(session: Session, array_id: int, seen: Look) -> Report[dict[str, JsonValue]]:
    """Return the failures of an array, the most frequent first; raise :class:`NotFound` for no such array."""
    array = JobScope(array_ids=(array_id,), live=False)
    with scope.reached(session.connection, array):
        progress = job_listing.array_progress(session.connection, [array_id]).get(array_id)
        members = job_listing.failed_members(session.connection, array_id)
    if progress is None:
        raise NotFound(f"array {array_id} does not exist", hint="oarstat lists the jobs")
    may_look = all(session.is_admin or member.user == session.user for member in members)
    groups = grouped(members, last_line if may_look else lambda _: "")
    return TwoForms(lambda: _text(array_id, progress, groups, seen), lambda: _document(array_id, progress, groups))


def grouped(members: Sequence[FailedMember], sample: Callable[[FailedMember], str]) -> list[FailureGroup]:
    """Return ``members`` by cause and node, with a ``sample`` of the first of each group."""
    groups: dict[tuple[str, str], list[FailedMember]] = {}
    for member in members:
        groups.setdefault((_cause(member), _node(member)), []).append(member)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return [
        FailureGroup(what, node, tuple(some), sample(some[0]) if place < MOST_SAMPLES else "")
        for place, ((what, node), some) in enumerate(ordered)
    ]


def last_line(member: FailedMember) -> str:
    """Return the last line of the member's stderr, read as the caller may; empty when there is none."""
    if not member.stderr:
        return ""
    named = file_name(
        member.stderr, job=member.job_id, name=member.name, array=member.array_id, index=member.array_index
    )
    path = named if named.startswith("/") else f"{member.directory}/{named}"
    return current().last_line(path)


def _cause(member: FailedMember) -> str:
    return end_reason(member.state, member.exit_status, member.events)


def _node(member: FailedMember) -> str:
    more = len(member.hosts) - 1
    return (member.hosts[0] if member.hosts else "") + (f" +{more}" if more > 0 else "")


def _text(array_id: int, progress: ArrayProgress, groups: Sequence[FailureGroup], seen: Look) -> str:
    failed = sum(len(group.members) for group in groups)
    head = f"Array {array_id}: {progress.ended} of {progress.size} ended, {failed} failed.\n"
    if not groups:
        return head
    columns = (
        Column("Cause", 12, colour=lambda _: RED),
        Column("Node", 8),
        Column("Failed", 6),
        Column("Members", 8),
        Column("Last line of stderr", 20),
    )
    rows = tuple(
        (
            group.cause,
            group.node,
            str(len(group.members)),
            ids_in_brief([m.array_index for m in group.members]),
            group.sample,
        )
        for group in groups
    )
    again = f"oarsub --resubmit-failed {array_id} submits these again.\n"
    return head + Table(columns, rows).text(seen) + again


def _document(array_id: int, progress: ArrayProgress, groups: Sequence[FailureGroup]) -> dict[str, JsonValue]:
    return {
        "array_id": array_id,
        "size": progress.size,
        "ended": progress.ended,
        "failures": [
            {
                "cause": group.cause,
                "node": group.node or None,
                "jobs": [member.job_id for member in group.members],
                "indexes": [member.array_index for member in group.members],
                "last_line": group.sample or None,
            }
            for group in groups
        ],
    }
