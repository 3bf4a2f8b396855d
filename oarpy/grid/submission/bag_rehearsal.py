"""``oargridsub --bag N --dry-run``: by when a bag would be done, and where its tasks would go, by present offers."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass

from oarpy.client.rendering import Column, JsonValue, Table, local_date, one_line
from oarpy.client.session import Session
from oarpy.grid.broker.coallocated.bag_offers import OffersFound, ask_for_offers
from oarpy.grid.broker.coallocated.bags import bag_asked
from oarpy.grid.broker.connections import ClusterConnections, Opening
from oarpy.grid.core.bag_awards import AwardTasks, OffersTold, RefuseBag, share
from oarpy.grid.core.broker_state import BrokerState
from oarpy.grid.submission.grid_draft import GridDraft
from oarpy.grid.submission.spread_rehearsal import carried_out
from oarpy.store.grid import clusters, door_sessions
from oarpy.store.grid.bags import NewGridBag


@dataclass(frozen=True, slots=True)
class BagRehearsal:
    """A bag that was not stored: the offer of each cluster, or why it was left out, and the result."""

    drafted: GridDraft
    asked: NewGridBag
    found: OffersFound
    outcome: AwardTasks | RefuseBag

    @property
    def refused(self) -> bool:
        """Whether it would be in Error: all clusters that may answer did, and it is not done, or not in time."""
        return isinstance(self.outcome, RefuseBag) and (self.outcome.end is not None or not self.found.silent)

    @property
    def end(self) -> float | None:
        """By when it would be done, or could be."""
        if isinstance(self.outcome, AwardTasks):
            return max(float(part.end) for part in self.outcome.parts)
        return self.outcome.end

    def text(self) -> str:
        """Return it for people."""
        columns = (Column("Cluster"), Column("Tasks"), Column("What it offers"))
        given = self._given()
        rows = [(name, str(given.get(name, 0)), one_line(words)) for name, words in self.found.words.items()]
        lines = [Table(columns, tuple(rows)).text(), self._verdict()]
        if self.found.policy != self.asked.policy:
            lines.append(f"Clusters tell too little for {self.asked.policy}: {self.found.policy} is used.\n")
        return "".join(lines)

    def data(self) -> dict[str, JsonValue]:
        """Return it for programs; dates are epoch seconds, durations seconds."""
        return {
            "kind": self.drafted.job.kind,
            "tasks": self.asked.tasks,
            "walltime": self.drafted.job.walltime,
            "deadline": self.asked.deadline,
            "policy": self.asked.policy,
            "used_policy": self._used(),
            "refused": self.refused,
            "promise": self.end,
            "parts": dict(self._given()),
            "told": dict(self.found.words),
        }

    def _used(self) -> str:
        return self.outcome.policy if isinstance(self.outcome, AwardTasks) else self.found.policy

    def _given(self) -> dict[str, int]:
        parts = self.outcome.parts if isinstance(self.outcome, AwardTasks) else ()
        return {part.provider: part.tasks for part in parts}

    def _verdict(self) -> str:
        if isinstance(self.outcome, AwardTasks):
            return f"It would be done by {local_date(self.end)}, shared out by {self.outcome.policy}.\n"
        if self.end is not None:
            return f"It would be done by {local_date(self.end)}, after its deadline.\n"
        return "No cluster can hold its tasks.\n" if self.refused else "Nobody knows: clusters do not answer.\n"


def rehearse_bag(
    session: Session, drafted: GridDraft, wanted: NewGridBag, opening: Opening, most_at_once: int
) -> BagRehearsal:
    """Ask clusters for offers, and return the result that they would give. Nothing is stored, and nothing held."""
    now, tolerance = time.time(), session.configuration.grid.clock_tolerance
    rows = [row for row in clusters.every(session.connection) if row.active]
    job, (component,) = drafted.job, drafted.job.components
    bag = bag_asked(0, wanted, wanted.tasks, component.procs)
    with (
        door_sessions.place_to_ask(session.connection, most_at_once) as free,
        closing(ClusterConnections(opening)) as connections,
    ):
        if not free:
            busy = f"not asked: {most_at_once} users ask clusters at present; try again"
            nothing = OffersFound(OffersTold(bag, ()), {row.name: busy for row in rows}, {}, silent=True)
            return BagRehearsal(drafted, wanted, nothing, RefuseBag(0))
        connections.adopt(rows)
        offers = carried_out(ask_for_offers(rows, job, component, bag, {}, tolerance, now), connections)
    assert isinstance(offers, OffersFound)
    (outcome,) = share(BrokerState(()), offers.told, now)
    assert isinstance(outcome, AwardTasks | RefuseBag)
    return BagRehearsal(drafted, wanted, offers, outcome)
