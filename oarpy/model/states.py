"""States of jobs, resources, applications that negotiate, extensions, parts and grid jobs, with the allowed moves.

A new database gets the moves of jobs as rows of ``job_transitions``. It enforces them for every SQL client, and the
diagram in ``docs/states.md`` is generated from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

State = TypeVar("State", bound=StrEnum)


class JobState(StrEnum):
    """States of a job, spelled as OAR users know them."""

    HOLD = "Hold"
    WAITING = "Waiting"
    TO_ACK_RESERVATION = "toAckReservation"
    TO_LAUNCH = "toLaunch"
    LAUNCHING = "Launching"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    RESUMING = "Resuming"
    FINISHING = "Finishing"
    TERMINATED = "Terminated"
    TO_ERROR = "toError"
    ERROR = "Error"

    @property
    def letter(self) -> str:
        """The one-letter form of ``oarstat``."""
        return _LETTERS[self]


_LETTERS = {
    JobState.HOLD: "H",
    JobState.WAITING: "W",
    JobState.TO_ACK_RESERVATION: "W",
    JobState.TO_LAUNCH: "L",
    JobState.LAUNCHING: "L",
    JobState.RUNNING: "R",
    JobState.SUSPENDED: "S",
    JobState.RESUMING: "S",
    JobState.FINISHING: "F",
    JobState.TERMINATED: "T",
    JobState.TO_ERROR: "E",
    JobState.ERROR: "E",
}

FINAL_STATES = frozenset({JobState.TERMINATED, JobState.ERROR})
HOLDING_STATES = frozenset(
    {
        JobState.TO_LAUNCH,
        JobState.LAUNCHING,
        JobState.RUNNING,
        JobState.SUSPENDED,
        JobState.RESUMING,
        JobState.FINISHING,
    }
)
"""States in which a job holds its assigned resources."""


@dataclass(frozen=True, slots=True)
class Transition:
    """An allowed move of a job: its event, and the module or person that may make it."""

    source: JobState
    target: JobState
    event: str
    who: str


TRANSITIONS: tuple[Transition, ...] = tuple(
    Transition(JobState(source), JobState(target), event, who)
    for source, target, event, who in (
        ("Hold", "Waiting", "released", "oarresume"),
        ("Waiting", "Hold", "held", "oarhold"),
        ("Hold", "Error", "deleted while held", "canceller"),
        ("Waiting", "Error", "deleted while waiting", "canceller"),
        ("Waiting", "toAckReservation", "reservation fits", "metascheduler"),
        ("toAckReservation", "Waiting", "reservation accepted", "metascheduler"),
        ("toAckReservation", "toError", "reservation refused or deleted", "metascheduler"),
        ("Waiting", "toError", "can never start", "metascheduler"),
        ("Waiting", "toLaunch", "resources assigned", "metascheduler"),
        ("toLaunch", "Launching", "claimed", "launcher"),
        ("toLaunch", "toError", "deleted before launch", "canceller"),
        ("toLaunch", "Waiting", "a node was lost before launch", "monitor"),
        ("Launching", "Running", "agent started it", "launcher"),
        ("Launching", "Finishing", "ended before it ran, or killed", "launcher"),
        ("Launching", "toError", "could not be started", "launcher"),
        ("Running", "Finishing", "ended, or killed", "launcher"),
        ("Running", "Suspended", "suspended", "launcher"),
        ("Suspended", "Resuming", "resume asked", "oarresume"),
        ("Suspended", "Finishing", "killed", "launcher"),
        ("Resuming", "Running", "resumed", "launcher"),
        ("Resuming", "Suspended", "held again", "oarhold"),
        ("Resuming", "Finishing", "killed", "launcher"),
        ("Finishing", "Terminated", "its program ended by itself", "launcher"),
        ("Finishing", "Error", "killed, or lost", "launcher"),
        ("Finishing", "Waiting", "its node could not start it", "launcher"),
        ("toError", "Error", "cleaned up", "canceller"),
    )
)

ALLOWED: frozenset[tuple[JobState, JobState]] = frozenset((move.source, move.target) for move in TRANSITIONS)

PASSAGES: dict[tuple[JobState, JobState], tuple[JobState, ...]] = {
    (JobState.LAUNCHING, JobState.TERMINATED): (JobState.RUNNING, JobState.FINISHING),
    (JobState.RUNNING, JobState.TERMINATED): (JobState.FINISHING,),
}
"""Moves that stand for several allowed ones with states in between, seen as one by two looks at a job."""


class ResourceState(StrEnum):
    """States of a resource."""

    ALIVE = "Alive"
    ABSENT = "Absent"
    SUSPECTED = "Suspected"
    DEAD = "Dead"


class NegotiationState(StrEnum):
    """States of an application that negotiates; its job has a :class:`JobState` beside it."""

    SUBMITTED = "Submitted"
    REQUEST_SENT = "RequestSent"
    WAITING = "Waiting"
    STARTED = "Started"
    FINISH_SENT = "FinishSent"
    GHOST = "Ghost"
    FINISHED = "Finished"


@dataclass(frozen=True, slots=True)
class AllowedMove(Generic[State]):
    """An allowed move from a state to another, and the event that causes it."""

    source: State
    target: State
    event: str


def _moves(states: type[State], *rows: tuple[str, str, str]) -> tuple[AllowedMove[State], ...]:
    return tuple(AllowedMove(states(source), states(target), event) for source, target, event in rows)


NEGOTIATION_MOVES = _moves(
    NegotiationState,
    ("Submitted", "RequestSent", "request accepted"),
    ("Waiting", "RequestSent", "request accepted"),
    ("RequestSent", "Waiting", "a pass gave it a place"),
    ("Waiting", "Started", "its place begins at the instant of the pass"),
    ("Started", "FinishSent", "done, walltime over, or ended by the cluster"),
    ("Submitted", "FinishSent", "ended by the cluster"),
    ("RequestSent", "FinishSent", "ended by the cluster"),
    ("Waiting", "FinishSent", "ended by the cluster"),
    ("FinishSent", "Ghost", "the next pass has seen its end"),
    ("Ghost", "Finished", "a pass found that its ghost has ended"),
)
"""All moves there are; whatever keeps applications refuses others."""

NEGOTIATION_ALLOWED: frozenset[tuple[NegotiationState, NegotiationState]] = frozenset(
    (move.source, move.target) for move in NEGOTIATION_MOVES
)
IN_LINE_STATES: frozenset[NegotiationState] = frozenset({NegotiationState.REQUEST_SENT, NegotiationState.WAITING})
"""The states of an application that has asked for hosts and has none."""


class ExtensionState(StrEnum):
    """The states of an extension: hosts requested for a running job."""

    WAITING = "Waiting"
    GRANTING = "Granting"
    GRANTED = "Granted"
    WITHDRAWN = "Withdrawn"
    OVER = "Over"


EXTENSION_MOVES = _moves(
    ExtensionState,
    ("Waiting", "Granting", "a pass gave it hosts"),
    ("Granting", "Granted", "the nodes of the job know"),
    ("Waiting", "Withdrawn", "withdrawn, or replaced by a newer one"),
    ("Waiting", "Over", "its job is over"),
    ("Granting", "Over", "its job is over"),
    ("Granted", "Over", "its job is over, or has none of its hosts any more"),
)
"""All moves there are; the database refuses others."""


class DoorPartState(StrEnum):
    """States of a broker's part on this cluster; its job has a :class:`JobState` beside it."""

    PREPARED = "Prepared"
    COMMITTED = "Committed"
    FROZEN = "Frozen"
    ABORTED = "Aborted"


DOOR_PART_MOVES = _moves(
    DoorPartState,
    ("Prepared", "Committed", "its transaction was committed"),
    ("Prepared", "Aborted", "its transaction was aborted, or it lapsed"),
    ("Committed", "Frozen", "a transaction is about to withdraw it, or to put another one in its place"),
    ("Frozen", "Committed", "that transaction was aborted, or it lapsed"),
    ("Frozen", "Aborted", "that transaction was committed"),
)
"""All moves there are; the database refuses others."""


class DoorTransactionState(StrEnum):
    """States of a broker's transaction on this cluster; an abort may come before all that it aborts."""

    PREPARED = "Prepared"
    COMMITTED = "Committed"
    ABORTED = "Aborted"


DOOR_TRANSACTION_MOVES = _moves(
    DoorTransactionState,
    ("Prepared", "Committed", "the broker decided so"),
    ("Prepared", "Aborted", "the broker decided so, or a part of it lapsed"),
)
"""All moves there are; the database refuses others."""


class GridJobState(StrEnum):
    """States of a job of a broker, which runs on clusters that have states of their own for its parts."""

    SUBMITTED = "Submitted"
    MAPPED = "Mapped"
    CLAIMING = "Claiming"
    CLAIMED = "Claimed"
    RUNNING = "Running"
    TERMINATED = "Terminated"
    ERROR = "Error"
    MISSED = "Missed"


class GridPartState(StrEnum):
    """The states of a part of a grid job on a cluster, as far as the broker knows."""

    PREPARING = "Preparing"
    PREPARED = "Prepared"
    COMMITTING = "Committing"
    WAITING = "Waiting"
    RUNNING = "Running"
    ENDED = "Ended"
    FREEZING = "Freezing"
    FROZEN = "Frozen"
    DELETING = "Deleting"
    ABORTING = "Aborting"
    GONE = "Gone"


class GridTransactionState(StrEnum):
    """States of a change on clusters, which happens on all of them or on none."""

    PREPARING = "Preparing"
    HELD = "Held"
    COMMITTING = "Committing"
    ABORTING = "Aborting"
    DONE = "Done"


GRID_JOB_MOVES = _moves(
    GridJobState,
    ("Submitted", "Mapped", "its part joined the queue of a cluster"),
    ("Submitted", "Claiming", "a try found room for all components"),
    ("Submitted", "Missed", "no try found room"),
    ("Submitted", "Error", "deleted, or no cluster takes it"),
    ("Mapped", "Submitted", "its cluster lost it before it started"),
    ("Mapped", "Running", "it started"),
    ("Mapped", "Error", "deleted, or its cluster ended it"),
    ("Claiming", "Claimed", "all clusters hold its parts"),
    ("Claiming", "Submitted", "a cluster refused: it is tried again"),
    ("Claiming", "Missed", "a cluster refused at the last try"),
    ("Claiming", "Error", "deleted, or refused"),
    ("Claimed", "Submitted", "a part was lost before the deadline: it is tried again"),
    ("Claimed", "Running", "all parts started"),
    ("Claimed", "Missed", "not all parts started at the deadline"),
    ("Claimed", "Error", "deleted, or a part was lost"),
    ("Running", "Terminated", "all parts ended by themselves"),
    ("Running", "Error", "deleted, or a part failed"),
    ("Missed", "Terminated", "a silent cluster was heard again: all parts had run to their end"),
)
"""All moves of grid jobs; the database refuses others. The same holds for the moves below."""

GRID_PART_MOVES = _moves(
    GridPartState,
    ("Preparing", "Prepared", "the cluster holds it"),
    ("Preparing", "Aborting", "the transaction is given up"),
    ("Prepared", "Committing", "the decision is stored"),
    ("Prepared", "Aborting", "the transaction is given up"),
    ("Committing", "Waiting", "the cluster knows the decision"),
    ("Committing", "Running", "it started before the cluster's answer came"),
    ("Committing", "Ended", "it ended before the cluster's answer came"),
    ("Waiting", "Running", "it started"),
    ("Waiting", "Ended", "ended before it started"),
    ("Waiting", "Freezing", "a move begins: it is asked to stay where it is"),
    ("Freezing", "Frozen", "the cluster will not start it"),
    ("Freezing", "Waiting", "the move is given up"),
    ("Frozen", "Waiting", "the move is given up"),
    ("Frozen", "Deleting", "the move is decided"),
    ("Deleting", "Gone", "the cluster has deleted it"),
    ("Deleting", "Waiting", "its cluster let it go on before it heard of the decision"),
    ("Aborting", "Gone", "the cluster knows that it is given up"),
    ("Running", "Ended", "it ended"),
)

GRID_TRANSACTION_MOVES = _moves(
    GridTransactionState,
    ("Preparing", "Held", "all clusters have prepared; the decision comes later"),
    ("Preparing", "Committing", "all clusters have prepared: decided"),
    ("Preparing", "Aborting", "a cluster refused or is silent, or the broker was started anew"),
    ("Held", "Committing", "decided"),
    ("Held", "Aborting", "given up"),
    ("Committing", "Done", "all clusters know"),
    ("Aborting", "Done", "all clusters know"),
)

STARTABLE_PARTS = frozenset(
    {GridPartState.COMMITTING, GridPartState.WAITING, GridPartState.FREEZING, GridPartState.RUNNING}
)
"""States of parts that run, or that their cluster may start: a component has one such part."""
FINAL_GRID_JOBS = frozenset({GridJobState.TERMINATED, GridJobState.ERROR, GridJobState.MISSED})
