"""``oargridsub --parts any --dry-run``: where a program over clusters would go by their present answers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from math import ceil

from oarpy.client.rendering import Column, JsonValue, Table, local_date, one_line
from oarpy.client.session import Session
from oarpy.grid.broker.coallocated.free_slots import SlotsFound, look_for_slots, parallel_request
from oarpy.grid.broker.connections import ClusterConnections, Opening
from oarpy.grid.broker.conversations import Conversation, Conversations
from oarpy.grid.core.broker_state import BrokerState, GridCluster
from oarpy.grid.core.coallocation.common_start import CommonPlace
from oarpy.grid.core.metajobs import ParallelJob, ReserveParts, SlotsTold, place
from oarpy.grid.submission.grid_draft import GridDraft
from oarpy.store.grid import clusters, door_sessions, metajobs
from oarpy.store.grid.clusters import GridClusterRow
from oarpy.store.grid.metajobs import NewMetajob
from oarpy.transport.wakeup import readable

_ALL = 2**62


@dataclass(frozen=True, slots=True)
class SpreadRehearsal:
    """A job that was not stored: the free slots of each cluster, or why it was left out, and the place of the job."""

    drafted: GridDraft
    asked: NewMetajob
    found: SlotsFound
    place: CommonPlace | None

    @property
    def refused(self) -> bool:
        """Whether it would be in Error: all clusters that may answer did, and have no room."""
        return self.place is None and not self.found.silent

    def text(self) -> str:
        """Return it for people."""
        columns = (Column("Cluster"), Column("Processors"), Column("What it has"))
        rows = [(name, self._processors(name), one_line(words)) for name, words in self.found.words.items()]
        lines = [Table(columns, tuple(rows)).text()]
        if self.place is not None:
            end = local_date(self.place.end)
            lines.append(f"It would begin at {local_date(self.place.start)}, and be over by {end}.\n")
        else:
            lines.append("It has no room.\n" if self.refused else "Nobody knows: clusters do not answer.\n")
        return "".join(lines)

    def data(self) -> dict[str, JsonValue]:
        """Return it for programs; dates are epoch seconds, durations seconds."""
        return {
            "kind": self.drafted.job.kind,
            "procs": self.asked.procs,
            "walltime": self.drafted.job.walltime,
            "refused": self.refused,
            "start": None if self.place is None else self.place.start,
            "end": None if self.place is None else self.place.end,
            "parts": {} if self.place is None else dict(self.place.parts),
            "told": dict(self.found.words),
        }

    def _processors(self, cluster: str) -> str:
        parts: Mapping[str, int] = {} if self.place is None else self.place.parts
        return str(parts.get(cluster, 0))


def rehearse_spread(
    session: Session, drafted: GridDraft, metajob: NewMetajob, opening: Opening, most_at_once: int
) -> SpreadRehearsal:
    """Ask clusters for free slots, and return where the job would go. Nothing is stored, and nothing held."""
    settings, now = session.configuration.grid, time.time()
    rows = [row for row in clusters.every(session.connection) if row.active]
    job, (component,) = drafted.job, drafted.job.components
    with (
        door_sessions.place_to_ask(session.connection, most_at_once) as free,
        closing(ClusterConnections(opening)) as connections,
    ):
        if not free:
            busy = f"not asked: {most_at_once} users ask clusters at present; try again"
            return SpreadRehearsal(
                drafted, metajob, SlotsFound({}, {row.name: busy for row in rows}, silent=True), None
            )
        connections.adopt(rows)
        conversation = look_for_slots(rows, job, component, metajob, {}, settings.clock_tolerance, now)
        slots = carried_out(conversation, connections)
        assert isinstance(slots, SlotsFound)
    return SpreadRehearsal(drafted, metajob, slots, _place(session, rows, drafted, metajob, slots, now))


def _place(
    session: Session,
    rows: list[GridClusterRow],
    drafted: GridDraft,
    metajob: NewMetajob,
    slots: SlotsFound,
    now: float,
) -> CommonPlace | None:
    """Return the place that the broker would give the job, None where there is none."""
    names = [row.name for row in rows if row.name in slots.free]
    if not names:
        return None
    everybody = [row.name for row in rows]
    first = everybody[metajobs.count_before(session.connection, _ALL) % len(everybody)]
    state = BrokerState(tuple(GridCluster(row.name, row.procs or 0, row.speed) for row in rows))
    request = parallel_request(drafted.job.walltime, metajob)
    ready = ceil(now + session.configuration.grid.commit_lead)
    (action,) = place(state, SlotsTold(ParallelJob(0, request, first), slots.free, ready), now)
    return action.place if isinstance(action, ReserveParts) else None


def carried_out(conversation: Conversation[object], connections: ClusterConnections) -> object:
    """Run a conversation to its end; return its result."""
    conversations = Conversations[object](connections.submit, time.time)
    conversations.begin("asked", conversation)
    while not (over := conversations.go_on()):
        wake_at = conversations.wake_at() or time.time()
        readable(list(conversations.files()), max(0.0, wake_at - time.time()))
    ((_, result),) = over
    return result
