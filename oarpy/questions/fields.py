"""The contents of the file of a question: a struct for each of its objects. Times are seconds.

Checks beyond types are in :mod:`oarpy.questions.possible_states` and in the answering functions.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType

from oarpy.grid.core.coallocation.common_start import EARLIEST
from oarpy.grid.core.coallocation.early_end import Operation
from oarpy.model.typed_values import Exact
from oarpy.profiles.planned import JobId

MOST = 1e15
"""Instants and other numbers are no further from 0."""

Count = Annotated[int, Meta(ge=1, le=10**9, description="a whole number from 1 to 1000000000")]
Limit = Annotated[int, Meta(ge=0, le=10**9, description="a whole number from 0 to 1000000000")]
Share = Annotated[int, Meta(ge=1, le=100, description="a whole number from 1 to 100")]
Number = Annotated[float, Meta(ge=-MOST, le=MOST, description="a number from -1e15 to 1e15")]
Positive = Annotated[float, Meta(gt=0, le=MOST, description="a number above 0, at most 1e15")]
NotNegative = Annotated[float, Meta(ge=0, le=MOST, description="a number from 0 to 1e15")]


class _Object(Struct, frozen=True, forbid_unknown_fields=True):
    """An object of a file."""


class SpanEntry(NamedTuple):
    """Processors that are held, as a list: [start, end, procs]."""

    start: Number
    end: Number
    procs: Count


class BagSpanEntry(NamedTuple):
    """The same, where a task of a bag may hold them: [start, end, procs, bag]."""

    start: Number
    end: Number
    procs: Count
    bag: str | UnsetType = UNSET


class RunningEntry(_Object, frozen=True):
    """A running job."""

    id: JobId
    procs: Count
    start: Number
    time: Positive


class NewEntry(_Object, frozen=True):
    """A job with a window; without ``ready`` it is a deadline job."""

    id: JobId
    procs: Count
    time: Positive
    deadline: Number
    submitted: Number = 0
    ready: Number | None = None


class WindowEntry(NewEntry, frozen=True, kw_only=True):
    """An accepted reservation, which may move."""

    start: Number


class AdmitFile(_Object, frozen=True):
    """The question whether a reservation is accepted."""

    ask: Literal["admit"]
    procs: Count
    new: NewEntry
    now: Number = 0
    criterion: str = "edf"
    seed: int = 1
    running: tuple[RunningEntry, ...] = ()
    waiting: tuple[WindowEntry, ...] = ()
    limit: Number | None = None
    accept: Number | None = None
    take: Number | None = None
    farther: bool = False


class ProviderEntry(_Object, frozen=True):
    """A cluster, and the holds on it."""

    name: str
    procs: Count
    speed: Positive = 1
    holds: tuple[SpanEntry, ...] = ()


class ParallelEntry(_Object, frozen=True):
    """A parallel job that may span clusters."""

    procs: Count
    time: Positive
    overhead: NotNegative = 0
    ready: Number | None = None
    end_by: Number | None = None
    at_most: dict[str, Limit] = {}


class CoallocateFile(_Object, frozen=True):
    """The question when and where a parallel job can start on one cluster or on several."""

    ask: Literal["coallocate"]
    providers: Annotated[tuple[ProviderEntry, ...], Meta(min_length=1)]
    job: ParallelEntry
    now: Number = 0
    first: str | UnsetType = UNSET
    coallocation: str = EARLIEST


class LocalEntry(_Object, frozen=True):
    """A job that waits on its own cluster."""

    id: JobId
    start: Number
    time: Positive
    procs: Count


class PlannedProviderEntry(_Object, frozen=True):
    """A cluster with its running and its waiting jobs."""

    name: str
    procs: Count
    speed: Positive = 1
    running: tuple[SpanEntry, ...] = ()
    local: tuple[LocalEntry, ...] = ()


class MetajobEntry(_Object, frozen=True):
    """A parallel job that waits for its start on one cluster or on several."""

    id: JobId
    start: Number
    procs: Count
    time: Positive
    parts: dict[str, Count]
    overhead: NotNegative = 0
    ready: Number | None = None
    first: str | UnsetType = UNSET
    at_most: dict[str, Limit] = {}


class CompressFile(_Object, frozen=True):
    """The question which jobs move forward when a job ended early on one of several clusters."""

    ask: Literal["compress"]
    provider: str
    providers: Annotated[tuple[PlannedProviderEntry, ...], Meta(min_length=1)]
    now: Number = 0
    operation: Operation = "shift"
    metajobs: tuple[MetajobEntry, ...] = ()


class MapFile(_Object, frozen=True):
    """The question which processes of a program run on which cores."""

    ask: Literal["map"]
    model: str
    iterations: Count
    processes: Count
    resources: dict[str, Limit]
    throughput: dict[str, dict[str, Positive]]
    transfer: NotNegative = 0


class DeadlineEntry(_Object, frozen=True):
    """A job that waits where bags are offered room."""

    id: JobId
    procs: Count
    time: Positive
    deadline: Number | None = None
    submitted: Number = 0
    ready: Number | None = None
    start: Number | None = None


class BagEntry(_Object, frozen=True):
    """A bag of equal tasks."""

    tasks: Count
    time: Positive
    deadline: Number | None = None
    procs: Count = 1


class OffersFile(_Object, frozen=True):
    """The question which offers a cluster can make for a bag."""

    ask: Literal["offers"]
    procs: Count
    bag: BagEntry
    now: Number = 0
    running: tuple[RunningEntry, ...] = ()
    waiting: tuple[DeadlineEntry, ...] = ()
    shares: tuple[Share, ...] = (10, 25, 50, 75, 100)


class OfferEntry(_Object, frozen=True):
    """An offer of a cluster. Its numbers are exact, as all numbers of this question."""

    provider: str
    tasks: Count
    end: Exact


class ComposeFile(_Object, frozen=True):
    """The question how the tasks of a bag are shared out among clusters that made offers."""

    ask: Literal["compose"]
    policy: str
    tasks: Count
    deadline: Exact | None = None
    offers: tuple[OfferEntry, ...] = ()
    power: dict[str, Exact] = {}
    pending: dict[str, Exact] = {}


class TaskEntry(_Object, frozen=True):
    """A job that waits, or a task of a bag."""

    id: JobId
    start: Number
    time: Positive
    procs: Count
    bag: str | None = None


class AdvanceFile(_Object, frozen=True):
    """The question which tasks move forward when a job ended early and bags wait."""

    ask: Literal["advance"]
    procs: Count
    now: Number = 0
    running: tuple[BagSpanEntry, ...] = ()
    waiting: tuple[TaskEntry, ...] = ()
    bags: dict[str, Number] = {}
    coordinated: bool = True


class PastRunEntry(_Object, frozen=True):
    """A job that ended."""

    user: str
    name: str
    walltime: Positive
    run: NotNegative
    end: Number


class UnknownRunEntry(_Object, frozen=True):
    """A job whose run time is to be predicted."""

    user: str
    name: str
    walltime: Positive


class PredictRunFile(_Object, frozen=True):
    """The question how long a job will run, by its user's history."""

    ask: Literal["predict"]
    predictor: str
    job: UnknownRunEntry
    history: tuple[PastRunEntry, ...] = ()
    now: Number = 0


class PredictFramesFile(_Object, frozen=True):
    """The question how long frames take in full resolution."""

    ask: Literal["predict"]
    predictor: Literal["profile"]
    low: Annotated[tuple[NotNegative, ...], Meta(min_length=1)]
    base: Limit
    full: NotNegative
    frames: Count | UnsetType = UNSET


class MeasuredEntry(NamedTuple):
    """A run of a program, as a list: [iterations, seconds]."""

    iterations: Count
    seconds: Positive


class PredictRateFile(_Object, frozen=True):
    """The question how many iterations a second a program makes."""

    ask: Literal["predict"]
    predictor: Literal["rate"]
    measured: Annotated[tuple[MeasuredEntry, ...], Meta(min_length=1)]
    steady: Positive = 0.05
