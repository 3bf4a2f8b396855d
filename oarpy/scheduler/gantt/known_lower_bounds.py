"""Dates before which a request cannot be served, learnt from smaller requests placed earlier in the same pass.

A pass only takes resources away. Suppose that a request was found not to fit before some date. Then one that asks for
at least as much, for at least as long, does not fit before that date either::

    seconds
      |          B         A was not served before date 40: nor is B, which asks for more of both.
      |     A              C asks for less time: nothing is known.
      |          C
      +-------------- cores
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from oarpy.model.request import Consumption
from oarpy.scheduler.resources.matching import RequestMatcher, Shape


class _Front:
    """Known dates of requests of one shape, one column per request."""

    __slots__ = ("_asked", "_dates", "_size")

    def __init__(self, dimensions: int) -> None:
        self._asked = np.zeros((dimensions, _ROOM))
        self._dates = np.zeros(_ROOM)
        self._size = 0

    def latest(self, amounts: tuple[float, ...]) -> float:
        """Return the latest date known for requests that ask for no more than this one."""
        size = self._size
        if not size:
            return -inf
        smaller = np.logical_and.reduce(self._asked[:, :size] <= np.array(amounts)[:, None])
        return float(np.maximum.reduce(self._dates[:size].compress(smaller), initial=-inf))

    def add(self, amounts: tuple[float, ...], date: float) -> None:
        """Note a date that is later than the known one."""
        if self._size == len(self._dates):
            self._tidy()
        self._asked[:, self._size] = amounts
        self._dates[self._size] = date
        self._size += 1

    def _tidy(self) -> None:
        """Forget requests that another request makes superfluous, and make room if few were forgotten."""
        requests, dates = self._asked[:, : self._size], self._dates[: self._size]
        better = dates[:, None] >= dates
        for row in requests:
            better &= row[:, None] <= row
        np.fill_diagonal(better, False)
        # no two rows are equal: the later one was noted with a later date
        kept = ~better.any(axis=0)
        requests, dates = requests[:, kept], dates[kept]
        self._size = len(dates)
        room = len(self._dates) * (2 if 2 * self._size > len(self._dates) else 1)
        self._asked = np.zeros((len(requests), room))
        self._dates = np.zeros(room)
        self._asked[:, : self._size] = requests
        self._dates[: self._size] = dates


_ROOM = 128
"""The number of noted requests before superfluous ones are looked for."""


class Bounds:
    """Known lower bounds of one timeline. Whoever gives resources back to the timeline must drop them."""

    __slots__ = ("_fronts", "_pairs")

    def __init__(self) -> None:
        self._fronts: dict[tuple[Shape, tuple[str, ...]], _Front] = {}
        self._pairs: dict[tuple[RequestMatcher, tuple[str, ...]], tuple[_Front | None, _Front | None]] = {}

    def earliest(self, matcher: RequestMatcher, hold: float, consumes: Sequence[Consumption] = ()) -> float:
        """Return a date before which ``matcher``, which may consume something, is not served for ``hold`` seconds.

        Minus infinity when unknown.
        """
        date = -inf
        beside: tuple[int, ...] = ()
        for names in ((), tuple(consumption.name for consumption in consumes)) if consumes else ((),):
            if names:
                beside = tuple(consumption.amount for consumption in consumes)
            own, plain = self._pair(matcher, names)
            if own is not None:
                date = max(date, own.latest((*matcher.amounts, *beside, hold)))
            if plain is not None:
                date = max(date, plain.latest((matcher.least, *beside, hold)))
        return int(date) if date.is_integer() else date

    def note(self, matcher: RequestMatcher, hold: float, date: float, consumes: Sequence[Consumption] = ()) -> None:
        """Remember that ``matcher``, which may consume something, is not served for ``hold`` seconds until then."""
        own, _ = self._pair(matcher, tuple(consumption.name for consumption in consumes))
        if own is not None:
            own.add((*matcher.amounts, *(consumption.amount for consumption in consumes), hold), date)

    def _pair(self, matcher: RequestMatcher, names: tuple[str, ...]) -> tuple[_Front | None, _Front | None]:
        """Return the bounds for the shape of a request, and for the plain shape with as many resources if it differs.

        Shapes are large. Requests are few, so they are looked up by identity.
        """
        key = matcher, names
        pair = self._pairs.get(key)
        if pair is None:
            shape, plain = matcher.shape, matcher.plain_shape
            own = self._front(shape, names, len(matcher.amounts)) if shape else None
            other = self._front(plain, names, 1) if shape != plain else None
            pair = self._pairs[key] = own, other
        return pair

    def _front(self, shape: Shape, names: tuple[str, ...], amounts: int) -> _Front:
        """Return the bounds for requests of a shape that consume these consumables."""
        key = shape, names
        if key not in self._fronts:
            self._fronts[key] = _Front(amounts + len(names) + 1)
        return self._fronts[key]
