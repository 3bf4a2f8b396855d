"""Connections to clusters: each has its own thread, and one that is silent is known to be so."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from math import inf, nan
from threading import Event

import pytest

from oarpy.grid.broker.connections import ClusterConnections, clusters_of
from oarpy.grid.broker.conversations import CallBatch, CallInLine, ClusterCall, Conversation, Conversations
from oarpy.grid.calls.parts import ClusterAbilities, ClusterDescription, PartEnded, PartFailed
from oarpy.grid.calls.table import CallRefused, Cluster, ClusterSilent, Describe
from oarpy.grid.clusters.virtual.cluster import OrderedFault, SimulatedCluster, VirtualClock
from oarpy.store.grid.clusters import GridClusterRow
from oarpy.transport.wakeup import readable
from tests.harness.waiting import until


class World:
    """Two clusters in memory and the connections to them."""

    def __init__(self) -> None:
        self.clusters = {name: SimulatedCluster(name, 4) for name in ("north", "south")}
        self.connections = ClusterConnections(lambda row: self.clusters[row.name])
        self.connections.adopt([self.row(name) for name in self.clusters])

    def row(self, name: str, door: str = "door") -> GridClusterRow:
        """A row of the table."""
        return GridClusterRow(name, "oarpy", (door,), 1, False, 0, True)

    def procs(
        self, name: str, before: Callable[[], object] = lambda: None, seconds: float = 10, *, waits: bool = False
    ) -> Future[object]:
        """Ask a cluster how many processors it has, after something else."""

        def ask(cluster: object) -> int:
            before()
            assert isinstance(cluster, SimulatedCluster)
            return cluster.ask(Describe()).procs

        return self.connections.submit(ClusterCall(name, ask, seconds, waits))


@pytest.fixture
def world() -> Iterator[World]:
    """Two clusters that answer."""
    made = World()
    yield made
    made.connections.close()


def test_calls_of_one_cluster_are_made_in_order(world: World) -> None:
    made: list[int] = []
    futures = [world.procs("north", partial(made.append, number)) for number in range(20)]
    assert [future.result(10) for future in futures] == [4] * 20
    assert made == list(range(20))


def test_a_cluster_that_hangs_delays_no_other_one(world: World) -> None:
    go_on = Event()
    hanging = world.procs("north", lambda: go_on.wait(30), seconds=0)
    assert world.procs("south").result(10) == 4
    until(lambda: "north" in world.connections.silent(), "north to count as silent")
    with pytest.raises(ClusterSilent, match="'north' does not answer"):
        world.procs("north").result(0)
    go_on.set()
    assert hanging.result(10) == 4
    assert readable(world.connections.files(), 10)
    assert (dict(world.connections.silent()), world.procs("north").result(10)) == ({}, 4)


def test_a_call_that_waits_for_a_part_and_other_calls_do_not_wait_for_each_other(world: World) -> None:
    go_on = Event()
    waiting = world.procs("north", lambda: go_on.wait(30), 60, waits=True)
    assert world.procs("north").result(10) == 4
    long = world.procs("north", lambda: go_on.wait(30), 60)
    go_on.set()
    assert (waiting.result(10), long.result(10)) == (4, 4)
    world.connections.adopt([world.row("south")])
    with pytest.raises(CallRefused, match="no cluster 'north'"):
        world.procs("north", waits=True).result(0)


def test_a_silent_cluster_is_asked_until_it_answers(world: World) -> None:
    world.clusters["north"].faults.cut = True
    with pytest.raises(ClusterSilent):
        world.procs("north").result(10)
    until(lambda: list(world.connections.silent()) == ["north"], "north to count as silent")
    with pytest.raises(ClusterSilent):
        world.procs("north").result(0)
    world.clusters["north"].faults.cut = False
    assert readable(world.connections.files(), 20)
    world.connections.quiet()
    assert not readable(world.connections.files(), 0)
    assert world.procs("north").result(10) == 4


def test_what_a_cluster_refuses_is_an_answer(world: World) -> None:
    world.clusters["north"].faults.refuse("describe")
    with pytest.raises(CallRefused):
        world.procs("north").result(10)
    assert world.procs("north").result(10) == 4


def test_a_cluster_that_is_gone_from_the_table_is_not_asked(world: World) -> None:
    world.connections.adopt([world.row("south")])
    with pytest.raises(CallRefused, match="no cluster 'north'"):
        world.procs("north").result(0)
    world.connections.adopt([world.row("north", "other"), world.row("south")])
    assert world.procs("north").result(10) == 4


def test_a_cluster_of_slurm_has_the_users_of_the_table() -> None:
    row = GridClusterRow("heap", "slurm", ("door",), 1, False, 0, True)
    connections = ClusterConnections(clusters_of("lyon"))
    refusal = ClusterCall("heap", lambda cluster: vars(cluster)["_refusal"]("eve"))
    for there in (row, replace(row, users=frozenset({"ann"})), replace(row, users=frozenset({"ann", "eve"}))):
        connections.adopt([there])
        assert connections.submit(refusal).result(10) == there.refusal_to("eve")
    connections.close()


@pytest.mark.parametrize("name", ["lyon", "nancy"])
def test_slurm_is_asked_for_the_jobs_of_this_broker_alone(name: str) -> None:
    row = GridClusterRow("heap", "slurm", ("door",), 1, False, 0, True)
    assert vars(clusters_of(name)(row))["_broker"] == name


def test_a_cluster_is_asked_on_whatever_goes_wrong_on_the_way_to_it() -> None:
    """There is no room for files, and then no memory: both end, and the cluster is heard again."""
    troubles: list[Exception] = [OSError(errno.EMFILE, "too many files"), MemoryError("none left"), ValueError("odd")]
    north = SimulatedCluster("north", 4)

    def opening(row: GridClusterRow) -> SimulatedCluster:
        if troubles:
            raise troubles.pop(0)
        return north

    connections = ClusterConnections(opening)
    connections.adopt([GridClusterRow("north", "oarpy", ("door",), 1, False, 0, True)])
    with pytest.raises(ClusterSilent, match="too many files"):
        connections.submit(ClusterCall("north", Describe())).result(10)
    assert readable(connections.files(), 20)
    assert (troubles, dict(connections.silent())) == ([], {})
    connections.close()


def test_texts_of_clusters_come_without_control_letters(world: World) -> None:
    def ask(cluster: object) -> list[object]:
        event = PartFailed(1, 5.0, "g1.0.1", "7\x07", ("a\x1b1",), None, "no\0 \ud800room")
        return [event, {"g1": CallRefused("n\0o")}]

    answer = world.connections.submit(ClusterCall("north", ask)).result(10)
    assert isinstance(answer, list)
    event, by_name = answer
    assert event == PartFailed(1, 5.0, "g1.0.1", "7", ("a1",), None, "no room")
    assert str(by_name["g1"]) == "no"
    world.clusters["north"].faults.strike(OrderedFault("describe", CallRefused("ne\0ver")))
    with pytest.raises(CallRefused, match="never"):
        world.procs("north").result(10)


@pytest.mark.parametrize(
    "told",
    [
        ClusterDescription(10**12, 1, 0, ClusterAbilities()),
        ClusterDescription(4, 1, 1e300, ClusterAbilities()),
        [PartEnded(2**63, 1.0, "g1")],
        [PartEnded(1, inf, "g1")],
        [PartEnded(1, 1.0, "g1", status=2**40)],
        [nan],
        10**12,
    ],
    ids=repr,
)
def test_a_number_that_cannot_be_stored_is_no_answer(world: World, told: object) -> None:
    with pytest.raises(ClusterSilent, match="'north': what it says is no answer"):
        world.connections.submit(ClusterCall("north", lambda cluster: told)).result(10)
    until(lambda: "north" not in world.connections.silent(), "north to be heard again")


def test_an_ect_may_be_infinite(world: World) -> None:
    assert world.connections.submit(ClusterCall("north", lambda cluster: [5.0, inf])).result(10) == [5.0, inf]


class Waiter:
    """Conversations at a clock that is turned by hand; each is one call to north, which has 5 seconds."""

    def __init__(self, world: World) -> None:
        self.clock = VirtualClock(1000)
        self.conversations = Conversations[object](world.connections.submit, self.clock)

    def ask(self, before: Callable[[], object] = lambda: None, patience: float = 5) -> None:
        """Send a call, which does something before it is answered."""

        def ask(cluster: Cluster) -> int:
            before()
            return cluster.ask(Describe()).procs

        def conversation() -> Conversation[object]:
            (answer,) = yield CallBatch([ClusterCall("north", ask)], patience)
            return answer

        self.conversations.begin("it", conversation())
        assert self.over() == []

    def over(self) -> list[object]:
        """Return the answers that conversations have now."""
        return [result for _, result in self.conversations.go_on()]


def test_the_patience_of_a_call_does_not_run_while_it_stands_in_line(world: World) -> None:
    waiter, go_on = Waiter(world), Event()
    first = world.procs("north", lambda: go_on.wait(30), seconds=60)
    waiter.ask()
    for _ in range(5):
        waiter.clock.advance(6)
        assert waiter.over() == []
    go_on.set()
    assert (first.result(10), until(waiter.over, "the answer")) == (4, [4])


def test_a_call_that_takes_longer_than_its_patience_is_given_up_once_it_was_made(world: World) -> None:
    waiter, go_on, begun = Waiter(world), Event(), Event()

    def hang() -> None:
        begun.set()
        go_on.wait(30)

    def later() -> list[object]:
        waiter.clock.advance(1)
        return waiter.over()

    waiter.ask(hang, patience=0.01)
    assert begun.wait(10)
    (answer,) = until(later, "the end of patience")
    assert isinstance(answer, ClusterSilent)
    go_on.set()


def test_a_call_in_line_behind_one_without_an_answer_is_given_up() -> None:
    heard, clock = [True], VirtualClock(1000)
    conversations = Conversations[object](lambda call: CallInLine(lambda: heard[0]), clock)

    def conversation() -> Conversation[object]:
        (answer,) = yield CallBatch([ClusterCall("north", lambda cluster: None)])
        return answer

    conversations.begin("it", conversation())
    for _ in range(3):
        assert conversations.go_on() == []
        clock.advance(6)
    heard[0] = False
    clock.advance(6)
    ((_, answer),) = conversations.go_on()
    assert isinstance(answer, ClusterSilent)
