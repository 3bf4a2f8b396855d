"""Whether the parts of a job start together: the next act for a job whose parts are held, from its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from oarpy.model.states import GridPartState


@dataclass(frozen=True, slots=True)
class ClaimTimes:
    """Times before and after a deadline, in seconds.

    Commits are sent ``commit_lead`` before it, and not any more when less than ``latest_commit`` is left. A cluster may
    take ``claim_time`` for the answer to a claim, and its victims ``kill_grace`` to end. A claim lapses ``margin``
    after the deadline. Parts that do not run ``start_bound`` after it count as lost.
    """

    commit_lead: float = 5.0
    latest_commit: float = 0.5
    claim_time: float = 5.0
    kill_grace: float = 0.0
    margin: float = 3.0
    start_bound: float = 20.0

    def lead(self, *, evicting: bool) -> float:
        """Return how long before the deadline the last try is made."""
        return self.commit_lead + self.claim_time + (self.kill_grace if evicting else 0.0)


@dataclass(frozen=True, slots=True)
class ComponentPart:
    """A part as the broker knows it. ``reason`` says why it ended."""

    name: str
    cluster: str
    state: GridPartState
    started: bool = False
    exit_status: int | None = None
    reason: str = ""


Act = Literal["wait", "commit", "give up", "end all", "running", "over"]


@dataclass(frozen=True, slots=True)
class NextAct:
    """The next act: ``wait`` and look again at ``at``, ``commit``, ``give up`` the held parts, or ``end all`` parts.

    ``running``: all parts have started; ``over``: all have ended. The user sees ``reason``.
    """

    act: Act
    at: float = float("inf")
    reason: str = ""


_HELD = GridPartState.PREPARED
_GONE = (GridPartState.ABORTING, GridPartState.GONE)


def before_start(parts: Sequence[ComponentPart], deadline: float, now: float, times: ClaimTimes) -> NextAct:
    """Return the next act for a job whose parts are all held, or were a moment ago."""
    lost = next((part for part in parts if part.state is not _HELD), None)
    if lost is not None:
        return NextAct("give up", reason=f"its claim was lost{_because(lost)}")
    if now < deadline - times.commit_lead:
        return NextAct("wait", deadline - times.commit_lead)
    if now > deadline - times.latest_commit:
        return NextAct("give up", reason="the broker was not there at its deadline")
    return NextAct("commit")


def at_start(parts: Sequence[ComponentPart], deadline: float, now: float, times: ClaimTimes) -> NextAct:
    """Return the next act for a job whose start is decided: all its parts run soon, or none of them."""
    failed = next((part for part in parts if not part.started and part.state in (GridPartState.ENDED, *_GONE)), None)
    if failed is not None:
        return NextAct("end all", reason=f"its part on cluster {failed.cluster} did not start{_because(failed)}")
    if all(part.started for part in parts):
        return NextAct("running")
    bound = deadline + times.start_bound
    if now < bound:
        return NextAct("wait", bound)
    late = next(part for part in parts if not part.started)
    late_by = f"{times.start_bound:.0f} s after the deadline"
    return NextAct("end all", reason=f"its part on cluster {late.cluster} had not started {late_by}")


def after_start(parts: Sequence[ComponentPart]) -> NextAct:
    """Return the next act for a job whose parts have all started."""
    return NextAct("over" if all(part.state is GridPartState.ENDED for part in parts) else "wait")


def _because(part: ComponentPart) -> str:
    return f": {part.reason}" if part.reason else ""
