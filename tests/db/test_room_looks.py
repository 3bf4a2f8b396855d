"""Many jobs whose tries are due at one instant: clusters are asked once for all of them."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeAlias

import psycopg
import pytest

from oarpy.grid.broker.coallocated.job_files import live_file, live_files
from oarpy.model.states import GridJobState
from oarpy.store.grid import placing_tries
from tests.harness.claim_rounds import ClaimRounds

pytestmark = [pytest.mark.db, pytest.mark.kept]
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"


@pytest.fixture
def rounds(connection: Connection) -> ClaimRounds:
    return ClaimRounds(connection)


def states(rounds: ClaimRounds, jobs: list[int]) -> list[GridJobState]:
    """The states of jobs."""
    return [rounds.job(job).state for job in jobs]


def test_a_cluster_is_asked_once_for_all_jobs_that_ask_for_the_same(rounds: ClaimRounds) -> None:
    jobs = [rounds.submit(deadline=400, procs=1) for _ in range(6)]
    rounds.until(201)
    assert states(rounds, jobs) == [GridJobState.CLAIMED] * 6
    for cluster in rounds.clusters.values():
        asked = Counter(cluster.calls)
        assert (asked["idle"], asked["prepare"]) == (1, 6)


def test_no_two_jobs_are_told_the_same_room(rounds: ClaimRounds) -> None:
    """There is room for two of the jobs: the others ask again, and claim nothing before that."""
    jobs = [rounds.submit(deadline=400, procs=4) for _ in range(5)]
    rounds.until(201)
    assert states(rounds, jobs) == [GridJobState.CLAIMED] * 2 + [GridJobState.SUBMITTED] * 3
    assert [Counter(cluster.calls)["prepare"] for cluster in rounds.clusters.values()] == [2, 2]
    made = [placing_tries.of_jobs(rounds.connection, [job])[0] for job in jobs]
    assert [one.outcome for one in made] == ["claimed"] * 2 + ["no room"] * 3
    assert made[2].idle == {"north": 0, "south": 0}
    rounds.until(501)
    assert states(rounds, jobs) == [GridJobState.TERMINATED] * 2 + [GridJobState.MISSED] * 3


def test_no_two_jobs_are_told_the_same_local_jobs(rounds: ClaimRounds) -> None:
    for cluster in rounds.clusters.values():
        for name in ("first", "second"):
            cluster.submit(name, 4, 5000, evictable=True)
    jobs = [rounds.submit(deadline=400, procs=4) for _ in range(3)]
    rounds.until(401)
    assert states(rounds, jobs) == [GridJobState.RUNNING] * 2 + [GridJobState.MISSED]
    assert sum(Counter(cluster.calls)["evict"] for cluster in rounds.clusters.values()) == 2
    assert not {"first", "second"} & {name for there in rounds.there().values() for name in there}


def test_parts_that_end_at_once_have_started(rounds: ClaimRounds) -> None:
    """The start and the end of a part are heard together."""
    for cluster in rounds.clusters.values():
        cluster._runs = lambda part: 0.0
    jobs = [rounds.submit(deadline=400, procs=1, components=3) for _ in range(3)]
    rounds.until(406)
    assert states(rounds, jobs) == [GridJobState.TERMINATED] * 3
    starts = [part.started for job in jobs for part in rounds.parts(job)]
    assert starts == [rounds.began + 400] * 9
    assert [rounds.job(job).started for job in jobs] == [rounds.began + 400] * 3


def test_a_file_is_read_alone_as_among_all(rounds: ClaimRounds) -> None:
    rounds.clusters["north"].submit("local", 8, 250)
    claimed, tried = rounds.submit(deadline=380, procs=2), rounds.submit(deadline=400, components=4)
    named = rounds.reserve(500, "north", "south")
    over = rounds.submit(deadline=30, components=9)
    rounds.until(310)
    files = live_files(rounds.connection, "claimer")
    assert [file.job.id for file in files] == [claimed, tried, named]
    assert [live_file(rounds.connection, file.job.id) for file in files] == files
    assert live_file(rounds.connection, over) is None
    last = [file.last_try.number for file in files if file.last_try]
    assert last == [len(placing_tries.of_jobs(rounds.connection, [job])) - 1 for job in (claimed, tried)]
    assert files[0].is_in(*[one.state for one in [files[0].transaction] if one])
