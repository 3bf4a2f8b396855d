"""Jobs grow and shrink at random while nodes are lost, do not hear, and launchers die: in the end all agree."""

from __future__ import annotations

import random

import pytest

from oarpy.modules.accounting import Accounting
from oarpy.modules.loop.module import run
from oarpy.store.analytics import recount
from oarpy.store.jobs import resizes
from tests.db.test_resizes_on_nodes import NODES, files, grant, holds, made, release, running
from tests.harness.small_cluster import Connection, SmallCluster

pytestmark = [pytest.mark.db, pytest.mark.kept]
STEPS = 25
WINDOW = 86400
USED = """
    SELECT (SELECT sum(consumption) FROM accounting WHERE consumption_type = 'USED'),
           (SELECT sum(extract(epoch FROM upper(part) - lower(part)))
            FROM jobs JOIN assigned_resources a USING (job_id),
                 unnest(a.during * tstzmultirange(tstzrange(started_at, ended_at))) AS part)
"""


class Disorder:
    """Two jobs on four nodes, and whatever may happen to them; every choice comes from the seed."""

    def __init__(self, cluster: SmallCluster, seed: int) -> None:
        self.cluster = cluster
        self.chance = random.Random(seed)
        self.first = {running(cluster, node): node for node in self.chance.sample(NODES, 2)}
        self.jobs = list(self.first)

    def step(self) -> None:
        """One thing happens, or two; then the launcher may have its round."""
        self.chance.choice(
            [self.grow, self.grow, self.shrink, self.shrink, self.deafen, self.lose, self.restart, self.end]
        )()
        if self.chance.random() < 0.7:
            self.cluster.launch()
            self.cluster.watch()

    def grow(self) -> None:
        free = [node for node in NODES if all(node not in holds(self.cluster, job) for job in self.first)]
        if free and self.jobs:
            grant(self.cluster, self.chance.choice(self.jobs), self.chance.choice(free))

    def shrink(self) -> None:
        if not self.jobs:
            return
        job = self.chance.choice(self.jobs)
        leaving = {resource for one in resizes.opened(self.cluster.connection) for resource in one.resources}
        held = {NODES[(number - 1) // 2] for number in leaving}
        others = sorted(holds(self.cluster, job) - held - {self.first[job]})
        if others:
            release(self.cluster, job, self.chance.choice(others))

    def deafen(self) -> None:
        """What is sent to a node is lost with its channel."""
        self.cluster.node(self.chance.choice(NODES)).deaf = True

    def lose(self) -> None:
        name = self.chance.choice(NODES)
        self.cluster.node(name).deaf = False
        if self.cluster.node(name).connected:
            self.cluster.nodes.lose(name)
            self.cluster.launch()
            if self.chance.random() < 0.5 and not self.cluster.node(name).connected:
                self.cluster.reconnect(name)

    def hear_again(self) -> None:
        """Have the channels noticed as lost of nodes that did not hear."""
        for name in NODES:
            node = self.cluster.node(name)
            if node.deaf:
                node.deaf = False
                self.cluster.nodes.lose(name)
                self.cluster.launch()

    def restart(self) -> None:
        self.hear_again()
        self.cluster.restart_launcher()

    def end(self) -> None:
        if self.jobs and self.chance.random() < 0.2:
            job = self.jobs.pop(self.chance.randrange(len(self.jobs)))
            self.cluster.nodes.finish(self.first[job], self.cluster.key(job))

    def calm(self) -> None:
        """Everything answers again, and all is done."""
        self.hear_again()
        for name in NODES:
            if not self.cluster.node(name).connected:
                self.cluster.reconnect(name)
        self.cluster.settle()


@pytest.mark.parametrize("seed", range(8))
def test_in_the_end_nodes_and_database_agree(connection: Connection, seed: int) -> None:
    disorder = Disorder(made(connection), seed)
    for _ in range(STEPS):
        disorder.step()
    disorder.calm()
    cluster = disorder.cluster
    assert resizes.opened(connection) == []
    for job, first in disorder.first.items():
        if job not in disorder.jobs:
            assert (cluster.state(job), holds(cluster, job)) == ("Terminated", set())
            assert {*files(cluster, job)} <= {first}, "which forgets the job at leisure"
            continue
        names = holds(cluster, job)
        read = files(cluster, job)
        assert cluster.state(job) == "Running"
        assert {*read} == names or (names == {first} and read == {}), "it was never resized"
        assert len(set(read.values())) <= 1
        assert all(lines.split()[0] == first and set(lines.split()) == names for lines in read.values())
    # what each host was held for is what is counted
    cluster.delete(*disorder.jobs)
    cluster.settle()
    run(Accounting(cluster.settings), connection, cluster.now())
    ((used, held),) = cluster.sql(USED)
    assert used == held > 0
    assert recount.differences(connection, WINDOW) == []
