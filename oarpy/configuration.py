"""One configuration file (TOML), environment over it; every value knows where it came from.

The file is ``$OARPY_CONFIG``, else ``~/.config/oarpy/config.toml`` if it exists, else ``/etc/oarpy/config.toml``.
``OARPY_<SECTION>_<KEY>`` in the environment wins over the file (``OARPY_DATABASE_URL``).
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Meta

from oarpy.frontend import discovery
from oarpy.model.errors import UsageError
from oarpy.model.job_types import NOT_OFFERED
from oarpy.model.resource_pattern import parse_pattern, split_assignment
from oarpy.model.setting_values import (
    DEVICE_RULES,
    GhostRule,
    PolicyName,
    PredictionName,
    RankRule,
    ReservationOrder,
    limit_of,
    read_device_rules,
    read_idle_gpus,
    read_keep_alive,
    read_private_directories,
)
from oarpy.model.typed_values import Misfit, from_values
from oarpy.model.windows import read_fix

_LARGEST = sys.float_info.max

NotNegative = Annotated[int, Meta(ge=0, description="a whole number, 0 or more")]
Positive = Annotated[int, Meta(gt=0, description="a whole number above 0")]
Port = Annotated[int, Meta(gt=0, lt=65536, description="a port, 1 to 65535")]
Weight = Annotated[float, Meta(ge=-_LARGEST, le=_LARGEST, description="a finite number")]
Seconds = Annotated[float, Meta(ge=0, le=_LARGEST, description="a finite number of seconds, 0 or more")]
_HOME = {"leading ~": "home"}
FilePath = Annotated[str, Meta(pattern=r"^([/~].*)?$", description="a path from / or ~", extra=_HOME)]
MaybePath = Annotated[str, Meta(description="a path, or another text", extra=_HOME)]
"""A program, which may also be a name, or a place to listen: where it is a path from ``~``, that is expanded too."""
ServiceName = Annotated[str, Meta(pattern=r"^([a-z0-9_][a-z0-9_.-]*)?\Z", description="a name in lower case, no path")]
NodeName = Annotated[
    str, Meta(pattern=r"\A[A-Za-z0-9_.:-]{1,240}\Z", description="the beginning of a node's name, without a blank")
]
Percent = Annotated[int, Meta(gt=0, le=100, description="a whole number of percent, 1 to 100")]
Margin = Annotated[int, Meta(ge=0, le=1000, description="a whole number of percent, 0 to 1000")]
Share = Annotated[float, Meta(gt=0, le=1, description="a number above 0, 1 at most")]
PositiveSeconds = Annotated[float, Meta(gt=0, le=_LARGEST, description="a finite number of seconds above 0")]
BilledKind = Annotated[
    str, Meta(pattern=r"\A[a-z_][a-z0-9_]{0,62}\Z", description="core, gpu or the name of a consumable")
]
BillingWeight = Annotated[float, Meta(ge=0, le=1e9, description="a number from 0 to 1e9")]

Speed = Annotated[float, Meta(gt=0, le=_LARGEST, description="a finite number above 0")]
BrokerName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,64}\Z", description="a name of letters, digits, - and _")]
AccountName = Annotated[str, Meta(pattern=r"\A[^\s:,=]+\Z", description="the name of an account")]


@dataclass(frozen=True, slots=True)
class Database:
    """Where PostgreSQL is. An empty ``url`` means the embedded server in ``directory``."""

    url: str = ""
    directory: FilePath = "~/.oarpy/postgresql"
    connect_timeout: Positive = 5


@dataclass(frozen=True, slots=True)
class SubmissionSettings:
    """What ``oarsub`` assumes when the user says nothing. Durations in seconds."""

    default_queue: str = "default"
    default_resources: str = "/resource_id=1"
    default_walltime: Positive = 7200
    interactive_walltime_limit: NotNegative = 43200
    refused_users: tuple[str, ...] = ("root", "oar")
    admins: tuple[str, ...] = ("root", "oar")
    rule_time_limit: PositiveSeconds = 2.0
    rule_memory_limit: Positive = 256
    rule_tables: tuple[str, ...] = ()
    maximum_array_size: Positive = 100_000
    waiting_jobs_per_user: NotNegative = 100_000
    no_quotas_users: tuple[str, ...] = ()
    waiting_reservations_per_user: NotNegative = 2
    unlimited_reservation_users: tuple[str, ...] = ()
    admin_groups: tuple[str, ...] = ("admin",)
    extra_types: tuple[str, ...] = ()
    types_not_offered: tuple[str, ...] = NOT_OFFERED
    jobs_per_user: NotNegative = 1000
    recurring_jobs_per_user: NotNegative = 100
    hints: bool = True
    projects: Literal["any", "members"] = "any"


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """The meta-scheduler. Durations in seconds."""

    security_time: NotNegative = 60
    policy: PolicyName = "conservative"
    compression: bool = False
    prediction: str = "walltime"
    resource_order: tuple[str, ...] = ("network_address", "resource_id")
    exclusive_levels: tuple[str, ...] = ("gpu",)
    node_type: str = ""
    besteffort_minimum_life: NotNegative = 0
    besteffort_kill_before_reservation: NotNegative = 0
    reservation_wait: NotNegative = 300
    reservation_order: str = "edf"
    plugins: tuple[str, ...] = ()
    reservation_fix: str = "never"
    reservation_notice: NotNegative = 600
    offers_limit: NotNegative = 8
    options_tried: NotNegative = 32
    offer_time: Positive = 300
    promises: bool = True
    promised_share: Percent = 75
    bag_tasks: Positive = 10_000
    profile_limit: Positive = 1_800
    jobs_per_pass: NotNegative = 10_000
    suspended_resource_types: tuple[str, ...] = ("default",)
    suspended_consumables: tuple[str, ...] = ()
    jobs_per_user: NotNegative = 5_000
    time_zone: str = ""
    record_passes: FilePath = ""
    verdict_history: NotNegative = 30


@dataclass(frozen=True, slots=True)
class Processes:
    """Jobs whose processes are mapped over unlike nodes. Durations in seconds."""

    rate_limit: Positive = 300
    rate_age: Positive = 2_592_000
    margin: Margin = 10


@dataclass(frozen=True, slots=True)
class Priority:
    """Fair-share and multifactor orders. ``window`` and ``full_age`` in seconds, targets in percent of all use."""

    window: Positive = 2_592_000
    karma_project: Weight = 0.0
    karma_user: Weight = 2.0
    karma_asked: Weight = 1.0
    user_targets: tuple[str, ...] = ()
    other_users_target: Weight = 0.0
    project_targets: tuple[str, ...] = ()
    other_projects_target: Weight = 0.0
    age_weight: Weight = 1.0
    queue_weight: Weight = 0.0
    work_weight: Weight = 0.0
    size_weight: Weight = 0.0
    karma_weight: Weight = 1.0
    qos_weight: Weight = 0.0
    nice_weight: Weight = 0.0
    full_age: PositiveSeconds = 604_800.0
    queue_factors: tuple[str, ...] = ()
    large_work_first: bool = False
    large_size_first: bool = False


@dataclass(frozen=True, slots=True)
class Nodes:
    """How nodes are reached over SSH, and when one that does not answer is suspected. Durations in seconds."""

    user: str = ""
    key_file: FilePath = ""
    known_hosts: FilePath = "~/.ssh/known_hosts"
    port: Port = 22
    python: str = "python3"
    state_directory: FilePath = "/var/lib/oarpy/node"
    connect_timeout: PositiveSeconds = 10.0
    ping_interval: PositiveSeconds = 5.0
    lost_timeout: PositiveSeconds = 60.0
    isolation: str = "auto"
    device_rules: tuple[str, ...] = DEVICE_RULES
    pids_limit: NotNegative = 16_384
    pam_service: ServiceName = ""
    private_directories: tuple[str, ...] = ()
    limit_swap: bool = False
    log_ins: bool = False
    kill_patience: Seconds = 20.0
    start_patience: PositiveSeconds = 60.0
    strikes: NotNegative = 5
    machine_root: FilePath = "/"
    health_check: FilePath = ""
    health_interval: PositiveSeconds = 600.0
    health_timeout: PositiveSeconds = 60.0


@dataclass(frozen=True, slots=True)
class JobSettings:
    """The life of a job on its nodes. Durations in seconds."""

    kill_grace: Seconds = 20.0
    login_shell: bool = False
    interactive_patience: Seconds = 60.0
    resubmission_limit: NotNegative = 1
    repetition_limit: NotNegative = 100
    launch_limit: Positive = 10
    prologue: FilePath = ""
    epilogue: FilePath = ""
    script_timeout: Seconds = 60.0
    server_prologue: MaybePath = ""
    server_epilogue: MaybePath = ""
    server_script_timeout: Seconds = 60.0
    deploy_host: str = ""
    cosystem_host: str = ""
    keep_scripts: bool = True
    users_may_suspend: bool = False
    kill_inner_jobs: bool = False
    after_suspend: MaybePath = ""
    before_resume: MaybePath = ""
    notify_prefix: tuple[str, ...] = ()
    notify_timeout: Seconds = 60.0
    measure_gpus: Seconds = 60.0
    idle_gpu: str = ""


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """How long ended jobs are kept, and where. Durations in seconds."""

    keep_live: NotNegative = 2_592_000
    retention: NotNegative = 0
    keep_changes: NotNegative = 172_800


@dataclass(frozen=True, slots=True)
class AccountingSettings:
    """What an hour of each kind of resource counts in billing units; what has no weight is free."""

    weights: Mapping[BilledKind, BillingWeight] = field(default_factory=lambda: {"core": 1.0})


@dataclass(frozen=True, slots=True)
class Walltime:
    """Walltime changes of running jobs (``oarwalltime``); limits as :mod:`oarpy.model.setting_values` reads them."""

    enabled: bool = False
    max_increase: tuple[str, ...] = ("7200",)
    minimum: tuple[str, ...] = ("0",)
    apply_time: tuple[str, ...] = ("0",)
    increment: tuple[str, ...] = ("0",)
    timeout: NotNegative = 0
    reduction: bool = True
    users_to_force: tuple[str, ...] = ()
    users_to_delay_next_jobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mail:
    """How mail leaves: that of ``--notify`` and the admin's. No ``server``, no mail. Durations in seconds."""

    server: str = ""
    sender: str = "oar@localhost"
    recipient: str = ""
    domain: str = ""
    cluster_name: str = ""
    templates: FilePath = ""
    timeout: Seconds = 10.0
    attempts: NotNegative = 5
    retry_delay: Seconds = 60.0


@dataclass(frozen=True, slots=True)
class EnergySettings:
    """Sending idle nodes to sleep, waking them when they are needed, rebooting them. Durations in seconds."""

    enabled: bool = False
    wake_command: str = ""
    sleep_command: str = ""
    idle_time: Seconds = 600.0
    sleep_time: Seconds = 1800.0
    wakeup_time: Seconds = 300.0
    wakeup_timeout: Seconds = 900.0
    reboot_command: str = ""
    keep_alive: tuple[str, ...] = ()
    nodes_per_command: Positive = 25
    command_timeout: Seconds = 30.0

    @property
    def active(self) -> bool:
        """Whether nodes can be sent to sleep and woken."""
        return self.enabled and bool(self.wake_command) and bool(self.sleep_command)


@dataclass(frozen=True, slots=True)
class ElasticSettings:
    """Nodes that the commands of ``[energy]`` create and delete."""

    most: NotNegative = 0
    name: NodeName = "elastic"
    resources: str = "/core={1}"
    properties: tuple[str, ...] = ()

    def pattern(self, hosts: str) -> str:
        """Return the pattern of the resources of ``hosts``, names or a number in braces."""
        return f"/host={hosts}/{self.resources.strip().removeprefix('/')}"


@dataclass(frozen=True, slots=True)
class Modules:
    """The slow period on which every module runs even if no notification arrives, in seconds."""

    metascheduler: PositiveSeconds = 60.0
    launcher: PositiveSeconds = 10.0
    canceller: PositiveSeconds = 10.0
    monitor: PositiveSeconds = 10.0
    accounting: PositiveSeconds = 300.0
    accounting_window: Positive = 86400
    notifier: PositiveSeconds = 60.0
    energy: PositiveSeconds = 10.0
    restart_delay: Seconds = 0.2
    restart_delay_limit: Seconds = 30.0
    watchdog: Seconds = 40.0


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """How commands of users reach the server. An empty ``socket`` means no gateway. Durations in seconds."""

    socket: FilePath = ""
    workers: Positive = 4
    most_workers: Positive = 32
    workers_per_user: Positive = 8
    request_timeout: PositiveSeconds = 10.0
    time_limit: PositiveSeconds = 60.0
    waiting_limit: Seconds = 3600.0
    input_limit: PositiveSeconds = 60.0
    waiting_per_user: Positive = 2
    memory_limit: Positive = 2048
    processor_limit: Positive = 60
    sessions_per_user: NotNegative = 100
    listeners: NotNegative = 64
    listeners_per_user: NotNegative = 8
    calls: bool = True


@dataclass(frozen=True, slots=True)
class NegotiationSettings:
    """Applications that choose their own hosts. Durations in seconds."""

    cluster: str = ""
    rank: RankRule = "first-request"
    ghosts: GhostRule = "needed"
    fair_start: Seconds = 5.0
    timer: Seconds = 1.0
    most_applications: Positive = 200
    view_steps: Positive = 1000
    visible_share: Share = 1.0
    message_rate: Positive = 20
    first_request_timeout: PositiveSeconds = 300.0
    patience: PositiveSeconds = 60.0
    reclaim_notice: Seconds = 30.0
    connections_per_user: Positive = 100
    connections: Positive = 2000
    launcher_host: str = ""


@dataclass(frozen=True, slots=True)
class DoorSettings:
    """What brokers of several clusters may ask of this one. Durations in seconds, ``line_limit`` in bytes.

    ``brokers`` has the account on this machine of each broker that may come, ``broker_doors`` the command by which jobs
    here reach that broker's door.
    """

    brokers: Mapping[BrokerName, AccountName] = field(default_factory=dict)
    broker_doors: Mapping[BrokerName, str] = field(default_factory=dict)
    evict: str = "none"
    disclose: Literal["offers", "power", "load", "slots"] = "offers"
    offer_time: PositiveSeconds = 60.0
    longest_lead: PositiveSeconds = 86_400.0
    speed: Speed = 1.0
    sessions: Positive = 16
    idle_limit: PositiveSeconds = 600.0
    line_limit: Positive = 4_194_304
    calls_per_second: Positive = 1000
    call_time_limit: PositiveSeconds = 60.0


@dataclass(frozen=True, slots=True)
class GridSettings:
    """A broker of several clusters, which runs here if ``enabled``. Durations in seconds.

    ``wait`` below 0, ``age_limit`` 0 and ``waiting_per_user`` 0 mean no limit. ``accounts`` has the account on this
    machine of each cluster whose jobs may enter others.
    """

    enabled: bool = False
    name: BrokerName = "broker"
    mapping: Literal["mct", "random", "round_robin"] = "mct"
    algorithm: Literal[0, 1, 2] = 0
    heuristic: Literal["mct", "minmin", "maxmin", "maxgain", "maxrelgain", "sufferage"] = "mct"
    period: PositiveSeconds = 3600.0
    threshold: Seconds = 60.0
    age_limit: Seconds = 0.0
    lp: Share = 0.7
    tries: NotNegative = 10
    wait: Weight = -1.0
    evict_at: Literal["deadline", "last_try"] = "deadline"
    kill_grace: Seconds = 10.0
    clock_tolerance: Seconds = 0.5
    watch_period: PositiveSeconds = 1.0
    place_ttl: PositiveSeconds = 120.0
    waiting_per_user: NotNegative = 10_000
    keep_decisions: PositiveSeconds = 2_592_000.0
    operation: Literal["rigid", "shift", "remap"] = "shift"
    commit_lead: PositiveSeconds = 15.0
    begin_time: PositiveSeconds = 60.0
    transfer: Seconds = 0.8
    transfer_size: NotNegative = 500_000
    hint_interval: PositiveSeconds = 10.0
    bag_policy: Literal["plb", "dplb", "dplbv2", "nolb", "slots"] = "plb"
    coordination: bool = True
    provider_lost: PositiveSeconds = 300.0
    accounts: Mapping[BrokerName, AccountName] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WebSettings:
    """REST and pages. An empty ``listen`` means none. Durations in seconds, ``largest_body`` in bytes."""

    listen: MaybePath = ""
    root_path: str = ""
    host_names: tuple[str, ...] = ()
    proxy_users: tuple[str, ...] = ("www-data", "nginx", "apache", "http", "caddy", "haproxy", "traefik")
    proxy_addresses: tuple[str, ...] = ()
    connections: Positive = 8
    time_limit: PositiveSeconds = 15.0
    most_connections: Positive = 1000
    requests_per_minute: NotNegative = 1200
    largest_body: Positive = 1_048_576
    session_lifetime: PositiveSeconds = 43_200.0


@dataclass(frozen=True, slots=True)
class Log:
    """What the processes write on standard error: ``text`` or ``json``, from ``level`` on."""

    level: str = "info"
    format: str = "text"


@dataclass(frozen=True, slots=True)
class Configuration:
    """Every setting; ``origins`` maps ``section.key`` to ``default``, the file or the environment variable.

    ``site`` has the settings that a site made for its admission rules.
    """

    database: Database = field(default_factory=Database)
    submission: SubmissionSettings = field(default_factory=SubmissionSettings)
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    processes: Processes = field(default_factory=Processes)
    priority: Priority = field(default_factory=Priority)
    nodes: Nodes = field(default_factory=Nodes)
    jobs: JobSettings = field(default_factory=JobSettings)
    history: HistorySettings = field(default_factory=HistorySettings)
    accounting: AccountingSettings = field(default_factory=AccountingSettings)
    walltime: Walltime = field(default_factory=Walltime)
    mail: Mail = field(default_factory=Mail)
    energy: EnergySettings = field(default_factory=EnergySettings)
    elastic: ElasticSettings = field(default_factory=ElasticSettings)
    modules: Modules = field(default_factory=Modules)
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    negotiation: NegotiationSettings = field(default_factory=NegotiationSettings)
    door: DoorSettings = field(default_factory=DoorSettings)
    grid: GridSettings = field(default_factory=GridSettings)
    web: WebSettings = field(default_factory=WebSettings)
    log: Log = field(default_factory=Log)
    site: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    path: str = ""


SECTIONS: dict[str, Any] = {
    section.name: getattr(Configuration(), section.name)
    for section in dataclasses.fields(Configuration)
    if section.name not in ("site", "origins", "path")
}
Section = TypeVar("Section")
_OTHER_VARIABLES = frozenset(
    ("OARPY_CONFIG", "OARPY_DEBUG", "OARPY_UMASK", "OARPY_JOB", "OARPY_NODE", "OARPY_SUPERVISOR")
)
"""Variables that are no settings: what commands heed, and what marks processes of jobs and of a server."""
_OF_TESTS = "OARPY_TEST_"
_LONGEST_SOCKET = 100
"""Bytes of a socket's path; Linux takes 107, and a name for the time of its making is longer by 4."""


def load(environ: Mapping[str, str] | None = None) -> Configuration:
    """Read the configuration file and the environment. Raises :class:`UsageError` naming the wrong key.

    Here, and nowhere else, a leading ``~`` of a path becomes the home of who reads.
    """
    environ = os.environ if environ is None else environ
    path = _path(environ)
    tree = _read(path)
    for name in tree:
        if name not in SECTIONS and name != "site":
            raise UsageError(f"{path}: unknown section [{name}]", hint=f"one of {', '.join(SECTIONS)}, site")
    _check_variables(environ)
    origins: dict[str, str] = {}
    values: dict[str, Any] = {
        name: _section(name, default, tree.get(name, {}), path, environ, origins) for name, default in SECTIONS.items()
    }
    if origins["submission.types_not_offered"] == "default":
        values["submission"] = _with_hosts(values["submission"], values["jobs"])
    site = _site(tree.get("site", {}), path, origins)
    configuration = Configuration(**values, site=site, origins=origins, path=str(path or ""))
    read_keep_alive(configuration.energy.keep_alive)
    read_device_rules(configuration.nodes.device_rules)
    read_private_directories(configuration.nodes.private_directories, configuration.nodes.state_directory)
    _check_idle_gpus(configuration.jobs)
    _check_time_zone(configuration.scheduler.time_zone)
    _check_walltime_limits(configuration.walltime)
    _check_elastic(configuration.elastic)
    _check_fix(configuration.scheduler.reservation_fix)
    _check_plugins(configuration.scheduler)
    _check_socket(configuration.gateway.socket)
    return configuration


def _check_socket(path: str) -> None:
    size = len(os.fsencode(path))
    if size > _LONGEST_SOCKET:
        raise UsageError(
            f"gateway.socket: '{path}' has {size} bytes", hint=f"a socket's path has {_LONGEST_SOCKET} at most"
        )


def _check_variables(environ: Mapping[str, str]) -> None:
    """Raise :class:`UsageError` for a variable that is spelled as a setting and is none: it would change nothing."""
    known = [
        f"OARPY_{name}_{one.name}".upper() for name, section in SECTIONS.items() for one in dataclasses.fields(section)
    ]
    for name in sorted(environ):
        if not name.startswith("OARPY_") or name.startswith(_OF_TESTS):
            continue
        if name not in known and name not in _OTHER_VARIABLES:
            likely = difflib.get_close_matches(name, known, 1)
            hint = f"{likely[0]}?" if likely else "OARPY_<SECTION>_<KEY> is a setting; docs/configuration.md lists them"
            raise UsageError(f"no setting is called {name[:80]} in the environment", hint=f"{hint} else unset it")


def _check_time_zone(name: str) -> None:
    try:
        if name:
            ZoneInfo(name)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        raise UsageError(
            f"scheduler.time_zone: this machine knows no time zone '{name[:60]}'", hint="such as Europe/Paris, or UTC"
        ) from None


def _check_walltime_limits(walltime: Walltime) -> None:
    for key in ("max_increase", "minimum", "apply_time", "increment"):
        try:
            limit_of(getattr(walltime, key), "", 1)
        except UsageError as error:
            raise UsageError(f"walltime.{key}: {error.message}", hint=error.hint) from None


def _check_idle_gpus(jobs: JobSettings) -> None:
    idle = read_idle_gpus(jobs.idle_gpu)
    limits = [limit for limit in (idle.warn, idle.end) if limit is not None]
    if limits and not jobs.measure_gpus:
        raise UsageError("jobs.idle_gpu: jobs.measure_gpus is 0, so nobody looks", hint="jobs.measure_gpus = 60")
    if limits and min(limits) < jobs.measure_gpus:
        raise UsageError(
            f"jobs.idle_gpu: {min(limits)} s is less than jobs.measure_gpus, after which GPUs are looked at again",
            hint=f"jobs.measure_gpus = {min(limits)} at most",
        )


def _check_elastic(template: ElasticSettings) -> None:
    """Refuse a template of which no node can be made; whether its properties exist, the database knows."""
    try:
        parse_pattern(template.pattern("{1}"))
    except UsageError as error:
        raise UsageError(f"elastic.resources: {error.message}", hint=error.hint) from None
    for word in template.properties:
        try:
            split_assignment(word)
        except UsageError as error:
            raise UsageError(f"elastic.properties: {error.message}", hint=error.hint) from None


def _check_fix(text: str) -> None:
    try:
        read_fix(text)
    except UsageError as error:
        raise UsageError(f"scheduler.reservation_fix: {error.message}", hint=error.hint) from None


def _check_plugins(scheduler: SchedulerSettings) -> None:
    """Refuse names that are neither ours nor allowed to be those of plug-ins."""
    for key, ours in (("reservation_order", ReservationOrder), ("prediction", PredictionName)):
        named, known = getattr(scheduler, key), (*get_args(ours), *scheduler.plugins)
        if named not in known:
            raise UsageError(
                f"scheduler.{key}: '{named[:40]}' is not one of {', '.join(known)}",
                hint="name a plug-in in scheduler.plugins",
            )


def _with_hosts(submission: SubmissionSettings, jobs: JobSettings) -> SubmissionSettings:
    """Offer the types of jobs for which there is a host."""
    there = {"deploy": jobs.deploy_host, "cosystem": jobs.cosystem_host}
    refused = tuple(name for name in submission.types_not_offered if not there.get(name))
    return dataclasses.replace(submission, types_not_offered=refused)


def _path(environ: Mapping[str, str]) -> Path | None:
    if named := environ.get("OARPY_CONFIG"):
        if not Path(named).is_file():
            raise UsageError(f"configuration file '{named}' does not exist", hint="OARPY_CONFIG names it")
        return Path(named)
    for candidate in (Path(discovery.OWN_CONFIGURATION).expanduser(), Path(discovery.SYSTEM_CONFIGURATION)):
        if candidate.is_file():
            return candidate
    return None


def _read(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"configuration file {path} cannot be read: {error}") from error


def _section(
    name: str,
    default: Section,
    given: Any,
    path: Path | None,
    environ: Mapping[str, str],
    origins: dict[str, str],
) -> Section:
    if not isinstance(given, dict):
        raise UsageError(f"{path}: [{name}] must be a table")
    kinds = get_type_hints(type(default), include_extras=True)
    for key in given:
        if key not in kinds:
            raise UsageError(f"{path}: unknown key {name}.{key}", hint="one of " + ", ".join(kinds))
    changes: dict[str, Any] = {}
    for key, kind in kinds.items():
        variable = f"OARPY_{name}_{key}".upper()
        origins[f"{name}.{key}"] = "default"
        if variable in environ:
            changes[key] = _value(_from_text(environ[variable], kind), kind, variable, strict=False)
            origins[f"{name}.{key}"] = variable
        elif key in given:
            changes[key] = _value(given[key], kind, f"{path}: {name}.{key}")
            origins[f"{name}.{key}"] = str(path)
        if is_path(kind):
            changes[key] = os.path.expanduser(changes.get(key, getattr(default, key)))
    return dataclasses.replace(default, **changes)  # type: ignore[type-var]


def is_path(kind: Any) -> bool:
    """Tell whether settings of type ``kind`` may be paths, whose leading ``~`` stands for a home."""
    return any(getattr(mark, "extra", None) is _HOME for mark in getattr(kind, "__metadata__", ()))


def _site(given: Any, path: Path | None, origins: dict[str, str]) -> Mapping[str, Any]:
    """Return the settings of the site's own. Raises :class:`UsageError` for one that ``[submission]`` has."""
    if not isinstance(given, dict):
        raise UsageError(f"{path}: [site] must be a table")
    for key in given:
        if f"submission.{key}" in origins:
            raise UsageError(f"{path}: site.{key} is a setting of [submission]", hint="move it there, or rename it")
        origins[f"site.{key}"] = str(path)
    return given


def _from_text(text: str, kind: Any) -> str | list[str] | dict[str, str]:
    """Return the text, cut into words where a list is asked for, and at ``=`` where each has a name."""
    words = [word for word in text.split(",") if word]
    if get_origin(kind) is Mapping:
        return {name: value for name, _, value in (word.partition("=") for word in words)}
    return words if kind == tuple[str, ...] else text


def _value(given: Any, kind: Any, where: str, *, strict: bool = True) -> Any:
    """Return ``given`` as ``kind``, which a text may write unless ``strict``. Raises :class:`UsageError`."""
    try:
        return from_values(given, kind, strict=strict)
    except Misfit as error:
        raise UsageError(f"{where}: {error.problem}") from None
