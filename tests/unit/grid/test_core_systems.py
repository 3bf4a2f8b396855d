"""The table of the broker's systems: each event belongs to one, and a new row is all that a new one needs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from oarpy.grid.broker.decisions import DrivenCore, taken_again
from oarpy.grid.core import step as table
from oarpy.grid.core.broker_state import BrokerState, GridCluster, JobId, MappedJob
from oarpy.grid.core.exchanges import Action, Event, JobArrived, System

CLUSTERS = (GridCluster("north", 4), GridCluster("south", 4))


@dataclass(frozen=True, slots=True)
class BagArrived(Event):
    """Many small tasks were submitted."""

    job: JobId
    tasks: int


@dataclass(frozen=True, slots=True)
class SendTasks(Action):
    """Let tasks of a bag run on a cluster."""

    job: JobId
    cluster: str
    tasks: int


@dataclass(slots=True)
class Bags:
    """How many tasks each cluster was sent."""

    sent: dict[str, int] = field(default_factory=dict)


def send(state: BrokerState, bag: BagArrived, now: float) -> list[Action]:
    """Send all tasks to the cluster that was sent fewest."""
    bags: Bags = state.memory["bags"]
    name = min(state.names, key=lambda one: bags.sent.get(one, 0))
    bags.sent[name] = bags.sent.get(name, 0) + bag.tasks
    return [SendTasks(bag.job, name, bag.tasks)]


@pytest.fixture
def bags(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table with one more row."""
    row = System("bags", {BagArrived: send}, (SendTasks,), memory=Bags, values=(Bags,))
    monkeypatch.setattr(table, "SYSTEMS", (*table.SYSTEMS, row))


def test_each_event_belongs_to_one_system_and_each_name_to_one_class() -> None:
    routes = [route for system in table.SYSTEMS for route in system.takes]
    assert len(routes) == len(set(routes))
    classes = {one for system in table.SYSTEMS for one in (*system.asks, *system.values)}
    assert {table.exchanged()[one.__name__] for one in classes} == classes


@pytest.mark.usefixtures("bags")
def test_a_system_is_added_by_its_row_and_its_decisions_are_taken_again() -> None:
    core = DrivenCore(BrokerState(CLUSTERS))
    assert core.tell(BagArrived(1, 10), 0) == [SendTasks(1, "north", 10)]
    core.taken()
    assert core.tell(BagArrived(2, 5), 1) == [SendTasks(2, "south", 5)]
    core.tell(JobArrived(MappedJob(3, 1, 1, 60)), 1)
    noted: Any = core.taken()
    state, events, actions = json.loads(json.dumps([noted.state, noted.events, noted.actions]))
    assert taken_again(state, events) == actions
    assert state["memory"] == {"pairs": [["bags", {"is": "Bags", "sent": {"pairs": [["north", 10]]}}]]}
