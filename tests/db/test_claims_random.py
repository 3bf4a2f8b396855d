"""Whatever fails, and whenever: parts start together or not at all, and nothing stays held."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, TypeAlias

import psycopg
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from oarpy.grid.calls.parts import PartEvent
from oarpy.grid.calls.table import CallRefused, ClusterSilent
from oarpy.grid.clusters.virtual.cluster import OrderedFault, SimulatedCluster
from oarpy.model.states import FINAL_GRID_JOBS, GridJobState
from tests.harness.claim_rounds import TIMES, BrokerKilled, ClaimRounds

pytestmark = pytest.mark.db
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

NAMES = ("north", "south", "west")
CALLS = ("describe", "idle", "evictable", "evict", "prepare", "commit", "abort", "cancel", "events")
LATEST = 120
"""No deadline and no fault is later than so many seconds after the beginning."""
LONGEST_CUT = 40


@dataclass(frozen=True)
class Trouble:
    """A fault that is ordered ``at`` seconds after the beginning."""

    at: int
    cluster: str
    kind: str
    call: str
    done: bool
    length: int

    def order(self, cluster: SimulatedCluster) -> None:
        errors: dict[str, BaseException] = {
            "silent": ClusterSilent("no answer"),
            "refuses": CallRefused("not now"),
            "killed": BrokerKilled(),
        }
        cluster.faults.strike(OrderedFault(self.call, errors[self.kind], self.done and self.kind != "refuses"))


troubles = st.builds(
    Trouble,
    st.integers(0, LATEST),
    st.sampled_from(NAMES),
    st.sampled_from(("silent", "refuses", "killed", "cut")),
    st.sampled_from(CALLS),
    st.booleans(),
    st.integers(5, LONGEST_CUT),
)
jobs = st.tuples(st.integers(12, LATEST), st.integers(1, 4), st.integers(1, 8), st.integers(5, 60))
reserved = st.tuples(st.integers(0, LATEST), st.sets(st.sampled_from(NAMES), min_size=1), st.integers(1, 8))
local_jobs = st.tuples(st.sampled_from(NAMES), st.integers(1, 8), st.integers(10, 200), st.booleans())


class _Trial(ClaimRounds):
    """Rounds during which faults strike."""

    def __init__(self, connection: Connection, ordered: list[Trouble]) -> None:
        connection.execute("TRUNCATE grid_jobs, grid_clusters, grid_transactions, grid_decisions CASCADE")
        super().__init__(connection, NAMES)
        self._ordered = sorted(ordered, key=lambda one: one.at)
        self._cut_until = dict.fromkeys(NAMES, 0.0)

    def round(self) -> float:
        now = self.clock() - self.began
        while self._ordered and self._ordered[0].at <= now:
            one = self._ordered.pop(0)
            if one.kind == "cut":
                self._cut_until[one.cluster] = now + one.length
            else:
                one.order(self.clusters[one.cluster])
        for name, until in self._cut_until.items():
            self.clusters[name].faults.cut = now < until
        return super().round()

    def heal(self) -> None:
        """No fault strikes any more."""
        for cluster in self.clusters.values():
            cluster.faults.forget()


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(
    asked=st.lists(jobs, min_size=1, max_size=3),
    named=st.lists(reserved, max_size=2),
    local=st.lists(local_jobs, max_size=4),
    ordered=st.lists(troubles, max_size=8),
)
def test_parts_start_together_or_none_goes_on(
    connection: Connection, asked: list[Any], named: list[Any], local: list[Any], ordered: list[Trouble]
) -> None:
    trial = _Trial(connection, ordered)
    for place, (cluster, procs, walltime, evictable) in enumerate(local):
        trial.clusters[cluster].submit(f"local{place}", procs, walltime, evictable=evictable)
    ids = [trial.submit(deadline, components, procs, walltime) for deadline, components, procs, walltime in asked]
    named_ids = [trial.reserve(date, *sorted(names), procs=procs, walltime=30) for date, names, procs in named]
    trial.until(LATEST + LONGEST_CUT, step=5)
    trial.heal()
    trial.until(LATEST + LONGEST_CUT + 60, step=20)
    for job, (deadline, components, *_) in zip(ids, asked, strict=True):
        _check(trial, job, trial.began + deadline, components)
    for job in named_ids:
        _over(trial, job)


def _over(trial: _Trial, job: int) -> list[PartEvent]:
    """A job is over and leaves nothing; return the starts of its parts: one a component."""
    row = trial.job(job)
    event(f"{row.kind} {row.state.value}")
    assert row.state in FINAL_GRID_JOBS, row
    names = {part.name for part in trial.parts(job)}
    assert not names & {name for states in trial.there().values() for name in states}
    starts = [one for one in trial.events("started") if one.part in names]
    assert max(Counter(one.part.split(".")[1] for one in starts).values(), default=0) <= 1
    return starts


def _check(trial: _Trial, job: int, deadline: float, components: int) -> None:
    """Parts of a job started together, or none went on."""
    row, starts = trial.job(job), _over(trial, job)
    assert all(deadline <= one.at <= deadline + TIMES.margin for one in starts)
    if row.state is GridJobState.TERMINATED:
        assert len(starts) == components
        return
    assert row.message
    bound = deadline + TIMES.start_bound + LONGEST_CUT + 10
    over = {one.part: one.at for one in (*trial.events("failed"), *trial.events("ended"))}
    assert all(over[one.part] <= bound for one in starts)
