"""The admission of a new job with a window, and the other starts that it could have.

The queue is planned from the place of the new job on. Jobs before it keep their slots::

    queue    a  b  new  c  d
             slots |  each its earliest place inside its own window
                        c gets none: the new job goes behind it, and it is tried again: a b c new d

1. Every job has a place: the new job is accepted.
2. A job behind the new job has none: the new job takes its place in the queue, and the jobs between keep their slots.
3. The new job itself has none: the starts before and after the jobs in its way are *options*. An option is valid if all
   other jobs find places. It is then an *offer*, unless the new job takes it at once.

Each round puts the new job further behind, so the search ends. In every case all other jobs stay in their windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Generic, NamedTuple, TypeVar

from oarpy.profiles.planned import JobId
from oarpy.profiles.timeline import Timeline
from oarpy.scheduler.windows.window_jobs import Window, WindowJob

Request = TypeVar("Request")
Hold = TypeVar("Hold")
Span = tuple[float, float]
"""From when to when something is held (seconds)."""


class Offer(NamedTuple):
    """Another start of a job that could be had; ``phi`` is its distance from the window, in run times of the job."""

    phi: float
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Terms:
    """The starts to take and to offer if the window cannot be had.

    No offer is farther than ``limit``. The first valid offer up to ``accept`` is taken at once. With ``take``, only the
    offer with this start is taken. With ``farther``, some start after the window is always offered. There are at most
    ``offers`` offers, found by at most ``tries`` tries. A start to ``take`` has as many tries again.
    """

    limit: float = inf
    accept: float = -inf
    take: float | None = None
    farther: bool = False
    tries: float = inf
    offers: float = inf

    def takes(self, offer: Offer) -> bool:
        """Tell whether a valid offer is taken at once."""
        return offer.phi <= self.accept if self.take is None else offer.start == self.take

    def tries_more(self, option: Offer, tried: int, found: int) -> bool:
        """Tell whether an option is tried after so many tries, when so many offers are found."""
        if option.start == self.take:
            return tried < 2 * self.tries
        return tried < self.tries and found < self.offers

    def nearest(self, offers: Iterable[Offer], farther: Offer) -> list[Offer]:
        """Return the offers that are made beside the first start after the window."""
        others = sorted(offers)
        return sorted([*others[: int(min(self.offers - 1, len(others)))], farther])


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer to a new job: all starts in the order of the queue if it was accepted, else offers."""

    start: float | None
    starts: Mapping[JobId, float]
    offers: Sequence[Offer]
    taken: Offer | None = None


def admit(
    timeline: Timeline[Request, Hold],
    running: Iterable[Span],
    queue: Sequence[WindowJob[Request]],
    slots: Mapping[JobId, float],
    now: float,
    terms: Terms,
    gap: float = 0,
) -> Admission:
    """Decide on the one job of the queue that has no slot.

    The timeline must hold the ``running`` jobs, and nothing else; it is of no use afterwards. It keeps a ``gap``
    (seconds) behind each job.
    """
    question = _Question(timeline, running, queue, slots, now, gap)
    while True:
        failed = question.attempt(question.new.window(now))
        if failed is None:
            return question.accepted(None)
        if failed == question.place:
            return _admit_elsewhere(question, terms)
        question.fix(failed)


def _admit_elsewhere(question: _Question[Request, Hold], terms: Terms) -> Admission:
    valid: dict[float, Offer] = {}
    tried = 0
    untried = question.options(terms.limit)
    while (option := next(untried, None)) is not None:
        if option.start in valid or not terms.tries_more(option, tried, len(valid)):
            continue
        tried += 1
        failed = question.attempt((option.start, option.start))
        if failed is None:
            valid[option.start] = option
            if terms.takes(option):
                return question.accepted(option)
        elif failed > question.place:
            question.fix(failed)
            untried = question.options(terms.limit)
    last = question.new.window(question.now)[1]
    if terms.farther and terms.offers and not any(start > last for start in valid):
        option = question.farther()
        if option.start < inf and option.phi <= terms.limit:
            if terms.takes(option):
                return question.accepted(option)
            return Admission(None, question.slots, terms.nearest(valid.values(), option))
    return Admission(None, question.slots, sorted(valid.values()))


class _Question(Generic[Request, Hold]):
    """A queue, and the place of the new job in it. Jobs before it hold their slots."""

    def __init__(
        self,
        timeline: Timeline[Request, Hold],
        running: Iterable[Span],
        queue: Sequence[WindowJob[Request]],
        slots: Mapping[JobId, float],
        now: float,
        gap: float,
    ) -> None:
        self._timeline, self._running, self.slots, self.now = timeline, list(running), slots, now
        self._gap = gap
        self._queue = list(queue)
        self.place = next(place for place, job in enumerate(queue) if job.id not in slots)
        self.new = queue[self.place]
        self._found: list[float] = []
        for job in self._queue[: self.place]:
            self._hold(job, slots[job.id])

    def attempt(self, window: Window) -> int | None:
        """Place the new job in a window, then the jobs behind it; return the place of the first job without a start."""
        holds: list[Hold] = []
        self._found = []
        failed = None
        for place, job in enumerate(self._queue[self.place :], self.place):
            lo, hi = job.window(self.now) if self._found else window
            start = self._timeline.earliest(job.request, job.time, lo, hi)
            if start == inf:
                failed = place
                break
            self._found.append(start)
            holds.append(self._hold(job, start))
        for hold in reversed(holds):
            self._timeline.give_back(hold)
        return failed

    def fix(self, failed: int) -> None:
        """Put the new job behind the one that failed; the jobs now before it hold their slots."""
        for job in self._queue[self.place + 1 : failed + 1]:
            self._hold(job, self.slots[job.id])
        self._queue.insert(failed, self._queue.pop(self.place))
        self.place = failed

    def options(self, limit: float) -> Iterator[Offer]:
        """Yield the starts around the jobs in the way of the new job, the nearest first."""
        lo, _ = self.new.window(self.now)
        before = [(self.slots[job.id], self.slots[job.id] + job.time) for job in self._queue[: self.place]]
        starts, time = set[float](), self.new.time + self._gap
        for begin, end in ((begin, end + self._gap) for begin, end in (*self._running, *before)):
            if begin - self._gap < self.new.deadline and end > lo:
                starts |= {begin - time} if begin - time < lo else set()
                starts |= {end} if end + self.new.time > self.new.deadline else set()
        offers = (self._offer(start) for start in starts if start >= self.now)
        yield from sorted(offer for offer in offers if offer.phi <= limit)

    def farther(self) -> Offer:
        """Return the earliest start after the window, where all others keep their slots."""
        for job in self._queue[self.place + 1 :]:
            self._hold(job, self.slots[job.id])
        lo, last = self.new.window(self.now)
        start = self._timeline.earliest(self.new.request, self.new.time, max(lo, last))
        self._found = [start, *(self.slots[job.id] for job in self._queue[self.place + 1 :])]
        return self._offer(start)

    def accepted(self, taken: Offer | None) -> Admission:
        """Return the plan of the last attempt."""
        before = {job.id: self.slots[job.id] for job in self._queue[: self.place]}
        behind = {job.id: start for job, start in zip(self._queue[self.place :], self._found, strict=True)}
        return Admission(self._found[0], before | behind, (), taken)

    def _offer(self, start: float) -> Offer:
        lo, time, end = self.new.window(self.now)[0], self.new.time, start + self.new.time
        return Offer(((lo - start) if start < lo else (end - self.new.deadline)) / time, start, end)

    def _hold(self, job: WindowJob[Request], start: float) -> Hold:
        return self._timeline.hold(job.request, start, start + job.time)


def replanned(
    timeline: Timeline[Request, Hold], queue: Iterable[WindowJob[Request]], now: float
) -> dict[JobId, float] | None:
    """Return each job's earliest place inside its window, in the order of the queue; None if a job gets none.

    The timeline must hold the running jobs, and nothing else; it is of no use afterwards.
    """
    starts: dict[JobId, float] = {}
    for job in queue:
        start = timeline.earliest(job.request, job.time, *job.window(now))
        if start == inf:
            return None
        starts[job.id] = start
        timeline.hold(job.request, start, start + job.time)
    return starts
