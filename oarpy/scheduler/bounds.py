"""Dates before which a request cannot be served, learnt from smaller requests placed earlier in the same pass.

While a pass only takes resources away, a request that asks for at least as much, for at least as long, as one that was
found not to fit before some date does not fit before that date either.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from oarpy.model.request import Consumption
from oarpy.scheduler.matching import RequestMatcher, Shape


class _Front:
    """Known dates of requests of one shape, one column per request."""

    __slots__ = ("_asked", "_dates", "_size")

    def __init__(self, dimensions: int) -> None:
        self._asked = np.zeros((dimensions, _ROOM))
        self._dates = np.zeros(_ROOM)
        self._size = 0

    def latest(self, asked: tuple[float, ...]) -> float:
        """Return the latest date known for requests that ask for no more than this one."""
        size = self._size
        smaller = self._asked[0, :size] <= asked[0]
        for row, amount in zip(self._asked[1:], asked[1:], strict=True):
            smaller &= row[:size] <= amount
        dates = self._dates[:size][smaller]
        return float(dates.max()) if dates.size else float("-inf")

    def add(self, asked: tuple[float, ...], date: float) -> None:
        """Note a date that is later than what was known."""
        if self._size == len(self._dates):
            self._tidy()
        self._asked[:, self._size] = asked
        self._dates[self._size] = date
        self._size += 1

    def _tidy(self) -> None:
        """Forget requests that tell less than another, and make room if that was not much."""
        asked, dates = self._asked[:, : self._size], self._dates[: self._size]
        better = dates[:, None] >= dates
        for row in asked:
            better &= row[:, None] <= row
        np.fill_diagonal(better, False)
        # no two tell the same: the later one was noted with a later date
        kept = ~better.any(axis=0)
        asked, dates = asked[:, kept], dates[kept]
        self._size = len(dates)
        room = len(self._dates) * (2 if 2 * self._size > len(self._dates) else 1)
        self._asked = np.zeros((len(asked), room))
        self._dates = np.zeros(room)
        self._asked[:, : self._size] = asked
        self._dates[: self._size] = dates


_ROOM = 128
"""Requests noted before those that tell less than another are looked for."""


class Bounds:
    """What is known about one timeline. It must be forgotten as soon as anything is given back there."""

    __slots__ = ("_fronts",)

    def __init__(self) -> None:
        self._fronts: dict[tuple[Shape, tuple[str, ...]], _Front] = {}

    def earliest(self, matcher: RequestMatcher, hold: float, consumes: Sequence[Consumption] = ()) -> float:
        """Return a date before which ``matcher``, which may consume something, is not served for ``hold`` seconds.

        Minus infinity when unknown.
        """
        date = float("-inf")
        beside: tuple[int, ...] = ()
        for names in ((), tuple(one.name for one in consumes)) if consumes else ((),):
            if names:
                beside = tuple(one.amount for one in consumes)
            if matcher.shape and (front := self._fronts.get((matcher.shape, names))):
                date = max(date, front.latest((*matcher.amounts, *beside, hold)))
            if matcher.shape != matcher.plain_shape and (front := self._fronts.get((matcher.plain_shape, names))):
                date = max(date, front.latest((matcher.least, *beside, hold)))
        return int(date) if date.is_integer() else date

    def note(self, matcher: RequestMatcher, hold: float, date: float, consumes: Sequence[Consumption] = ()) -> None:
        """Remember that ``matcher``, which may consume something, is not served for ``hold`` seconds until then."""
        if not matcher.shape:
            return
        key = matcher.shape, tuple(one.name for one in consumes)
        asked = (*matcher.amounts, *(one.amount for one in consumes), hold)
        front = self._fronts.get(key)
        if front is None:
            front = self._fronts[key] = _Front(len(asked))
        front.add(asked, date)
