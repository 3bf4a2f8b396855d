"""``oarstat --bag``: how the tasks of a bag stand, by when they are promised to be done, and how that changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from oarpy.client.rendering import Report, TwoForms, local_date, one_line, whole_seconds
from oarpy.client.session import Session
from oarpy.model.errors import NotFound
from oarpy.store.jobs import bag_profiles, bags
from oarpy.store.jobs.bag_profiles import ProfileRow
from oarpy.store.jobs.bags import BagChangeRow, BagRow


class BagChangeDocument(TypedDict):
    """A change of what is promised or expected, in epoch seconds, and its cause."""

    at: int
    kind: str
    promise: int | None
    expected: int | None
    cause: str


class ProfileDocument(TypedDict):
    """The seconds of a task on nodes of a type, as a job measured; ``failure`` says why they are not known."""

    job_id: int
    node_type: str
    seconds: float | None
    failure: str


class BagDocument(TypedDict):
    """A bag; instants in epoch seconds. ``states`` has the number of tasks by state."""

    bag_id: int
    user: str
    tasks: int
    deadline: int | None
    strict: bool
    submitted: int
    promise: int | None
    expected: int | None
    ended: int | None
    states: Mapping[str, int]
    profile: Sequence[ProfileDocument]
    changes: Sequence[BagChangeDocument]


@dataclass(frozen=True, slots=True)
class BagState:
    """A bag, its tasks by state, its profile by types of nodes, and the changes of its promise."""

    bag: BagRow
    states: Mapping[str, int]
    profile: Sequence[ProfileRow]
    changes: Sequence[BagChangeRow]


def bag_state(session: Session, number: int) -> BagState:
    """Return how a bag stands. Raises :class:`NotFound`."""
    with session.connection.transaction():
        row = bags.bag(session.connection, number)
        if row is None:
            raise NotFound(f"bag {number} does not exist", hint="oarsub --bag prints its number, OAR_ARRAY_ID")
        return BagState(
            row,
            bags.states(session.connection, number),
            bag_profiles.of_bag(session.connection, number),
            bags.changes(session.connection, number),
        )


def report(state: BagState) -> Report[BagDocument]:
    """Return it as text and as JSON."""
    return TwoForms(lambda: "".join(f"{line}\n" for line in _lines(state)), lambda: _document(state))


def _lines(state: BagState) -> Iterator[str]:
    bag = state.bag
    counts = ", ".join(f"{count} {name}" for name, count in state.states.items())
    yield f"bag : {bag.bag}"
    yield f"user : {bag.user}"
    yield f"tasks : {bag.tasks} ({counts})" if counts else f"tasks : {bag.tasks}"
    if bag.deadline is not None:
        yield f"deadline : {local_date(bag.deadline)}{' (strict)' if bag.strict else ''}"
    yield f"promised completion : {local_date(bag.promise) or 'not yet'}"
    if bag.ended is None:
        yield f"expected completion : {local_date(bag.expected) or 'not yet'}"
    else:
        yield f"completion : {local_date(bag.ended)}"
    for profile in state.profile:
        yield f"profile on {profile.node_type} : {_seconds(profile)}"
    for change in state.changes:
        instants = f"promise {local_date(change.promise) or '-'}, expected {local_date(change.expected) or '-'}"
        yield f"{local_date(change.at)} {change.kind} : {instants} ({one_line(change.cause)})"


def _seconds(profile: ProfileRow) -> str:
    """Return how long a task takes, or why that is not known, as it is told to people."""
    if profile.seconds is None:
        return f"the walltime ({one_line(profile.why_none)})"
    return f"{profile.seconds:g} s (job {profile.job})"


def _document(state: BagState) -> BagDocument:
    bag = state.bag
    return {
        "bag_id": bag.bag,
        "user": bag.user,
        "tasks": bag.tasks,
        "deadline": whole_seconds(bag.deadline),
        "strict": bag.strict,
        "submitted": int(bag.submitted),
        "promise": whole_seconds(bag.promise),
        "expected": whole_seconds(bag.expected),
        "ended": whole_seconds(bag.ended),
        "states": state.states,
        "profile": [
            {
                "job_id": profile.job,
                "node_type": profile.node_type,
                "seconds": profile.seconds,
                "failure": profile.why_none if profile.seconds is None else "",
            }
            for profile in state.profile
        ],
        "changes": [
            {
                "at": int(change.at),
                "kind": change.kind,
                "promise": whole_seconds(change.promise),
                "expected": whole_seconds(change.expected),
                "cause": change.cause,
            }
            for change in state.changes
        ],
    }
