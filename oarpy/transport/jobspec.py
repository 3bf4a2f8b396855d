"""What the server tells a node about one job."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import NamedTuple


class JobKey(NamedTuple):
    """One attempt at one job: the unit that is started at most once."""

    job: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.job}.{self.attempt}"


class Checkpoint(NamedTuple):
    """Send signal number ``signal`` to the job ``seconds`` before its walltime is over."""

    seconds: int
    signal: int


@dataclass(frozen=True, slots=True)
class JobSpec:
    """Everything a node needs to run a job. Times are seconds; paths are those of the node.

    ``shell`` empty means the user's own, or ``/bin/sh`` if that lets nobody in; ``stdout`` and ``stderr`` (``%jobid%``
    and the like already replaced) are relative to ``directory`` and opened in append mode as the user, empty means
    discarded. ``walltime`` 0 is
    none. ``kill_grace`` is the time between TERM and KILL. ``start_deadline`` is in seconds since the epoch, by the
    node's clock; 0 is none. ``variables`` are set last and win over the submission's ``environment``.
    ``processors`` are those of the node that the job is confined to; none: it is not confined. ``memory`` is what the
    job may use on the node, in bytes; 0 means no limit.
    ``keep`` makes it an interactive job: instead of a command it waits so long for its shell, a leading step, and ends
    with that.
    """

    job: int
    attempt: int
    user: str
    command: str
    directory: str
    stdout: str = ""
    stderr: str = ""
    walltime: int = 0
    name: str = ""
    project: str = ""
    array_id: int = 0
    array_index: int = 0
    environment: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    shell: str = ""
    login_shell: bool = False
    checkpoint: Checkpoint | None = None
    kill_grace: float = 20.0
    start_deadline: float = 0.0
    allow_root: bool = False
    processors: tuple[int, ...] = ()
    memory: int = 0
    keep: float = 0.0

    @property
    def key(self) -> JobKey:
        """The (job, attempt) this is about."""
        return JobKey(self.job, self.attempt)

    def to_json(self) -> dict[str, object]:
        """The form sent over the channel."""
        return {name: getattr(self, name) for name in _NAMES}


_NAMES = tuple(item.name for item in fields(JobSpec))
