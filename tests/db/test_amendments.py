"""Reservations of a broker get other places on all their clusters or on none, whatever fails on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import psycopg
import pytest

from oarpy.grid.broker.acts import Amend, Prepared, Terms
from oarpy.grid.broker.conversations import ClusterCall, Conversations
from oarpy.grid.broker.transactions import Transactions, note_prepared, part_name
from oarpy.grid.calls.parts import GridPart, PartRequest
from oarpy.grid.calls.table import Idle
from oarpy.model.states import GridPartState
from oarpy.store.grid import transactions
from oarpy.store.grid.broker_parts import GridPartRow
from tests.harness.claim_rounds import BrokerKilled, ClaimRounds
from tests.harness.inline_calls import inline_calls

pytestmark = [pytest.mark.db, pytest.mark.kept]
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
DATE, LATER = 600.0, 900.0
MODULE = "amender"


class Amender:
    """A job with a reservation of 6 processors on each of two clusters, and who puts it off, all of it or nothing."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.rounds = ClaimRounds(connection)
        self.clusters = self.rounds.clusters
        self.job = self.rounds.reserve(DATE, "north", "south", procs=6, walltime=400)
        self.rounds.until(30)
        self.old = {row.cluster: row.name for row in self.parts()}
        self.before: Callable[[ClusterCall], None] = lambda call: None
        self.anew()

    def anew(self) -> None:
        """Be a module that was started just now."""
        made = inline_calls(self.clusters)

        def submit(call: ClusterCall) -> Any:
            self.before(call)
            return made(call)

        self.conversations = Conversations[object](submit, self.rounds.clock)
        self.engine = Transactions(MODULE, self.conversations, self.rounds.clock)
        self.engine.recover(self.connection, lambda connection, *_: connection.transaction())

    def begin(self, procs: int = 7) -> None:
        """Begin to put all parts off, and let them have more processors."""
        request = PartRequest("alice", f"/core={procs}", procs, 400)
        date = self.rounds.began + LATER

        def plan(transaction: str) -> list[Amend]:
            return [
                Amend(
                    self.job,
                    row.component,
                    row.cluster,
                    row.name,
                    GridPart(part_name(self.job, row.component, transaction), "reserved", request, begin=date),
                )
                for row in self.parts()
            ]

        with self.connection.transaction():
            self.engine.begin(self.connection, "amend", self.job, Terms(lambda: 60.0, date), plan)

    def run(self) -> None:
        """Decide, and have clusters told, until none has an answer at once."""
        self.engine.spread(self.connection)
        while over := self.conversations.go_on():
            for name, result in over:
                with self.connection.transaction():
                    if isinstance(result, Prepared):
                        assert isinstance(name, tuple)
                        self._decide(name[1], result)
                    else:
                        self.engine.heard(self.connection, name, result)
            self.engine.spread(self.connection)

    def _decide(self, number: int, result: Prepared) -> None:
        note_prepared(self.connection, number, result)
        if result.failure or not transactions.decide(self.connection, number):
            self.engine.give_up(self.connection, number, result.failure or "a part does not wait any more")

    def parts(self) -> list[GridPartRow]:
        """Return the parts that could start."""
        over = (GridPartState.GONE, GridPartState.ENDED)
        return [row for row in self.rounds.parts(self.job) if row.state not in over]

    def there(self) -> dict[str, list[str]]:
        """Return by cluster which parts are there: old or new, and what they do."""
        return {
            name: sorted(f"{'old' if part == self.old[name] else 'new'} {state}" for part, state in states.items())
            for name, states in self.rounds.there().items()
        }

    def free(self, cluster: str, date: float) -> int:
        """Return how many processors could be had on a cluster from now on until 10 seconds after a date."""
        return self.clusters[cluster].ask(Idle(PartRequest("bob", "/core=1", 1, 10), self.rounds.began + date))


@pytest.fixture
def amender(connection: Connection) -> Amender:
    return Amender(connection)


OLD, NEW = (
    {"north": ["old reserved"], "south": ["old reserved"]},
    {"north": ["new reserved"], "south": ["new reserved"]},
)


def test_all_parts_get_their_new_places(amender: Amender) -> None:
    assert amender.there() == OLD
    seen: list[Sequence[str]] = []
    amender.before = lambda call: seen.extend(amender.there().values())
    amender.begin()
    amender.run()
    assert amender.there() == NEW
    assert all(seen), "at no time is nothing held"
    assert [amender.free(name, LATER) for name in amender.old] == [1, 1]
    assert [(row.state, row.cluster_job) for row in amender.parts()] == [(GridPartState.WAITING, "2")] * 2
    assert transactions.open_of(amender.connection, MODULE) == []


def test_without_room_on_one_cluster_all_keep_their_places(amender: Amender) -> None:
    amender.begin(9)
    amender.run()
    assert amender.there() == OLD
    assert [row.state for row in amender.parts()] == [GridPartState.WAITING] * 2
    assert [row.name for row in amender.parts()] == list(amender.old.values())
    amender.begin()
    amender.run()
    assert amender.there() == NEW


@pytest.mark.parametrize("call", ["amend", "commit", "abort"])
@pytest.mark.parametrize("done", [False, True])
def test_an_answer_that_is_lost_splits_nothing(amender: Amender, call: str, done: bool) -> None:
    amender.clusters["south"].faults.silent(call, done=done)
    amender.begin(9 if call == "abort" else 7)
    amender.run()
    amender.rounds.clock.advance(5)
    amender.run()
    assert amender.there() == (NEW if call == "commit" else OLD)
    assert transactions.doubts(amender.connection) == []


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("done", [False, True])
def test_a_broker_that_is_killed_at_any_call_leaves_one_place_a_part(amender: Amender, place: int, done: bool) -> None:
    calls = iter(range(1000))

    def strike(call: ClusterCall) -> None:
        if next(calls) == place:
            if done:
                call.made_of(amender.clusters[call.cluster])
            raise BrokerKilled

    amender.before = strike
    amender.begin()
    with pytest.raises(BrokerKilled):
        amender.run()
    amender.before = lambda call: None
    amender.anew()
    amender.run()
    assert amender.there() == (NEW if place >= 2 else OLD), "what was decided goes on, the rest is given up"
    assert [row.state for row in amender.parts()] == [GridPartState.WAITING] * 2
    assert transactions.open_of(amender.connection, MODULE) == []


@pytest.mark.parametrize("place", range(12))
def test_a_broker_that_is_killed_at_any_write_leaves_one_place_a_part(
    amender: Amender, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = iter(range(1000))

    def dying(write: Callable[..., Any]) -> Callable[..., Any]:
        def written(*values: Any, **more: Any) -> Any:
            found = write(*values, **more)
            if next(writes) == place:
                raise BrokerKilled
            return found

        return written

    with monkeypatch.context() as patch:
        for name in ("begin", "freeze", "add_parts", "note_prepared", "decide", "note_known"):
            patch.setattr(transactions, name, dying(getattr(transactions, name)))
        try:
            amender.begin()
            amender.run()
        except BrokerKilled:
            assert place < 7
    amender.anew()
    amender.run()
    assert amender.there() in (OLD, NEW)
    assert [row.state for row in amender.parts()] == [GridPartState.WAITING] * 2
    assert transactions.open_of(amender.connection, MODULE) == []


def test_what_nobody_decides_lapses_and_the_old_place_stays(amender: Amender) -> None:
    amender.begin()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Amender, "_decide", lambda *values: None)
        amender.run()
    assert amender.there() == {name: ["new reserved", "old reserved"] for name in OLD}
    amender.rounds.clock.advance(61)
    assert amender.there() == OLD
    amender.anew()
    amender.run()
    assert [row.state for row in amender.parts()] == [GridPartState.WAITING] * 2


def test_a_part_that_began_before_its_cluster_heard_stays(connection: Connection) -> None:
    amender = Amender(connection)
    north = amender.clusters["north"]

    def cut(call: ClusterCall) -> None:
        north.faults.cut = any(row.state is GridPartState.DELETING for row in amender.parts())

    amender.clusters["south"].faults.cut = False
    amender.before = cut
    amender.begin()
    amender.run()
    assert amender.there()["north"] == ["new reserved", "old reserved"]
    amender.rounds.clock.now = amender.rounds.began + DATE + 1
    north.faults.cut, amender.before = False, lambda call: None
    amender.run()
    states = {row.name: row.state for row in amender.rounds.parts(amender.job) if row.cluster == "north"}
    assert states.pop(amender.old["north"]) is GridPartState.WAITING
    assert list(states.values()) == [GridPartState.ENDED]
    amender.rounds.clock.advance(61)
    assert amender.there()["north"] == ["old running"]


def test_a_cluster_that_lets_a_part_go_on_takes_nothing_back_elsewhere(amender: Amender) -> None:
    """South is told at the same time as north, whose part has begun by then, and answers later."""
    clock = amender.rounds.clock

    def late_for_north(call: ClusterCall) -> None:
        told = any(row.state is GridPartState.DELETING for row in amender.parts())
        clock.now = amender.rounds.began + (DATE + 1 if told and call.cluster == "north" else 31)

    amender.before = late_for_north
    amender.begin()
    amender.run()
    clock.now = amender.rounds.began + 31
    assert amender.there()["south"] == ["new reserved"]
    rows = {(row.cluster, row.name == amender.old[row.cluster]): row.state for row in amender.rounds.parts(amender.job)}
    assert rows == {
        ("north", True): GridPartState.WAITING,
        ("north", False): GridPartState.ENDED,
        ("south", True): GridPartState.GONE,
        ("south", False): GridPartState.WAITING,
    }
    assert transactions.open_of(amender.connection, MODULE) == []


def test_only_what_waits_is_amended(amender: Amender) -> None:
    amender.rounds.clock.now = amender.rounds.began + DATE + 1
    amender.rounds.round()
    assert [row.state for row in amender.parts()] == [GridPartState.RUNNING] * 2
    amender.begin()
    amender.run()
    assert amender.there() == {name: ["old running"] for name in OLD}
    assert transactions.open_of(amender.connection, MODULE) == []
