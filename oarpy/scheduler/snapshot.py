"""The input of a scheduling pass: frozen values, read by :func:`oarpy.scheduler.plan.plan` and never changed.

Instants and durations are seconds on one axis; any number is allowed (whole numbers stay exact). Sets of resources are
Python integers used as bit sets: bit *i* is the *i*-th resource of the
:class:`~oarpy.scheduler.resources.platform.Platform`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from oarpy.model.dates import NO_DATES, JobDates
from oarpy.model.dependency import Dependency
from oarpy.model.job_types import BESTEFFORT, SINGLETON, read_types
from oarpy.model.quota_calendar import DEFAULT_LEVEL, Span
from oarpy.model.reasons import LOWER, plain_instant
from oarpy.model.request import Consumption, Group
from oarpy.model.setting_values import PolicyName
from oarpy.model.submission import NICEST, Submission
from oarpy.model.typed_values import Number, Whole, Word
from oarpy.scheduler.order.budgets import Projects
from oarpy.scheduler.order.usage_shares import NO_HISTORY, Priorities
from oarpy.scheduler.resources.consumables import Consumable
from oarpy.scheduler.resources.platform import Platform
from oarpy.scheduler.windows.reservation_windows import Windows

if TYPE_CHECKING:
    from oarpy.scheduler.fitting import FittingStep
    from oarpy.scheduler.placing import PlacingStep
    from oarpy.scheduler.promising import PromisingStep


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way of serving a job: groups of resources together, for ``walltime`` seconds, and amounts of consumables."""

    groups: tuple[Group, ...]
    walltime: float
    consumes: tuple[Consumption, ...] = ()

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that its groups name."""
        return tuple(dict.fromkeys(level.name for group in self.groups for level in group.levels))


class PartId(int):
    """The number of a part of a job in a pass: a waiting extension, or a host that may be taken from the job.

    It is below 0, because no job has such an id; else a :class:`ValueError` is raised. Decisions about jobs and parts
    are kept by number; code that must tell them apart checks for this type.
    """

    def __new__(cls, number: int) -> PartId:
        if number >= 0:
            raise ValueError(f"{number} is no number of a part: these are below 0")
        return super().__new__(cls, number)

    @classmethod
    def of_extension(cls, extension: int) -> PartId:
        """Return the number of an extension that waits."""
        return cls(-2 * extension)

    @classmethod
    def of_host(cls, resource: int) -> PartId:
        """Return the number of a host that is held, by its first resource."""
        return cls(-2 * resource - 1)


@dataclass(frozen=True, slots=True)
class JobPart:
    """Marks a job of the pass as an extension of job ``of``, which runs at the latest ``until`` this instant.

    Its own id is a :class:`PartId`. Quotas do not count it as another job. A ``revocable`` part gives way as
    best-effort jobs do.
    """

    of: int
    until: float
    revocable: bool = False


class AskedJob(Struct, frozen=True):
    """The facts about a waiting job besides its request; its row in the database and a scenario's entry have them.

    A field that a submission has too has its name there: the columns of jobs that passes read follow from
    :attr:`oarpy.model.submission.Field.seen`. ``reservation`` is the requested start date of a new reservation.
    ``properties`` is the condition that all resources of the job must meet. ``fault`` is the error in the job's
    description that makes it impossible to place. ``stopped`` is true if the job is ``held`` only because its queue is
    not active. Among the jobs of a user that are planned together, jobs with a greater ``nice`` come later. ``array``
    is the array whose quotas count the job as a member, 0 for none.
    """

    id: Whole
    user: str
    project: str = "default"
    queue: str = "default"
    name: str = ""
    types: tuple[Word, ...] = ()
    submitted: Number = 0
    properties: str = ""
    reservation: Number | None = None
    held: bool = False
    stopped: bool = False
    fault: str = ""
    nice: Annotated[int, Meta(ge=0, le=NICEST)] = 0
    array: Annotated[int, Meta(ge=0)] = 0


class WaitingJob(AskedJob, frozen=True):
    """A job to place.

    An application that is ``unasked`` is held until it asks for hosts. ``ranked`` is the instant that ranks it among
    the jobs of its queue, whatever the queue's order is. A ``part`` of a running job holds its resources until that job
    ends.
    """

    alternatives: tuple[Alternative, ...] = ()
    depends_on: tuple[Dependency, ...] = ()
    dates: JobDates = NO_DATES
    unasked: bool = False
    ranked: float | None = None
    part: JobPart | None = None

    @classmethod
    def of(cls, asking: AskedJob, **more: Any) -> WaitingJob:
        """Return a job with the fields of ``asking``; ``more`` are its other fields, and those with other values."""
        return cls(**{name: getattr(asking, name) for name in AskedJob.__struct_fields__} | more)

    @classmethod
    def of_submission(cls, submission: Submission, number: int, submitted: float) -> WaitingJob:
        """Return a job of a submission as if it were stored under this number."""
        return cls(
            id=number,
            submitted=submitted,
            held=submission.hold,
            alternatives=ways_of(submission),
            depends_on=tuple(submission.required.values()),
            dates=NO_DATES if submission.reservation is not None else read_types(submission.types).dates(),
            **submission.seen(),
        )

    @property
    def besteffort(self) -> bool:
        """True for a job that others do not see and may cancel."""
        return self.queue == BESTEFFORT or BESTEFFORT in self.types or (self.part is not None and self.part.revocable)


def ways_of(submission: Submission) -> tuple[Alternative, ...]:
    """Return the alternatives of a submission; a missing walltime is 0."""
    return tuple(
        Alternative(request.groups, request.walltime or 0, request.consumes) for request in submission.alternatives
    )


class HeldJob(Struct, frozen=True):
    """The facts about a job that holds ``resources`` (ids); its row in the database and a scenario's entry have them.

    ``resuming`` is true if the job is suspended and wants its resources back as soon as possible. ``checkpoint`` is how
    many seconds it takes to write its state, 0 if it cannot. ``levels`` are the levels that its request names; it has
    whole blocks of the exclusive ones among them. ``array`` is the array whose quotas count the job as a member, 0 for
    none.
    """

    id: Whole
    user: str
    start: Number
    walltime: Number
    resources: tuple[int, ...] = ()
    project: str = "default"
    queue: str = "default"
    name: str = ""
    types: tuple[Word, ...] = ()
    resuming: bool = False
    checkpoint: Number = 0
    levels: tuple[Word, ...] = ()
    array: Annotated[int, Meta(ge=0)] = 0


class HoldingJob(HeldJob, frozen=True):
    """A running job, an accepted reservation or an earlier placement that stays.

    ``bits``, if given, is the same set as ``resources`` for the snapshot's platform and saves the conversion.
    ``given_back`` are other resources that it does not hold while it is suspended, but holds again from ``resumes`` on
    (None: not foreseen). It keeps the amounts it ``consumes`` in the blocks of both, and has ``amounts_given_back``
    again with its resources. When it gives way, it keeps ``kept_amounts`` of what it consumes: it is suspended then. A
    revocable ``part`` of a job holds resources beside it like a best-effort job whose checkpoint is its notice. Any
    checkpoint counts from now on.
    """

    bits: int | None = None
    consumes: tuple[Consumption, ...] = ()
    kept_amounts: tuple[Consumption, ...] = ()
    given_back: int = 0
    amounts_given_back: tuple[Consumption, ...] = ()
    resumes: float | None = None
    part: JobPart | None = None

    @classmethod
    def of(cls, held: HeldJob, **more: Any) -> HoldingJob:
        """Return a job with the fields of ``held``; ``more`` are its other fields, and fields with different values."""
        return cls(**{name: getattr(held, name) for name in HeldJob.__struct_fields__} | more)

    @property
    def besteffort(self) -> bool:
        """True for a job that others do not see and may cancel."""
        return self.queue == BESTEFFORT or BESTEFFORT in self.types or (self.part is not None and self.part.revocable)

    @property
    def amounts(self) -> tuple[Consumption, ...]:
        """What it consumes while it runs, in each block of its resources."""
        return (*self.consumes, *self.amounts_given_back)

    @property
    def released_amounts(self) -> tuple[Consumption, ...]:
        """What it consumes now and others may have once it has given way."""
        if not self.kept_amounts:
            return self.consumes
        return tuple(consumption for consumption in self.consumes if consumption not in self.kept_amounts)

    @property
    def end(self) -> float:
        """When the job is expected to end, security time not counted."""
        return self.start + self.walltime

    def asking(self) -> WaitingJob:
        """Return the job as a waiting job without a request, for quotas and sharing."""
        return WaitingJob(
            self.id,
            self.user,
            project=self.project,
            queue=self.queue,
            name=self.name,
            types=self.types,
            array=self.array,
            part=self.part,
        )


@dataclass(frozen=True, slots=True)
class Reservation:
    """An accepted reservation that has not begun: it will hold ``resources`` (ids) from ``start`` for ``walltime``.

    ``job`` has the accepted alternative alone; ``alternative`` is the index that it had in the request. The reservation
    is also among the jobs that hold, unless it was held beyond its end: then it blocks no job.
    """

    job: WaitingJob
    start: float
    walltime: float
    resources: tuple[int, ...]
    alternative: int = 0

    @property
    def end(self) -> float:
        """Its end, even if it begins late."""
        return self.start + self.walltime


@dataclass(frozen=True, slots=True)
class WalltimeRequest:
    """A walltime change requested for ``job``: ``seconds`` more (less, below 0), all or nothing if ``whole``.

    ``walltime`` and ``end`` are those of the job now (None: it has no resources yet). ``granted`` is the part of the
    walltime that was granted before. ``forced`` ignores the limits of the site, ``delay_next_jobs`` the places of
    waiting jobs. The request is given up at ``give_up_at``. A job that is neither ``running`` nor ``over`` may run
    later.
    """

    job: int
    seconds: int
    queue: str = "default"
    walltime: float | None = None
    end: float | None = None
    granted: float = 0
    forced: bool = False
    whole: bool = False
    delay_next_jobs: bool = False
    give_up_at: float | None = None
    running: bool = True
    over: bool = False


@dataclass(frozen=True, slots=True)
class Outage:
    """Resources (a set) that no job gets during [begin, end): maintenance, or the end of their availability.

    Jobs that run there when it begins run on. ``reason`` names its cause: ``maintenance of n1: new disks``.
    """

    begin: float
    bits: int
    end: float = inf
    reason: str = ""

    def meets(self, begin: float, end: float) -> bool:
        """Tell whether it has an instant of [begin, end)."""
        return self.begin < end and begin < self.end


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue: higher ``priority`` first; ``order`` names one of :mod:`~oarpy.scheduler.order.queue_orders`.

    The jobs of a queue that is not ``active`` are held. They give way to jobs of the queues in ``gives_way_to``
    (:mod:`~oarpy.scheduler.precedence`).
    """

    name: str
    priority: float
    order: str = "fifo"
    active: bool = True
    gives_way_to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PassShare:
    """Most jobs that a pass looks at, in all and of one user; 0 means no limit.

    ``turn`` are the ids of jobs that it looks at whatever their rank, at most as many as the limits.
    """

    jobs: int = 0
    jobs_per_user: int = 0
    turn: tuple[int, ...] = ()


DEFAULT_QUEUES = (Queue("default", 3), Queue(BESTEFFORT, 0))


@dataclass(frozen=True, slots=True)
class QuotaRule:
    """Limits for the jobs that the key matches; each pattern is a name, ``*`` (all together) or ``/`` (each one).

    Among the rules of one ``level`` the most specific applies to a job. The rules of different levels all apply.

    ``resources`` and ``jobs`` limit the resources and jobs at one instant. ``resource_hours`` limits the sum of
    resources x walltime (in hours) over the jobs that hold then. -1 means no limit.

    ``valid`` are the spans [begin, end) during which the rule applies, ascending and disjoint; None means always.
    ``period`` names the set of rules that is valid then.

    A rule of an ``array`` (0: of none) matches only its members.
    """

    queue: str = "*"
    project: str = "*"
    type: str = "*"
    user: str = "*"
    resources: float = -1
    jobs: float = -1
    resource_hours: float = -1
    valid: tuple[Span, ...] | None = None
    period: str = ""
    level: str = DEFAULT_LEVEL
    array: int = 0

    @classmethod
    def of_array(cls, array: int, throttle: int) -> QuotaRule:
        """Return the rule that lets ``throttle`` members of an array run at once."""
        return cls(jobs=throttle, level=f"array {array}", array=array)

    @classmethod
    def of_singleton(cls, word: str) -> QuotaRule:
        """Return the rule that lets one job of each user run at once among those with a type ``singleton=NAME``."""
        return cls(type=word, user="/", jobs=1, level=word)

    @property
    def of_jobs(self) -> bool:
        """True for a rule that jobs brought themselves, and no admin."""
        return self.array > 0 or self.is_of_singleton

    @property
    def is_of_singleton(self) -> bool:
        """True for a rule of :meth:`of_singleton`."""
        return self.level == self.type and self.type.startswith(SINGLETON)

    @property
    def key(self) -> str:
        """The patterns, and the level unless it is the default one, as a quota file has them; or what jobs asked."""
        if self.array:
            return f"of array {self.array}"
        if self.is_of_singleton:
            return f"of {self.type}"
        patterns = (self.queue, self.project, self.type, self.user)
        return ",".join(patterns if self.level == DEFAULT_LEVEL else (*patterns, self.level))


def singleton_rules(jobs: Iterable[AskedJob]) -> list[QuotaRule]:
    """Return the rules that waiting jobs of a type ``singleton=NAME`` bring."""
    words = {word for job in jobs for word in job.types if word.startswith(SINGLETON)}
    return [QuotaRule.of_singleton(word) for word in sorted(words)]


@dataclass(frozen=True, slots=True)
class PowerRules:
    """The rules for sending nodes to sleep and waking them. Durations in seconds.

    A node is woken ``wakeup_time`` before its use, and sleeps if no use is foreseen within ``sleep_time``. ``keep`` are
    conditions, each with the number of nodes that must stay awake and idle.
    """

    wakeup_time: float
    sleep_time: float
    keep: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """Settings of the site for the decisions of a pass besides placements. Durations in seconds.

    ``walltime_apply_time`` and ``walltime_increment`` are limits as :mod:`oarpy.model.setting_values` reads them.
    Without ``power`` no node is sent to sleep.
    """

    besteffort_kill_before_reservation: float = 0
    reservation_wait: float = 300
    walltime_apply_time: tuple[str, ...] = ()
    walltime_increment: tuple[str, ...] = ()
    power: PowerRules | None = None


Power = Literal["up", "falling", "asleep", "waking"]
"""The power state of a node. A ``falling`` node will sleep, but its command has not run: it cannot be woken yet."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything one pass looks at.

    ``filters`` maps the text of a condition, as :func:`condition` writes it, to the set of resources that meet it. The
    caller that builds the snapshot evaluates SQL; the core never sees it. Resources of another type than ``default``
    belong in the set only if the condition names ``type``. A job whose condition is missing gets the verdict ``never``,
    with the text in ``filter_errors`` if there is one.

    ``returning`` maps conditions that name the state of resources to the resources that would also meet them if all
    resources that are not Dead were Alive and not drained. ``shown`` maps conditions to the part that users are shown.

    ``outcomes`` are the outcomes of anteriors that neither hold nor wait; an anterior that is missing there ended well.
    ``spans`` are their begins and ends. ``priorities`` is the past usage for fair-share and multifactor orders.
    Resources of ``outages`` are not given for a time. ``show_instant`` writes instants in reasons. The valid quotas are
    known until ``quota_horizon``: a job that a quota with spans may limit is not placed beyond it.

    ``parts`` are extensions of running jobs, which wait beside the ``waiting`` jobs and are planned with them.

    With ``heads``, some waiting jobs are left out: those that come behind all others of their kind. Then only starts
    can be decided (:mod:`oarpy.cluster_state.array_tails`).

    A block of one of the ``exclusive_levels`` goes to one job that asks for that level at a time.

    ``projects`` pay for jobs, and have hours; None if no project pays.

    ``amending`` maps new reservations to the accepted ones that they replace.

    A running best-effort job keeps its resources for ``besteffort_minimum_life`` seconds, even if another job needs
    them.

    The fields after ``show_instant`` serve decisions that are no placements. ``asleep`` are resources that count as
    Alive because their nodes can be woken. ``power`` has the last order to each node that is not up. ``rested`` are the
    nodes that may sleep and have been idle for long enough. ``step`` places the waiting jobs in the planner's stead,
    None if there is none. ``promising`` keeps the promises of slices, ``fitting`` fits walltimes to places; None if
    there is nothing of that. ``windows`` is None if no reservation has a window or waits for its answer. Jobs get
    reasons only if ``explained`` is set; callers that need only places save that time.
    """

    now: float
    platform: Platform
    queues: tuple[Queue, ...] = DEFAULT_QUEUES
    quotas: tuple[QuotaRule, ...] = ()
    quota_horizon: float = inf
    holding: tuple[HoldingJob, ...] = ()
    waiting: tuple[WaitingJob, ...] = ()
    parts: tuple[WaitingJob, ...] = ()
    security_time: float = 0
    policy: PolicyName = "conservative"
    filters: Mapping[str, int] = field(default_factory=dict)
    filter_errors: Mapping[str, str] = field(default_factory=dict)
    returning: Mapping[str, int] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)
    outcomes: Mapping[int, Literal["ok", "notok"]] = field(default_factory=dict)
    spans: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    priorities: Priorities = NO_HISTORY
    besteffort_minimum_life: float = 0
    consumables: tuple[Consumable, ...] = ()
    outages: tuple[Outage, ...] = ()
    ration: PassShare = PassShare()
    show_instant: Callable[[float], str] = plain_instant
    rules: Rules = Rules()
    reservations: tuple[Reservation, ...] = ()
    walltime_requests: tuple[WalltimeRequest, ...] = ()
    asleep: int = 0
    power: Mapping[str, Power] = field(default_factory=dict)
    rested: frozenset[str] = frozenset()
    step: PlacingStep | None = None
    promising: PromisingStep | None = None
    fitting: FittingStep | None = None
    explained: bool = True
    exclusive_levels: tuple[str, ...] = ()
    windows: Windows | None = None
    heads: bool = False
    amending: Mapping[int, int] = field(default_factory=dict)
    projects: Projects | None = None

    @property
    def asking(self) -> tuple[WaitingJob, ...]:
        """All jobs to place: the waiting jobs, then the waiting parts."""
        return (*self.waiting, *self.parts) if self.parts else self.waiting

    @property
    def usable(self) -> int:
        """The resources that jobs may be given."""
        return self.platform.alive

    def whose(self, jobs: Iterable[int]) -> list[int]:
        """Return ids as users know them, ascending and each once: a part counts as its job."""
        some = set(jobs)
        if any(isinstance(job, PartId) for job in some):
            everybody: tuple[HoldingJob | WaitingJob, ...] = (*self.holding, *self.parts)
            parts = {job.id: job.part.of for job in everybody if job.part is not None}
            some = {parts.get(job, job) for job in some}
        return sorted(some)

    def subject_of(self, victims: Collection[int]) -> str:
        """Return the subject of a reason for which holding jobs give way: :data:`LOWER` if not all are best-effort."""
        return LOWER if victims and any(job.id in victims and not job.besteffort for job in self.holding) else ""

    def out(self, begin: float, end: float) -> int:
        """Return the resources that have an outage during [begin, end)."""
        bits = 0
        for outage in self.outages:
            if outage.meets(begin, end):
                bits |= outage.bits
        return bits


def condition(job_filter: str, group_filter: str) -> str:
    """Return the one condition that a group's resources must meet (``""`` = none): the key of ``Snapshot.filters``.

    >>> condition("mem > 4", "gpu = 1")
    '(mem > 4) AND (gpu = 1)'
    """
    if job_filter and group_filter:
        return f"({job_filter}) AND ({group_filter})"
    return job_filter or group_filter


def conditions(jobs: Iterable[WaitingJob]) -> set[str]:
    """Return every condition that placing ``jobs`` will look up in ``Snapshot.filters``."""
    # The jobs of an array share their alternatives: one value for all of them.
    kinds = {(id(job.alternatives), job.properties): job for job in jobs}.values()
    texts = {
        condition(job.properties, group.filter) for job in kinds for way in job.alternatives for group in way.groups
    }
    return texts - {""}
