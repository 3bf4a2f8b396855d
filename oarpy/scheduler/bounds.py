"""Dates before which a request cannot be served, learnt from smaller requests placed earlier in the same pass.

While a pass only takes resources away, a request that asks for at least as much, for at least as long, as one that was
found not to fit before some date does not fit before that date either.
"""

from __future__ import annotations

import numpy as np

from oarpy.scheduler.matching import RequestMatcher, Shape


class _Front:
    """Known dates of requests of one shape; one column per request, none of which tells less than another."""

    __slots__ = ("_asked", "_dates", "_size")

    def __init__(self, dimensions: int) -> None:
        self._asked = np.zeros((dimensions, 32))
        self._dates = np.zeros(32)
        self._size = 0

    def latest(self, asked: tuple[float, ...]) -> float:
        """Return the latest date known for requests that ask for no more than this one."""
        size = self._size
        smaller = self._asked[0, :size] <= asked[0]
        for row, amount in zip(self._asked[1:, :size], asked[1:], strict=True):
            smaller &= row <= amount
        dates = self._dates[:size][smaller]
        return float(dates.max()) if dates.size else float("-inf")

    def add(self, asked: tuple[float, ...], date: float) -> None:
        """Note a date that is later than what was known, and forget what it makes worthless."""
        size = self._size
        worthless = self._dates[:size] <= date
        for row, amount in zip(self._asked[:, :size], asked, strict=True):
            worthless &= row >= amount
        if worthless.any():
            size = self._keep(~worthless)
        elif size == len(self._dates):
            self._asked = np.concatenate((self._asked, np.zeros_like(self._asked)), axis=1)
            self._dates = np.concatenate((self._dates, np.zeros_like(self._dates)))
        self._asked[:, size] = asked
        self._dates[size] = date
        self._size = size + 1

    def _keep(self, wanted: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
        kept = int(np.count_nonzero(wanted))
        self._asked[:, :kept] = self._asked[:, : self._size][:, wanted]
        self._dates[:kept] = self._dates[: self._size][wanted]
        return kept


class Bounds:
    """What is known about one timeline. It must be forgotten as soon as anything is given back there."""

    __slots__ = ("_fronts",)

    def __init__(self) -> None:
        self._fronts: dict[Shape, _Front] = {}

    def earliest(self, matcher: RequestMatcher, hold: float) -> float:
        """Return a date before which ``matcher`` is not served for ``hold`` seconds; minus infinity when unknown."""
        date = float("-inf")
        if matcher.shape and (front := self._fronts.get(matcher.shape)):
            date = front.latest((*matcher.amounts, hold))
        if matcher.shape != matcher.plain_shape and (front := self._fronts.get(matcher.plain_shape)):
            date = max(date, front.latest((matcher.least, hold)))
        return int(date) if date.is_integer() else date

    def note(self, matcher: RequestMatcher, hold: float, date: float) -> None:
        """Remember that ``matcher`` is not served for ``hold`` seconds before ``date``."""
        if not matcher.shape:
            return
        front = self._fronts.get(matcher.shape)
        if front is None:
            front = self._fronts[matcher.shape] = _Front(len(matcher.amounts) + 1)
        front.add((*matcher.amounts, hold), date)
