"""The fields of files of the systems ``windows``, ``flexco``, ``offers`` and ``bags``. Times are seconds.

:mod:`oarpy.grid.simulation.promised.reader` checks the values that types cannot. Null stands for none.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from oarpy.grid.core.coallocation.common_start import EARLIEST
from oarpy.grid.core.coallocation.early_end import Operation
from oarpy.grid.simulation.scenario import EngineName
from oarpy.profiles.planned import JobId

Number = int | float
Share = Annotated[int, Meta(ge=1, le=100, description="a whole number from 1 to 100")]
Percent = Annotated[float, Meta(ge=0, le=100, description="a number from 0 to 100")]
SHARES = (10, 25, 50, 75, 100)


class ClusterEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """A cluster."""

    name: str
    procs: int
    speed: Number = 1


class EstimatingClusterEntry(ClusterEntry, frozen=True, forbid_unknown_fields=True):
    """A cluster that plans tasks by their walltimes, or by the run times that were predicted."""

    estimates: Literal["walltime", "predicted"] = "walltime"


class JobEntry(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The common fields of jobs. Without ``cluster`` the broker places the job; ``recorded`` is its real start."""

    id: JobId
    procs: int | UnsetType = UNSET
    run: Number
    submit: Number = 0
    walltime: Number | UnsetType = UNSET
    cluster: str | UnsetType = UNSET
    recorded: Number | UnsetType = UNSET

    @property
    def count(self) -> int:
        """The number of its tasks."""
        return 1

    @property
    def size(self) -> int:
        """Processors, of each task if there are several."""
        return 1 if self.procs is UNSET else self.procs

    @property
    def planned(self) -> Number:
        """Seconds at speed 1, as planned."""
        return self.run if self.walltime is UNSET else self.walltime

    @property
    def length(self) -> Number:
        """Seconds at speed 1, as it really runs: it is ended at its walltime."""
        return min(self.run, self.planned)


class WindowJobEntry(JobEntry, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A reservation with a window."""

    deadline: Number
    ready: Number | None = None
    accept: Number | None = None


class FlexcoJobEntry(JobEntry, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A local job, or a metajob."""

    overhead: Number | UnsetType = UNSET
    ready: Number | UnsetType | None = UNSET
    at_most: dict[str, int] | UnsetType = UNSET


class OffersJobEntry(JobEntry, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A local job, or a bag of ``tasks``, with a deadline."""

    deadline: Number
    tasks: int | UnsetType = UNSET

    @property
    def count(self) -> int:
        """The number of its tasks."""
        return 1 if self.tasks is UNSET else self.tasks


class BagsJobEntry(JobEntry, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A local job, or a bag of ``tasks`` whose run time may be ``predicted``, by ``profiling`` it for some seconds."""

    tasks: int | UnsetType = UNSET
    predicted: Number | UnsetType = UNSET
    profiling: Number | UnsetType = UNSET

    @property
    def count(self) -> int:
        """The number of its tasks."""
        return 1 if self.tasks is UNSET else self.tasks


class WindowRules(Struct, frozen=True, forbid_unknown_fields=True):
    """Rules of ``windows``."""

    order: str = "edf"
    seed: int = 1
    fix: Percent | None = None
    farther: bool = False


class FlexcoRules(Struct, frozen=True, forbid_unknown_fields=True):
    """Rules of ``flexco``."""

    operation: Operation = "rigid"
    coallocation: str = EARLIEST


class OffersRules(Struct, frozen=True, forbid_unknown_fields=True):
    """Rules of ``offers``."""

    policy: str = "plb"
    shares: tuple[Share, ...] = SHARES


class BagsRules(Struct, frozen=True, forbid_unknown_fields=True):
    """Rules of ``bags``; slowdowns take run times below ``bound`` seconds for that long."""

    policy: str = "plb"
    coordinated: bool = True
    shares: tuple[Share, ...] = SHARES
    bound: Number = 600


class _File(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The common fields of files; utilisation is ``measure``-d from one instant to another."""

    system: str
    clusters: tuple[Any, ...]
    jobs: tuple[Any, ...]
    engine: EngineName = "production"
    measure: tuple[Number, Number] | None = None


class WindowsFile(_File, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file of ``windows``."""

    windows: WindowRules = WindowRules()


class FlexcoFile(_File, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file of ``flexco``."""

    flexco: FlexcoRules = FlexcoRules()


class OffersFile(_File, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file of ``offers``."""

    offers: OffersRules = OffersRules()


class BagsFile(_File, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A file of ``bags``."""

    bags: BagsRules = BagsRules()
