"""The jobs in messages between server and agent: attempts at jobs, and the specification of one for a node."""

from __future__ import annotations

from oarpy.wire.fields import each, environ, flag, lines, optional, seconds, signal_number, text, whole
from oarpy.wire.frames import Malformed
from oarpy.wire.structure import Structure, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

MAXIMUM_JOB = (1 << 47) - 1
MAXIMUM_ATTEMPT = (1 << 16) - 1
job_number = whole(0, MAXIMUM_JOB)
"""The number of a job."""
_attempt = whole(0, MAXIMUM_ATTEMPT)


class JobKey(tuple[int, int]):
    """One attempt at one job: the unit that is started at most once. It travels as ``[job, attempt]``."""

    __slots__ = ()

    def __new__(cls, job: int, attempt: int) -> JobKey:
        return tuple.__new__(cls, (job, attempt))

    @property
    def job(self) -> int:
        """The number of the job."""
        return self[0]

    @property
    def attempt(self) -> int:
        """The number of the attempt."""
        return self[1]

    def __str__(self) -> str:
        return f"{self[0]}.{self[1]}"


def job_key(value: Any) -> JobKey:
    """A ``[job, attempt]`` pair."""
    if type(value) is not list:
        raise TypeError
    job, attempt = value
    return JobKey(job_number(job), _attempt(attempt))


def job_keys(value: Any) -> tuple[JobKey, ...]:
    """A list of pairs, each counted once."""
    if type(value) is not list:
        raise TypeError
    return tuple(dict.fromkeys(map(job_key, value)))


class JobSpec(Structure):
    """Everything a node needs to run a job. Times are seconds; paths are paths on the node.

    ``shell`` empty means the user's own, or ``/bin/sh`` if that lets nobody in. ``stdout`` and ``stderr`` (``%jobid%``
    and the like already replaced) are relative to ``directory`` and opened in append mode as the user, empty means
    discarded. ``walltime`` 0 is none. The job gets ``checkpoint_signal`` ``checkpoint`` seconds before the end of its
    walltime; 0 is never. ``kill_grace`` is the time between TERM and KILL. ``start_deadline`` is in seconds since the
    epoch, by the node's clock; 0 is none. ``variables`` are set last and win over the submission's ``environment``.
    ``processors`` are the processors of the node that the job is confined to; empty: it is not confined. ``memory`` is
    the memory that the job may use on the node, in bytes; 0 means no limit. ``keep`` makes it an interactive job:
    instead of a command it waits that many seconds for its shell, a leading step, and ends with it. ``private_key`` is
    its SSH key. ``grid_hosts`` are the hosts of all components of a job on several clusters. For ``kept`` seconds after
    the end of its program the job stays on the node, until its walltime or a request for its end. ``gpus`` are the GPUs
    of the node that it may see and open, by their numbers there; None: it may see all. ``script`` is the text, as it
    was submitted, of the script that the command begins with; empty means that none is kept. ``process_map`` has lines
    ``host core size count`` if the processes of the job are mapped, each of ``iterations``; ``grid_map`` has those of
    all components of a job on several clusters.
    """

    job: int = field(job_number)
    attempt: int = field(_attempt)
    user: str = field(text)
    command: str = field(text)
    directory: str = field(text)
    stdout: str = field(text, default="")
    stderr: str = field(text, default="")
    walltime: int = field(whole(), default=0)
    name: str = field(text, default="")
    project: str = field(text, default="")
    array_id: int = field(whole(), default=0)
    array_index: int = field(whole(), default=0)
    environment: Mapping[str, str] = field(environ, default={})
    variables: Mapping[str, str] = field(environ, default={})
    nodes: tuple[str, ...] = field(lines, default=())
    resources: tuple[str, ...] = field(lines, default=())
    shell: str = field(text, default="")
    login_shell: bool = field(flag, default=False)
    checkpoint: int = field(whole(), default=0)
    checkpoint_signal: int = field(signal_number, default=12)
    kill_grace: float = field(seconds, default=20.0)
    start_deadline: float = field(seconds, default=0.0)
    allow_root: bool = field(flag, default=False)
    processors: tuple[int, ...] = field(each(whole()), default=())
    memory: int = field(whole(), default=0)
    keep: float = field(seconds, default=0.0)
    private_key: str = field(text, default="")
    grid_hosts: tuple[str, ...] = field(lines, default=())
    kept: int = field(whole(), default=0)
    gpus: tuple[int, ...] | None = field(optional(each(whole())), default=None)
    script: str = field(text, default="")
    process_map: tuple[str, ...] = field(lines, default=())
    iterations: int = field(whole(), default=0)
    grid_map: tuple[str, ...] = field(lines, default=())

    @property
    def key(self) -> JobKey:
        """The (job, attempt) this is about."""
        return JobKey(self.job, self.attempt)


def together(specs: Sequence[JobSpec]) -> dict[str, object]:
    """Return specifications as they are sent: their common part (the environment of an array, say) once."""
    jobs = [vars(job) for job in specs]
    shared: dict[str, object] = {}
    if len(jobs) > 1:
        shared = jobs[0]
        for job in jobs[1:]:
            shared = {name: value for name, value in shared.items() if job[name] == value}
        jobs = [{name: value for name, value in job.items() if name not in shared} for job in jobs]
    return {"shared": shared, "each": jobs}


class UnreadableSpec(JobSpec):
    """A specification of which only the job and its user can be read; ``problem`` says what is wrong with it."""

    problem: str = field(text, default="")

    @classmethod
    def of(cls, job: Any, attempt: Any, problem: str) -> UnreadableSpec:
        """Return the specification of this attempt at a job."""
        key = job_key([job, attempt])
        return cls.complete({**dict.fromkeys(cls.CHECKS), "job": key.job, "attempt": key.attempt, "problem": problem})


def apart(value: Any) -> tuple[JobSpec, ...]:
    """Return the specifications that were sent together; an unreadable one leaves the others as they are.

    Raises :class:`Malformed` when their jobs cannot be read.
    """
    if type(value) is not dict or value.keys() != {"shared", "each"} or type(value["each"]) is not list:
        raise Malformed("jobs must be what is 'shared' and a list for 'each'")
    try:
        shared = JobSpec.checked(value["shared"])
        return tuple(JobSpec.complete({**shared, **JobSpec.checked(job)}) for job in value["each"])
    except Malformed:
        if type(value["shared"]) is not dict:
            raise
        return tuple(_readable(value["shared"], job) for job in value["each"])


def _readable(shared: dict[str, Any], own: Any) -> JobSpec:
    if type(own) is not dict:
        raise Malformed("a job must be an object")
    entry = {**shared, **own}
    try:
        return JobSpec.read(entry)
    except Malformed as error:
        return UnreadableSpec.of(entry.get("job"), entry.get("attempt"), str(error))
