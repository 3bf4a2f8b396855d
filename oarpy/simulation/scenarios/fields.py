"""The contents of a scenario file: a struct for each of its objects. Keys with a default are optional.

Times are seconds, and resources are given by their ids. Checks beyond types are in
:mod:`oarpy.simulation.scenarios.reader`. Structs that become values of the scheduler have their fields and defaults.
"""

from __future__ import annotations

from math import inf
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

from oarpy.model.quota_calendar import DEFAULT_LEVEL
from oarpy.model.setting_values import PolicyName
from oarpy.model.typed_values import Number, Whole, Word
from oarpy.scheduler.snapshot import AskedJob, HeldJob, Power


class ResourceEntry(Struct):
    """A resource; its other keys are properties."""

    id: Whole
    type: str = "default"
    state: Literal["Alive", "Absent", "Suspected", "Dead"] = "Alive"


class QueueEntry(Struct, forbid_unknown_fields=True, rename={"order": "policy"}):
    """A queue; its ``order`` is called ``policy`` in files."""

    name: str
    priority: Number
    order: str = "fifo"
    active: bool = True
    gives_way_to: tuple[Word, ...] = ()


class QuotaEntry(Struct, forbid_unknown_fields=True, rename={"level": "set"}):
    """A quota rule: patterns, and limits of which -1 is none. An end of None in ``valid`` is none."""

    queue: str = "*"
    project: str = "*"
    type: str = "*"
    user: str = "*"
    resources: Number = -1
    jobs: Number = -1
    resource_hours: Number = -1
    valid: tuple[tuple[Number, Number | None], ...] | UnsetType = UNSET
    period: str = ""
    level: str = DEFAULT_LEVEL
    array: Annotated[int, Meta(ge=0)] = 0


class ProjectEntry(Struct, forbid_unknown_fields=True):
    """A project that pays for jobs; without ``begins`` its hours never begin anew."""

    name: Word
    parent: str = ""
    share: Number = 1
    weight: Number = 1
    hours: Number | None = None
    used: tuple[Number, ...] = ()
    begins: tuple[Number, ...] | UnsetType = UNSET
    until: Number | None = None
    gives_way_to: tuple[Word, ...] = ()


class ConsumableEntry(Struct, forbid_unknown_fields=True):
    """A consumable; ``capacity`` maps the blocks of ``level`` to amounts."""

    name: str
    capacity: dict[str, Any]
    level: str = "network_address"


class RunningEntry(HeldJob, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job that holds resources; ``consumes`` maps consumables to amounts, ``given_back`` are resources given back.

    ``kept_amounts`` are those of ``consumes`` that it keeps when it gives way, ``amounts_given_back`` what it gave back
    with its resources.
    """

    resources: tuple[int, ...]
    consumes: dict[str, Any] = field(default_factory=dict)
    kept_amounts: dict[str, Any] = field(default_factory=dict)
    given_back: tuple[int, ...] = ()
    amounts_given_back: dict[str, Any] = field(default_factory=dict)


class RequestEntry(Struct, forbid_unknown_fields=True):
    """An alternative of a waiting job: a request as after ``-l``, without the walltime."""

    resources: str
    walltime: Number


class DatesEntry(Struct, forbid_unknown_fields=True):
    """Bounds on when a job runs."""

    not_before: Number = -inf
    start_by: Number = inf
    end_by: Number = inf


class JobEntry(AskedJob, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A waiting job: its request, and the other fields in the form that people write."""

    requests: Annotated[tuple[RequestEntry, ...], Meta(min_length=1)]
    depends_on: tuple[int | str, ...] = ()
    dates: DatesEntry | UnsetType = UNSET


class ReservationEntry(Struct, forbid_unknown_fields=True):
    """An accepted reservation; ``job`` has the accepted alternative alone."""

    job: JobEntry
    start: Number
    walltime: Number
    resources: tuple[int, ...]
    alternative: Whole = 0


class WalltimeRequestEntry(Struct, forbid_unknown_fields=True):
    """A walltime change requested for a running job."""

    job: Whole
    seconds: Whole
    queue: str = "default"
    walltime: Number | None = None
    end: Number | None = None
    granted: Number = 0
    forced: bool = False
    whole: bool = False
    delay_next_jobs: bool = False
    give_up_at: Number | None = None
    running: bool = True
    over: bool = False


class PowerRulesEntry(Struct, forbid_unknown_fields=True):
    """The rules by which nodes sleep and wake; ``keep`` has conditions, each with a number of nodes."""

    wakeup_time: Number
    sleep_time: Number
    keep: tuple[tuple[str, Whole], ...] = ()


class OutageEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Resources that no job gets for a time; without an end, for ever."""

    begin: Number
    resources: tuple[int, ...]
    end: Number | None = None
    reason: str = ""


class RulesEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the site; without ``power`` no node sleeps."""

    besteffort_kill_before_reservation: Number = 0
    reservation_wait: Number = 300
    walltime_apply_time: tuple[Word, ...] = ()
    walltime_increment: tuple[Word, ...] = ()
    power: PowerRulesEntry | UnsetType = UNSET


class WindowEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """The window of a reservation, [ready, deadline], and another requested window."""

    deadline: Number
    ready: Number | None = None
    fixed: bool = False
    fix_after: Number | None = None
    farthest: Number | None = None
    asked: tuple[Number | None, Number] | None = None
    take: Number | None = None
    slack_percent: Whole | None = None


class WindowsEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """The windows of reservations, by id of their jobs, and the rules of the site."""

    of: dict[str, WindowEntry] = {}
    order: str = "edf"
    offers: Whole = 8
    tries: Whole = 32
    notice: Number = 600
    replan: bool = False


class RationEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Most jobs that a pass looks at."""

    jobs: Whole = 0
    jobs_per_user: Whole = 0
    turn: tuple[int, ...] = ()


class UsageEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Resource-seconds of the last while, by name."""

    used_by_user: dict[str, Number] = {}
    asked_by_user: dict[str, Number] = {}
    used_by_project: dict[str, Number] = {}
    tree: dict[str, tuple[str, Number]] = {}


class KarmaEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Coefficients and targets of the karma."""

    project: Number = 0
    user: Number = 2
    asked: Number = 1
    user_targets: dict[str, Number] = {}
    other_users: Number = 0
    project_targets: dict[str, Number] = {}
    other_projects: Number = 0


class FactorsEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """Weights of the factors of ``multifactor``."""

    age: Number = 1
    queue: Number = 0
    work: Number = 0
    size: Number = 0
    karma: Number = 1
    qos: Number = 0
    nice: Number = 0
    full_age: Number = 604_800
    queues: dict[str, Number] = {}
    large_work: bool = False
    large_size: bool = False


class PrioritiesEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """The inputs of fair share and several factors besides the job."""

    usage: UsageEntry = UsageEntry()
    karma: KarmaEntry = KarmaEntry()
    factors: FactorsEntry = FactorsEntry()
    resources: Whole = 0


class ScenarioFile(Struct, forbid_unknown_fields=True):
    """The whole file.

    Keys of ``outcomes``, ``spans``, ``amending`` and ``predictions`` are ids of jobs, of ``filters`` conditions, of
    ``power`` nodes.
    """

    resources: list[dict[str, Any]]
    jobs: list[JobEntry]
    now: Number = 0
    security_time: Number = 0
    policy: PolicyName = "conservative"
    hierarchy: tuple[Word, ...] | UnsetType = UNSET
    queues: tuple[QueueEntry, ...] | UnsetType = UNSET
    exclusive_levels: tuple[Word, ...] = ()
    quotas: tuple[QuotaEntry, ...] = ()
    projects: tuple[ProjectEntry, ...] = ()
    billing: dict[Word, Number] = field(default_factory=lambda: {"core": 1})
    consumables: tuple[ConsumableEntry, ...] = ()
    running: tuple[RunningEntry, ...] = ()
    reservations: tuple[ReservationEntry, ...] = ()
    amending: dict[str, int] = {}
    walltime_requests: tuple[WalltimeRequestEntry, ...] = ()
    recorded: bool = False
    filters: dict[str, tuple[int, ...]] | UnsetType = UNSET
    filter_errors: dict[str, str] = {}
    returning: dict[str, tuple[int, ...]] = {}
    shown: dict[str, str] = {}
    quota_horizon: Number | None = None
    outcomes: dict[str, Literal["ok", "notok"]] = {}
    spans: dict[str, tuple[Number, Number]] = {}
    outages: tuple[OutageEntry, ...] = ()
    priorities: PrioritiesEntry = PrioritiesEntry()
    besteffort_minimum_life: Number = 0
    ration: RationEntry = RationEntry()
    rules: RulesEntry = RulesEntry()
    windows: WindowsEntry | UnsetType = UNSET
    asleep: tuple[int, ...] = ()
    power: dict[str, Power] = {}
    rested: tuple[Word, ...] = ()
    local_dates: bool = False
    predictions: dict[str, Number] | UnsetType = UNSET
