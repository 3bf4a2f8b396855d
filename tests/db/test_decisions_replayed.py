"""``oarpy grid replay``: decisions that were stored are taken again, and one that comes out differently is told."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import psycopg
import pytest

from oarpy.grid.broker.decisions import DrivenCore
from oarpy.grid.core.broker_state import BrokerState, GridCluster, MappedJob, ReallocationRules, WaitingPart
from oarpy.grid.core.exchanges import AskEcts, EctsTold, JobArrived, PassDue
from oarpy.store.grid import decisions
from tests.harness.oarsub_cluster import Submitter

pytestmark = [pytest.mark.db, pytest.mark.kept]
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"


def decided(connection: Connection, job: int) -> int:
    """Store a decision about a job, which goes to the second cluster; return its number."""
    core = DrivenCore(BrokerState((GridCluster("a", 8), GridCluster("b", 8))))
    core.tell(JobArrived(MappedJob(job, 0, 2, 60)), 0)
    core.tell(EctsTold(("a", "b"), (job,), ((90.5,), (60.25,)), "mapping"), 0)
    noted = core.taken()
    return decisions.add(connection, "mapper", 1000, noted.state, noted.events, noted.actions)


def test_all_come_out_the_same(connection: Connection, oarsub: Submitter) -> None:
    for job in (1, 2, 3):
        decided(connection, job)
    connection.commit()
    done = oarsub("grid", "replay", command="oarpy")
    assert (done.status, done.out) == (0, "3 of 3 decisions the same\n")


def test_one_that_comes_out_differently_is_told(connection: Connection, oarsub: Submitter) -> None:
    decided(connection, 1)
    changed, broken = decided(connection, 2), decided(connection, 3)
    connection.execute(
        "UPDATE grid_decisions SET events = replace(events::text, '60.25', '99')::jsonb WHERE id = %s", [changed]
    )
    connection.execute("UPDATE grid_decisions SET state = '{}' WHERE id = %s", [broken])
    connection.commit()
    done = oarsub("grid", "replay", command="oarpy")
    first, second, last = done.out.splitlines()
    assert first.startswith(f"decision {changed} of the mapper, event 2: stored ")
    assert '"cluster": "b"' in first.split(", came out ")[0]
    assert '"cluster": "a"' in first.split(", came out ")[1]
    assert second.startswith(f"decision {broken} of the mapper")
    assert (done.status, last) == (1, "1 of 3 decisions the same")
    told = json.loads(oarsub("grid", "replay", "--json", command="oarpy").out)
    assert (told["decisions"], [one["id"] for one in told["different"]]) == (3, [changed, broken])


def test_one_that_is_too_large_is_stored_short_and_counted_apart(
    connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided(connection, 1)
    monkeypatch.setattr(decisions, "MOST_BYTES", 100)
    large = decided(connection, 2)
    connection.commit()
    row = list(decisions.every(connection))[1]
    assert (row.replayable, [one["event"] for one in row.events]) == (False, [{"is": "JobArrived"}, {"is": "EctsTold"}])
    done = oarsub("grid", "replay", command="oarpy")
    assert (done.status, done.out.splitlines()[0]) == (0, "1 of 1 decisions the same")
    assert done.out.splitlines()[1].startswith("1 more were too large")
    assert json.loads(oarsub("grid", "replay", "--json", command="oarpy").out)["not_replayable"] == [large]


def long_pass(jobs: int) -> DrivenCore:
    """Lead the core through a pass that looks at all jobs after each move."""
    clusters = tuple(GridCluster(name, 64) for name in ("a", "b", "c"))
    core = DrivenCore(BrokerState(clusters, reallocation=ReallocationRules("mct", 2, "minmin")))
    waiting = tuple(WaitingPart(MappedJob(job, job, 1, 600), "abc"[job % 3]) for job in range(10**7, 10**7 + jobs))
    actions = core.tell(PassDue(waiting), 0)
    while asked := [one for one in actions if isinstance(one, AskEcts)]:
        (one,) = asked
        ends = tuple(1e9 + 600 * (int(job) + len(one.jobs)) for job in one.jobs)
        actions = core.tell(EctsTold(tuple(one.clusters), one.jobs, (ends,) * len(one.clusters), one.question), 0)
    return core


def test_a_pass_over_many_jobs_is_stored_small_and_taken_again(connection: Connection, oarsub: Submitter) -> None:
    noted = long_pass(120).taken()
    number = decisions.add(connection, "mover", 1000, noted.state, noted.events, noted.actions)
    connection.commit()
    row = connection.execute("SELECT length(events::text), length(actions::text) FROM grid_decisions").fetchone()
    assert row is not None
    assert row[0] * 10 < len(json.dumps(noted.events))
    assert row[1] < 120 * 1000
    done = oarsub("grid", "replay", command="oarpy")
    assert (done.status, done.out) == (0, "1 of 1 decisions the same\n")
    connection.execute(
        'UPDATE grid_decisions SET actions = replace(actions::text, \'"sha256": "\', \'"sha256": "0\')::jsonb'
    )
    connection.commit()
    done = oarsub("grid", "replay", command="oarpy")
    assert done.status == 1
    assert done.out.startswith(f'decision {number} of the mover, event 1: stored {{"sha256"')
