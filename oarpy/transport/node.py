"""The address of a node, and the settings of channels."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class NodeMode(StrEnum):
    """How the agent of a node is started."""

    LOCAL = "local"  # on this machine, through a pipe
    SSH = "ssh"


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """One node. ``name`` labels its messages; ``python`` is 3.9 or newer."""

    name: str
    state_directory: str
    mode: NodeMode = NodeMode.LOCAL
    address: str = ""
    port: int = 22
    python: str = "python3"


@dataclass(frozen=True, slots=True)
class ChannelConfig:
    """Names, limits and times of a channel. Times are in seconds.

    ``instance`` names this installation: it is part of the mark that all processes of a job carry. A channel that
    brings nothing for ``silence_timeout`` is lost; pings every ``ping_period`` make a living one speak. Tombstones are
    kept for ``keep_days`` days. Processes of a job that live on for ``kill_patience`` after SIGKILL are given up. The
    directory and the files of a job must answer within ``start_patience``. ``isolation`` is the means that keeps jobs
    apart (``auto``, ``cgroup``, ``affinity``, ``none``). ``cgroup_root`` is where control groups are mounted on the
    nodes, ``machine_root`` where their ``dev``, ``proc`` and ``sys`` are; ``%h`` in it stands for the node's name.
    ``device_rules`` are patterns of device files and the jobs that may open them: ``own``, the holder of their GPU, or
    ``any``, the holder of any GPU. A job's group holds at most ``pids_limit`` processes and threads; 0: any number.
    Jobs start with the limits of the PAM service ``pam_service``, if that is not empty. ``log_ins``: the program for
    log-ins of users is put on nodes. Each job has its own of the directories ``private_directories``.
    ``limit_swap``: the limit of a job's memory is that of memory and swap together.
    """

    instance: str = "oarpy"
    connect_timeout: float = 10.0
    ping_period: float = 15.0
    silence_timeout: float = 45.0
    keep_days: int = 3
    kill_patience: float = 20.0
    start_patience: float = 60.0
    isolation: str = "auto"
    cgroup_root: str = "/sys/fs/cgroup"
    machine_root: str = "/"
    device_rules: tuple[tuple[str, str], ...] = ()
    pids_limit: int = 0
    pam_service: str = ""
    private_directories: tuple[str, ...] = ()
    limit_swap: bool = False
    log_ins: bool = False


@dataclass(frozen=True, slots=True)
class SshConfig:
    """How to log in on nodes. Host keys must be in ``known_hosts``; unknown and changed keys are refused."""

    user: str
    key_file: str
    known_hosts: str
    keepalive: float = 15.0
    handshakes: int = 16
