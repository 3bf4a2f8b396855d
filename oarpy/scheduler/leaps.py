"""Passing over the dates at which a request whose amount depends on the date breaks a quota.

::

    start                  until          until + hold
      |----------------------|---------------|        what is free throughout all of this,
      [ a window  ]                                   is free in each of these windows
             [ a window  ]
                         ... [ a window      ]        so that much, at least, is taken in each
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from oarpy.scheduler.demands import Option
from oarpy.scheduler.gantt import Gantt
from oarpy.scheduler.quotas import Amount, Excess, Limits
from oarpy.scheduler.views import View


class Leaps:
    """One search for the place of ``option``, which holds its resources for ``hold`` seconds.

    What is free throughout a longer time is free in every window inside it. So what a request takes of that, where more
    is never served with less, it takes in each of those windows at least: as long as this much breaks a quota, none of
    them need be looked at. The longer time doubles until that breaks none, and is halved then.
    """

    def __init__(self, gantt: Gantt, views: Sequence[View], limits: Limits, option: Option, hold: float) -> None:
        self._ledger, self._views, self._limits = gantt.ledger, views, limits
        self._matcher, self._walltime, self._hold = option.matcher, option.walltime, hold
        self._counted = gantt.counts_all(option.matcher.usable)
        self._span = hold

    def after(self, start: float) -> float:
        """Return when to look again after a quota was broken at ``start``, infinity if there is no need to.

        Not before the least amount would break none; from then on whenever more may be free, or another rule applies.
        """
        if self._counted and (excess := self._excess(start, self._matcher.least)):
            return excess.until
        step = min(self._limits.change_after(start), self._change_after(start))
        until = self._change_after(start + self._span)
        if not self._counted or not self._matcher.grows or until <= step:
            self._span *= 2
            return step
        if excess := self._excess(start, self._matcher.match(self._common(start, until + self._hold)).bit_count()):
            self._span *= 2
            return min(until, excess.until)
        self._span /= 2
        return step

    def _excess(self, start: float, resources: int) -> Excess | None:
        """Return the quota that so many resources break at ``start``, and until when they go on breaking it."""
        amount = Amount(resources, resources * self._walltime)
        return self._ledger.excess(self._limits, start, start + self._hold, amount)

    def _common(self, begin: float, end: float) -> int:
        """Return what is free throughout [begin, end)."""
        free = self._matcher.usable
        for view in self._views:
            free &= view.common(begin, end)
        return free

    def _change_after(self, instant: float) -> float:
        """Return the next instant at which more may be free."""
        return min((after for view in self._views if (after := view.after(instant)) is not None), default=inf)
