"""Bags as a part of the state of the cluster, and the changes of their promises that a pass writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf

from oarpy.cluster_state.mapped_jobs import node_types
from oarpy.cluster_state.state_part import StatePart
from oarpy.cluster_state.window_line import has_other_room
from oarpy.configuration import Configuration
from oarpy.model.reasons import local_instant, sentence
from oarpy.scheduler.bags.bag_pass import Bag, BagAnswers, BagStep
from oarpy.scheduler.bags.profiles import Profile
from oarpy.scheduler.decide import Decisions
from oarpy.scheduler.resources.platform import Platform
from oarpy.scheduler.snapshot import Snapshot
from oarpy.store.database import Connection
from oarpy.store.jobs import kill_requests
from oarpy.store.passes import bag_promises
from oarpy.store.passes.bag_promises import BagChange, LiveBagRow

WORTH_TELLING = 60
"""Seconds by which a promise improves at least."""
_TASKS_A_SECOND = 100
"""The number of tasks that can be placed anew in a second; between such passes, tasks only begin earlier in place."""
_SAME = 1
"""Seconds by which two instants may differ that mean the same."""

_EARLIER = "resources are free earlier than was expected"
_LATER = "its tasks get their resources later than was expected"
_LOST = "resources of its tasks were lost, or were not free in time"
_REPEATED = "tasks that failed are run again, and there was no room for them before"
_MORE_TASKS = "tasks that failed are run again"
_NO_ROOM = "tasks that failed are to be run again, and there is no room for them now"


class Bags(StatePart):
    """The bags of the cluster."""

    THERE = bag_promises.ANY_THERE

    def __init__(self, configuration: Configuration) -> None:
        self._share = configuration.scheduler.promised_share
        self._node_type = configuration.scheduler.node_type
        self._profile_limit = configuration.scheduler.profile_limit
        self._next_late: float | None = None
        self._rows: list[LiveBagRow] = []
        self._last: Snapshot | None = None
        self._thorough_at, self._hasty = -inf, False
        self._without_place: frozenset[int] = frozenset()

    def read(self, connection: Connection, *, any_there: bool) -> None:
        """Read the bags that are not over."""
        self._rows = bag_promises.live(connection) if any_there else []

    def promising(self, snapshot: Snapshot) -> BagStep | None:
        """Return the step for the bags, if there are any."""
        if not self._rows:
            return None
        bags = [
            Bag(
                row.bag,
                frozenset(row.tasks),
                row.deadline,
                row.strict,
                row.promise,
                -inf if row.last_end is None else row.last_end,
                frozenset(row.repeated),
                -inf if row.completion is None else row.completion,
                self._profile(row, snapshot.platform),
            )
            for row in self._rows
        ]
        replan = self._last is None or self._hasty or has_other_room(self._last, snapshot)
        return BagStep(bags, self._share, replan, thorough=snapshot.now >= self._thorough_again())

    def _profile(self, row: LiveBagRow, platform: Platform) -> Profile | None:
        """Return how long tasks take on the resources of each type of nodes, None if no type has a profile."""
        return profile_of(platform, self._node_type, row.profile) if row.profile else None

    def write(self, connection: Connection, decided: Decisions, snapshot: Snapshot, gone: Collection[int]) -> None:
        """Write new promises and changes of promises; end bags that have no task left."""
        if not self._rows:
            return
        if isinstance(decided.promised, BagAnswers):
            answers = decided.promised
            # a promise is reported broken once: its end is unknown until its tasks have places again
            reported = answers.without_place & self._without_place
            placed = {placement.job for placement in answers.accepted}
            for_places = {row.bag for row in self._rows if not placed.issuperset(row.repeated)}
            changes = (
                _change_of_waiting(row, answers) if row.bag in for_places else _change(row, answers)
                for row in self._rows
                if row.bag in for_places or row.bag not in reported
            )
            made = [change for change in changes if change is not None]
            bag_promises.change(connection, made)
            bag_promises.tell_unprofiled(connection, [change.bag for change in made if change.kind == "PROMISED"])
        bag_promises.end(connection)
        self._end_profiles(connection, snapshot.now)

    def _end_profiles(self, connection: Connection, now: float) -> None:
        """Have the jobs ended that take profiles of no use: the bag is over, or has waited for long enough."""
        self._next_late, kills = None, []
        for row in bag_promises.live_profiles(connection, [row.bag for row in self._rows]):
            late = row.submitted + self._profile_limit
            if row.over or late <= now:
                kills.append(
                    (row.job, f"bag {row.bag} is over" if row.over else f"the profile of bag {row.bag} is late")
                )
            else:
                self._next_late = min(late, self._next_late or inf)
        kill_requests.ask_once(connection, kills, "metascheduler")

    def committed(self, decided: Decisions, snapshot: Snapshot) -> None:
        """Remember the holders of resources, to see in the next pass which of them left earlier than expected."""
        self._last = decided.kept.snapshot if self._rows else None
        answers = decided.promised if isinstance(decided.promised, BagAnswers) else BagAnswers()
        self._hasty, self._without_place = answers.hasty, answers.without_place
        if not self._hasty:
            self._thorough_at = snapshot.now

    def next_pass(self, decided: Decisions, snapshot: Snapshot, now: float) -> float | None:
        """Return when tasks are placed anew of which some have just begun earlier, or when a profile is late."""
        instants = [*([self._thorough_again()] if self._hasty else []), *([self._next_late] if self._next_late else [])]
        return min(instants, default=None)

    def _thorough_again(self) -> float:
        """Return from when on all tasks may be placed anew (epoch seconds)."""
        return self._thorough_at + sum(len(row.tasks) for row in self._rows) / _TASKS_A_SECOND


def profile_of(platform: Platform, node_type: str, seconds: Mapping[str, float]) -> Profile:
    """Return how long tasks take on the resources of each type of nodes, by the ``seconds`` on nodes of a type."""
    kinds = node_types(platform, node_type)
    return Profile([(kind.bits, seconds[str(kind.value)]) for kind in kinds if str(kind.value) in seconds])


def _change_of_waiting(row: LiveBagRow, answers: BagAnswers) -> BagChange | None:
    """Return the change of a promised bag while failed tasks wait for places: the end of the bag is not known."""
    if row.bag not in answers.without_place:
        change = _change(row, answers)
        return change if change is not None and change.kind == "BROKEN" else None
    if row.promise is None or row.expected is None:  # that was reported
        return None
    text = f"when it is done is not known, it was to be by {local_instant(row.promise)}: {_NO_ROOM}"
    return BagChange(row.bag, "BROKEN", row.promise, None, _NO_ROOM, text)


def _change(row: LiveBagRow, answers: BagAnswers) -> BagChange | None:
    """Return the change of a bag, None if there is none."""
    if not row.tasks and not row.repeated:
        return None
    if refused := next((answers.refused[task] for task in row.tasks if task in answers.refused), None):
        reason = sentence(refused[0], local_instant)
        return BagChange(row.bag, "REFUSED", refused[1], None, reason, reason)
    planned = answers.expected[row.bag]
    if planned == -inf:  # no task of it holds anything
        return None
    expected = _expected(row, answers, planned)
    if row.promise is None:
        promise = answers.promises.get(row.bag)
        if promise is None:
            return None
        text = f"it is done by {_with_expected(promise, expected)}"
        return BagChange(row.bag, "PROMISED", promise, expected, "it was submitted", text)
    repeating = row.bag in answers.repeating
    if planned >= row.promise + _SAME:
        cause = _REPEATED if repeating else _LOST
        text = f"it is done by {local_instant(planned)}, not by {local_instant(row.promise)}: {cause}"
        return BagChange(row.bag, "BROKEN", planned, expected, cause, text)
    better = planned if row.deadline is None else max(planned, row.deadline)
    if better <= row.promise - WORTH_TELLING:
        text = f"it is done by {_with_expected(better, expected)}, not by {local_instant(row.promise)}: {_EARLIER}"
        return BagChange(row.bag, "IMPROVED", better, expected, _EARLIER, text)
    before = row.promise if row.expected is None else row.expected
    if row.expected is not None and abs(expected - before) < (WORTH_TELLING if row.profile else _SAME):
        return None
    cause = _EARLIER if expected < before else _MORE_TASKS if repeating else _LATER
    text = f"it is expected by {local_instant(expected)}, not by {local_instant(before)}: {cause}"
    return BagChange(row.bag, "EXPECTED", row.promise, expected, cause, text)


def _with_expected(promise: float, expected: float) -> str:
    """Return the date of a promise, and when the bag is expected to be done if that is earlier."""
    sooner = f" (expected by {local_instant(expected)})" if expected <= promise - WORTH_TELLING else ""
    return f"{local_instant(promise)}{sooner}"


def _expected(row: LiveBagRow, answers: BagAnswers, planned: float) -> float:
    """Return when a bag is expected to be done: by its profile, without one as it is ``planned`` by walltimes."""
    if not row.profile:
        return planned
    known = planned if row.expected is None else min(row.expected, planned)
    return answers.predicted.get(row.bag, known)
