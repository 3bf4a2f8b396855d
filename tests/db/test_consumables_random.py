"""Whatever happens, in whatever order: no block ever gives more than it has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeAlias

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from psycopg.conninfo import make_conninfo

from oarpy.model.states import HOLDING_STATES
from tests.harness.small_cluster import SmallCluster, with_settings
from tests.harness.wrong_rows import wrong_rows

pytestmark = pytest.mark.db

REQUESTS = (
    "/core=1",
    "/network_address=2/core=1",
    "/network_address=1",
    "{network_address = 'n1'}/core=1",
    "/core=1+{network_address = 'n2'}/core=1",
)
AMOUNTS = ("", ",memory=1", ",memory=3", ",memory=8", ",licences=1", ",memory=5,licences=2")
WALLTIMES = (60, 600, 3600)
KINDS = [
    "submit",
    "submit",
    "submit",
    "besteffort",
    "guest",
    "reserve",
    "moldable",
    "end",
    "end",
    "delete",
    "node",
    "wait",
    "suspend",
    "resume",
]

Step: TypeAlias = tuple[str, int, int, int]

steps = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.integers(0, len(REQUESTS) - 1),
        st.integers(0, len(AMOUNTS) - 1),
        st.integers(0, 100),
    ),
    min_size=8,
    max_size=20,
)

# Most that was held at one time of each block, at the instants at which somebody took some, and what there is. What a
# suspended job gives back counts as held in between.
OVERDRAWN = """
    SELECT a.consumable, a.block, lower(a.during), sum(b.amount), max(c.capacity)
    FROM assigned_amounts a
        JOIN assigned_amounts b ON (b.consumable, b.block) = (a.consumable, a.block) AND b.during @> lower(a.during)
        JOIN consumable_capacities c ON (c.consumable, c.block) = (a.consumable, a.block)
    WHERE a.consumable <> ALL (%s)
    GROUP BY a.job_id, a.consumable, a.block HAVING sum(b.amount) > max(c.capacity)
"""

# What live jobs should hold by their requests and resources, and what they do hold.
EXPECTED = """
    SELECT DISTINCT j.job_id, d.consumable, to_jsonb(r) ->> c.level, d.amount
    FROM jobs j JOIN assigned_resources a ON a.job_id = j.job_id AND (upper_inf(a.during) OR a.suspended)
        JOIN resources r USING (resource_id)
        JOIN consumption_descriptions d ON d.moldable_id = j.moldable_id
        JOIN consumables c ON c.name = d.consumable
    WHERE j.state = ANY(%s) AND to_jsonb(r) ->> c.level IS NOT NULL AND (upper_inf(a.during) OR c.name <> ALL (%s))
    ORDER BY 1, 2, 3
"""
HELD = "SELECT job_id, consumable, block, amount FROM assigned_amounts WHERE upper_inf(during) ORDER BY 1, 2, 3"


@contextmanager
def fresh_cluster(server: str, template: str, freed: Sequence[str]) -> Iterator[tuple[SmallCluster, str]]:
    """A cluster of three nodes on a database of its own; n3 has neither memory nor licences.

    Suspended jobs give back consumables that are ``freed``; guests are suspended for others.
    """
    name = "amounts_at_random"
    with psycopg.connect(server, dbname="postgres", autocommit=True) as maintenance:
        identifier = psycopg.sql.Identifier(name)
        drop = psycopg.sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(identifier)
        maintenance.execute(drop)
        maintenance.execute(
            psycopg.sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(
                identifier, psycopg.sql.Identifier(template)
            )
        )
        dsn = make_conninfo(server, dbname=name)
        with psycopg.connect(dsn, autocommit=True) as connection:
            limits = {"reservation_wait": 0, "suspended_consumables": tuple(freed)}
            cluster = SmallCluster(connection, with_settings(scheduler=limits))
            cluster.sql(
                "INSERT INTO queues (queue_name, priority, gives_way_to, manner)"
                " VALUES ('guests', 1, '{default}', 'suspend')"
            )
            cluster.add_nodes("n1", "n2", "n3", cores=3)
            cluster.add_consumable("memory", n1=8, n2=8)
            cluster.add_consumable("licences", level="cpu")
            cluster.sql("INSERT INTO consumable_capacities VALUES ('licences', '1', 2), ('licences', '2', 3)")
            yield cluster, dsn
        maintenance.execute(drop)


class Trial:
    """Takes steps, and looks after each at what is held."""

    def __init__(self, cluster: SmallCluster, freed: Sequence[str]) -> None:
        self.cluster, self.freed = cluster, list(freed)
        self.absent = False

    def take(self, step: Step) -> None:
        kind, request, amount, number = step
        text = f"{REQUESTS[request]}{AMOUNTS[amount]},walltime={WALLTIMES[number % 3]}"
        if kind == "submit":
            self.cluster.submit(text)
        elif kind == "besteffort":
            self.cluster.submit(text, queue="besteffort", types=("besteffort",))
        elif kind == "guest":
            self.cluster.submit(text, queue="guests")
        elif kind == "reserve":
            date = (self.cluster.now() + timedelta(seconds=number)).replace(microsecond=0)
            self.cluster.submit(text, reservation=date)
        elif kind == "moldable":
            self.cluster.submit(text, f"/core=2{AMOUNTS[number % len(AMOUNTS)]},walltime=60")
        elif kind in ("end", "delete"):
            self._finish(kind, number)
        elif kind == "suspend":
            self.cluster.sql(
                "INSERT INTO suspend_requests (job_id) SELECT max(job_id) FROM jobs WHERE state = 'Running'"
                " HAVING max(job_id) IS NOT NULL ON CONFLICT DO NOTHING"
            )
        elif kind == "resume":
            self.cluster.sql("UPDATE jobs SET state = 'Resuming' WHERE state = 'Suspended'")
        elif kind == "node":
            self.absent = not self.absent
            self.cluster.sql(
                "UPDATE resources SET state = %s WHERE network_address = 'n1'", "Dead" if self.absent else "Alive"
            )
        else:
            self.cluster.offset += number * 6
        for round_ in (self.cluster.plan, self.cluster.cancel, self.cluster.launch, self.cluster.watch):
            round_()
            self.look()

    def _finish(self, kind: str, number: int) -> None:
        states = "('Running')" if kind == "end" else "('Running', 'Waiting', 'toLaunch', 'Launching')"
        query = f"""
            SELECT job_id FROM jobs LEFT JOIN kill_requests k USING (job_id)
            WHERE jobs.state IN {states} AND k.job_id IS NULL ORDER BY job_id
        """  # noqa: S608
        jobs = [job for (job,) in self.cluster.sql(query)]
        if jobs and kind == "end":
            self.cluster.end(jobs[number % len(jobs)])
        elif jobs:
            self.cluster.delete(jobs[number % len(jobs)])

    def look(self) -> None:
        assert self.cluster.sql(OVERDRAWN, self.freed) == []
        held = self.cluster.sql(HELD)
        expected = self.cluster.sql(EXPECTED, [str(state) for state in HOLDING_STATES], self.freed)
        assert held == expected


@given(steps, st.sampled_from([(), ("memory",), ("memory", "licences")]))
@settings(
    max_examples=6,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_block_ever_gives_more_than_it_has(
    server: str, template: str, taken: list[Step], freed: tuple[str, ...]
) -> None:
    with fresh_cluster(server, template, freed) as (cluster, dsn):
        trial = Trial(cluster, freed)
        for step in taken:
            trial.take(step)
        cluster.settle()
        trial.look()
        assert wrong_rows(dsn) == ()
        cluster.sql(
            "INSERT INTO kill_requests (job_id) SELECT job_id FROM jobs WHERE state NOT IN ('Terminated', 'Error')"
            " ON CONFLICT DO NOTHING"
        )
        cluster.settle()
        assert cluster.sql("SELECT sum(held) FROM consumable_capacities") == [(0,)]
        assert cluster.sql(HELD) == []
