"""Looks for room: each cluster is asked once for all jobs whose tries are due, and no room is promised to two jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from oarpy.grid.broker.coallocated.cluster_room import ClusterRoom, RoomAsked, sound, try_due
from oarpy.grid.broker.conversations import CallBatch, ClusterCall, Conversation, Conversations
from oarpy.grid.core.exchanges import ClaimParts, TryDue
from oarpy.model.errors import OarpyError
from oarpy.store.grid.clusters import GridClusterRow

_PATIENCE, _PATIENCE_A_REQUEST = 5.0, 0.5
"""Seconds that a cluster has for its answer, and for each kind of request."""


@dataclass(frozen=True, slots=True)
class RoomFound:
    """The answers for a try: the event for the core, and the words of clusters that were silent or refused."""

    due: TryDue
    silent: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RoomsFound:
    """The answers of a look: ``jobs`` has the question of each job, ``told`` the answers by question and by cluster."""

    jobs: Mapping[int, RoomAsked]
    told: Mapping[RoomAsked, dict[str, ClusterRoom | OarpyError]]

    def of(self, job: int, rows: Sequence[GridClusterRow]) -> RoomFound:
        """Return the room for a job on these clusters, behind the jobs that have :meth:`taken` theirs.

        Any other cluster was disabled or closed since it was asked, and counts as silent.
        """
        names, told = {row.name for row in rows}, self.told[self.jobs[job]]
        answers = {name: answer for name, answer in told.items() if name in names}
        silent = {name: str(answer) for name, answer in answers.items() if isinstance(answer, OarpyError)}
        left = {name: f"cluster '{name}' is not in use any more" for name in told.keys() - names}
        return RoomFound(try_due(job, answers), {**silent, **left})

    def taken(self, claim: ClaimParts) -> None:
        """Let the jobs with the same request see only the room that is left."""
        question, gone = self.jobs[int(claim.job)], set(map(str, claim.evicted))
        answers = self.told[question]
        for name, count in Counter(claim.clusters).items():
            room = answers[name]
            assert isinstance(room, ClusterRoom)
            victims = [job for job in room.evictable if f"{name}:{job.job}" in gone]
            idle = room.idle + sum(job.procs for job in victims) - count * question.request.procs
            left = tuple(job for job in room.evictable if job not in victims)
            answers[name] = replace(room, idle=max(idle, 0), evictable=left)


@dataclass(slots=True)
class RoomLooks:
    """The jobs that need room: added since the last look, or waiting for answers.

    ``tolerance`` is how far clocks of clusters may be off, in seconds.
    """

    conversations: Conversations[object]
    tolerance: float
    _added: dict[int, RoomAsked] = field(default_factory=dict)
    _awaited: set[int] = field(default_factory=set)

    def __contains__(self, job: int) -> bool:
        return job in self._added or job in self._awaited

    def add(self, job: int, question: RoomAsked) -> None:
        """Add a job to the next look for room."""
        self._added[job] = question

    def forget(self, *jobs: int) -> None:
        """Look for these jobs no more."""
        for job in jobs:
            self._added.pop(job, None)
            self._awaited.discard(job)

    def clear(self) -> None:
        """Look for no job any more."""
        self._added.clear()
        self._awaited.clear()

    def begin(self, clusters: Sequence[GridClusterRow]) -> None:
        """Begin one look for all added jobs, named ``("room", JOB)`` after the job of the lowest number."""
        if self._added:
            jobs = dict(self._added)
            self._added.clear()
            self._awaited |= set(jobs)
            self.conversations.begin(("room", min(jobs)), self._look(jobs, clusters))

    def _look(self, jobs: Mapping[int, RoomAsked], clusters: Sequence[GridClusterRow]) -> Conversation[RoomsFound]:
        """Ask all clusters at the same time for room, each only for jobs of users to whom it is open."""
        questions = list(dict.fromkeys(jobs.values()))
        patience = _PATIENCE + _PATIENCE_A_REQUEST * len(questions)
        clock, tolerance = self.conversations.clock, self.tolerance
        open_to = {
            cluster.name: [each for each in questions if not cluster.refusal_to(each.request.user)]
            for cluster in clusters
        }
        wanted = {name: some for name, some in open_to.items() if some}
        calls = [
            ClusterCall(name, partial(sound, questions=some, clock=clock, tolerance=tolerance), 2 * patience)
            for name, some in wanted.items()
        ]
        answers = yield CallBatch(calls, patience)
        rooms: dict[RoomAsked, dict[str, ClusterRoom | OarpyError]] = {question: {} for question in questions}
        for (name, some), answer in zip(wanted.items(), answers, strict=True):
            each = answer if isinstance(answer, list) else [answer] * len(some)
            for question, its in zip(some, each, strict=True):
                rooms[question][name] = its
        return RoomsFound(jobs, rooms)
