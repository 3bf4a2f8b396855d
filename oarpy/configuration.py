"""One configuration file (TOML), environment over it; every value knows where it came from.

The file is ``$OARPY_CONFIG``, else ``~/.config/oarpy/config.toml`` if it exists, else ``/etc/oarpy/config.toml``.
``OARPY_<SECTION>_<KEY>`` in the environment wins over the file (``OARPY_DATABASE_URL``).
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_type_hints
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from oarpy.frontend import discovery
from oarpy.model import setting_limits
from oarpy.model.errors import UsageError
from oarpy.model.job_types import NOT_OFFERED
from oarpy.model.keep_alive import read_keep_alive


@dataclass(frozen=True, slots=True)
class Database:
    """Where PostgreSQL is. An empty ``url`` means the embedded server in ``directory``."""

    url: str = ""
    directory: str = "~/.oarpy/postgresql"
    connect_timeout: int = 5


@dataclass(frozen=True, slots=True)
class Submission:
    """What ``oarsub`` assumes when the user says nothing. Durations in seconds."""

    default_queue: str = "default"
    default_resources: str = "/resource_id=1"
    default_walltime: int = 7200
    interactive_walltime_limit: int = 43200
    refused_users: tuple[str, ...] = ("root", "oar")
    admins: tuple[str, ...] = ("root", "oar")
    rule_time_limit: float = 2.0
    maximum_array_size: int = 100_000
    waiting_reservations_per_user: int = 2
    unlimited_reservation_users: tuple[str, ...] = ()
    admin_groups: tuple[str, ...] = ("admin",)
    extra_types: tuple[str, ...] = ()
    types_not_offered: tuple[str, ...] = NOT_OFFERED
    jobs_per_user: int = 1000


@dataclass(frozen=True, slots=True)
class Scheduler:
    """The meta-scheduler. Durations in seconds."""

    security_time: int = 60
    policy: str = "conservative"
    compression: bool = False
    resource_order: tuple[str, ...] = ("network_address", "resource_id")
    besteffort_minimum_life: int = 0
    besteffort_kill_before_reservation: int = 0
    reservation_wait: int = 300
    jobs_per_pass: int = 0
    suspended_resource_types: tuple[str, ...] = ("default",)
    jobs_per_user: int = 0
    time_zone: str = ""


@dataclass(frozen=True, slots=True)
class Priority:
    """Fair-share and multifactor orders. ``window`` and ``full_age`` in seconds, targets in percent of all use."""

    window: int = 2_592_000
    karma_project: float = 0.0
    karma_user: float = 2.0
    karma_asked: float = 1.0
    user_targets: tuple[str, ...] = ()
    other_users_target: float = 0.0
    project_targets: tuple[str, ...] = ()
    other_projects_target: float = 0.0
    age_weight: float = 1.0
    queue_weight: float = 0.0
    work_weight: float = 0.0
    size_weight: float = 0.0
    karma_weight: float = 1.0
    qos_weight: float = 0.0
    nice_weight: float = 0.0
    full_age: float = 604_800.0
    queue_factors: tuple[str, ...] = ()
    large_work_first: bool = False
    large_size_first: bool = False


@dataclass(frozen=True, slots=True)
class Nodes:
    """How nodes are reached over SSH, and when one that does not answer is suspected. Durations in seconds."""

    user: str = ""
    key_file: str = ""
    known_hosts: str = "~/.ssh/known_hosts"
    port: int = 22
    python: str = "python3"
    state_directory: str = "/var/lib/oarpy/node"
    connect_timeout: float = 10.0
    ping_interval: float = 5.0
    lost_timeout: float = 60.0
    isolation: str = "auto"
    kill_patience: float = 20.0


@dataclass(frozen=True, slots=True)
class Jobs:
    """The life of a job on its nodes. Durations in seconds."""

    kill_grace: float = 20.0
    login_shell: bool = False
    interactive_patience: float = 60.0
    resubmission_limit: int = 1
    repetition_limit: int = 100
    prologue: str = ""
    epilogue: str = ""
    script_timeout: float = 60.0
    server_prologue: str = ""
    server_epilogue: str = ""
    server_script_timeout: float = 60.0
    deploy_host: str = ""
    cosystem_host: str = ""
    users_may_suspend: bool = False
    kill_inner_jobs: bool = False
    after_suspend: str = ""
    before_resume: str = ""
    notify_prefix: tuple[str, ...] = ()
    notify_timeout: float = 60.0


@dataclass(frozen=True, slots=True)
class Walltime:
    """Walltime changes of running jobs (``oarwalltime``); limits as :mod:`oarpy.model.walltime_limits` reads them."""

    enabled: bool = False
    max_increase: tuple[str, ...] = ("7200",)
    minimum: tuple[str, ...] = ("0",)
    apply_time: tuple[str, ...] = ("0",)
    increment: tuple[str, ...] = ("0",)
    timeout: int = 0
    reduction: bool = True
    users_to_force: tuple[str, ...] = ()
    users_to_delay_next_jobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mail:
    """How mail leaves: that of ``--notify`` and the admin's. No ``server``, no mail. Durations in seconds."""

    server: str = ""
    sender: str = "oar@localhost"
    recipient: str = ""
    cluster_name: str = ""
    timeout: float = 10.0
    attempts: int = 5
    retry_delay: float = 60.0


@dataclass(frozen=True, slots=True)
class Energy:
    """Sending idle nodes to sleep and waking them when they are needed. Durations in seconds."""

    enabled: bool = False
    wake_command: str = ""
    sleep_command: str = ""
    idle_time: float = 600.0
    sleep_time: float = 1800.0
    wakeup_time: float = 300.0
    wakeup_timeout: float = 900.0
    keep_alive: tuple[str, ...] = ()
    nodes_per_command: int = 25
    command_timeout: float = 30.0

    @property
    def active(self) -> bool:
        """Whether nodes can be sent to sleep and woken."""
        return self.enabled and bool(self.wake_command) and bool(self.sleep_command)


@dataclass(frozen=True, slots=True)
class Modules:
    """The slow period on which every module runs even if no notification arrives, in seconds."""

    metascheduler: float = 60.0
    launcher: float = 10.0
    canceller: float = 10.0
    monitor: float = 10.0
    accounting: float = 300.0
    accounting_window: int = 86400
    notifier: float = 60.0
    energy: float = 10.0
    restart_delay: float = 0.2
    restart_delay_limit: float = 30.0


@dataclass(frozen=True, slots=True)
class Gateway:
    """How commands of users reach the server. An empty ``socket`` means no gateway. Durations in seconds."""

    socket: str = ""
    workers: int = 4
    most_workers: int = 32
    workers_per_user: int = 8
    request_timeout: float = 10.0
    time_limit: float = 60.0
    waiting_limit: float = 3600.0
    sessions_per_user: int = 100
    calls: bool = True


@dataclass(frozen=True, slots=True)
class Log:
    """What the processes write on standard error: ``text`` or ``json``, from ``level`` on."""

    level: str = "info"
    format: str = "text"


@dataclass(frozen=True, slots=True)
class Configuration:
    """Every setting; ``origins`` maps ``section.key`` to ``default``, the file or the environment variable."""

    database: Database = field(default_factory=Database)
    submission: Submission = field(default_factory=Submission)
    scheduler: Scheduler = field(default_factory=Scheduler)
    priority: Priority = field(default_factory=Priority)
    nodes: Nodes = field(default_factory=Nodes)
    jobs: Jobs = field(default_factory=Jobs)
    walltime: Walltime = field(default_factory=Walltime)
    mail: Mail = field(default_factory=Mail)
    energy: Energy = field(default_factory=Energy)
    modules: Modules = field(default_factory=Modules)
    gateway: Gateway = field(default_factory=Gateway)
    log: Log = field(default_factory=Log)
    origins: Mapping[str, str] = field(default_factory=dict)
    path: str = ""


SECTIONS: dict[str, Any] = {
    section.name: getattr(Configuration(), section.name)
    for section in dataclasses.fields(Configuration)
    if section.name not in ("origins", "path")
}
Section = TypeVar("Section")


def load(environ: Mapping[str, str] | None = None) -> Configuration:
    """Read the configuration file and the environment. Raises :class:`UsageError` naming the wrong key."""
    environ = os.environ if environ is None else environ
    path = _path(environ)
    tree = _read(path)
    for name in tree:
        if name not in SECTIONS:
            raise UsageError(f"{path}: unknown section [{name}]", hint="one of " + ", ".join(SECTIONS))
    origins: dict[str, str] = {}
    values: dict[str, Any] = {
        name: _section(name, default, tree.get(name, {}), path, environ, origins) for name, default in SECTIONS.items()
    }
    if origins["submission.types_not_offered"] == "default":
        values["submission"] = _with_hosts(values["submission"], values["jobs"])
    configuration = Configuration(**values, origins=origins, path=str(path or ""))
    read_keep_alive(configuration.energy.keep_alive)
    _check_time_zone(configuration.scheduler.time_zone)
    return configuration


def _check_time_zone(name: str) -> None:
    try:
        if name:
            ZoneInfo(name)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        raise UsageError(
            f"scheduler.time_zone: this machine knows no time zone '{name[:60]}'", hint="such as Europe/Paris, or UTC"
        ) from None


def _with_hosts(submission: Submission, jobs: Jobs) -> Submission:
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
    kinds = get_type_hints(type(default))
    for key in given:
        if key not in kinds:
            raise UsageError(f"{path}: unknown key {name}.{key}", hint="one of " + ", ".join(kinds))
    changes: dict[str, Any] = {}
    for key, kind in kinds.items():
        variable = f"OARPY_{name}_{key}".upper()
        origins[f"{name}.{key}"] = "default"
        if variable in environ:
            changes[key] = _from_text(environ[variable], kind, variable)
            setting_limits.check(f"{name}.{key}", changes[key], variable)
            origins[f"{name}.{key}"] = variable
        elif key in given:
            changes[key] = _from_toml(given[key], kind, f"{path}: {name}.{key}")
            setting_limits.check(f"{name}.{key}", changes[key], f"{path}: {name}.{key}")
            origins[f"{name}.{key}"] = str(path)
    return dataclasses.replace(default, **changes)  # type: ignore[type-var]


def _from_toml(value: Any, kind: Any, where: str) -> Any:
    if kind == tuple[str, ...]:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise UsageError(f"{where} must be a list of strings")
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise UsageError(f"{where} must be of type {kind.__name__}, not {value!r}")
    return value


def _from_text(value: str, kind: Any, where: str) -> Any:
    if kind == tuple[str, ...]:
        return tuple(word for word in value.split(",") if word)
    if kind is bool:
        if value.lower() not in ("true", "false"):
            raise UsageError(f"{where} must be true or false, not '{value}'")
        return value.lower() == "true"
    try:
        return kind(value)
    except ValueError as error:
        raise UsageError(f"{where} must be of type {kind.__name__}, not '{value}'") from error
