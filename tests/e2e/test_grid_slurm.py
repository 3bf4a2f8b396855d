"""A broker's view of a real Slurm: the promises of every cluster, and what is Slurm's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oarpy.grid.providers.slurm_cluster import SlurmCluster
from tests.harness.provider_conformance import ProviderConformance, ProviderStage
from tests.harness.slurm_daemons import SlurmDaemons, slurm_daemons
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e


class SlurmStage(ProviderStage):
    """A Slurm of two nodes on this machine."""

    def __init__(self, daemons: SlurmDaemons) -> None:
        super().__init__(SlurmCluster("slurm", daemons.words))
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


class TestProviderOfSlurm(ProviderConformance):
    """The suite, on Slurm."""
