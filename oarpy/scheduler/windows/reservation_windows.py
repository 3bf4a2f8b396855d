"""The windows of reservations in a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from oarpy.scheduler.windows.window_jobs import OWN_ORDER


@dataclass(frozen=True, slots=True)
class ReservationWindow:
    """A reservation runs wholly inside [ready, deadline] (instants); without ``ready``, from now on.

    It no longer moves once it is ``fixed``, or once ``fix_after`` percent of the time from its submission to its start
    have passed. A new reservation whose window cannot be had takes the first other start that is at most ``farthest``
    run times away, or the start to ``take``. With ``slack_percent`` the deadline is that of its longest alternative.
    Each alternative then has so much of its own walltime as room, beside what all have. ``asked`` is another window,
    (ready, deadline), that the user of an accepted reservation asks for.
    """

    deadline: float
    ready: float | None = None
    fixed: bool = False
    fix_after: float | None = None
    farthest: float | None = None
    asked: tuple[float | None, float] | None = None
    take: float | None = None
    slack_percent: int | None = None

    def of_alternative(self, walltime: float, longest: float) -> ReservationWindow:
        """Return the window of a new reservation's alternative."""
        if self.slack_percent is None or walltime == longest:
            return self
        room = longest * self.slack_percent // 100 - walltime * self.slack_percent // 100
        return replace(self, deadline=self.deadline - (longest - walltime) - room)

    def is_fixed(self, submitted: float, start: float, now: float) -> bool:
        """Tell whether an accepted reservation no longer moves, by the wish of its user or the rule of the site."""
        if self.fixed or self.fix_after is None:
            return self.fixed
        # with none it is at once: a job comes in the middle of a second, and a pass is at its beginning
        return not self.fix_after or now >= submitted + self.fix_after / 100 * (start - submitted)


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of reservations, by job, and the rules of the site (durations in seconds).

    ``order`` is the order in which they get their places, built in or a plug-in. ``offers`` is the number of other
    starts that a refused reservation is offered, and ``tries`` the number tried for that. A reservation that begins
    within ``notice`` does not move to a later start. ``replan`` is true if resources became free or were lost
    unexpectedly since the reservations were placed.
    """

    of: Mapping[int, ReservationWindow]
    order: str = OWN_ORDER
    offers: int = 8
    tries: int = 32
    notice: float = 600
    replan: bool = False
