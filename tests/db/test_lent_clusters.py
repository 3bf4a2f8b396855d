"""A cluster that is open to some users of the broker alone gets nothing of the others."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from oarpy.client.session import open_session
from oarpy.grid.broker.connections import cluster_of
from oarpy.grid.calls.parts import GridPart, PartRequest
from oarpy.grid.calls.table import CallRefused, Cluster, Prepare
from oarpy.grid.clusters.virtual.cluster import SimulatedCluster, VirtualClock
from oarpy.grid.submission.grid_options import GridOptions
from oarpy.grid.submission.rehearsal import GridRehearsal, rehearse
from oarpy.model.states import GridJobState
from oarpy.store.grid import broker_jobs, clusters, placing_tries
from oarpy.store.grid.clusters import GridClusterRow
from tests.harness.claim_rounds import ClaimRounds
from tests.harness.oarsub_cluster import Connection, Submitter
from tests.harness.simulated_grid import SimulatedGrid

pytestmark = pytest.mark.db
CLOSED = "cluster 'south' is not open to 'alice'"


def lend(connection: Connection, cluster: str, *users: str) -> None:
    """Open a cluster to these users alone."""
    connection.execute("UPDATE grid_clusters SET users = %s WHERE name = %s", [list(users), cluster])


@pytest.fixture
def grid(connection: Connection) -> Iterator[SimulatedGrid]:
    """A broker of a slow cluster and of a faster one, which is bob's."""
    made = SimulatedGrid(connection, [SimulatedCluster("north", 4), SimulatedCluster("south", 8, speed=2)])
    lend(connection, "south", "bob")
    yield made
    made.close()


def test_jobs_go_where_their_user_may(grid: SimulatedGrid) -> None:
    alices, bobs = grid.submit(copies=2, user="alice"), grid.submit(copies=2, user="bob")
    assert grid.settled(*alices, *bobs) == ["north", "north", "south", "south"]


def test_a_job_that_fits_only_where_its_user_may_not_ends_with_that_reason(grid: SimulatedGrid) -> None:
    large, bobs = grid.submit(6, user="alice")[0], grid.submit(6, user="bob")[0]
    assert grid.settled(bobs) == ["south"]
    grid.drive(lambda: grid.job(large).state is GridJobState.ERROR, "the end of a job")
    assert grid.job(large).message == f"{CLOSED}; cluster 'north' can never run it"
    lend(grid.connection, "north", "bob")
    (alone,) = grid.submit(user="alice")
    grid.drive(lambda: grid.job(alone).state is GridJobState.ERROR, "the end of a job")
    assert grid.job(alone).message == f"cluster 'north' is not open to 'alice'; {CLOSED}"
    assert (grid.parts(large, alone), len(grid.clusters["south"].states())) == ([], 1)


@pytest.fixture
def rounds(connection: Connection) -> ClaimRounds:
    """A claimer; south is open to others than alice, who submits."""
    made = ClaimRounds(connection)
    lend(connection, "south", "bob")
    return made


def test_a_try_leaves_out_what_is_not_open_to_its_user(rounds: ClaimRounds) -> None:
    fits, large = rounds.submit(400, components=2), rounds.submit(380, components=3)
    rounds.until(401)
    assert (rounds.job(fits).state, rounds.job(large).state) == (GridJobState.RUNNING, GridJobState.MISSED)
    assert {part.cluster for part in rounds.parts(fits)} == {"north"}
    made = placing_tries.of_jobs(rounds.connection, [large])
    assert {tuple(one.idle) for one in made} == {("north",)}
    assert made[0].message == f"no room for all components: north 8 idle; {CLOSED}"
    assert "idle" not in rounds.clusters["south"].calls
    lend(rounds.connection, "south", "alice")
    late = rounds.submit(300, components=2)
    rounds.until(701)
    assert {part.cluster for part in rounds.parts(late)} <= {"north", "south"}
    assert "idle" in rounds.clusters["south"].calls


def test_named_parts_are_refused_and_nothing_is_left(rounds: ClaimRounds) -> None:
    job = rounds.reserve(400, "north", "south")
    rounds.until(1)
    assert (rounds.job(job).state, rounds.job(job).message) == (GridJobState.ERROR, CLOSED)
    assert (rounds.parts(job), rounds.there()) == ([], {"north": {}, "south": {}})


def test_whoever_names_a_closed_cluster_is_refused_at_once(connection: Connection, oarsub: Submitter) -> None:
    for name in ("north", "south"):
        clusters.put(connection, name, "oarpy", ["oargriddoor", "campus"])
    lend(connection, "south", "nobody-else")
    for more in ((), ("--dry-run",)):
        result = oarsub(*more, "north:rdef=/core=1,south:rdef=/core=1", command="oargridsub")
        assert (result.status, result.out) == (3, "")
        assert "cluster 'south' is not open to '" in result.err
    assert broker_jobs.of_everybody(connection) == []


@pytest.mark.usefixtures("oarsub")
def test_a_dry_run_says_which_clusters_are_closed(connection: Connection) -> None:
    def opening(row: GridClusterRow) -> Cluster:
        asked.append(row.name)
        return SimulatedCluster(row.name, 8, clock=VirtualClock(1_800_000_000))

    def rehearsed(*words: str) -> GridRehearsal:
        with open_session("oargridsub") as session:
            found = rehearse(session, GridOptions(words=words, resources=("/core=2",)), opening)
            assert isinstance(found, GridRehearsal)
            return found

    asked: list[str] = []
    for place, name in enumerate(("north", "south")):
        clusters.put(connection, name, "oarpy", ["oargriddoor", "campus"], place=place)
    lend(connection, "south")
    found = rehearsed("date")
    north, south = found.ends
    assert (asked, north.error, south.end) == (["north"], "", None)
    assert south.error.startswith("cluster 'south' is not open to '")
    assert not found.refused
    lend(connection, "north")
    assert rehearsed("date").refused
    assert asked == ["north"]


def test_slurm_is_closed_until_an_admin_opens_it(connection: Connection, oarsub: Submitter) -> None:
    def add(*words: str) -> tuple[int, str, str]:
        result = oarsub("clusters", "add", "west", *words, command="oargridctl")
        return result.status, result.out, result.err

    slurm = ("--slurm", "ssh west")
    status, out, _ = add(*slurm)
    (row,) = clusters.every(connection)
    assert row.users is not None
    assert "root" in row.users
    who = ", ".join(sorted(row.users))
    said = f"Cluster west is added.\nNobody but {who} may use it: --users ann,bob or --users all opens it.\n"
    assert (status, out, row.refusal_to("eve")) == (0, said, "cluster 'west' is not open to 'eve'")
    assert add(*slurm, "--users", "bob, ann") == (0, "Cluster west is added.\n", "")
    assert "ann,bob" in oarsub("clusters", "list", command="oargridctl").out
    assert json.loads(oarsub("clusters", "list", "-J", command="oargridctl").out)[0]["users"] == ["ann", "bob"]
    assert add(*slurm, "--users", "all")[0] == 0
    assert clusters.every(connection)[0].refusal_to("eve") == ""
    for words in ((*slurm, "--users", "ann,,bob"), (*slurm, "--users", ""), ("--door", "ssh west", "--users", "ann")):
        status, out, err = add(*words)
        assert (status, out, err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("kind", ["queued", "claim"])
def test_no_part_of_others_is_made_in_slurm_whoever_asks(kind: str) -> None:
    row = GridClusterRow("west", "slurm", ("false",), 1, False, 0, True, users=frozenset({"ann"}))
    part = GridPart("g1.0.1", kind, PartRequest("eve", "/core=1", 1, 60))  # type: ignore[arg-type]
    with pytest.raises(CallRefused, match="'west' is not open to 'eve'"):
        cluster_of("lyon", row).ask(Prepare("t1", part, 60, key="k"))
