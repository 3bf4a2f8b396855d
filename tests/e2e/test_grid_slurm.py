"""A broker's view of a real Slurm: the promises of every cluster, and what is Slurm's own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oarpy.grid.broker.claimer import Claimer
from oarpy.grid.broker.coallocated.common_starts import ClaimTimes
from oarpy.grid.calls.parts import GridPart, PartKind, PartRequest
from oarpy.grid.calls.table import CallRefused, Cluster, ClusterSilent, Commit, Describe, Estimate, Events, Prepare
from oarpy.grid.clusters.slurm.cluster import SlurmCluster
from oarpy.grid.clusters.slurm.marks import PartMark
from oarpy.grid.core.broker_state import DeadlineRules
from oarpy.model.states import GridJobState
from oarpy.store.grid import broker_jobs
from oarpy.store.grid.broker_jobs import NewGridComponent, NewGridJob
from tests.harness.cluster_conformance import LONG, ClusterConformance, ClusterStage
from tests.harness.oarpy_stage import OarpyStage, oarpy_stage
from tests.harness.simulated_grid import SimulatedGrid
from tests.harness.slurm_daemons import SlurmDaemons, slurm_daemons
from tests.harness.small_cluster import Connection
from tests.harness.sshd_nodes import start_nodes
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e


class SlurmStage(ClusterStage):
    """A Slurm of two nodes on this machine."""

    def __init__(self, daemons: SlurmDaemons) -> None:
        super().__init__(SlurmCluster("slurm", daemons.words, as_root=True))
        self.daemons = daemons
        self.procs = daemons.procs

    def occupy(self, procs: int) -> str:
        """Run a local job."""
        asked = [f"--ntasks={procs}", "--time=60", "--output=/dev/null", "--wrap=exec sleep 3600"]
        job = self.daemons.command("sbatch", "--parsable", *asked)
        until(lambda: self._state(job) == "RUNNING", lambda: self.daemons.command("squeue"))
        return job

    def vacate(self, local: str) -> None:
        """End a local job."""
        self.daemons.command("scancel", local)

    def _state(self, job: str) -> str:
        return self.daemons.command("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T")


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmStage]:
    with slurm_daemons() as daemons:
        yield SlurmStage(daemons)


@pytest.fixture
def stage(slurm: SlurmStage) -> Iterator[SlurmStage]:
    yield slurm
    slurm.daemons.clear()


class TestClusterOfSlurm(ClusterConformance):
    """The suite, on Slurm."""


@contextmanager
def lost_answers(cluster: Cluster) -> Iterator[None]:
    """Let scripts be carried out on the host, and their answers be lost."""
    assert isinstance(cluster, SlurmCluster)
    host = cluster._host
    run = host.run

    def lost(script: str) -> str:
        found = run(script)
        if "squeue" in script.splitlines()[-1] and "salloc" not in script:
            return found
        raise ClusterSilent("the answer is lost")

    host.run = lost  # type: ignore[method-assign]
    try:
        yield
    finally:
        host.run = run  # type: ignore[method-assign]


@pytest.mark.parametrize("kind", ["queued", "claim"])
def test_a_part_whose_answer_was_lost_is_found_again(stage: SlurmStage, kind: PartKind) -> None:
    cluster, name = stage.cluster, stage.unique("lost")
    begin = cluster.ask(Describe()).clock + 600 if kind == "claim" else None
    part = GridPart(name, kind, stage.request(2), "sleep 1000", begin=begin)
    with lost_answers(cluster), pytest.raises(ClusterSilent):
        cluster.ask(Prepare(name, part, LONG, key=name))
    prepared = cluster.ask(Prepare(name, part, LONG, key=name))
    assert _live(stage) == [prepared.job]
    with lost_answers(cluster), pytest.raises(ClusterSilent):
        cluster.ask(Commit(name, begin, key="k"))
    stage.commit(name, begin)
    if kind == "queued":
        stage.event(name, "started")


def test_of_a_part_that_was_submitted_twice_one_starts(stage: SlurmStage) -> None:
    name, transaction = stage.prepared(ttl=10)
    mark = stage.daemons.command("squeue", "--noheader", "--states=PENDING", "--format=%k")
    stage.daemons.command("sbatch", "--hold", "--output=/dev/null", f"--comment={mark}", "--wrap=sleep 1000")
    stage.commit(transaction)
    assert stage.event(name, "started").job == min(_live(stage), key=int)
    until(lambda: _left(stage), lambda: stage.daemons.command("squeue"))
    assert [event.kind for event in stage.events(name) if event.kind == "started"] == ["started"]


def _live(stage: SlurmStage) -> list[str]:
    return stage.daemons.command("squeue", "--noheader", "--states=PENDING,RUNNING", "--format=%i").split()


def _left(stage: SlurmStage) -> bool:
    """End what nobody looks after any more, as a broker does that asks for events; return whether one job is left."""
    stage.cluster.ask(Events(0))
    return len(_live(stage)) == 1


def test_programs_know_their_hosts_and_their_grid_job(stage: SlurmStage) -> None:
    program = 'cat "$OAR_GRID_NODEFILE"; echo "$OAR_GRID_JOB_ID"; srun --quiet --ntasks=2 echo ran; exit 3'
    told = {"OAR_GRID_JOB_ID": "it's 7"}
    home = str(stage.daemons.home)
    queued = stage.queued(5, program=program, environment=told, directory=home)
    stage.event(queued, "started")
    begin = stage.cluster.ask(Describe()).clock + 2
    claim, transaction = stage.prepared("claim", 2, program=program, environment=told, directory=home, begin=begin)
    stage.cluster.ask(Commit(transaction, begin, ["a1", "b1"], key=stage.unique("key")))
    outputs = []
    for name in (queued, claim):
        ended = stage.event(name, "ended")
        assert ended.status == 3
        outputs.append((stage.daemons.home / f"slurm-{ended.job}.out").read_text().splitlines())
    assert (sorted(outputs[0][:5]), outputs[0][5:]) == (["n1"] * 4 + ["n2"], ["it's 7", "ran", "ran"])
    assert outputs[1] == ["a1", "b1", "it's 7", "ran", "ran"]


def test_a_controller_that_is_away_is_silent_and_forgets_nothing(stage: SlurmStage) -> None:
    name, transaction = stage.prepared(program="sleep 1")
    with stage.daemons.no_controller():
        for call in (lambda: stage.cluster.ask(Describe()), lambda: stage.commit(transaction)):
            with pytest.raises(ClusterSilent, match="'slurm' does not answer"):
                call()
    stage.commit(transaction)
    assert stage.event(name, "ended").status == 0


def test_what_slurm_cannot_do_is_refused(stage: SlurmStage) -> None:
    begin = stage.cluster.ask(Describe()).clock + 600
    with pytest.raises(CallRefused, match="reserves for its admins only"):
        stage.prepared("reserved", begin=begin)
    with pytest.raises(CallRefused, match="invalid partition"):
        stage.cluster.ask(Estimate([PartRequest("ann", "/core=1", 1, 60, queue="nowhere")]))
    with pytest.raises(CallRefused, match="no properties"):
        stage.cluster.ask(Estimate([PartRequest("ann", "/core=1", 1, 60, properties="memory > 1")]))
    with pytest.raises(CallRefused, match="is past"):
        stage.prepared("claim", begin=1)
    with pytest.raises(CallRefused, match="cannot amend"):
        stage.amended("any", 1, begin)
    assert not stage.cluster.ask(Describe()).abilities.amend
    assert stage.idle() == stage.procs


def test_a_frozen_part_that_slurm_never_planned_is_estimated_in_its_rank(stage: SlurmStage) -> None:
    local = stage.busy()
    free = int(stage.daemons.command("date", "+%s")) + LONG
    first = stage.queued(stage.procs)
    second = stage.queued(stage.procs)
    transaction = stage.freeze(first)
    until(lambda: _planned(stage, second), lambda: stage.daemons.command("squeue"))
    ends = stage.cluster.ask(Estimate([first, second]))
    assert ends[0] == pytest.approx(free + LONG, abs=30)
    assert ends[0] <= ends[1]
    stage.abort(transaction)
    stage.vacate(local)


def _planned(stage: SlurmStage, name: str) -> bool:
    """Tell whether Slurm says when a part starts: as if what is frozen was not there."""
    cluster = stage.cluster
    assert isinstance(cluster, SlurmCluster)
    job = cluster._listed().of(name)
    return job is not None and job.start < float("inf")


def test_what_is_left_to_the_host_outlives_the_connection(stage: SlurmStage, tmp_path: Path) -> None:
    with start_nodes(1, tmp_path) as sshd:
        begin = time.time() + 15
        words = ["ssh", *sshd.ssh_options(), "node1", *stage.daemons.words]
        far = SlurmCluster("far", words, broker=stage.unique("broker"), as_root=True)
        asked = stage.request(2)
        far.ask(Prepare("lapsing", GridPart("lapsing", "claim", asked, "sleep 1", begin=begin + 600), 12, key="k1"))
        far.ask(Prepare("beginning", GridPart("beginning", "claim", asked, "sleep 1", begin=begin), 60, key="k2"))
        far.ask(Commit("beginning", begin, ["a1"], key="k3"))
        assert stage.idle() == stage.procs - 4
    with pytest.raises(ClusterSilent, match="'far' does not answer"):
        far.ask(Describe())
    until(lambda: stage.idle() == stage.procs, lambda: stage.daemons.command("squeue", "--states=all"))
    told = stage.daemons.command("squeue", "--noheader", "--states=all", "--format=%k").splitlines()
    marks = {mark.part: mark.state for text in told if (mark := PartMark.read(text))}
    assert (marks["lapsing"], marks["beginning"]) == ("prepared", "ended")


@pytest.fixture
def here(connection: Connection, dsn: str) -> Iterator[OarpyStage]:
    with oarpy_stage(connection, dsn, driven=True) as made:
        yield made


@pytest.fixture
def grid(connection: Connection, here: OarpyStage, stage: SlurmStage) -> Iterator[SimulatedGrid]:
    """A broker of both clusters: oarpy comes first. Its database is new, and so are its parts to Slurm."""
    slurm = SlurmCluster("slurm", stage.daemons.words, broker=stage.unique("broker"), as_root=True)
    made = SimulatedGrid(connection, [here.cluster, slurm])  # type: ignore[list-item]
    yield made
    made.close()


def test_jobs_go_to_oarpy_or_to_slurm(grid: SimulatedGrid, here: OarpyStage, stage: SlurmStage) -> None:
    def ended(job: int) -> bool:
        here.turn()
        return grid.job(job).state is GridJobState.TERMINATED

    for busy, where in ((here, "slurm"), (stage, "here")):
        local = busy.busy()
        (job,) = grid.submit(2, user="ann")
        assert grid.settled(job) == [where]
        grid.drive(lambda job=job: ended(job), "the end of the job")  # type: ignore[misc]
        assert grid.job(job).exit_status == 0
        busy.vacate(local)


def test_components_on_oarpy_and_on_slurm_begin_together(grid: SimulatedGrid, here: OarpyStage) -> None:
    claimer = Claimer(DeadlineRules(lp=0.7, tries=3), ClaimTimes(claim_time=2), 0.5, grid.connections())
    deadline = time.time() + 11
    asked = (NewGridComponent("/core=6", 6),) * 2
    new = NewGridJob("ann", "coallocated", "sleep 1", 60, asked, deadline=deadline)
    (job,) = broker_jobs.insert(grid.connection, new)

    def over() -> bool:
        here.turn()
        return grid.job(job).state in (GridJobState.TERMINATED, GridJobState.MISSED, GridJobState.ERROR)

    grid.drive(over, "the end of the job", claimer, grid.mapper, grid.watcher)
    assert (grid.job(job).state, grid.job(job).message) == (GridJobState.TERMINATED, "")
    parts = grid.parts(job)
    assert {part.cluster for part in parts} == {"here", "slurm"}
    starts = [part.started for part in parts]
    assert all(start is not None and start >= int(deadline) for start in starts)
