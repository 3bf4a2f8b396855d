"""``oarstat --why``: why a job waits, and the changes that would let it start, on the state of this moment."""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from oarpy.admission.filters.parts import parts_of, split
from oarpy.client.jobs import rates
from oarpy.client.session import Session
from oarpy.cluster_state.order_plugins import SiteOrders
from oarpy.cluster_state.snapshot_reader import SnapshotReader
from oarpy.cluster_state.what_if import foreseen, read_only
from oarpy.model.errors import NotFound, OarpyError
from oarpy.model.request import ResourceRequest
from oarpy.model.states import JobState
from oarpy.model.submission import Submission
from oarpy.scheduler.decide import Kept, keep_promises
from oarpy.scheduler.explain.counterfactuals import Counterfactuals, counterfactuals
from oarpy.scheduler.explain.written_filters import FilterParts, WrittenFilters, all_written
from oarpy.scheduler.resources.platform import NETWORK_ADDRESS
from oarpy.scheduler.rules.energy import ASLEEP, waking_of, while_waking
from oarpy.scheduler.rules.suspended_jobs import Resumption, held_up_by
from oarpy.scheduler.snapshot import Alternative, Snapshot, WaitingJob, condition, conditions
from oarpy.scheduler.verdicts import Verdict
from oarpy.store import notifications
from oarpy.store.database import Connection
from oarpy.store.passes.last_answer import LastAnswer, asked, standing
from oarpy.store.platform import nodes
from oarpy.store.platform.nodes import NodeDescription

_WAITING = frozenset({JobState.WAITING, JobState.HOLD, JobState.TO_ACK_RESERVATION})


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job waits. ``answer`` is None if no decision of the scheduler is due: then ``standing`` says all.

    ``owners`` are the users of the jobs that ``answer`` names. ``culprits`` has, for each of its shortages, the one
    part of the condition that no resource meets, ``""`` when there is no such part. ``stopped``: the queue of the job
    is not active. ``asleep`` are the nodes that have to wake before it starts, ``away`` the nodes it could use that are
    drained or down. ``resumption`` is when a resuming job goes on, ``held_up_by`` the jobs that are over by then.
    ``unscheduled``: no meta-scheduler runs. ``security`` is the security time that is counted, in seconds.
    ``mapping`` are sentences about the map of its processes.
    """

    standing: LastAnswer
    answer: Counterfactuals | None = None
    owners: dict[int, str] | None = None
    culprits: tuple[str, ...] = ()
    stopped: bool = False
    asleep: tuple[str, ...] = ()
    away: tuple[NodeDescription, ...] = ()
    resumption: Resumption | None = None
    held_up_by: tuple[int, ...] = ()
    unscheduled: bool = False
    security: float = 0.0
    mapping: tuple[str, ...] = ()


def explain(session: Session, job_id: int) -> Explanation:
    """Explain how job ``job_id`` stands. Raises :class:`NotFound`."""
    connection = session.connection
    with _collection_put_off(), connection.transaction():
        reader = session.snapshot_reader()
        kept = keep_promises(read_only(connection, reader).snapshot)
        stored = standing(connection, job_id)
        if stored is None:
            raise NotFound(f"job {job_id} does not exist", hint="oarstat shows the jobs")
        snapshot = kept.snapshot
        job = next((waiting for waiting in snapshot.waiting if waiting.id == job_id), None)
        mapping = rates.sentences(session, job_id)
        if job is None or JobState(stored.state) not in _WAITING:
            return replace(_resuming(stored, kept), mapping=mapping)
        written = _written_filters(connection, job)
        reader.resolve(connection, written.conditions())
        snapshot = replace(snapshot, shown={**snapshot.shown, **_shown(job, written)})
        places = foreseen(connection, snapshot.platform)
        if any(claim.bits & snapshot.asleep for claim in places.values()):
            places = {}  # a job that waits for nodes to wake was placed at once, and has a later predicted start
        waking, snapshot = waking_of(snapshot), while_waking(snapshot)
        answer = counterfactuals(snapshot, job_id, SiteOrders(), reader.matchers, places, waking, written)
        asleep = _asleep(snapshot, answer.bits & snapshot.asleep)
        if asleep and (answer.verdict is Verdict.STARTS or answer.start == snapshot.now + waking.seconds):
            answer = replace(answer, verdict=Verdict.RESOURCES_DOWN, reason=ASLEEP)
        return Explanation(
            standing=stored,
            answer=answer,
            asleep=asleep,
            owners=_owners(snapshot, answer),
            culprits=tuple(_culprit(connection, reader, snapshot, shortage.condition) for shortage in answer.shortages),
            away=_away(connection, snapshot, job) if answer.verdict is Verdict.RESOURCES_DOWN else (),
            stopped=any(queue.name == job.queue and not queue.active for queue in snapshot.queues),
            unscheduled=not notifications.is_scheduled(connection),
            security=snapshot.security_time,
            mapping=mapping,
        )


def _resuming(stored: LastAnswer, kept: Kept) -> Explanation:
    resumption = next((planned for planned in kept.resumptions if planned.job == stored.job), None)
    if resumption is None:
        return Explanation(stored)
    return Explanation(stored, resumption=resumption, held_up_by=tuple(held_up_by(kept.snapshot, resumption)))


def _shown(job: WaitingJob, written: WrittenFilters) -> dict[str, str]:
    """Return the conditions of a job, each as its user wrote it."""
    pairs = (
        (condition(job.properties, group.filter), written.told(parts))
        for way, groups in zip(job.alternatives, written.groups, strict=True)
        for group, parts in zip(way.groups, groups, strict=True)
    )
    return dict(pairs)


def _away(connection: Connection, snapshot: Snapshot, job: WaitingJob) -> tuple[NodeDescription, ...]:
    """Return the drained and down nodes that the job could use otherwise."""
    platform, bits = snapshot.platform, 0
    for text in conditions([job]) or {""}:
        now = snapshot.filters.get(text, 0) if text else platform.default_type
        back = (now | snapshot.returning.get(text, 0)) & platform.not_dead
        bits |= back & ~(now & platform.alive)
    return nodes.describe(connection, _nodes(snapshot, bits))


def _asleep(snapshot: Snapshot, bits: int) -> tuple[str, ...]:
    """Return the nodes of sleeping resources."""
    return _nodes(snapshot, bits)


def _nodes(snapshot: Snapshot, bits: int) -> tuple[str, ...]:
    return tuple(str(block.value) for block in snapshot.platform.blocks(NETWORK_ADDRESS) if block.bits & bits)


@contextmanager
def _collection_put_off() -> Iterator[None]:
    """Keep the garbage collector from repeated walks over a platform while it is read."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _owners(snapshot: Snapshot, answer: Counterfactuals) -> dict[int, str]:
    named = {holder.job for holder in answer.holders} | set(answer.quota.jobs if answer.quota else ())
    users = {job.id: job.user for job in snapshot.waiting} | {job.id: job.user for job in snapshot.holding}
    return {job: users[job] for job in named}


def _culprit(connection: Connection, reader: SnapshotReader, snapshot: Snapshot, condition: str) -> str:
    """Return the first part of ``condition`` that no resource meets by itself."""
    from oarpy.admission.filters.parts import conjuncts

    if not condition:
        return ""
    try:
        parts = conjuncts(condition)
    except OarpyError:
        return ""
    reader.resolve(connection, parts)
    return next((part for part in parts if snapshot.filters.get(part) == 0), "")


def _written_filters(connection: Connection, job: WaitingJob) -> WrittenFilters:
    """Return the filters without the parts that admission rules added to them.

    A later change by hand counts as written.
    """
    record, admitted = asked(connection, job.id)
    try:
        submission = Submission.from_record(record)
        typed = [submission.properties, *(group.filter for way in submission.alternatives for group in way.groups)]
        whole = admitted or [job.properties, *(group.filter for way in job.alternatives for group in way.groups)]
        added = parts_of(whole) - parts_of(typed)
        ways = submission.alternatives
        groups = tuple(
            _groups(way, ways[place] if place < len(ways) else ResourceRequest(()), added)
            for place, way in enumerate(job.alternatives)
        )
        return WrittenFilters(FilterParts(*split(job.properties, added, submission.properties)), groups)
    except OarpyError:  # written by hand: without a record, or with a text that is no filter
        return all_written(job)


def _groups(way: Alternative, request: ResourceRequest, added: Collection[str]) -> tuple[FilterParts, ...]:
    """Return the parts of the filters of one alternative."""
    typed = [group.filter for group in request.groups]
    typed += [""] * (len(way.groups) - len(typed))
    return tuple(FilterParts(*split(group.filter, added, text)) for group, text in zip(way.groups, typed, strict=False))
