"""The watcher: takes in the events of parts on clusters, with their effect on jobs, and has clusters end parts.

Each cluster with parts is asked again and again for the events since the last one that was taken in. So are clusters
that make offers, while a bag waits for its clusters: they tell of newer plans. A cluster that does not answer changes
nothing: its parts go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import get_args

import structlog

from oarpy.grid.broker.broker_module import BrokerModule
from oarpy.grid.broker.coallocated.cluster_room import read_clock
from oarpy.grid.broker.connections import ClusterConnections
from oarpy.grid.broker.conversations import CallBatch, ClusterCall, Conversation
from oarpy.grid.calls.parts import (
    Ability,
    ClusterDescription,
    ClusterEvent,
    PartCompletion,
    PartEnded,
    PartEvent,
    PartIdle,
    PartLapsed,
    PartLost,
    PartOver,
    PartStarted,
    PartTaskOver,
    PlanChanged,
)
from oarpy.grid.calls.table import CallRefused, Cancel, Cluster, ClusterSilent, Events
from oarpy.model.errors import OarpyError
from oarpy.model.states import GridJobState, GridPartState
from oarpy.modules.loop.module import Outcome
from oarpy.store.database import Connection
from oarpy.store.grid import (
    bags,
    broker_jobs,
    broker_parts,
    clusters,
    decisions,
    metajobs,
    reallocation_passes,
    transactions,
)
from oarpy.store.grid.broker_jobs import GridJobRow
from oarpy.store.grid.broker_parts import GridPartRow
from oarpy.store.grid.clusters import GridClusterRow

log = structlog.get_logger()

MODULE = "watcher"
_DESCRIBE_PERIOD = 30.0
_FORGET_PERIOD = 3600.0
_CANCEL_PERIOD = 30.0
"""Seconds after which a cluster is asked again to end a part that goes on."""
_TOGETHER = 100
"""Events that are taken in by one transaction."""
_LOST_NO_MORE = "all of its tasks had ended: that was heard late, when some had been told lost"
_LIVE = (GridPartState.COMMITTING, GridPartState.WAITING, GridPartState.FREEZING, GridPartState.FROZEN)


@dataclass(frozen=True, slots=True)
class _NewEvents:
    """Events of a cluster to be taken in; ``anew``: the cluster has lost some, and these are all that it has."""

    events: list[ClusterEvent]
    anew: bool = False


class Watcher(BrokerModule):
    """The module. Clusters with parts are asked every ``watch_period`` seconds; decisions are kept ``keep`` seconds.

    Clocks of clusters are read to within ``tolerance`` seconds.
    """

    name = MODULE

    def __init__(
        self,
        watch_period: float,
        keep: float,
        connections: ClusterConnections,
        clock: Callable[[], float] = time.time,
        tolerance: float = 0.5,
    ) -> None:
        super().__init__(connections, clock)
        self._watch_period = watch_period
        self._keep = keep
        self._tolerance = tolerance
        self._due: dict[Hashable, float] = {}

    def _begin_anew(self, connection: Connection) -> None:
        self._due.clear()

    def _round(self, connection: Connection, rows: Sequence[GridClusterRow]) -> Outcome:
        changes = 0
        self._ask(connection, {row.name: row for row in rows})
        while over := self._conversations.go_on():
            for name, result in over:
                changes += self._hear(connection, name, result)
            self._ask(connection, {row.name: row for row in clusters.every(connection)})
        if self._is_due(("forget",), _FORGET_PERIOD):
            decisions.forget(connection, self._keep)
        dates = [*self._due.values(), self._conversations.wake_at()]
        wake_at = min((date for date in dates if date is not None), default=None)
        word = f"took in {changes}" if changes else "nothing"
        return Outcome(word, wake_at=wake_at, pending=self._conversations.wake_at() is not None)

    def _is_due(self, name: Hashable, period: float) -> bool:
        """Tell whether an action is due again, and note its next date."""
        now = self._clock()
        if name in self._conversations or self._due.get(name, 0) > now:
            return False
        self._due[name] = now + period
        return True

    def _ask(self, connection: Connection, rows: dict[str, GridClusterRow]) -> None:
        """Ask clusters for their events and descriptions, and have parts ended, as far as that is due."""
        for part in broker_parts.to_end(connection):
            if self._is_due(("cancel", part.name), _CANCEL_PERIOD):
                self._conversations.begin(("cancel", part.name), _cancel(part))
        in_use, offers = set(broker_parts.clusters_in_use(connection)), bags.are_composed(connection)
        for name, row in rows.items():
            listened_to = name in in_use or (offers and row.active and "offer" in row.abilities)
            if listened_to and self._is_due(("events", name), self._watch_period):
                self._conversations.begin(("events", name), _events(row))
            if row.active and self._is_due(("describe", name), _DESCRIBE_PERIOD):
                self._conversations.begin(("describe", name), _describe(name, self._clock, self._tolerance))
        self._due = {name: date for name, date in self._due.items() if date > self._clock()}

    def _hear(self, connection: Connection, name: Hashable, result: object) -> int:
        """Take in an answer; return how many events there were."""
        assert isinstance(name, tuple)
        if name[0] == "cancel":
            if isinstance(result, ClusterSilent):
                self._due[name] = self._clock() + self._watch_period
            return self._end_unknown(connection, name[1]) if result is False else 0
        cluster = name[1]
        if isinstance(result, ClusterSilent):
            clusters.note_silence(connection, cluster, str(result))
            return 0
        if isinstance(result, OarpyError):
            clusters.note_silence(connection, cluster, f"it refuses: {result}")
            return 0
        if name[0] == "describe":
            assert isinstance(result, tuple)
            description, offset = result
            abilities = [arg for arg in get_args(Ability) if getattr(description.abilities, arg)]
            clusters.note_description(connection, cluster, description.procs, abilities, offset, description.speed)
            return 0
        clusters.note_answer(connection, cluster)
        assert isinstance(result, _NewEvents)
        if result.anew:
            log.warning("the events of a cluster went back: all are taken in again", cluster=cluster)
            clusters.forget_events(connection, cluster)
        events = result.events
        for place in range(0, len(events), _TOGETHER):
            self._take_in(connection, cluster, events[place : place + _TOGETHER])
        if events:
            # there may be more
            self._due.pop(("events", cluster), None)
        return len(events)

    def _end_unknown(self, connection: Connection, name: str) -> int:
        """End a part that its cluster does not know, as after a restore there: no event of it will come."""
        for known in broker_parts.by_name(connection, [name]):
            with self._one_job(connection, known.job):
                (part,) = broker_parts.lock(connection, [name])
                (job,) = broker_jobs.read(connection, [part.job])
                reason = f"cluster '{part.cluster}' does not know it any more"
                change_part(connection, part, job, PartLost(0, self._clock(), name, reason=reason))
        return 1

    def _take_in(self, connection: Connection, cluster: str, events: Sequence[ClusterEvent]) -> None:
        """Take in events of a cluster: in one transaction, or one by one when that fails.

        An event that cannot be taken in goes to the log and to its job's message, and hinders no later event.
        """
        of_parts = [event for event in events if isinstance(event, PartEvent)]
        alone = broker_parts.by_name(connection, [event.part for event in of_parts]) if len(events) == 1 else []
        with self._one_job(connection, *(part.job for part in alone)) as attempt:
            _change_parts(connection, cluster, of_parts)
            if plans := [event.plan for event in events if isinstance(event, PlanChanged)]:
                clusters.note_plan(connection, cluster, plans[-1])
            clusters.note_event(connection, cluster, events[-1].number)
        if not attempt.failure:
            return
        if len(events) > 1:
            for single in events:
                self._take_in(connection, cluster, [single])
            return
        (event,) = events
        log.error("an event was passed over", cluster=cluster, number=event.number, kind=event.kind)
        clusters.note_event(connection, cluster, event.number)


def _change_parts(connection: Connection, cluster: str, events: Sequence[PartEvent]) -> None:
    """Apply events to parts, in their order. Parts are locked together; a part that has changed is read again."""
    parts = {part.name: part for part in broker_parts.lock(connection, list({event.part for event in events}))}
    jobs = {job.id: job for job in broker_jobs.read(connection, list({part.job for part in parts.values()}))}
    changed: set[str] = set()
    for event in events:
        part = parts.get(event.part)
        if part is None or part.cluster != cluster:
            continue
        job = jobs[part.job]
        if isinstance(event, PartTaskOver | PartCompletion):
            if job.kind == "bag":
                _note_of_bag(connection, job, event)
            continue
        if event.part in changed:
            (part,) = broker_parts.by_name(connection, [event.part])
            (job,) = broker_jobs.read(connection, [part.job])
        change_part(connection, part, job, event)
        changed.add(event.part)


def change_part(connection: Connection, part: GridPartRow, job: GridJobRow, event: PartEvent) -> None:
    """Apply an event to a part and its job. Call it within a transaction, with the part locked."""
    if isinstance(event, PartIdle):
        if job.kind == "metajob" and part.state in _LIVE:
            metajobs.note_idle(connection, [job.id], part.cluster)
        return
    if isinstance(event, PartLapsed) or (part.state is GridPartState.PREPARED and isinstance(event, PartOver)):
        # undecided, it can be given up; decided, the cluster will refuse to commit it
        transactions.give_up(connection, part.transaction, f"cluster '{part.cluster}': {event.reason or 'it lapsed'}")
        return
    if part.state is GridPartState.DELETING and isinstance(event, PartStarted):
        reason = f"cluster '{part.cluster}' let it go on before it heard of the decision"
        transactions.keep_old(connection, part.transaction, part.cluster, reason)
        reallocation_passes.settle_moves_of(connection, part.transaction, "given up", reason)
        part = broker_parts.by_name(connection, [part.name])[0]
    if part.state in _LIVE:
        if part.state in (GridPartState.FREEZING, GridPartState.FROZEN):
            broker_parts.move(connection, part.name, GridPartState.WAITING)
        if isinstance(event, PartStarted):
            broker_parts.move(
                connection,
                part.name,
                GridPartState.RUNNING,
                started=event.at,
                hosts=event.hosts,
                cluster_job=event.job,
            )
    elif part.state is not GridPartState.RUNNING:
        return
    if isinstance(event, PartOver):
        broker_parts.move(connection, part.name, GridPartState.ENDED, event.reason, ended=event.at, status=event.status)
    if job.kind == "mapped":
        _change_job(connection, job, part, event)
    elif job.state is GridJobState.MISSED:
        _heard_late(connection, job)


def _note_of_bag(connection: Connection, job: GridJobRow, event: PartTaskOver | PartCompletion) -> None:
    """Note the events of tasks of a bag, or when they are done."""
    if isinstance(event, PartCompletion):
        bags.note_completion(connection, event.part, event.completion)
        return
    bags.task_over(connection, event.part, event.task, event.status, event.reason)
    if job.state is GridJobState.ERROR and bags.all_ended(connection, job.id):
        broker_jobs.note(connection, [job.id], _LOST_NO_MORE)


def _change_job(connection: Connection, job: GridJobRow, part: GridPartRow, event: PartEvent) -> None:
    """Apply an event of a mapped job's one part to the job."""
    started = event.at if part.started is None else part.started
    match event:
        case PartStarted():
            broker_jobs.move(connection, [job.id], GridJobState.RUNNING, "", started=event.at)
        case PartEnded() if job.delete_asked is None:
            if job.state is GridJobState.MAPPED:
                broker_jobs.move(connection, [job.id], GridJobState.RUNNING, started=started)
            broker_jobs.move(
                connection, [job.id], GridJobState.TERMINATED, event.reason, ended=event.at, status=event.status
            )
        case PartLost() if part.started is None and job.delete_asked is None:
            reason = f"cluster '{part.cluster}' lost it: {event.reason}"
            broker_jobs.move(connection, [job.id], GridJobState.SUBMITTED, reason)
        case _:
            reason = f"deleted by {job.delete_by}" if job.delete_asked else event.reason or event.kind
            broker_jobs.move(connection, [job.id], GridJobState.ERROR, reason, ended=event.at, status=event.status)


def _heard_late(connection: Connection, job: GridJobRow) -> None:
    """Correct the recorded end of a job after a cluster was silent: all of its parts may have run."""
    rows = broker_parts.last_of_jobs(connection, [job.id])
    started = [row.started for row in rows if row.started is not None]
    ended = [row.ended for row in rows if row.ended is not None]
    if len(started) < len(rows) or len(ended) < len(rows):
        return
    statuses = [row.exit_status for row in rows if row.exit_status is not None]
    if len(statuses) == len(rows):
        status = next(filter(None, statuses), 0)
        message = "all of its parts ran: that was heard late"
        broker_jobs.correct(connection, job.id, started=min(started), ended=max(ended), status=status, message=message)
    else:
        message = "all of its parts had started: that was heard late, when those that still ran had been ended"
        broker_jobs.note(connection, [job.id], message)


def _events(row: GridClusterRow) -> Conversation[object]:
    """Ask a cluster for its events after the last known one. A cluster that was restored has none so late.

    Slurm forgets its jobs soon. Its numbers are instants, and it gives all events again when asked for a number in the
    future.
    """
    after = row.last_event

    def ask(cluster: Cluster) -> _NewEvents:
        if row.kind != "oarpy" or not after:
            events = list(cluster.ask(Events(after)))
            return _NewEvents(events, anew=bool(events) and events[0].number <= after)
        events = list(cluster.ask(Events(after - 1)))
        if events:
            return _NewEvents([event for event in events if event.number > after])
        return _NewEvents(list(cluster.ask(Events(0))), anew=True)

    (answer,) = yield CallBatch([ClusterCall(row.name, ask)], patience=10.0)
    return answer


def _describe(name: str, clock: Callable[[], float], tolerance: float) -> Conversation[object]:
    def ask(cluster: Cluster) -> tuple[ClusterDescription, float]:
        return read_clock(cluster, clock, tolerance)

    (answer,) = yield CallBatch([ClusterCall(name, ask)], patience=10.0)
    return answer


def _cancel(part: GridPartRow) -> Conversation[object]:
    """End a part. Each call has a new key, so that a part that still goes on is ended again."""
    key = f"{part.name}:cancel:{time.time_ns()}"
    call = Cancel(part.name, part.message, key=key)
    (answer,) = yield CallBatch([ClusterCall(part.cluster, call)], patience=10.0)
    if isinstance(answer, CallRefused):
        log.warning("a cluster does not end a part", part=part.name, cluster=part.cluster, reason=str(answer))
    return answer
