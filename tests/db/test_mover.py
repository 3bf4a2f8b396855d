"""The mover: passes over waiting jobs, and moves of which each is done on both clusters or on none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any, TypeAlias

import psycopg
import pytest

from oarpy.configuration import GridSettings
from oarpy.grid.broker.connections import ClusterConnections, clusters_of
from oarpy.grid.broker.conversations import ClusterCall
from oarpy.grid.broker.decisions import taken_again
from oarpy.grid.broker.mover import Mover, next_pass
from oarpy.grid.calls.parts import GridPart, PartRequest
from oarpy.grid.calls.table import Commit, Prepare, Waiting
from oarpy.grid.clusters.virtual.cluster import SimulatedCluster, VirtualClock
from oarpy.grid.core.broker_state import ReallocationRules
from oarpy.grid.modules.registry import reallocation_rules
from oarpy.model.errors import OarpyError
from oarpy.model.states import GridJobState, GridPartState
from oarpy.store.grid import broker_jobs, broker_parts, clusters, decisions, reallocation_passes, transactions
from oarpy.store.grid.broker_jobs import NewGridComponent, NewGridJob
from oarpy.store.grid.clusters import GridClusterRow
from oarpy.store.grid.transactions import NewGridPart

pytestmark = [pytest.mark.db, pytest.mark.kept]
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
BEGIN = 1_800_000_000.0
STARTABLE = ("waiting", "running")


class DirectConnections(ClusterConnections):
    """Calls are made at once, by whoever makes them."""

    def __init__(self, submit: Callable[[ClusterCall], Future[object]]) -> None:
        super().__init__(clusters_of("broker"))
        self._made = submit

    def adopt(self, rows: Sequence[GridClusterRow]) -> None:
        """Do nothing: all clusters are there."""

    def submit(self, call: ClusterCall) -> Future[object]:
        """Make a call."""
        return self._made(call)


class SmallBroker:
    """A database with clusters in memory, and a mover that is run by hand."""

    def __init__(self, connection: Connection, rules: ReallocationRules, *names: str, dedicated: bool = False) -> None:
        self.connection, self.rules = connection, rules
        self.clock = VirtualClock(BEGIN)
        self.providers = {name: SimulatedCluster(name, 8, clock=self.clock) for name in names}
        for place, name in enumerate(names):
            clusters.put(connection, name, "oarpy", ["door", name], dedicated=dedicated, place=place)
        self.before: Callable[[ClusterCall], None] = lambda call: None
        self.mover = self.anew()

    def anew(self) -> Mover:
        """Return a mover that was started just now."""
        self.mover = Mover(self.rules, 3600, DirectConnections(self.submit), self.clock)
        return self.mover

    def submit(self, call: ClusterCall) -> Future[object]:
        """Make a call at once."""
        future: Future[object] = Future()
        self.before(call)
        try:
            future.set_result(call.made_of(self.providers[call.cluster]))
        except OarpyError as error:
            future.set_exception(error)
        return future

    def waiting(self, cluster: str, procs: int, walltime: float) -> int:
        """Let a job wait on a cluster; return its number."""
        connection, there = self.connection, self.providers[cluster]
        component = NewGridComponent(f"/core={procs}", procs)
        (job,) = broker_jobs.insert(connection, NewGridJob("ann", "mapped", "date", walltime, (component,)))
        connection.execute("UPDATE grid_jobs SET submitted_at = to_timestamp(%s) WHERE id = %s", [BEGIN + job, job])
        transaction, name = transactions.begin(connection, "place", "mapper", job, 60), f"g{job}"
        transactions.add_parts(connection, transaction, [NewGridPart(name, job, 0, cluster, "queued", walltime)])
        part = GridPart(name, "queued", PartRequest("ann", component.resources, procs, walltime))
        made = there.ask(Prepare(name, part, 60, key=f"{name} p"))
        transactions.note_prepared(connection, transaction, {name: made.job})
        assert transactions.decide(connection, transaction)
        there.ask(Commit(name, key=f"{name} c"))
        transactions.note_known(connection, transaction, cluster)
        broker_jobs.move(connection, [job], GridJobState.MAPPED)
        return job

    def run(self) -> None:
        """Run the mover until it has nothing to do at once."""
        self.connection.commit()
        self.mover.run_once(self.connection, datetime.now(UTC))

    def pass_by_hand(self) -> None:
        """Ask for a pass and make it."""
        reallocation_passes.ask(self.connection, "root")
        self.run()

    def places(self) -> dict[int, list[str]]:
        """Return by job the clusters where it has something that could start; asked of the clusters."""
        found: dict[int, list[str]] = {}
        for name, cluster in self.providers.items():
            for part, state in cluster.states().items():
                if part.startswith("g") and state in STARTABLE:
                    found.setdefault(int(part[1:].split(".")[0]), []).append(name)
        return found

    def outcomes(self) -> list[tuple[int, str, str, str]]:
        """Return job, clusters and outcome of every move of the last pass."""
        (last,) = reallocation_passes.latest(self.connection, 1)
        rows = reallocation_passes.moves_of_pass(self.connection, last.id)
        return [(row.job, row.source, row.target, row.outcome) for row in rows]

    def message(self) -> str:
        """Return what the last pass says."""
        return reallocation_passes.latest(self.connection, 1)[0].message


FIRST = ReallocationRules(algorithm=1)


def busy_north(connection: Connection, rules: ReallocationRules = FIRST, **more: bool) -> tuple[SmallBroker, int]:
    """A job waits behind a long one, though the other cluster is empty."""
    broker = SmallBroker(connection, rules, "north", "south", **more)
    broker.providers["north"].submit("long", 8, 5000)
    return broker, broker.waiting("north", 2, 400)


def test_a_job_moves_to_where_it_ends_sooner(connection: Connection) -> None:
    broker, job = busy_north(connection)
    broker.run()
    assert broker.places() == {job: ["north"]}, "no pass is due before the first period is over"
    broker.clock.now = BEGIN + job + 3600
    broker.run()
    assert broker.places() == {job: ["south"]}
    assert broker.outcomes() == [(job, "north", "south", "moved")]
    (move,) = reallocation_passes.moves_of_jobs(connection, [job])
    now = broker.clock.now
    assert (move.old_end, move.new_end) == (BEGIN + 5000 + 400, now + 400)
    old, new = broker_parts.of_jobs(connection, [job])
    assert (old.cluster, old.state, new.cluster, new.state) == ("north", "Gone", "south", "Waiting")
    kept = list(decisions.every(connection))
    assert [taken_again(one.state, one.events) == one.actions for one in kept] == [True]


def lend(connection: Connection, cluster: str, user: str) -> None:
    """Open a cluster to one user alone."""
    connection.execute("UPDATE grid_clusters SET users = %s WHERE name = %s", [[user], cluster])


def test_nobody_moves_to_a_cluster_that_is_not_open_to_him(connection: Connection) -> None:
    broker, job = busy_north(connection)
    lend(connection, "south", "bob")
    broker.pass_by_hand()
    assert (broker.places(), broker.outcomes(), broker.message()) == ({job: ["north"]}, [], "")
    assert "prepare" not in broker.providers["south"].calls
    lend(connection, "south", "ann")
    broker.pass_by_hand()
    assert broker.places() == {job: ["south"]}


def test_a_cluster_that_is_closed_during_a_pass_gets_no_more_jobs(connection: Connection) -> None:
    broker, first = busy_north(connection)
    second = broker.waiting("north", 2, 300)

    def close(call: ClusterCall) -> None:
        """Close the other cluster when the first job is frozen."""
        if "frozen" in broker.providers["north"].states().values():
            lend(connection, "south", "bob")

    broker.before = close
    broker.pass_by_hand()
    assert sorted(broker.places().items()) == [(first, ["south"]), (second, ["north"])]
    assert broker.message() == f"job {second} stayed: cluster 'south' is not open to 'ann'"


@pytest.mark.parametrize(
    ("call", "cluster"), [("prepare", "north"), ("prepare", "south"), ("estimate", "south"), ("estimate", "north")]
)
@pytest.mark.parametrize("kind", ["silent", "refuse"])
def test_a_move_that_fails_on_the_way_leaves_the_old_copy_in_its_rank(
    connection: Connection, call: str, cluster: str, kind: str
) -> None:
    broker, job = busy_north(connection)
    broker.providers["south"].submit("beside", 4, 9000)
    behind = broker.waiting("north", 8, 10_000)
    faults = broker.providers[cluster].faults

    def strike(made: ClusterCall) -> None:
        held = "frozen" in broker.providers["north"].states().values()
        if made.cluster == cluster and (call == "prepare" or held):
            broker.before = lambda call: None
            getattr(faults, kind)(call)

    broker.before = strike if call == "estimate" else lambda made: None
    if call == "prepare":
        getattr(faults, kind)(call)
    broker.pass_by_hand()
    assert broker.places() == {job: ["north"], behind: ["north"]}
    assert [outcome for *_, outcome in broker.outcomes()] == ["given up"]
    assert [one.name for one in broker.providers["north"].ask(Waiting())] == [f"g{job}", f"g{behind}"]
    assert "cluster" in broker.message()
    assert transactions.doubts(connection) == []


def test_a_move_that_does_not_pay_any_more_is_given_up(connection: Connection) -> None:
    broker, job = busy_north(connection)

    def strike(call: ClusterCall) -> None:
        """Let somebody come to the other cluster as soon as the old copy is frozen."""
        if "frozen" in broker.providers["north"].states().values():
            broker.before = lambda call: None
            broker.providers["south"].submit("quick", 8, 9000)

    broker.before = strike
    broker.pass_by_hand()
    assert broker.places() == {job: ["north"]}
    assert broker.outcomes() == [(job, "north", "south", "given up")]
    assert "it would gain" in broker.message()
    broker.pass_by_hand()
    assert broker.outcomes() == []


def test_a_job_that_started_meanwhile_is_left_alone(connection: Connection) -> None:
    broker, job = busy_north(connection)

    def strike(call: ClusterCall) -> None:
        """End what is in the way when the plan is made."""
        if "estimate" in broker.providers["south"].calls:
            broker.before = lambda call: None
            broker.providers["north"].finish("long")

    broker.before = strike
    broker.pass_by_hand()
    assert broker.places() == {job: ["north"]}
    assert broker.providers["north"].states()[f"g{job}"] == "running"
    assert [outcome for *_, outcome in broker.outcomes()] == ["given up"]


def test_no_instant_has_two_copies_that_could_start(connection: Connection) -> None:
    broker, _ = busy_north(connection)
    for walltime in (300, 200, 900, 4000):
        broker.waiting("north", 3, walltime)
    seen: list[int] = []
    broker.before = lambda call: seen.append(max(map(len, broker.places().values())))
    broker.pass_by_hand()
    assert set(seen) == {1}
    assert len(broker.outcomes()) > 2


class Killed(BaseException):
    """The broker was killed."""


@pytest.mark.parametrize("place", range(4, 12))
def test_a_mover_that_was_killed_at_any_call_leaves_one_copy(connection: Connection, place: int) -> None:
    broker, job = busy_north(connection)
    calls = iter(range(1000))

    def strike(call: ClusterCall) -> None:
        if next(calls) == place:
            raise Killed

    broker.before = strike
    reallocation_passes.ask(connection, "root")
    try:
        broker.run()
    except Killed:
        connection.rollback()
    broker.before = lambda call: None
    broker.anew()
    broker.run()
    assert list(broker.places()) == [job]
    assert len(broker.places()[job]) == 1
    assert transactions.open_of(connection, "mover") == []
    assert reallocation_passes.open_moves(connection) == []
    assert reallocation_passes.unfinished(connection) == []


def test_an_old_copy_that_went_on_before_its_cluster_heard_stays(connection: Connection) -> None:
    broker, job = busy_north(connection)
    north = broker.providers["north"]

    def strike(call: ClusterCall) -> None:
        if broker_parts.of_jobs(connection, [job])[0].state is GridPartState.DELETING:
            north.faults.cut = True

    broker.before = strike
    broker.pass_by_hand()
    assert broker.outcomes() == [(job, "north", "south", "moved")]
    assert list(broker.providers["south"].states().values()) == ["held"], "it waits for the old copy's deletion"
    broker.before = lambda call: None
    north.faults.cut = False
    broker.clock.advance(130)
    broker.run()
    assert broker.places() == {job: ["north"]}
    assert broker.outcomes() == [(job, "north", "south", "given up")]
    old, new = broker_parts.of_jobs(connection, [job])
    assert (old.state, new.state) == (GridPartState.WAITING, GridPartState.ENDED)
    assert transactions.open_of(connection, "mover") == []


def test_a_new_copy_that_lapsed_before_its_cluster_heard_is_mapped_anew(connection: Connection) -> None:
    broker, job = busy_north(connection)
    south = broker.providers["south"]

    def strike(call: ClusterCall) -> None:
        if broker_parts.of_jobs(connection, [job])[0].state is GridPartState.GONE:
            south.faults.cut = True

    broker.before = strike
    broker.pass_by_hand()
    assert broker.places() == {}
    broker.before = lambda call: None
    south.faults.cut = False
    broker.clock.advance(130)
    broker.run()
    assert broker.places() == {}
    assert broker_jobs.read(connection, [job])[0].state is GridJobState.SUBMITTED
    assert transactions.open_of(connection, "mover") == []


def test_a_silent_cluster_is_left_out_with_its_jobs(connection: Connection) -> None:
    broker = SmallBroker(connection, FIRST, "north", "south", "west")
    broker.providers["north"].submit("long", 8, 5000)
    broker.providers["west"].submit("longer", 8, 9000)
    job, unheard = broker.waiting("north", 2, 400), broker.waiting("west", 1, 30)
    broker.providers["west"].faults.cut = True
    broker.pass_by_hand()
    broker.providers["west"].faults.cut = False
    assert broker.places() == {job: ["south"], unheard: ["west"]}
    assert "cluster 'west' was left out" in broker.message()


def test_the_age_guard_leaves_those_alone_that_have_waited_long(connection: Connection) -> None:
    broker, job = busy_north(connection, ReallocationRules(algorithm=1, age_limit=100))
    broker.clock.now = BEGIN + job + 101
    broker.pass_by_hand()
    assert broker.places() == {job: ["north"]}
    assert broker.outcomes() == []


def test_algorithm_two_puts_all_anew_where_the_broker_is_alone(connection: Connection) -> None:
    rules = ReallocationRules(algorithm=2, heuristic="minmin")
    broker, first = busy_north(connection, rules, dedicated=True)
    broker.providers["south"].submit("before", 8, 50)
    long, short = broker.waiting("south", 8, 3000), broker.waiting("south", 8, 100)
    broker.pass_by_hand()
    order = [one.name for one in broker.providers["south"].ask(Waiting())]
    assert [int(name[1:].split(".")[0]) for name in order] == [short, first, long]
    assert broker.outcomes() == [(first, "north", "south", "moved")]
    assert all(len(names) == 1 for names in broker.places().values())


def test_algorithm_two_touches_no_cluster_where_others_submit(connection: Connection) -> None:
    broker, job = busy_north(connection, ReallocationRules(algorithm=2))
    calls: Sequence[str] = [*broker.providers["north"].calls]
    broker.pass_by_hand()
    assert broker.places() == {job: ["north"]}
    assert broker.providers["north"].calls == calls


def test_nothing_moves_until_an_admin_says_how(connection: Connection) -> None:
    broker, job = busy_north(connection, reallocation_rules(GridSettings()))
    broker.pass_by_hand()
    assert broker.places() == {job: ["north"]}
    assert broker.message() == "reallocation is off: [grid] algorithm is 0"


def test_passes_are_whole_periods_after_the_first_submission() -> None:
    assert next_pass(100, None, 3600) == 3700
    assert next_pass(100, 3700.5, 3600) == 7300
    assert next_pass(100, 3699.9, 3600) == 7300
    assert next_pass(100, 2000, 3600) == 3700
    assert next_pass(100, 20_000, 3600) == 21_700


@pytest.mark.parametrize("gone", ["disabled", "removed"])
def test_a_cluster_that_goes_during_a_pass_gets_none_of_its_moves(connection: Connection, gone: str) -> None:
    broker, job = busy_north(connection)

    def strike(call: ClusterCall) -> None:
        """Take the other cluster out of use while the plan is made."""
        if call.cluster == "south":
            broker.before = lambda call: None
            if gone == "removed":
                clusters.remove(connection, "south")
            else:
                clusters.set_active(connection, "south", active=False)

    broker.before = strike
    broker.pass_by_hand()
    assert broker.places() == {job: ["north"]}
    assert broker.message() == f"job {job} stayed: cluster 'south' is not in use any more"
    assert reallocation_passes.unfinished(connection) == []


def test_when_the_next_pass_is_due_is_found_without_reading_all_jobs_and_passes(connection: Connection) -> None:
    asked = NewGridJob("ann", "mapped", "date", 60, (NewGridComponent("/core=1", 1),))
    broker_jobs.insert(connection, asked, 200)
    for _ in range(200):
        reallocation_passes.begin(connection, 1, "mct", 0, None, BEGIN)
    reallocation_passes.ask(connection, "root")
    assert broker_jobs.first_submission(connection) == broker_jobs.of_everybody(connection)[0].submitted
    assert reallocation_passes.last_begun(connection) == BEGIN
    for query in (broker_jobs._FIRST, reallocation_passes._LAST_BEGUN):
        connection.execute("SET LOCAL enable_seqscan = off")
        ((plan,),) = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}").fetchall()
        node = plan[0]["Plan"]
        while "Plans" in node:
            (node,) = node["Plans"]
        assert node["Actual Rows"] + node.get("Rows Removed by Filter", 0) <= 2


def test_a_decision_that_cannot_be_stored_stops_no_pass(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*values: object) -> int:
        raise psycopg.errors.ProgramLimitExceeded("string too long to represent as jsonb string")

    monkeypatch.setattr(decisions, "add", refuse)
    broker, job = busy_north(connection)
    broker.pass_by_hand()
    assert broker.outcomes() == [(job, "north", "south", "moved")]
    assert "was not stored" in broker.message()


@pytest.mark.parametrize("algorithm", [1, 2])
def test_a_clock_that_is_behind_makes_no_move(connection: Connection, algorithm: Any) -> None:
    broker = SmallBroker(connection, ReallocationRules(algorithm=algorithm), "north", "south", dedicated=True)
    broker.providers["south"] = SimulatedCluster("south", 8, clock=lambda: broker.clock() - 3600)
    for cluster in broker.providers.values():
        cluster.submit("long", 8, 5000)
    job = broker.waiting("north", 2, 400)
    clusters.note_description(connection, "south", 8, ["claim", "withdraw"], -3600)
    broker.pass_by_hand()
    assert (broker.places(), broker.outcomes()) == ({job: ["north"]}, [])


def test_a_second_look_knows_of_clocks(connection: Connection) -> None:
    """What one copy would gain is what clusters say less how far their clocks are ahead."""
    broker, job = busy_north(connection)
    broker.providers["south"].clock_off = 7200
    clusters.note_description(connection, "south", 8, ["claim", "withdraw"], 7200)
    broker.pass_by_hand()
    assert broker.places() == {job: ["south"]}
    (move,) = reallocation_passes.moves_of_jobs(connection, [job])
    assert move.new_end == BEGIN + 400
